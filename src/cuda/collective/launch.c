/* The launch of a graph that contains collectives of a group of processes (nccl).
 *
 * Its calls meet those of the other ranks one by one, as they would without the graph, so another
 * rank may run the same calls node by node. All calls arrive when the stream reaches the launch.
 * When the first call may run, the graph is launched on a side stream. The library's kernels then
 * wait for their peers on the device. If a rank is gone, the group breaks, which aborts the
 * communicator and so ends the kernels. The gate opens when the graph has completed and every call
 * has met its peers.
 *
 * The launch and its calls are one allocation, which is freed when the last call has ended. */
#include "cuda/collective/launch.h"
#include "cuda/collective/parts.h"
#include "cuda/fault/faults.h"
#include "cuda/stream/trace_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAP_NS = 50000 };

struct weir__cuda_launch {
    struct weir__cuda_stream *stream;
    uint64_t seq;
    struct weir__mark blamed;
    weir__cu_exec exec;
    weir__cu_stream side;
    struct weir__cuda_traced *traced; /* NULL after the launch has been reported to it */
    _Atomic int *pending;
    int ncalls;
    struct weir__mutex lock; /* guards the next three fields and calls[].started; innermost */
    bool over;               /* the graph has completed */
    bool failed;
    int left; /* references: calls that have not ended, and loops over the calls */
    _Alignas(WEIR__LINE) struct weir__cuda_meet calls[];
};

static const struct weir__meet *meet_of(const struct weir__kernel *k)
{
    return k->args;
}

bool weir__cuda_may_record(const struct weir__kernel *k)
{
    const struct weir__procs_group *p = meet_of(k)->channel->group->procs;

    return p && p->world->engine->may_record && p->world->engine->may_record(meet_of(k));
}

weir_status weir__cuda_record_meet(const struct weir__kernel *k, weir__cu_stream queue)
{
    struct weir__procs_group *p = meet_of(k)->channel->group->procs;

    return p->world->engine->record(p, meet_of(k), queue);
}

void weir__cuda_warm_call(struct weir__cuda *dev, const struct weir__kernel *k)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__procs_group *p = meet_of(k)->channel->group->procs;
    weir__cu_stream stream;
    weir__cu_graph graph = NULL;
    weir__cu_exec exec;
    weir_status st;

    if (!weir__cuda_may_record(k) || !p->world->engine->is_new(p, meet_of(k)) ||
        weir__cuda_new_stream(dev, NULL, 0, &stream))
        return;
    if (!cu->capture_begin(stream, CU_CAPTURE_RELAXED)) {
        st = weir__cuda_record_meet(k, stream);
        if (!cu->capture_end(stream, &graph) && graph && !st &&
            !cu->graph_instantiate(&exec, graph, 0))
            cu->exec_destroy(exec);
        if (graph)
            cu->graph_destroy(graph);
    }
    cu->stream_destroy(stream);
}

/* ---- the end ---- */

static void free_launch(struct weir__cuda_launch *l)
{
    if (l->traced) /* it was never launched */
        weir__cuda_trace_launched(l->traced, NULL);
    atomic_fetch_sub(l->pending, 1);
    weir__free(l);
}

static void finish(struct weir__cuda_launch *l)
{
    struct weir__cuda_stream *s = l->stream;
    uint64_t seq = l->seq;
    const weir_group *group = weir__cuda_group_of(&l->calls[0]);
    char text[1024];

    if (l->failed) {
        snprintf(text, sizeof text, "a plan with collectives failed on stream '%s': %s",
                 s->base.name, group->reason);
        weir__cuda_fail(weir__cuda_stream_of(l->blamed.stream), l->blamed.seq, group->status, text);
    }
    free_launch(l);
    weir__cuda_open_gate(s, seq);
}

/* Drops one of the references that `left` counts. */
static void drop(struct weir__cuda_launch *l, bool failed)
{
    bool last;

    weir__mutex_lock(&l->lock);
    l->failed |= failed;
    last = !--l->left;
    weir__mutex_unlock(&l->lock);
    if (last)
        finish(l);
}

static void end_call(struct weir__cuda_meet *m)
{
    weir__cuda_meet_unlist(m);
    drop(m->launch, m->participant.state == WEIR__PARTICIPANT_REFUSED || m->participant.failed);
}

static void depart(struct weir__cuda_meet *m, weir_status status, const char *text)
{
    if (weir__cuda_group_of(m)->transport->depart(&m->participant, status, text))
        end_call(m);
}

/* ---- the graph ---- */

/* Called after the graph has completed: started calls depart. Calls that have not met all their
 * peers yet end when they have. */
static void end_graph(struct weir__cuda_launch *l, weir_status status, const char *text)
{
    weir__mutex_lock(&l->lock);
    l->over = true;
    l->left++; /* a reference for the loop below */
    weir__mutex_unlock(&l->lock);
    for (int i = 0; i < l->ncalls; i++) {
        bool here;

        weir__mutex_lock(&l->lock);
        here = l->calls[i].started;
        weir__mutex_unlock(&l->lock);
        if (here)
            depart(&l->calls[i], status, status ? text : NULL);
    }
    drop(l, false);
}

/* On the helper thread, after the graph: reads whether the run has failed. */
static void look(void *user)
{
    struct weir__cuda_launch *l = user;
    char text[1024];
    weir_status st = WEIR_OK;

    if (weir__cuda_failed_before(weir__cuda_stream_of(l->blamed.stream), l->blamed.seq + 1))
        st = weir__stream_copy_error(l->blamed.stream, text, sizeof text);
    end_graph(l, st, text);
}

/* Launches of one graph are made one after the other, so the events that are set here are used by
 * this launch. */
static weir_status launch_graph(void *user, void *queue)
{
    struct weir__cuda_launch *l = user;
    struct weir__cuda *dev = weir__cuda_of(l->stream->base.dev);
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_traced *h = l->traced;
    bool is_timed = h && !weir__cuda_run_set_events(dev, l->exec, h->run) &&
                    !weir__cuda_check(dev, cu->event_record(h->ends[0], queue), "a trace");
    weir_status st = weir__cuda_check(dev, cu->exec_launch(l->exec, queue), "a plan");

    l->traced = NULL;
    if (h)
        weir__cuda_trace_launched(h, is_timed && !st ? queue : NULL);
    return st;
}

/* Launches the graph and queues the look after it. `l` may be freed before this returns. */
static void start(struct weir__cuda_launch *l)
{
    struct weir__procs_group *p = weir__cuda_group_of(&l->calls[0])->procs;
    struct weir__cuda *dev = weir__cuda_of(l->stream->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = p->world->engine->launch(p, l->ncalls, launch_graph, l, l->side);
    char text[400];

    if (!st)
        st = weir__cuda_queue_look(l->stream, l->side, look, l);
    if (st) {
        snprintf(text, sizeof text, "%s", weir_last_error());
        while (dev->api->cu.stream_query(l->side) == CU_ERROR_NOT_READY)
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        end_graph(l, st, text); /* the group breaks: calls that wait are refused */
    }
    weir__cuda_leave(dev, pushed);
}

/* ---- calls ---- */

void weir__cuda_launch_goes_on(struct weir__cuda_meet *m)
{
    struct weir__cuda_launch *l = m->launch;
    bool over;

    if (m->participant.state != WEIR__PARTICIPANT_RUNS) {
        end_call(m);
        return;
    }
    weir__mutex_lock(&l->lock);
    over = l->over;
    m->started = !over; /* if it is started, end_graph lets it depart */
    weir__mutex_unlock(&l->lock);
    if (over)
        depart(m, WEIR_OK, NULL);
    else if (m == &l->calls[0])
        start(l);
}

/* Gives up the launch because the stream is in error, and breaks the group. */
static void miss(struct weir__cuda_launch *l, weir_status status, const char *why)
{
    struct weir__cuda_meet *first = &l->calls[0];
    weir_group *group = weir__cuda_group_of(first);
    char where[140], text[sizeof group->reason];

    weir__call_text(weir__cuda_meet_of(first), first->call, where, sizeof where);
    snprintf(text, sizeof text,
             "%s: rank %d does not take part, its stream '%s' is in error: %.140s", where,
             weir__cuda_meet_of(first)->rank, l->blamed.stream->name, why);
    group->transport->abort(group, status, text);
    l->left = 1;
    drop(l, false);
}

/* On the helper thread: the stream has reached the launch. */
static void arrive(void *user)
{
    struct weir__cuda_launch *l = user;
    weir_status st = weir__stream_error(l->blamed.stream, l->blamed.seq);

    if (st || (st = weir__cuda_alive(weir__cuda_of(l->stream->base.dev)))) {
        miss(l, st, weir_last_error());
        return;
    }
    for (int i = 0; i < l->ncalls; i++) {
        struct weir__cuda_meet *m = &l->calls[i];
        const struct weir__meet *meet = weir__cuda_meet_of(m);

        weir__cuda_meet_list(m);
        if (meet->channel->group->transport->arrive(&m->participant, meet, m->call))
            weir__cuda_launch_goes_on(m);
    }
    drop(l, false);
}

static void give_up(void *user)
{
    free_launch(user);
}

/* ---- queueing ---- */

static void wake(struct weir__participant *participant)
{
    weir__cuda_launch_goes_on(weir__containerof(participant, struct weir__cuda_meet, participant));
}

weir_status weir__cuda_queue_launch(struct weir__cuda_stream *s, weir__cu_stream tail,
                                    const struct weir__cuda_recorded *graph,
                                    const struct weir__cuda_run *run)
{
    size_t size =
        sizeof(struct weir__cuda_launch) + (size_t)graph->ncalls * sizeof(struct weir__cuda_meet);
    struct weir__cuda_launch *l = weir__alloc_aligned(size, WEIR__LINE);
    weir_status st;

    if (!l)
        return weir__fail_nomem("allocating a run of a plan with %d collectives", graph->ncalls);
    memset(l, 0, size);
    if ((st = weir__cuda_side(s, UINT32_MAX, &l->side))) {
        weir__free(l);
        return st;
    }
    l->stream = s;
    l->seq = weir__stream_submitted(&s->base) + 1;
    l->blamed = run->blamed;
    l->exec = graph->exec;
    l->traced = graph->traced;
    l->pending = graph->pending;
    l->ncalls = graph->ncalls;
    l->left = graph->ncalls + 1;
    for (int i = 0; i < graph->ncalls; i++) {
        struct weir__cuda_meet *m = &l->calls[i];

        memcpy(m->args, graph->calls[i]->args, graph->calls[i]->args_size);
        m->launch = l;
        m->stream = s;
        m->seq = l->seq;
        m->call = weir__cuda_meet_of(m)->call + run->ticket;
        m->blamed = run->blamed;
        m->in_plan = true;
        m->name = graph->calls[i]->name;
        m->participant.wake = wake;
    }
    atomic_fetch_add(l->pending, 1);
    return weir__cuda_queue_job(
        s, tail, &(struct weir__cuda_job){.serve = arrive, .drop = give_up, .user = l});
}
