/* Running a plan: bind, fork, queue the program, join. */
#include "graph/plan/run.h"
#include "graph/plan/dynamic.h"

#include <string.h>

static weir_status run_init(struct weir__run *r, weir_plan *plan, weir_stream *caller,
                            size_t nbound, bool help)
{
    r->plan = plan;
    r->caller = caller;
    r->help = help;
    r->held = false;
    r->bound = r->few_bound;
    r->fresh = r->few_fresh;
    if (nbound <= WEIR__RUN_FEW)
        return WEIR_OK;
    if (!(r->bound = weir__malloc(nbound * (sizeof *r->bound + sizeof *r->fresh))))
        return weir__fail_nomem("allocating the bindings of %zu inputs and outputs", nbound);
    r->fresh = (bool *)(r->bound + nbound);
    return WEIR_OK;
}

static void run_fini(struct weir__run *r)
{
    if (r->bound != r->few_bound)
        weir__free(r->bound);
}

/* ---- queueing: under the device lock ---- */

/* Static kernels keep the limits of the first instance, even if that is freed: a limit set later
 * does not apply to them. */
static void choose_limits(struct weir__run *r)
{
    weir_plan *plan = r->plan;
    bool changed = false;

    for (int i = 0; i < plan->c.nstreams; i++) {
        r->limits[i] = weir_stream_get_limit(r->streams[i]);
        if (!plan->c.options.static_kernels)
            continue;
        changed |= memcmp(&r->limits[i], &plan->frozen[i], sizeof *r->limits) != 0;
        r->limits[i] = plan->frozen[i];
    }
    if (changed && !plan->warned)
        weir__log(
            WEIR_LOG_WARN,
            "a core limit changed after the plan was compiled; its static kernels keep theirs");
    plan->warned |= changed;
}

static void choose_streams(struct weir__run *r)
{
    r->streams[0] = r->caller;
    for (int i = 1; i < r->plan->c.nstreams; i++)
        r->streams[i] = r->plan->streams[i] == r->caller ? r->plan->stand_in : r->plan->streams[i];
}

/* Whether the caller is already ordered after everything queued on `s`. A deferred wait of `s` for
 * the caller comes from the caller's last merged run, whose fork waited for `s`; any work queued on
 * `s` since would have consumed the deferred wait.
 */
static bool is_forked(const struct weir__run *r, const weir_stream *s)
{
    return s->deferred.stream == r->caller && !s->shared && !weir__race_on();
}

/* A run whose lanes were merged into one comes after everything queued on its streams, deferred
 * waits included. */
static weir_status fork_merged(const struct weir__run *r)
{
    weir_status st = WEIR_OK;

    for (int i = 1; i < r->plan->c.nstreams && !st; i++) {
        weir_stream *s = r->plan->streams[i];
        struct weir__mark last;

        if (s == r->caller || is_forked(r, s))
            continue;
        if (s->shared && (st = weir__stream_queue_deferred(s)))
            break;
        last = (struct weir__mark){s, weir__stream_submitted(s)};
        if (s->deferred.stream)
            st = weir__stream_wait_deferred(r->caller, s->deferred);
        if (!st && last.seq)
            st = weir__stream_wait_mark(r->caller, last, &s->clock, WEIR__WAIT_ORDER);
        if (weir__race_on())
            weir__race_see_wait(weir__stream_race(r->caller), weir__stream_race(s), last.seq);
    }
    return st;
}

static weir_status fork_lanes(const struct weir__run *r, const struct weir__instance *inst)
{
    struct weir__mark now;
    weir_status st;

    if (inst->last.stream &&
        (st = weir__stream_wait_mark(r->caller, inst->last, &inst->last_clock, WEIR__WAIT_ORDER)))
        return st;
    if (r->plan->merged)
        return fork_merged(r);
    now = (struct weir__mark){r->caller, weir__stream_submitted(r->caller)};
    for (int i = 1; i < r->plan->c.nstreams; i++)
        if ((st = weir__stream_wait_mark(r->streams[i], now, &r->caller->clock, WEIR__WAIT_ORDER)))
            return st;
    return WEIR_OK;
}

/* The streams of the merged lanes are ordered after the run by a deferred wait, queued when the
 * stream is next used. */
static void defer_merged_waits(const struct weir__run *r)
{
    struct weir__mark end = {r->caller, weir__stream_submitted(r->caller)};

    for (int i = 1; i < r->plan->c.nstreams; i++) {
        weir_stream *s = r->plan->streams[i];

        if (s == r->caller)
            continue;
        s->deferred = end;
        if (s->shared)
            (void)weir__stream_queue_deferred(
                s); /* others may queue on it now; on an error the wait stays deferred */
    }
}

/* Allocates what join_lanes writes, so that nothing can fail once the program is queued. */
static weir_status reserve_join(const struct weir__run *r, struct weir__instance *inst)
{
    weir_status st = WEIR_OK;

    for (int i = 1; i < r->plan->nlanes && !st; i++)
        st = weir__clock_reserve(&r->caller->clock, r->streams[i]->clock.n);
    return st ? st : weir__clock_reserve(&inst->last_clock, r->caller->clock.n);
}

/* Computes the caller's clock after the run: the caller waited for some lanes itself, and through
 * those for the others.
 */
static void join_lanes(const struct weir__run *r, struct weir__instance *inst)
{
    if (r->plan->merged)
        defer_merged_waits(r);
    for (int i = 1; i < r->plan->nlanes; i++) {
        (void)weir__clock_merge(&r->caller->clock, &r->streams[i]->clock);
        if (weir__race_on())
            weir__race_see_wait(weir__stream_race(r->caller), weir__stream_race(r->streams[i]),
                                weir__stream_submitted(r->streams[i]));
    }
    inst->last = (struct weir__mark){r->caller, weir__stream_submitted(r->caller)};
    inst->has_run = true;
    (void)weir__clock_copy(&inst->last_clock, &r->caller->clock);
}

/* Records that the caller's stream uses everything the run touches, up to its join, command `seq`.
 * With `seq` 0, before that number is known, it allocates these records and queues the waits that
 * wait_tensor asked for. */
static weir_status fence(const struct weir__run *r, const struct weir__instance *inst,
                         weir_tensor *const *inputs, weir_tensor *const *outputs, uint64_t seq)
{
    const weir_graph *g = r->plan->graph;
    uint64_t *at;
    weir_status st;

#define FENCE(buffer)                                                                   \
    do {                                                                                \
        if (!(at = weir__pool_fence(buffer, r->caller->slot)))                          \
            return weir__fail_nomem("recording a use on stream '%s'", r->caller->name); \
        if (seq)                                                                        \
            *at = seq;                                                                  \
        else if ((st = weir__buffer_await(buffer, r->caller)))                          \
            return st;                                                                  \
    } while (0)
    for (int i = 0; i < g->ninputs; i++)
        FENCE(inputs[i]->buffer);
    for (int i = 0; i < g->noutputs; i++)
        FENCE(outputs[i]->buffer);
    for (int i = 0; i < g->nconstants; i++)
        FENCE(g->values[g->constants[i]].constant->buffer);
    if (inst->arena)
        FENCE(inst->arena);
#undef FENCE
    return WEIR_OK;
}

/* While a trace is recorded: the last command of each lane before the run. */
static uint64_t trace_before(const struct weir__run *r, uint64_t *bases)
{
    for (int i = 0; i < r->plan->c.nstreams; i++)
        bases[i] = weir__stream_submitted(r->streams[i]);
    return weir__device_trace_time(r->plan->dev);
}

static void trace_queued(const struct weir__run *r, const uint64_t *bases, uint64_t at)
{
    for (int i = 0; i < r->plan->c.nstreams; i++) {
        const weir_stream *s = r->streams[i];

        weir__trace_put_queued(s->dev->id, s->slot, bases[i] + 1,
                               (uint32_t)(weir__stream_submitted(s) - bases[i]), at);
    }
}

/* Forks, queues the instance's program and joins. */
static weir_status queue_instance(struct weir__run *r, struct weir__instance *inst,
                                  weir_tensor *const *inputs, weir_tensor *const *outputs)
{
    weir_plan *plan = r->plan;
    uint64_t bases[WEIR__RUN_LANES], tickets[WEIR__MAX_CHANNELS], queued = 0, before;
    bool traced = weir__trace_on();
    weir_status st, fenced;

    if ((st = weir__plan_tickets(plan, tickets)) || (st = fence(r, inst, inputs, outputs, 0)) ||
        (st = fork_lanes(r, inst)) || (st = reserve_join(r, inst)) ||
        (weir__race_on() && (st = weir__plan_race(plan, r->caller, inputs, outputs, false))))
        return st;
    if (traced)
        queued = trace_before(r, bases);
    before = weir__stream_submitted(r->caller);
    st = plan->dev->driver->plans->run(inst->program, r->streams, tickets, plan->nchannels);
    if (st && weir__stream_submitted(r->caller) == before)
        return st;
    weir__plan_take_tickets(plan);
    if (traced)
        trace_queued(r, bases, queued);
    if (weir__race_on())
        weir__plan_race(plan, r->caller, inputs, outputs, true);
    join_lanes(r, inst);
    if (weir__race_on())
        weir__plan_race_calls(plan, r->caller, tickets);
    fenced = fence(r, inst, inputs, outputs, inst->last.seq);
    return st ? st : fenced;
}

static weir_status queue(struct weir__run *r, weir_tensor *const *inputs,
                         weir_tensor *const *outputs)
{
    weir_plan *plan = r->plan;
    const struct weir__driver_helping *helping = plan->dev->driver->helping;
    struct weir__instance *inst;
    weir_status st;

    if (plan->c.nstreams > WEIR__RUN_LANES)
        return weir__fail(WEIR_ERANGE, "a plan runs on at most %d streams, not %d", WEIR__RUN_LANES,
                          plan->c.nstreams);
    choose_streams(r);
    choose_limits(r);
    do {
        /* Queued after acquire, because waiting for an instance releases the lock. */
        if ((st = weir__run_acquire(r, &inst)) || (st = weir__stream_queue_deferred(r->caller)))
            return st;
        r->held = r->help && helping && helping->hold(plan->dev, true);
        st = queue_instance(r, inst, inputs, outputs);
        if (r->held)
            helping->hold(plan->dev, false);
    } while (st && weir__run_give_up(plan, inst, st));
    return st;
}

/* Makes tensors for outputs that the caller left NULL. */
static weir_status bind_tensors(struct weir__run *r, weir_tensor *const *inputs, size_t ninputs,
                                weir_tensor **outputs, size_t noutputs)
{
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < ninputs; i++)
        r->bound[i] = inputs[i]->view.data;
    for (size_t i = 0; i < noutputs; i++) {
        r->fresh[i] = !outputs[i];
        if (!st && !outputs[i])
            st = weir__tensor_alloc(r->caller, &r->plan->graph->outputs[i].operand.view,
                                    &outputs[i]);
        r->bound[ninputs + i] = outputs[i] ? outputs[i]->view.data : NULL;
    }
    return st;
}

weir_status weir__plan_run(weir_plan *plan, weir_stream *s, weir_tensor *const *inputs,
                           size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help)
{
    struct weir__run r;
    weir_status st;

    if ((st = weir__need(plan, "the plan")))
        return st;
    if (plan->dynamic)
        return weir__dynamic_run(plan, s, inputs, ninputs, outputs, noutputs, help);
    if ((st = weir__plan_check_inputs(plan, s, inputs, ninputs, outputs, noutputs)) ||
        (st = weir__plan_check_outputs(plan, outputs)) ||
        (st = run_init(&r, plan, s, ninputs + noutputs, help)))
        return st;
    weir__device_lock(plan->dev);
    if (!(st = bind_tensors(&r, inputs, ninputs, outputs, noutputs)))
        st = queue(&r, inputs, outputs);
    for (size_t i = 0; st && i < noutputs; i++)
        if (r.fresh[i] && outputs[i]) {
            weir__tensor_drop(outputs[i]);
            outputs[i] = NULL;
        }
    weir__device_unlock(plan->dev);
    run_fini(&r);
    (r.held ? plan->dev->driver->helping->help : plan->dev->driver->kick)(plan->dev);
    return st;
}

weir_status weir_plan_run(weir_plan *plan, weir_stream *s, weir_tensor *const *inputs,
                          size_t ninputs, weir_tensor **outputs, size_t noutputs)
{
    WEIR__NEED(plan, "plan");
    WEIR__NEED(s, "stream");
    return weir__plan_run(plan, s, inputs, ninputs, outputs, noutputs, false);
}

weir_status weir_plan_call(weir_plan *plan, weir_stream *s, weir_tensor *const *inputs,
                           size_t ninputs, weir_tensor **outputs, size_t noutputs)
{
    WEIR__NEED(plan, "plan");
    WEIR__NEED(s, "stream");

    weir_status st = weir__plan_run(plan, s, inputs, ninputs, outputs, noutputs, true);

    return st ? st : weir_stream_sync(s);
}
