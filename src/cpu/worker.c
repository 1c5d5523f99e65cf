/* Worker threads: how commands run in real time.
 *
 * A worker that holds a stream's token runs its commands one after the other, on the core it has,
 * without asking the scheduler. Passing work to another thread is expensive: moving a cache line
 * takes some 60 ns, waking a sleeper 50 us. So while a worker runs short commands, it keeps the
 * streams that it makes ready. Invariant: before a long command the worker has published its
 * completed commands and has given the kept streams to the other workers.
 */
#include "cpu/cpu.h"
#include "soft/execute.h"

#include <stddef.h>
#include <string.h>

enum {
    SHORT_NS = WEIR__SHORT_NS,
    SHARE_NS = 2000,    /* after this much time in short commands, other streams get a turn */
    EMPTY_NS = 16,      /* the overhead of a command */
    HANDOVER_NS = 200,  /* the time to hand a stream to another worker and back */
    LINGER_PAUSES = 64, /* pauses that a worker waits for the next command of an empty stream */
};

/* ---- giving streams and cores to others ---- */

/* Streams taken from the worker's queue return to its front; streams that it made ready go to its
 * end. */
void weir__worker_share(struct weir__worker *w)
{
    struct weir__soft_list after = {NULL, &after.first, 0};
    struct weir__soft_stream *s;

    if (!w->mine.first && !w->batch.first)
        return;
    while ((s = weir__soft_take(&w->mine)))
        if (w->queue && weir__runq_takes(&w->cpu->soft, s))
            weir__soft_append(&after, s);
        else
            weir__soft_make_ready(s);
    if (w->batch.first || after.first)
        weir__runq_put(w->queue, &w->batch, &after);
}

void weir__worker_give_turn(struct weir__worker *w, struct weir__soft_stream *s)
{
    if (!w->queue)
        weir__worker_release_core(w);
    weir__soft_make_ready(s);
}

/* Called before a command that takes longer than handing work to another worker. */
static void before_long(struct weir__worker *w, struct weir__soft_stream *s)
{
    weir__soft_publish(s, &w->mine);
    weir__worker_share(w);
    w->at_work = true;
    weir__worker_be_busy(w);
    w->short_ns = w->short_work_ns = w->parks = 0;
    w->ticks = 0;
}

/* True if this worker should keep the streams that it made ready: they wait for each other so often
 * that handing them over takes longer than running them here, and no other stream waits for this
 * worker. */
static bool keeps_mine(const struct weir__worker *w)
{
    return !w->at_work && w->short_ns < w->parks * HANDOVER_NS && !w->batch.first &&
           !weir__cpu_has_work(w->cpu, memory_order_relaxed);
}

/* Called after SHARE_NS of short commands: other streams get a turn. If at least half of that time
 * was work rather than overhead, other workers may be woken. */
static void after_short(struct weir__worker *w, struct weir__soft_stream *s)
{
    weir__soft_publish(s, &w->mine);
    w->at_work = w->short_work_ns >= SHARE_NS / 2;
    if (!keeps_mine(w))
        weir__worker_share(w);
    if (w->at_work)
        weir__worker_be_busy(w);
    w->short_ns = w->short_work_ns = w->parks = 0;
    w->ticks = 0;
}

bool weir__worker_have_core(struct weir__worker *w, struct weir__soft_stream *s,
                            enum weir__core_kind kind)
{
    struct weir__sched *sched = &w->cpu->soft.sched;
    bool got;

    if (weir__likely(w->grant.kind == kind))
        return true;
    weir__spin_lock(&sched->lock);
    weir__sched_release(sched, &w->grant);
    got = weir__sched_try(sched, kind, &w->grant);
    if (!got) {
        weir__spin_unlock(&sched->lock);
        weir__soft_publish(s, &w->mine);
        weir__spin_lock(&sched->lock);
        weir__sched_add(sched, s, WEIR__WANTS_CORE, kind);
    }
    weir__spin_unlock(&sched->lock);
    weir__cpu_wake(w->cpu); /* another stream may wait for the core that was released */
    return got;
}

/* ---- running ---- */

static void jitter(struct weir__worker *w)
{
    uint64_t r = w->random;

    r ^= r << 13;
    r ^= r >> 7;
    r ^= r << 17;
    w->random = r;
    if (r % 8 == 0)
        weir__yield();
    else if (r % 4 == 0)
        for (unsigned i = 0; i < (r >> 8) % 2000; i++)
            weir__relax();
}

/* Called after every block has run or one has failed. `from` is the time at which the kernel began,
 * if it ran entirely on this worker; else 0. */
static void end_kernel(struct weir__worker *w, struct weir__soft_stream *s,
                       const struct weir__cmd *cmd, uint64_t from, bool is_short)
{
    if (weir__trace_on())
        weir__worker_trace_op(w, s, cmd, 0, from);
    weir__soft_settle_failure(s);
    if (!is_short)
        weir__soft_end_report(s);
}

/* Called before a command that takes `ns`. False if another stream goes first: this one is in the
 * scheduler then, or at the end of w->mine. */
static bool take_turn(struct weir__worker *w, struct weir__soft_stream *s, uint64_t ns,
                      bool is_short)
{
    if (is_short) {
        if (!w->at_work)
            weir__worker_be_attentive(w);
        w->short_ns += (uint32_t)ns + EMPTY_NS;
        w->short_work_ns += (uint32_t)ns;
    }
    if (is_short && w->short_ns < SHARE_NS)
        return true;
    (is_short ? after_short : before_long)(w, s);
    if (w->mine.first) {
        weir__soft_append(&w->mine, s);
        return false;
    }
    if (weir__worker_others_first(w, s)) {
        weir__worker_give_turn(w, s);
        return false;
    }
    w->long_ops++;
    return true;
}

bool weir__worker_take_short_turn(struct weir__worker *w, struct weir__soft_stream *s, uint64_t ns)
{
    return take_turn(w, s, ns, true);
}

bool weir__worker_run_kernel(struct weir__worker *w, struct weir__soft_stream *s,
                             const struct weir__cmd *cmd)
{
    uint64_t ns = (uint64_t)cmd->work_ns * cmd->blocks * cmd->phases;
    bool is_short = ns <= SHORT_NS && !cmd->gang;
    unsigned cores;
    uint64_t from = 0;

    if (!take_turn(w, s, ns, is_short))
        return false;
    if (!is_short)
        weir__soft_begin_report(s, cmd);
    s->run.parted = !is_short && cmd->blocks * cmd->phases > 1;
    if (cmd->gang) {
        weir__worker_open_run(w, s, cmd, cmd->cores);
        return false;
    }
    if (!weir__worker_have_core(w, s, weir__worker_kind(w, cmd)))
        return false;
    if (is_short || w->helper || (cores = weir__soft_cores(s, cmd)) == 1) {
        if (weir__trace_on() && !s->run.parted)
            from = weir__worker_ticks(w);
        weir__worker_run_alone(w, s, cmd);
    } else {
        weir__worker_open_run(w, s, cmd, cores);
        if (!weir__worker_run_shared(w, s))
            return false;
    }
    end_kernel(w, s, cmd, from, is_short);
    return true;
}

static void run_callback(struct weir__worker *w, struct weir__soft_stream *s,
                         const struct weir__cmd *cmd)
{
    uint64_t from;
    weir_status st;

    before_long(w, s);
    if (w->grant.kind != WEIR__CORE_NONE) { /* the host engine takes no core */
        weir__worker_release_core(w);
        weir__cpu_wake(w->cpu);
    }
    if (weir__race_on())
        weir__stream_saw(&s->base, s->over);
    st = weir__stream_error(&s->base, s->over);
    from = weir__trace_on() ? weir__trace_ticks() : 0;
    cmd->u.callback(cmd->v.user, st);
    weir__hush(); /* forget errors of calls inside the callback */
    if (weir__unlikely(from))
        weir__worker_trace_callback(w, s, from);
}

/* Waits a little at a stream whose queue is empty. True if a command was added; false if the worker
 * gave up the token. */
static bool linger(struct weir__worker *w, struct weir__soft_stream *s)
{
    weir__worker_be_attentive(w);
    weir__soft_publish(s, &w->mine);
    if (!w->mine.first && !w->batch.first && !w->helper) {
        weir__worker_adapt(w);
        for (uint32_t n = 0; n < LINGER_PAUSES; n += w->patience) {
            if (atomic_load_explicit(&w->cpu->soft.sched.ready, memory_order_relaxed))
                break;
            weir__worker_pause(w);
            if (weir__soft_next(s))
                return true;
            if (w->queue && weir__runq_has(w->queue))
                break;
        }
    }
    return !weir__soft_surrender(s);
}

/* Runs consecutive short kernels of one block in a lane of a plan. Each equals `before`, the kernel
 * that has just run, in all fields that the executor checks (those before `size`), so the checks
 * are not repeated. Stops before the first command that differs, and after one that fails.
 * `traced` is a constant: the compiler makes one copy with trace records and one without. */
static inline __attribute__((always_inline)) void run_row(struct weir__worker *w,
                                                          struct weir__soft_stream *s,
                                                          const struct weir__cmd *before,
                                                          bool traced)
{
    const weir_block block = {0, 1, 0, weir__worker_core(w), w->local, NULL};
    const struct weir__cmd *cmd = weir__soft_next(s);
    uint32_t short_ns = w->short_ns, work_ns = 0, size = 0, n = 0;
    uint64_t from = traced ? weir__worker_ticks(w) : 0;
    weir_status st = WEIR_OK;

    for (; n < s->lane_left; n++) {
        short_ns += cmd->work_ns + EMPTY_NS;
        if (memcmp(cmd, before, offsetof(struct weir__cmd, size)) || cmd->is_collective ||
            cmd->blocks != 1 || cmd->work_ns > SHORT_NS || short_ns >= SHARE_NS)
            break;
        work_ns += cmd->work_ns;
        if (cmd->u.fn && weir__unlikely(st = cmd->u.fn(cmd->args, &block)))
            break;
        if (traced) {
            weir__worker_trace_op(w, s, cmd, n, from);
            from = w->ticks;
        }
        w->short_ns = short_ns;
        size += cmd->size;
        cmd = (const struct weir__cmd *)((const unsigned char *)cmd + cmd->size);
    }
    w->short_work_ns += work_ns;
    w->commands += n + (st != WEIR_OK);
    weir__soft_consume_items(s, n, size);
    if (weir__unlikely(st)) {
        weir__soft_block_failed(s, cmd, st);
        if (traced)
            weir__worker_trace_op(w, s, cmd, 0, from);
        weir__soft_settle_failure(s);
        weir__soft_consume(s, cmd);
    }
}

static void run_on_in_lane(struct weir__worker *w, struct weir__soft_stream *s,
                           const struct weir__cmd *before)
{
    if (before->kind != WEIR__CMD_KERNEL || before->phases != 1 || before->gang ||
        !(w->attentive || w->at_work || w->helper) ||
        w->grant.kind != weir__worker_kind(w, before) || weir__soft_has_failed(s) || w->cpu->jitter)
        return;
    if (weir__unlikely(weir__trace_on()))
        run_row(w, s, before, true);
    else
        run_row(w, s, before, false);
}

/* ---- the executor's hooks ---- */

static bool on_kernel(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    return weir__worker_run_kernel(self, s, cmd);
}

static bool on_collective(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    return weir__worker_run_collective(self, s, cmd);
}

static bool on_callback(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    run_callback(self, s, cmd);
    return true;
}

static bool on_empty(void *self, struct weir__soft_stream *s)
{
    struct weir__worker *w = self;

    w->ticks = 0;
    return linger(w, s);
}

static uint64_t now(const void *self)
{
    (void)self;
    return weir__clock_ns();
}

static struct weir__soft_list *woken(void *self)
{
    return &((struct weir__worker *)self)->mine;
}

static bool before(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    struct weir__worker *w = self;

    if (weir__unlikely(w->cpu->jitter))
        jitter(w);
    return weir__likely(!w->helper) || weir__worker_may_go_on(w, s, cmd);
}

static void consumed(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    struct weir__worker *w = self;

    w->commands++;
    if (s->lane_left)
        run_on_in_lane(w, s, cmd);
}

static void parks(void *self, const struct weir__soft_stream *s, struct weir__soft_stream *source)
{
    struct weir__worker *w = self;

    w->parks++;
    if (weir__unlikely(w->helper))
        weir__helper_want(w, s, source);
}

static void trace_reached(void *self, struct weir__soft_stream *s)
{
    if (!s->reached)
        s->reached = weir__worker_ticks(self);
}

static const struct weir__soft_hooks hooks = {
    .kernel = on_kernel,
    .collective = on_collective,
    .callback = on_callback,
    .empty = on_empty,
    .now = now,
    .woken = woken,
    .before = before,
    .consumed = consumed,
    .parks = parks,
    .trace_reached = trace_reached,
    .trace_wait = weir__worker_trace_wait,
};

void weir__worker_run(struct weir__worker *w, struct weir__soft_stream *s, enum weir__want was)
{
    if (was != WEIR__WANTS_CORE) {
        const struct weir__cmd *cmd;

        weir__worker_be_busy(w);
        w->ticks = 0;
        if (!weir__worker_run_shared(w, s))
            return;
        cmd = s->run.cmd;
        end_kernel(w, s, cmd, 0, false);
        if (cmd->is_collective && !weir__worker_leave_rendezvous(w, s, cmd))
            return;
        weir__soft_consume(s, cmd);
    }
    w->ticks = 0;
    weir__soft_execute(&hooks, w, s);
}
