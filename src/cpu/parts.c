/* The blocks of an operator: all on one worker, or on as many workers as it may have cores.
 *
 * Each worker in the operator claims blocks one by one, from its own row first. When the same
 * operator runs again, as in a model for every token, the worker then has its blocks' operands in
 * its cache. Any worker may claim blocks of another row that is behind, because that row's worker
 * is late or not in the operator. A worker that finds no block left leaves the operator, or waits a
 * little if there is another phase. The last worker begins the next phase or ends the operator.
 * tests/model/phases.pml is the model.
 */
#include "cpu/cpu.h"

/* Runs one block. The first failure is kept in s->run. */
static void run_block(struct weir__worker *w, struct weir__soft_stream *s,
                      const struct weir__cmd *cmd, unsigned phase, unsigned index)
{
    weir_block block = {index, cmd->blocks, phase, weir__worker_core(w), w->local, NULL};
    uint64_t from = 0;
    weir_status st;

    if (weir__unlikely(cmd->is_collective)) {
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

/* Returns how many blocks of the row are not claimed. */
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

/* Returns the row from which the worker claims next; nrows if no block is left. That is its own
 * row, unless no block is left there or another row has at least two blocks more to do. The last
 * blocks of an operator are its shortest, so small differences do not matter. */
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

/* Claims a block for the worker; returns cmd->blocks if none is left. */
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

/* Called with the scheduler's lock held when no block of this phase is left to claim. If other
 * workers still run blocks, waits a little for the next phase, because leaving the operator and
 * joining it again would take the lock twice. Returns true, with the lock released, once the next
 * phase has begun; false, with the lock held, if it has not. Invariant: while workers stay, at
 * least one worker that does not stay is in the operator, so the operator cannot end. */
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
            weir__yield(); /* to a worker that has claimed a block and has no CPU */
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

/* Begins the next phase. Called by the last worker of a phase; workers that stayed take part. */
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

/* Claims and runs blocks of a phase until none is left or another stream must go first. */
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
        /* If a block failed, end at once; but workers that stay wait for a next phase to begin. */
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
    if (cmd->gang) /* streams that arrived before the gang must be ahead of it in the scheduler */
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
