/* The blocks of an operator: all on one worker, or on as many as its cores let in.
 *
 * Whoever is in it claims blocks one by one, of its own row first: when the operator comes again,
 * as a model's do with every token, its worker has the block's operands in its cache. Blocks of
 * another row that is behind, since its worker is late or not in the operator, go to anybody. Who
 * finds none left leaves, unless there is another phase soon; the last one begins that, or ends the
 * operator. tests/model/phases.pml is the model.
 */
#include "cpu/cpu.h"

/* One block. The first failure is kept in s->run. */
static void run_block(struct weir__worker *w, struct weir__soft_stream *s,
                      const struct weir__cmd *cmd, unsigned phase, unsigned index)
{
    weir_block block = {index, cmd->blocks, phase, weir__worker_core(w), w->local, NULL};
    uint64_t from = 0;
    weir_status st;

    if (weir__unlikely(cmd->meets)) {
        block.phase += (unsigned)s->participant.round;
        block.peers = s->participant.in->args;
    }

    if (!cmd->u.fn)
        return;
    if (weir__trace_on() && s->run.parted)
        from = weir__trace_ticks();
    st = cmd->u.fn(cmd->args, &block);
    if (weir__unlikely(from))
        weir__worker_trace_part(w, s, cmd, index, from);
    if (weir__unlikely(st))
        weir__soft_block_failed(s, cmd, st);
}

void weir__worker_run_alone(struct weir__worker *w, struct weir__soft_stream *s,
                            const struct weir__cmd *cmd)
{
    for (unsigned phase = 0; phase < cmd->phases; phase++)
        for (unsigned i = 0; i < cmd->blocks; i++) {
            if (atomic_load_explicit(&s->run.failed, memory_order_relaxed))
                return;
            run_block(w, s, cmd, phase, i);
        }
}

/* How many blocks of the row nobody has claimed. */
static uint32_t left_of(const struct weir__run *run, uint32_t row)
{
    uint32_t all = (run->cmd->blocks - row + run->nrows - 1) / run->nrows;
    uint32_t claimed = atomic_load_explicit(&run->claimed[row], memory_order_relaxed);

    return claimed < all ? all - claimed : 0;
}

static bool has_blocks(const struct weir__run *run)
{
    for (uint32_t row = 0; row < run->nrows; row++)
        if (left_of(run, row))
            return true;
    return false;
}

/* The row that the worker claims from next: its own, unless that is at its end or another is behind
 * by more than a block, since operators have their longest blocks first. nrows: none is left. */
static uint32_t choose_row(const struct weir__worker *w, const struct weir__run *run)
{
    uint32_t own = w->index * run->nrows / w->cpu->nworkers, best = run->nrows, most = 0;

    for (uint32_t row = 0; row < run->nrows; row++) {
        uint32_t left = left_of(run, row);

        if (left && row == own)
            left += 2;
        if (left > most) {
            most = left;
            best = row;
        }
    }
    return best;
}

/* A block for the worker; cmd->blocks if none is left. */
static uint32_t claim(const struct weir__worker *w, struct weir__run *run)
{
    uint32_t row;

    while ((row = choose_row(w, run)) < run->nrows) {
        uint32_t i = atomic_fetch_add(&run->claimed[row], 1) * run->nrows + row;

        if (i < run->cmd->blocks)
            return i;
    }
    return run->cmd->blocks;
}

static void open_rows(struct weir__run *run)
{
    for (uint32_t row = 0; row < run->nrows; row++)
        atomic_store_explicit(&run->claimed[row], 0, memory_order_relaxed);
}

/* No block of this phase is left, but others still run some: waits a little for the next phase,
 * since leaving the operator and joining it again takes the scheduler's lock twice. The lock is
 * held; true, and it is not, once the next phase has begun. Invariant: while workers stay, one that
 * does not is in the operator, so it is not over. */
static bool stay(struct weir__worker *w, struct weir__soft_stream *s)
{
    const struct weir__cpu *cpu = w->cpu;
    struct weir__spin *lock = &w->cpu->soft.sched.lock;
    struct weir__run *run = &s->run;
    uint32_t turn = atomic_load_explicit(&run->turns, memory_order_relaxed);

    if (run->phase + 1 == run->cmd->phases || run->running - run->staying == 1)
        return false;
    run->staying++;
    weir__spin_unlock(lock);
    for (uint32_t n = 1; n < cpu->most_patience; n++) {
        if (atomic_load_explicit(&run->turns, memory_order_acquire) != turn)
            return true;
        if (n % 64 == 0 && cpu->nworkers >= cpu->hardware)
            weir__yield(); /* to one that has a block and no CPU */
        if (n % 8 == 0 && !run->cmd->gang && weir__worker_others_first(w, s))
            break;
        weir__relax();
    }
    weir__spin_lock(lock);
    if (atomic_load_explicit(&run->turns, memory_order_relaxed) == turn) {
        run->staying--;
        return false;
    }
    weir__spin_unlock(lock);
    return true;
}

/* The last worker in a phase begins the next one, with those that stayed. */
static void begin_phase(struct weir__worker *w, struct weir__soft_stream *s)
{
    struct weir__run *run = &s->run;

    open_rows(run);
    run->running = 1 + run->staying;
    run->staying = 0;
    if (run->running < run->cores)
        weir__sched_add(&w->cpu->soft.sched, s, WEIR__WANTS_HELP, weir__worker_kind(w, run->cmd));
    atomic_store_explicit(&run->turns, atomic_load_explicit(&run->turns, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Claims and runs blocks of a phase until none is left, or other streams go first. */
static void run_blocks(struct weir__worker *w, struct weir__soft_stream *s)
{
    struct weir__run *run = &s->run;
    const struct weir__cmd *cmd = run->cmd;

    for (uint32_t i; (i = claim(w, run)) < cmd->blocks;) {
        if (!atomic_load_explicit(&run->failed, memory_order_relaxed))
            run_block(w, s, cmd, run->phase, i);
        w->long_ops++;
        if (!cmd->gang && weir__worker_others_first(w, s))
            return;
    }
}

bool weir__worker_run_shared(struct weir__worker *w, struct weir__soft_stream *s)
{
    struct weir__sched *sched = &w->cpu->soft.sched;
    struct weir__run *run = &s->run;
    const struct weir__cmd *cmd = run->cmd;
    bool last, left;

    for (;;) {
        run_blocks(w, s);
        weir__spin_lock(&sched->lock);
        left = has_blocks(run);
        if (!left && s->entry.want)
            weir__sched_remove(sched, s);
        if (!left && stay(w, s))
            continue;
        last = --run->running == run->staying;
        if (left && !s->entry.want)
            weir__sched_add(sched, s, WEIR__WANTS_HELP, weir__worker_kind(w, cmd));
        if (left || !last) {
            weir__sched_release(sched, &w->grant);
            weir__spin_unlock(&sched->lock);
            weir__cpu_wake(w->cpu);
            return false;
        }
        /* Of one that has failed those who stay take part in the phases that are left. */
        if (++run->phase == cmd->phases || (atomic_load(&run->failed) && !run->staying)) {
            if (cmd->gang)
                weir__sched_release_gang(sched, s);
            weir__spin_unlock(&sched->lock);
            if (cmd->gang)
                weir__cpu_wake(w->cpu);
            return true;
        }
        begin_phase(w, s);
        weir__spin_unlock(&sched->lock);
        weir__cpu_wake(w->cpu);
    }
}

void weir__worker_open_run(struct weir__worker *w, struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, unsigned cores)
{
    struct weir__sched *sched = &w->cpu->soft.sched;
    struct weir__run *run = &s->run;

    run->cmd = cmd;
    run->cores = cores;
    run->phase = 0;
    run->staying = 0;
    run->nrows = weir__min(weir__min(cores, w->cpu->nworkers), WEIR__MOST_ROWS);
    open_rows(run);
    if (cmd->gang) /* streams that came before the gang stay before it */
        weir__runqs_empty(&w->cpu->soft);
    weir__spin_lock(&sched->lock);
    if (cmd->gang)
        weir__sched_release(sched, &w->grant);
    else
        run->running = 1;
    weir__sched_add(sched, s, cmd->gang ? WEIR__WANTS_GANG : WEIR__WANTS_HELP,
                    weir__worker_kind(w, cmd));
    weir__spin_unlock(&sched->lock);
    weir__cpu_wake(w->cpu);
}
