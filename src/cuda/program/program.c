/* Plans as CUDA graphs: a program is captured once, with its waits as edges, and each run is one
 * launch on the stream of lane 0. The other lanes' streams are ordered around it. */
#include "cuda/program/program.h"
#include "cuda/fault/faults.h"
#include "cuda/stream/trace_run.h"

#include <stdio.h>
#include <string.h>

enum { FOLLOWED = 4 }; /* runs by which a graph that follows changes has paid its capture */

/* ---- making ---- */

static weir_status copy_lane(struct weir__cuda_lane *to, const struct weir__lane *from)
{
    if (!(to->items = weir__calloc((size_t)from->nitems + 1, sizeof *to->items)))
        return weir__fail_nomem("making a lane of %d commands", from->nitems);
    to->nitems = from->nitems;
    for (int i = 0; i < from->nitems; i++) {
        struct weir__cuda_item *item = &to->items[i];

        item->is_wait = from->items[i].is_wait;
        item->lane = from->items[i].lane;
        item->item = from->items[i].item;
        item->kernel = from->items[i].kernel;
        item->kernel.call = NULL; /* the caller owns it, and kernels with source do not need it */
        if (item->is_wait)
            continue;
        if (!(item->args = weir__malloc(WEIR_ARGS_MAX)))
            return weir__fail_nomem("allocating the arguments of node '%s'", item->kernel.name);
        memcpy(item->args, item->kernel.args, item->kernel.args_size);
        item->kernel.args = item->args;
    }
    return WEIR_OK;
}

static weir_status check_lane(struct weir__program *p, const struct weir__cuda_lane *lane)
{
    for (int i = 0; i < lane->nitems; i++) {
        const struct weir__kernel *k = &lane->items[i].kernel;

        if (k->fn && !k->code)
            return weir__fail(WEIR_EUNSUPPORTED, "node '%s' has no kernel for %s", k->name,
                              p->dev->base.props.name);
        p->fallible |= k->is_collective || (k->code && k->code->fails);
        p->has_collectives |= k->is_collective;
        p->on_host |= k->code && k->code->kind == WEIR__CODE_HOST;
    }
    return WEIR_OK;
}

static void set_stale(struct weir__program *p)
{
    p->plain.stale = p->traced.stale = true;
}

static void drop_graph(struct weir__program *p, struct weir__cuda_graph *g)
{
    if (g->exec)
        p->dev->api->cu.exec_destroy(g->exec);
    if (g->graph)
        p->dev->api->cu.graph_destroy(g->graph);
    g->exec = NULL;
    g->graph = NULL;
}

weir_status weir__cuda_program_make(weir_device *base, const struct weir__lane *lanes, int nlanes,
                                    struct weir__program **out)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    struct weir__program *p;
    weir_status st = WEIR_OK;

    *out = NULL;
    if (!(p = weir__calloc(1, sizeof *p + (size_t)nlanes * sizeof *p->lanes)))
        return weir__fail_nomem("making a plan of %d lanes", nlanes);
    p->dev = dev;
    p->nlanes = nlanes;
    set_stale(p);
    for (int i = 0; i < nlanes && !st; i++)
        if (!(st = copy_lane(&p->lanes[i], &lanes[i])))
            st = check_lane(p, &p->lanes[i]);
    for (int i = 0; i < nlanes && !st; i++)
        for (int k = 0; k < lanes[i].nitems; k++)
            if (lanes[i].items[k].is_wait)
                p->lanes[lanes[i].items[k].lane].items[lanes[i].items[k].item].awaited = true;
    if (st || (st = weir__cuda_order(p)) || (st = weir__cuda_find_calls(p))) {
        weir__cuda_program_free(p);
        return st;
    }
    *out = p;
    return WEIR_OK;
}

void weir__cuda_program_free(struct weir__program *p)
{
    bool pushed;

    if (!p)
        return;
    weir__cuda_poll(p->dev); /* read failures while the names of its operators are valid */
    pushed = weir__cuda_enter(p->dev);
    drop_graph(p, &p->plain);
    drop_graph(p, &p->traced);
    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *l = &p->lanes[i];

        for (int k = 0; k < l->nitems && l->items; k++)
            weir__free(l->items[k].args);
        weir__free(l->items);
        if (l->workspace)
            weir__cuda_free(p->dev, l->workspace);
        weir__cuda_counters_give(p->dev, l->counters);
    }
    if (p->run)
        weir__cuda_free(p->dev, (void *)(uintptr_t)p->run);
    if (p->scratch)
        p->dev->api->cu.stream_destroy(p->scratch);
    weir__cuda_leave(p->dev, pushed);
    weir__free(p->order);
    weir__free(p->calls);
    weir__free(p);
}

weir_status weir__cuda_program_update(struct weir__program *p, int lane, int item,
                                      const struct weir__kernel *kernel)
{
    struct weir__cuda_item *to = &p->lanes[lane].items[item];

    to->kernel = *kernel;
    to->kernel.call = NULL;
    memcpy(to->args, kernel->args, kernel->args_size);
    to->kernel.args = to->args;
    p->nchanged += !to->changed;
    to->changed = p->traced.stale = p->moved = true;
    return WEIR_OK;
}

/* ---- the graph ---- */

/* Makes *g anew from the graph, which it takes over. If that fails *g stays as it was, and the
 * graph the caller's. */
static weir_status instantiate(struct weir__program *p, struct weir__cuda_graph *g,
                               weir__cu_graph graph)
{
    weir__cu_exec exec;
    weir_status st =
        weir__cuda_check(p->dev, p->dev->api->cu.graph_instantiate(&exec, graph, 0), "a plan");

    if (st)
        return st;
    drop_graph(p, g);
    g->exec = exec;
    g->graph = graph;
    return WEIR_OK;
}

/* Gives the plain graph's nodes what the nodes of `graph` do, which it takes over; false if its
 * edges are others. Nodes can be named by the graph that the executable one was made of, not by
 * those that it was updated with. */
static bool update_plain(struct weir__program *p, weir__cu_graph graph)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    struct weir__cu_update result;

    if (!p->plain.exec || cu->exec_update(p->plain.exec, graph, &result))
        return false;
    if (p->plain.graph)
        cu->graph_destroy(p->plain.graph);
    p->plain.graph = NULL;
    cu->graph_destroy(graph);
    weir__cuda_nodes_take(p, false);
    return true;
}

static bool is_launch_pending(const struct weir__program *p)
{
    return p->launched.stream && weir__cuda_done(p->launched.stream) < p->launched.seq;
}

/* A graph that has followed changes is made anew, unless it runs: after an update it could not
 * follow any more. It is updated all the same if there is no memory for another. */
static weir_status use_plain(struct weir__program *p, weir__cu_graph graph)
{
    bool anew = p->npatched && !is_launch_pending(p);
    weir_status st;

    if (!anew && update_plain(p, graph))
        return WEIR_OK;
    if (!(st = instantiate(p, &p->plain, graph))) {
        weir__cuda_nodes_take(p, true);
    } else if (anew && update_plain(p, graph)) {
        weir__hush();
        st = WEIR_OK;
    } else {
        p->dev->api->cu.graph_destroy(graph);
    }
    return st;
}

static weir_status use_traced(struct weir__program *p, weir__cu_graph graph)
{
    weir_status st;

    if ((st = instantiate(p, &p->traced, graph)))
        p->dev->api->cu.graph_destroy(graph);
    else if ((st = weir__cuda_find_marks(p)))
        drop_graph(p, &p->traced);
    return st;
}

static weir_status capture(struct weir__program *p, struct weir__cuda_graph *g)
{
    bool marked = g == &p->traced;
    weir__cu_graph graph;
    weir_status st;

    if (p->fallible && !p->run) {
        st = weir__cuda_check(p->dev, p->dev->api->cu.memory_alloc(&p->run, sizeof(uint64_t)),
                              "a plan");
        if (st) {
            p->run = 0;
            return st;
        }
        p->run_is_new = true;
    }
    weir__cuda_autotune(p);
    weir__cuda_arrange(p);
    if (p->has_collectives && !weir__cuda_calls_in_order(p))
        return weir__fail(WEIR_EUNSUPPORTED,
                          "the collectives of a plan are not in order of their numbers");
    if (!(st = weir__cuda_program_graph(p, NULL, marked, &graph)))
        st = marked ? use_traced(p, graph) : use_plain(p, graph);
    else if (graph)
        p->dev->api->cu.graph_destroy(graph);
    g->stale = st != WEIR_OK;
    return st;
}

weir_status weir__cuda_program_ready(struct weir__program *p, struct weir__cuda_graph *g)
{
    const unsigned *epoch = &p->dev->cores.epoch;
    weir_status st = WEIR_OK;

    g->stale |= g == &p->plain && p->nchanged;
    /* A lane's limit may move other lanes to other parts of the cores: then capture again. */
    for (int i = 0; i < 2 && !st && (g->stale || p->epoch != *epoch); i++) {
        if (p->epoch != *epoch)
            set_stale(p);
        p->epoch = *epoch;
        st = capture(p, g);
    }
    return st;
}

/* ---- running ---- */

/* Writes which run the graph's kernels belong to, because they are the same in every run. Runs of
 * one graph execute one after the other, so a kernel reads the value of its own run. */
static weir_status write_run(struct weir__program *p, weir__cu_stream on)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    struct weir__mark blamed = weir__cuda_blamed(p);
    weir_status st = WEIR_OK;

    if (p->run_is_new) /* for memory checkers that do not see stream writes */
        st = weir__cuda_check(p->dev, cu->fill_async(p->run, 0, sizeof(uint64_t), on), "a plan");
    p->run_is_new &= st != WEIR_OK;
    return st ? st
              : weir__cuda_check(p->dev,
                                 cu->stream_write(on, p->run,
                                                  WEIR__CODE_WHERE(blamed.stream->slot, blamed.seq),
                                                  0),
                                 "a plan");
}

static weir_status launch(struct weir__program *p, weir__cu_stream tail,
                          struct weir__cuda_traced *traced)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    const struct weir__cuda_graph *g = traced ? &p->traced : &p->plain;
    weir_status st = p->fallible ? write_run(p, tail) : WEIR_OK;
    bool is_timed =
        traced && !weir__cuda_check(p->dev, cu->event_record(traced->ends[0], tail), "a trace");

    if (!st)
        st = weir__cuda_check(p->dev, cu->exec_launch(g->exec, tail), "a plan");
    if (traced)
        weir__cuda_trace_end(traced, tail, is_timed && !st);
    return st;
}

/* Queues the launch of a plan with collectives; it starts when all ranks have arrived. */
static weir_status launch_later(struct weir__program *p, weir__cu_stream tail,
                                struct weir__cuda_traced *traced, const uint64_t *tickets)
{
    weir_status st = write_run(p, tail);

    if (!st)
        st = weir__cuda_launch_calls(p, tail, traced, tickets);
    if (traced)
        weir__cuda_trace_arrive(traced, !st);
    return st;
}

static weir_status run_graph(struct weir__program *p, struct weir__cuda_traced *traced,
                             const uint64_t *tickets)
{
    struct weir__cuda_stream *first = weir__cuda_stream_of(p->lanes[0].stream);
    weir__cu_stream tail;
    weir_status st = WEIR_OK;

    for (int i = 1; i < p->nlanes && !st; i++)
        st = weir__cuda_lead(weir__cuda_stream_of(p->lanes[i].stream), first);
    if (!st && !(st = weir__cuda_tail(first, UINT32_MAX, &tail)) && p->has_collectives)
        st = launch_later(p, tail, traced, tickets);
    else if (!st && !weir__cuda_is_doomed(first, weir__stream_submitted(&first->base) + 1))
        st = launch(p, tail, traced);
    else if (traced)
        weir__cuda_trace_drop(p->dev, traced);
    if (st)
        return st;
    for (int i = 0; i < p->nlanes; i++) { /* the graph runs: count all lanes, also after an error */
        struct weir__cuda_stream *s = weir__cuda_stream_of(p->lanes[i].stream);
        weir_status failed = WEIR_OK;
        int n = p->lanes[i].nitems;

        if (!n)
            continue;
        if (i)
            failed = weir__cuda_follow(s, first, tail, p->lanes[0].nitems > 0, (uint64_t)n);
        else
            weir__cuda_count(s, (uint64_t)n, "a plan");
        s->base.clock.seq[s->base.slot] += (uint64_t)n;
        st = st ? st : failed;
    }
    p->launched = (struct weir__mark){&first->base, weir__stream_submitted(&first->base)};
    return st;
}

/* A program of one lane that has had a graph can also run without one. Its kernels are then queued
 * one by one, with copies of their arguments. */
static bool may_go_without_graph(const struct weir__program *p)
{
    return (p->plain.exec || p->traced.exec) && p->nlanes == 1 && p->epoch == p->dev->cores.epoch;
}

/* True if the addresses or sizes have changed since the last run, and the graph cannot follow. A
 * caller that has others in every run would need a capture each time, which takes several times
 * longer than queueing the kernels of one lane. So a new graph is made only when they are the same
 * as in the run before or when the old one has followed for a few runs, and when no launch of the
 * old one is pending. */
static bool goes_without_graph(const struct weir__program *p)
{
    bool pays = !p->moved || p->npatched >= FOLLOWED;

    return may_go_without_graph(p) && (!pays || (p->plain.stale && is_launch_pending(p)));
}

bool weir__cuda_program_may_update(const struct weir__program *p)
{
    return may_go_without_graph(p) && !p->on_host && !p->has_collectives;
}

/* Brings the graph up to date, if that takes less than queueing the kernels; else it becomes
 * stale. While a trace is recorded the other graph is used. */
static void follow_changes(struct weir__program *p)
{
    bool is_current = p->plain.exec && !p->plain.stale && p->epoch == p->dev->cores.epoch;

    if (!p->nchanged || (weir__trace_on() && is_current))
        return;
    if (is_current && weir__cuda_program_patch(p))
        p->moved = false;
    else
        p->plain.stale = true;
}

/* True if the run can be a launch of a graph. A graph with pending launches must not be changed.
 * While one of the two graphs is up to date, pending launches use that graph, so the other one may
 * be captured. */
static bool can_launch(const struct weir__program *p)
{
    bool changed = (p->plain.stale && p->traced.stale) || p->epoch != p->dev->cores.epoch;

    if (!p->has_collectives)
        return !p->on_host;
    return p->records && !(changed && atomic_load(&p->pending));
}

void weir__cuda_program_begin(struct weir__program *p, weir_stream *const *streams)
{
    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *l = &p->lanes[i];

        if (l->priority != streams[i]->priority)
            set_stale(p);
        l->priority = streams[i]->priority;
        l->stream = streams[i];
        l->base = weir__stream_submitted(streams[i]);
    }
    if (p->fallible)
        weir__cuda_may_fail(weir__cuda_stream_of(streams[0]));
}

weir_status weir__cuda_program_run(struct weir__program *p, weir_stream *const *streams,
                                   const uint64_t *tickets, int ntickets)
{
    struct weir__cuda *dev = p->dev;
    struct weir__cuda_traced *traced = NULL;
    bool pushed, by_nodes;
    weir_status st = weir__cuda_alive(dev);

    (void)ntickets;
    if (st)
        return st;
    pushed = weir__cuda_enter(dev);
    weir__cuda_program_begin(p, streams);
    follow_changes(p);
    by_nodes = goes_without_graph(p) || !can_launch(p);
    if (!by_nodes && weir__trace_on())
        traced = weir__cuda_run_traced(p);
    if (!by_nodes && !traced && (st = weir__cuda_program_ready(p, &p->plain)) &&
        (p->has_collectives || p->npatched)) {
        by_nodes = true; /* launching node by node works, or reports the reason */
        p->records = false;
        p->npatched = 0;
        st = WEIR_OK;
    }
    if (!st)
        st = by_nodes ? weir__cuda_run_nodes(p, tickets) : run_graph(p, traced, tickets);
    p->moved = false;
    weir__cuda_leave(dev, pushed);
    return st;
}
