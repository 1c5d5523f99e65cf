/* How commands run in virtual time. All under npu->loop. */
#include "npu/npu.h"

#include <string.h>

#include "device/serve.h"

_Thread_local bool weir__npu_in_loop;

/* ---- lists of streams ---- */

static void append(struct weir__soft_list *list, struct weir__soft_stream *s)
{
    s->local_next = NULL;
    *list->end = s;
    list->end = &s->local_next;
}

static struct weir__npu_stream *take(struct weir__soft_list *list)
{
    struct weir__soft_stream *s = list->first;

    if (s && !(list->first = s->local_next))
        list->end = &list->first;
    return (struct weir__npu_stream *)s;
}

/* ---- kernels ---- */

static void make_op(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    const struct weir__npu *npu = weir__npu_of(s);
    bool timed = cmd->how & WEIR__LOAD_TIMED, together = cmd->how & WEIR__LOAD_TOGETHER;
    double unknown_us = cmd->work_ns == UINT32_MAX && cmd->v.load.bytes <= 0 ? 1 : 0;
    struct weir__load load = {
        .engine = cmd->engine,
        .blocks = cmd->blocks,
        .cores = cmd->cores,
        .gang = cmd->gang && !together,
        .together = together,
        .block_us = timed ? (double)cmd->v.load.work : unknown_us,
        .flops = timed ? 0 : (double)cmd->v.load.work,
        .bytes = (double)cmd->v.load.bytes,
        .comm = cmd->engine == WEIR_ENGINE_SDMA,
        .in_graph = s->soft.lane_left,
    };

    if (cmd->meets)
        weir__npu_collective_op(s, cmd, &load);
    else
        weir__model_op(&npu->model, &load, &s->op);
}

/* All blocks, one after the other: what they compute does not depend on when. */
static void compute(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    struct weir__npu *npu = weir__npu_of(s);
    unsigned cores = cmd->cores ? cmd->cores : 1;

    if (!npu->model.compute || !cmd->u.fn)
        return;
    weir__hush();
    for (unsigned phase = 0; phase < cmd->phases; phase++)
        for (unsigned i = 0; i < cmd->blocks; i++) {
            weir_block block = {i,         cmd->blocks, phase,
                                i % cores, npu->local,  cmd->meets ? s->soft.guest.in->args : NULL};
            weir_status st = cmd->u.fn(cmd->args, &block);

            if (st) {
                weir__soft_block_failed(&s->soft, cmd, st);
                return;
            }
        }
}

static void consume(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    weir__soft_consume(&s->soft, cmd);
    s->launched = false;
    weir__soft_publish(&s->soft, &weir__npu_of(s)->woken);
}

/* Whether an event is recorded behind the command at the head; it is asked once. */
static bool is_recorded(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    int n = 0;
    bool found = false;

    if (s->soft.lane_left)
        return cmd->recorded;
    weir__spin_lock(&s->marks_lock);
    for (; n < s->nmarks && s->marks[n] <= s->soft.over + 1; n++)
        found |= s->marks[n] == s->soft.over + 1;
    if (n)
        memmove(s->marks, s->marks + n, (size_t)(s->nmarks -= n) * sizeof *s->marks);
    weir__spin_unlock(&s->marks_lock);
    return found;
}

/* Recording keeps the stream, and whoever waits for the event. False if it takes time. */
static bool record(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    struct weir__npu *npu = weir__npu_of(s);
    uint64_t ps = weir__model_overhead(&npu->model, npu->model.profile.event_record_us);

    if (!ps || !is_recorded(s, cmd))
        return true;
    s->recording = true;
    weir__sim_sleep(&npu->sim, &s->lane, ps);
    return false;
}

void weir__npu_end_command(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    if (!record(s, cmd))
        return;
    consume(s, cmd);
    append(&weir__npu_of(s)->woken, &s->soft);
}

/* False if the stream sleeps, asks for cores or waits for its peers. */
static bool run_kernel(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    struct weir__npu *npu = weir__npu_of(s);

    if (cmd->meets && s->soft.guest.state != WEIR__GUEST_AWAY)
        return weir__npu_met(s, cmd);
    if (atomic_load_explicit(&s->soft.base.failed_at, memory_order_relaxed) != WEIR__NEVER_FAILED) {
        if (cmd->meets)
            weir__soft_miss(&s->soft, cmd);
        return true;
    }
    if (!s->launched) {
        make_op(s, cmd);
        s->launched = true;
        if (s->op.launch_ps) {
            weir__sim_sleep(&npu->sim, &s->lane, s->op.launch_ps);
            return false;
        }
    }
    weir__sim_ask(&npu->sim, &s->lane, &s->op, npu->asked++, s->lane.id);
    return false;
}

/* ---- waits ---- */

/* Picoseconds until a command of another device, which is over, is over here as well: the
 * two have one clock, and the other may be ahead. */
static uint64_t ahead(const struct weir__npu *npu, const struct weir__soft_stream *source)
{
    uint64_t there;

    if (source->base.dev == &npu->soft.base)
        return 0;
    there = atomic_load(&((const struct weir__npu *)source->base.dev)->now_ps);
    return there > npu->sim.now ? there - npu->sim.now : 0;
}

/* False if the stream went to a waiter list or sleeps. */
static bool run_wait(struct weir__npu_stream *s, struct weir__soft_stream *source, uint64_t seq,
                     enum weir__wait how)
{
    struct weir__npu *npu = weir__npu_of(s);
    uint64_t ps;

    if (weir__trace_on())
        weir__npu_trace_reached(npu, s);
    if (atomic_load_explicit(&source->completed, memory_order_acquire) < seq) {
        atomic_store_explicit(&s->soft.waits_seq, seq, memory_order_relaxed);
        atomic_store_explicit(&s->soft.waits_for, source, memory_order_relaxed);
        if (weir__soft_park(&s->soft, source, seq))
            return false;
    }
    atomic_store_explicit(&s->soft.waits_for, NULL, memory_order_relaxed);
    ps = ahead(npu, source) + weir__model_overhead(&npu->model, npu->model.profile.event_wait_us);
    if (ps && !s->launched) {
        s->launched = true;
        weir__sim_sleep(&npu->sim, &s->lane, ps);
        return false;
    }
    if (weir__trace_on())
        weir__npu_trace_wait(npu, s, source, seq);
    weir__soft_pass_wait(&s->soft, source, seq, how);
    return true;
}

static bool run_lane_wait(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    const void *args = weir__soft_lane_cmd(&s->soft)->args;
    const struct weir__lane_base *base = (const struct weir__lane_base *)args + cmd->blocks;

    return run_wait(s, base->stream, base->seq + cmd->v.seq, WEIR__WAIT_ERRORS);
}

/* ---- a stream from command to command ---- */

/* True if the command at the head is over, or must not be run. */
static bool run_head(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    switch ((enum weir__cmd_kind)cmd->kind) {
    case WEIR__CMD_KERNEL:
        return run_kernel(s, cmd);
    case WEIR__CMD_WAIT:
        return run_wait(s, cmd->u.source, cmd->v.seq, cmd->how);
    case WEIR__CMD_LANE_WAIT:
        return run_lane_wait(s, cmd);
    case WEIR__CMD_CALLBACK:
        append(&weir__npu_of(s)->callbacks, &s->soft);
        return false;
    case WEIR__CMD_STAMP:
        atomic_store_explicit(cmd->u.ns, weir__npu_of(s)->sim.now / 1000, memory_order_release);
        return true;
    case WEIR__CMD_RELAY: /* none is queued: time here does not pass while others run */
    case WEIR__CMD_JUMP:
    case WEIR__CMD_LANE:
        break; /* weir__soft_next follows those */
    }
    return true;
}

/* Runs commands until one takes time, waits, or there are none. */
static void advance(struct weir__npu_stream *s)
{
    s->lane.priority = s->soft.base.priority;
    for (;;) {
        const struct weir__cmd *cmd = weir__soft_next(&s->soft);

        if (!cmd) {
            if (weir__soft_surrender(&s->soft))
                return;
            continue;
        }
        if (!s->recording && (!run_head(s, cmd) || !record(s, cmd)))
            return;
        s->recording = false;
        consume(s, cmd);
    }
}

static void on_over(void *user, struct weir__sim_lane *lane)
{
    struct weir__npu *npu = user;
    struct weir__npu_stream *s = npu->streams[lane->id];
    const struct weir__cmd *cmd = weir__soft_next(&s->soft);

    compute(s, cmd);
    if (weir__trace_on())
        weir__npu_trace_op(npu, s, cmd);
    weir__soft_settle_failure(&s->soft);
    if (cmd->meets) {
        if (!weir__npu_depart(s, cmd))
            return;
        weir__soft_meet_end(&s->soft, cmd);
    }
    weir__npu_end_command(s, cmd);
}

static void on_arrived(void *user, struct weir__sim_lane *lane)
{
    struct weir__npu *npu = user;

    append(&npu->arrived, &npu->streams[lane->id]->soft);
}

static void on_ended(void *user, struct weir__sim_lane *lane, uint32_t blocks, uint64_t from)
{
    struct weir__npu *npu = user;

    if (weir__trace_on())
        weir__npu_trace_part(npu, npu->streams[lane->id], blocks, from);
}

static void on_awake(void *user, struct weir__sim_lane *lane)
{
    struct weir__npu *npu = user;

    append(&npu->woken, &npu->streams[lane->id]->soft);
}

/* ---- the loop ---- */

/* Streams that host threads have added to since. */
static struct weir__npu_stream *take_added(struct weir__npu *npu)
{
    struct weir__sched *sched = &npu->soft.sched;
    struct weir__soft_stream *s;

    if (!atomic_load(&sched->ready))
        return NULL;
    weir__spin_lock(&sched->lock);
    s = weir__sched_take(sched);
    weir__spin_unlock(&sched->lock);
    return (struct weir__npu_stream *)s;
}

static void call_back(struct weir__npu *npu, struct weir__npu_stream *s)
{
    const struct weir__cmd *cmd = weir__soft_next(&s->soft);
    weir_status st = weir__stream_error(&s->soft.base, s->soft.over);
    bool served = weir__thread_serves(true);

    npu->calling++;
    weir__npu_unlock(npu);
    cmd->u.callback(cmd->v.user, st);
    weir__npu_lock(npu);
    weir__thread_serves(served);
    npu->calling--;
    weir__npu_end_command(s, cmd);
}

/* Everything that takes no time. True if anything did. */
static bool run_instant(struct weir__npu *npu)
{
    struct weir__npu_stream *s;
    bool any = false;

    for (;;) {
        if ((s = take(&npu->woken)) || (s = take_added(npu)))
            advance(s);
        else if ((s = take(&npu->callbacks)))
            call_back(npu, s);
        else
            return any;
        any = true;
    }
}

/* Collectives that have their cores arrive; the last of a meeting goes on at once. */
static bool run_arrivals(struct weir__npu *npu)
{
    struct weir__npu_stream *s;
    bool any = false;

    for (; (s = take(&npu->arrived)); any = true)
        if (weir__npu_arrive(s))
            append(&npu->woken, &s->soft);
    return any;
}

bool weir__npu_run_now(struct weir__npu *npu)
{
    bool any = false, more;

    npu->sim.over = on_over;
    npu->sim.awake = on_awake;
    npu->sim.arrived = on_arrived;
    npu->sim.ended = on_ended;
    npu->sim.user = npu;
    do {
        more = run_instant(npu);
        weir__sim_settle(&npu->sim);
        more |= run_arrivals(npu);
        any |= more;
    } while (more);
    atomic_store(&npu->next_ps, npu->sim.nheap ? npu->sim.heap[0]->at : UINT64_MAX);
    return any;
}

bool weir__npu_step_until(struct weir__npu *npu, uint64_t end)
{
    bool any = weir__npu_run_now(npu);

    if (npu->sim.nheap && npu->sim.heap[0]->at > end)
        return false;
    if (weir__sim_step(&npu->sim)) {
        atomic_store(&npu->now_ps, npu->sim.now);
        weir__npu_run_now(npu);
        return true;
    }
    return any;
}

bool weir__npu_step(struct weir__npu *npu)
{
    return weir__npu_step_until(npu, UINT64_MAX);
}
