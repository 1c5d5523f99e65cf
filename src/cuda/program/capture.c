/* Captures a program as a graph. Its lanes are streams that exist only for the capture, and its
 * waits become edges. */
#include "cuda/collective/launch.h"
#include "cuda/fault/faults.h"
#include "cuda/program/program.h"
#include "cuda/stream/trace_run.h"

/* The state of a lane: its current stream, for one part of the cores and one priority. Before it
 * has a stream: the event that its next node must follow. */
struct lane {
    weir__cu_stream tail; /* NULL before the first node */
    const struct weir__cuda_part *part;
    int priority;
    weir__cu_event after;
    weir__cu_stream marks; /* a side stream for the events of timers; NULL before the first */
};

struct capture {
    struct weir__program *p;
    char *into;  /* see weir__cuda_program_graph */
    bool marked; /* likewise */
    struct lane *lanes;
    bool by_chains;                 /* nodes on the longest chains have a higher priority */
    struct weir__cuda_props *props; /* made for the capture */
    weir__cu_event origin;
    weir__cu_event met; /* after the last collective; NULL before the first */
    bool notes;         /* items get their nodes */
    size_t nnodes;      /* with `notes`: how many there are, or SIZE_MAX: not known */
};

static weir_status new_event(struct capture *c, weir__cu_stream on, weir__cu_event *out)
{
    struct weir__cuda *dev = c->p->dev;
    const struct weir__cu *cu = &dev->api->cu;
    weir_status st;

    if (!weir__grow(&c->props->events, c->props->nevents, &c->props->cap_events,
                    sizeof *c->props->events))
        return WEIR_ENOMEM;
    if ((st = weir__cuda_check(dev, cu->event_create(out, CU_EVENT_DISABLE_TIMING), "an event")))
        return st;
    c->props->events[c->props->nevents++] = *out;
    return weir__cuda_check(dev, cu->event_record(*out, on), "an event");
}

static weir_status wait_for(const struct capture *c, weir__cu_stream to, weir__cu_event event)
{
    return weir__cuda_check(c->p->dev, c->p->dev->api->cu.stream_wait(to, event, 0), "a wait");
}

static weir_status new_stream(struct capture *c, const struct weir__cuda_part *part, int priority,
                              weir__cu_stream *out)
{
    weir_status st;

    if (!weir__grow(&c->props->streams, c->props->nstreams, &c->props->cap_streams,
                    sizeof *c->props->streams))
        return WEIR_ENOMEM;
    if (!(st = weir__cuda_new_stream(c->p->dev, part, priority, out)))
        c->props->streams[c->props->nstreams++] = *out;
    return st;
}

/* Returns an event after everything that the lane has done. */
static weir_status end_of(struct capture *c, const struct lane *lane, weir__cu_event *out)
{
    *out = lane->after;
    return lane->tail ? new_event(c, lane->tail, out) : WEIR_OK;
}

/* Makes the lane continue in a stream of that part and priority. */
static weir_status enter(struct capture *c, struct lane *lane, const struct weir__cuda_part *part,
                         int priority)
{
    weir__cu_event before;
    weir__cu_stream to;
    weir_status st;

    if (lane->tail && lane->part == part && lane->priority == priority)
        return WEIR_OK;
    if ((st = new_stream(c, part, priority, &to)) || (st = end_of(c, lane, &before)))
        return st;
    lane->tail = to;
    lane->part = part;
    lane->priority = priority;
    return wait_for(c, to, before);
}

/* True if chains decide priorities: only if the user gave all lanes the same priority. */
static bool may_go_by_chains(const struct weir__program *p)
{
    for (int i = 1; i < p->nlanes; i++)
        if (p->lanes[i].priority != p->lanes[0].priority)
            return false;
    return p->arrangement.urgent;
}

static int priority_of(const struct capture *c, const struct weir__cuda_lane *lane,
                       const struct weir__cuda_item *item)
{
    int priority = weir__cuda_priority(lane->stream);

    return priority -
           (c->by_chains && item->critical && priority > c->p->dev->gpu.priority_greatest);
}

struct weir__cuda_sink weir__cuda_capture_sink(struct weir__program *p, int lane,
                                               const struct weir__kernel *k)
{
    struct weir__cuda_lane *l = &p->lanes[lane];
    struct weir__code_context context = weir__cuda_context(p->dev, l->stream, 0);

    context.run = (const uint64_t *)(uintptr_t)p->run;
    context.stream = lane ? l->stream->name : NULL;
    return (struct weir__cuda_sink){
        .dev = p->dev,
        .cores = k->cores,
        .context = context,
        .workspace = &l->workspace,
        .counters = &l->counters,
        .concurrent_set = p->concurrent_set,
    };
}

static struct weir__cuda_sink sink_of(const struct capture *c, int lane, int i)
{
    struct weir__cuda_sink sink =
        weir__cuda_capture_sink(c->p, lane, &c->p->lanes[lane].items[i].kernel);

    sink.stream = c->lanes[lane].tail;
    sink.into = c->into;
    return sink;
}

/* Captures a collective, ordered after the previous one, which may be on another lane. */
static weir_status capture_meet(struct capture *c, const struct weir__cuda_sink *sink,
                                const struct weir__kernel *k)
{
    weir_status st = c->met ? wait_for(c, sink->stream, c->met) : WEIR_OK;

    if (st || (st = weir__cuda_record_meet(k, sink->stream)))
        return st;
    return new_event(c, sink->stream, &c->met);
}

static weir_status capture_kernel(struct capture *c, int lane, int i)
{
    struct weir__cuda_lane *l = &c->p->lanes[lane];
    const struct weir__kernel *k = &l->items[i].kernel;
    const struct weir__cuda_part *part = NULL;
    struct weir__cuda_sink sink;
    weir_status st;

    if ((k->engine <= WEIR_ENGINE_MIX &&
         (st = weir__cuda_find_part(weir__cuda_stream_of(l->stream), k->cores, &part))) ||
        (st = enter(c, &c->lanes[lane], part, priority_of(c, l, &l->items[i]))))
        return st;
    sink = sink_of(c, lane, i);
    if (k->is_collective && !c->into)
        return capture_meet(c, &sink, k);
    if (!k->fn || (st = weir__cuda_issue(&sink, k)))
        return k->fn ? st : WEIR_OK;
    if (c->notes && !part)
        weir__cuda_note_nodes(c->p, &l->items[i], sink.stream, &c->nnodes);
    else /* a node that is replaced would have all cores again */
        c->nnodes = SIZE_MAX;
    return WEIR_OK;
}

/* Records the timer's event after the item, on a side stream, so that no other node waits for
 * it. */
static weir_status put_mark(struct capture *c, struct lane *lane,
                            const struct weir__cuda_item *item)
{
    struct weir__cuda *dev = c->p->dev;
    weir_status st;

    if ((!lane->marks && (st = new_stream(c, NULL, 0, &lane->marks))) ||
        (st = wait_for(c, lane->marks, item->event)))
        return st;
    return weir__cuda_check(
        dev,
        dev->api->cu.event_record_with(item->timer->event, lane->marks, CU_EVENT_RECORD_EXTERNAL),
        "a trace");
}

/* Captures a merge on the stream of the first member's lane. It is ordered after the lanes of all
 * members, and these continue after it. */
static weir_status capture_merge(struct capture *c, const struct weir__cuda_merge *m)
{
    struct weir__cuda_place at = m->members[0];
    struct lane *first = &c->lanes[at.lane];
    struct weir__cuda_sink sink;
    weir__cu_event event;
    weir_status st =
        enter(c, first, NULL, priority_of(c, &c->p->lanes[at.lane], weir__cuda_item_at(c->p, at)));

    for (int i = 1; i < m->n && !st; i++)
        if (!(st = end_of(c, &c->lanes[m->members[i].lane], &event)))
            st = wait_for(c, first->tail, event);
    if (st)
        return st;
    sink = sink_of(c, at.lane, at.item);
    c->nnodes = SIZE_MAX;
    if ((st = weir__cuda_merge_issue(&sink, c->p, m)) || (st = new_event(c, first->tail, &event)))
        return st;
    for (int i = 0; i < m->n; i++) {
        weir__cuda_item_at(c->p, m->members[i])->event = event;
        if (i) {
            c->lanes[m->members[i].lane].tail = NULL;
            c->lanes[m->members[i].lane].after = event;
        }
    }
    return c->marked ? put_mark(c, first, weir__cuda_item_at(c->p, at)) : WEIR_OK;
}

static weir_status capture_wait(struct capture *c, int lane, const struct weir__cuda_item *item)
{
    const struct weir__cuda_lane *l = &c->p->lanes[lane];
    weir_status st = WEIR_OK;

    if (!c->lanes[lane].tail &&
        (st = enter(c, &c->lanes[lane], NULL, weir__cuda_priority(l->stream))))
        return st;
    return wait_for(c, c->lanes[lane].tail, c->p->lanes[item->lane].items[item->item].event);
}

static weir_status capture_item(struct capture *c, struct weir__cuda_place at)
{
    struct weir__cuda_item *item = weir__cuda_item_at(c->p, at);
    bool marked = c->marked && item->timer;
    weir_status st;

    if (item->merge) {
        const struct weir__cuda_merge *m = &c->p->arrangement.merges[item->merge - 1];

        return weir__cuda_item_at(c->p, m->members[0]) == item ? capture_merge(c, m) : WEIR_OK;
    }
    st = item->is_wait ? capture_wait(c, at.lane, item) : capture_kernel(c, at.lane, at.item);
    if (!st && (item->awaited || marked))
        st = new_event(c, c->lanes[at.lane].tail, &item->event);
    return st || !marked ? st : put_mark(c, &c->lanes[at.lane], item);
}

static weir_status join(struct capture *c, weir__cu_stream origin, const struct lane *lane)
{
    weir__cu_event end;
    weir_status st;

    if ((st = end_of(c, lane, &end)) || (st = wait_for(c, origin, end)) || !lane->marks ||
        (st = new_event(c, lane->marks, &end)))
        return st;
    return wait_for(c, origin, end);
}

static weir_status capture_lanes(struct capture *c, weir__cu_stream origin)
{
    struct weir__program *p = c->p;
    weir_status st = new_event(c, origin, &c->origin);

    for (int i = 0; i < p->nlanes; i++)
        c->lanes[i].after = c->origin;
    for (int i = 0; i < p->norder && !st; i++)
        st = capture_item(c, p->order[i]);
    for (int i = 0; i < p->nlanes && !st; i++)
        st = join(c, origin, &c->lanes[i]);
    return st;
}

void weir__cuda_props_free(const struct weir__cu *cu, struct weir__cuda_props *props)
{
    for (int i = 0; i < props->nevents; i++)
        cu->event_destroy(props->events[i]);
    for (int i = 0; i < props->nstreams; i++)
        cu->stream_destroy(props->streams[i]);
    weir__free(props->events);
    weir__free(props->streams);
    *props = (struct weir__cuda_props){0};
}

weir_status weir__cuda_program_join(struct weir__program *p, weir__cu_stream origin,
                                    struct weir__cuda_props *props)
{
    struct capture c = {.p = p, .props = props, .by_chains = may_go_by_chains(p)};
    weir_status st;

    if (!(c.lanes = weir__calloc((size_t)p->nlanes, sizeof *c.lanes)))
        return weir__fail_nomem("making a plan of %d lanes", p->nlanes);
    st = capture_lanes(&c, origin);
    weir__free(c.lanes);
    return st;
}

weir_status weir__cuda_program_graph(struct weir__program *p, char *into, bool marked,
                                     weir__cu_graph *out)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    struct weir__cuda_props props = {0};
    struct capture c = {.p = p,
                        .into = into,
                        .marked = marked,
                        .notes = !into && !marked && !p->has_collectives,
                        .props = &props,
                        .by_chains = may_go_by_chains(p)};
    weir__cu_stream origin;
    weir_status st;

    *out = NULL;
    if (!(c.lanes = weir__calloc((size_t)p->nlanes, sizeof *c.lanes)))
        return weir__fail_nomem("making a plan of %d lanes", p->nlanes);
    /* A capture that failed may have left nodes that are gone. */
    for (int i = 0; i < p->norder && c.notes; i++)
        weir__cuda_item_at(p, p->order[i])->noted.n = 0;
    if (!(st = new_stream(&c, NULL, 0, &origin)) &&
        !(st = weir__cuda_check(p->dev, cu->capture_begin(origin, CU_CAPTURE_RELAXED), "a plan"))) {
        weir__cu_result ended;

        st = capture_lanes(&c, origin);
        ended = cu->capture_end(origin, out);
        if (!st) /* keep the text of the first error */
            st = weir__cuda_check(p->dev, ended, "a plan");
    }
    weir__cuda_props_free(cu, &props);
    weir__free(c.lanes);
    return st;
}
