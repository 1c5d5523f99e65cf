/* How commands run in virtual time. All under npu->loop. */
#include "npu/npu.h"

#include <string.h>

#include "device/serve.h"
#include "soft/execute.h"

_Thread_local bool weir__npu_in_loop;
_Thread_local int weir__npu_in_callback;

static struct weir__npu_stream *take(struct weir__soft_list *list)
{
    return (struct weir__npu_stream *)weir__soft_take(list);
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

    if (cmd->is_collective)
        weir__npu_collective_op(s, cmd, &load);
    else
        weir__model_op(&npu->model, &load, &s->op);
}

/* Computes all blocks, one after the other. The values do not depend on the virtual time. */
static void compute(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    struct weir__npu *npu = weir__npu_of(s);
    unsigned cores = cmd->cores ? cmd->cores : 1;

    if (!npu->model.compute || !cmd->u.fn)
        return;
    weir__hush();
    for (unsigned phase = 0; phase < cmd->phases; phase++)
        for (unsigned i = 0; i < cmd->blocks; i++) {
            weir_block block = {
                i,         cmd->blocks, phase,
                i % cores, npu->local,  cmd->is_collective ? s->soft.participant.in->args : NULL};
            weir_status st = cmd->u.fn(cmd->args, &block);

            if (st) {
                weir__soft_block_failed(&s->soft, cmd, st);
                return;
            }
        }
}

/* True if an event is recorded after the command at the head. Call it once per command: it removes
 * the mark. */
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

/* Adds the time of recording an event, which delays the stream and those that wait for the event.
 * False if it takes time: the stream sleeps. */
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

/* ---- the executor's hooks ---- */

/* Makes the stream sleep for the launch time, then asks for cores. It never completes at once. */
static bool on_kernel(void *self, struct weir__soft_stream *soft, const struct weir__cmd *cmd)
{
    struct weir__npu_stream *s = weir__npu_stream_of(soft);
    struct weir__npu *npu = self;

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

/* A collective first asks for its cores like a kernel, then waits for its peers. */
static bool on_collective(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    return s->participant.state == WEIR__PARTICIPANT_AWAY
               ? on_kernel(self, s, cmd)
               : weir__npu_met(weir__npu_stream_of(s), cmd);
}

static bool on_callback(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    (void)cmd;
    weir__soft_append(&((struct weir__npu *)self)->callbacks, s);
    return false;
}

static bool on_empty(void *self, struct weir__soft_stream *s)
{
    (void)self;
    return !weir__soft_surrender(s);
}

static uint64_t now(const void *self)
{
    return ((const struct weir__npu *)self)->sim.now / 1000;
}

static struct weir__soft_list *woken(void *self)
{
    return &((struct weir__npu *)self)->woken;
}

static bool after(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    (void)self;
    return record(weir__npu_stream_of(s), cmd);
}

static void consumed(void *self, struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    (void)cmd;
    weir__npu_stream_of(s)->launched = false;
    weir__soft_publish(s, woken(self));
}

/* Returns by how many picoseconds the other device's clock is ahead. Its command has completed, but
 * on the common clock it completes here only after that time. */
static uint64_t ahead(const struct weir__npu *npu, const struct weir__soft_stream *source)
{
    uint64_t there;

    if (source->base.dev == &npu->soft.base)
        return 0;
    there = atomic_load(&((const struct weir__npu *)source->base.dev)->now_ps);
    return there > npu->sim.now ? there - npu->sim.now : 0;
}

/* Adds the model's time for a wait, once per wait. */
static bool pass(void *self, struct weir__soft_stream *soft, const struct weir__soft_stream *source)
{
    struct weir__npu_stream *s = weir__npu_stream_of(soft);
    struct weir__npu *npu = self;
    uint64_t ps =
        ahead(npu, source) + weir__model_overhead(&npu->model, npu->model.profile.event_wait_us);

    if (!ps || s->launched)
        return true;
    s->launched = true;
    weir__sim_sleep(&npu->sim, &s->lane, ps);
    return false;
}

static void trace_reached(void *self, struct weir__soft_stream *s)
{
    weir__npu_trace_reached(self, weir__npu_stream_of(s));
}

static void trace_wait(void *self, struct weir__soft_stream *s,
                       const struct weir__soft_stream *source, uint64_t seq)
{
    weir__npu_trace_wait(self, weir__npu_stream_of(s), source, seq);
}

static const struct weir__soft_hooks hooks = {
    .kernel = on_kernel,
    .collective = on_collective,
    .callback = on_callback,
    .empty = on_empty,
    .now = now,
    .woken = woken,
    .after = after,
    .consumed = consumed,
    .pass = pass,
    .trace_reached = trace_reached,
    .trace_wait = trace_wait,
};

static void consume(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    weir__soft_consume(&s->soft, cmd);
    consumed(weir__npu_of(s), &s->soft, cmd);
}

void weir__npu_end_command(struct weir__npu_stream *s, const struct weir__cmd *cmd)
{
    if (!record(s, cmd))
        return;
    consume(s, cmd);
    weir__soft_append(&weir__npu_of(s)->woken, &s->soft);
}

/* Runs commands until one takes time or waits, or the queue is empty. */
static void advance(struct weir__npu_stream *s)
{
    s->lane.priority = s->soft.base.priority;
    if (s->recording) { /* the time of recording has passed: the command has completed */
        s->recording = false;
        consume(s, weir__soft_next(&s->soft));
    }
    weir__soft_execute(&hooks, weir__npu_of(s), &s->soft);
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
    if (cmd->is_collective) {
        if (!weir__npu_depart(s, cmd))
            return;
        weir__soft_meet_end(&s->soft, cmd);
    }
    weir__npu_end_command(s, cmd);
}

static void on_arrived(void *user, struct weir__sim_lane *lane)
{
    struct weir__npu *npu = user;

    weir__soft_append(&npu->arrived, &npu->streams[lane->id]->soft);
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

    weir__soft_append(&npu->woken, &npu->streams[lane->id]->soft);
}

/* ---- the loop ---- */

/* Takes a stream that a host thread has put into the scheduler; NULL if there is none. */
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
    weir__npu_in_callback++;
    cmd->u.callback(cmd->v.user, st);
    weir__npu_in_callback--;
    weir__npu_lock(npu);
    weir__thread_serves(served);
    npu->calling--;
    weir__npu_end_command(s, cmd);
}

/* Runs everything that takes no time. True if there was anything. */
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

/* Collectives that have got their cores arrive; the last of a rendezvous continues at once. */
static bool run_arrivals(struct weir__npu *npu)
{
    struct weir__npu_stream *s;
    bool any = false;

    for (; (s = take(&npu->arrived)); any = true)
        if (weir__npu_arrive(s))
            weir__soft_append(&npu->woken, &s->soft);
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
        weir__sim_share_out(&npu->sim);
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
