/* Runs of a plan while a trace is recorded: launches of a graph that has an event after every
 * kernel. */
#include "base/base.h"
#include "cuda/program/program.h"
#include "cuda/stream/trace_run.h"

/* ---- the events in the graph ---- */

static struct weir__cuda_item *item_at(const struct weir__program *p, int position)
{
    return weir__cuda_item_at(p, p->order[position]);
}

/* Returns the item whose timer has the event. The search starts at *hint, because nodes are mostly
 * listed in the order of capture. */
static struct weir__cuda_item *find_item(const struct weir__program *p, weir__cu_event event,
                                         int *hint)
{
    for (int i = 0; i < p->norder; i++) {
        int at = (*hint + i) % p->norder;
        struct weir__cuda_item *item = item_at(p, at);

        if (item->timer && item->timer->event == event) {
            *hint = at;
            return item;
        }
    }
    return NULL;
}

static weir_status find_mark(struct weir__program *p, weir__cu_node node, int *hint)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    struct weir__cuda_item *item;
    weir__cu_event event;
    int type;
    weir_status st = weir__cuda_check(p->dev, cu->node_type(node, &type), "a trace");

    if (st || type != CU_NODE_EVENT_RECORD ||
        (st = weir__cuda_check(p->dev, cu->node_event(node, &event), "a trace")))
        return st;
    if ((item = find_item(p, event, hint)))
        item->mark = node;
    return WEIR_OK;
}

weir_status weir__cuda_find_marks(struct weir__program *p)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    weir__cu_node *nodes;
    size_t n = 0;
    int hint = 0;
    weir_status st;

    for (int i = 0; i < p->norder; i++)
        item_at(p, i)->mark = NULL;
    st = weir__cuda_check(p->dev, cu->graph_nodes(p->traced.graph, NULL, &n), "a trace");
    if (st)
        return st;
    if (!(nodes = weir__calloc(n + 1, sizeof *nodes)))
        return weir__fail_nomem("tracing a plan of %zu nodes", n);
    st = weir__cuda_check(p->dev, cu->graph_nodes(p->traced.graph, nodes, &n), "a trace");
    for (size_t i = 0; i < n && !st; i++)
        st = find_mark(p, nodes[i], &hint);
    weir__free(nodes);
    return st;
}

/* ---- a run ---- */

static bool is_kernel(const struct weir__cuda_item *item)
{
    return !item->is_wait && (item->kernel.fn || item->kernel.is_collective);
}

static weir_status take_timers(struct weir__program *p)
{
    struct weir__cuda_timer *list;
    int n = 0;
    weir_status st;

    for (int i = 0; i < p->norder; i++)
        n += is_kernel(item_at(p, i));
    if ((st = weir__cuda_timers_take(p->dev, n, &list)))
        return st;
    for (int i = 0; i < p->norder; i++) {
        struct weir__cuda_item *item = item_at(p, i);

        item->timer = NULL;
        if (!is_kernel(item))
            continue;
        item->timer = list;
        list = list->next;
        item->timer->next = NULL;
    }
    return WEIR_OK;
}

static void give_timers(struct weir__program *p)
{
    for (int i = 0; i < p->norder; i++) {
        weir__cuda_timers_give(p->dev, item_at(p, i)->timer);
        item_at(p, i)->timer = NULL;
    }
}

static weir_status make_ready(struct weir__program *p)
{
    weir_status st;

    if ((st = take_timers(p)))
        return st;
    if ((st = weir__cuda_program_ready(p, &p->traced)))
        give_timers(p);
    return st;
}

static void describe_wait(const struct weir__program *p, const struct weir__cuda_item *item,
                          struct weir__cuda_traced_node *n)
{
    const struct weir__cuda_lane *from = &p->lanes[item->lane];
    const weir_stream *s = &n->stream->base;

    n->is_wait = true;
    n->source = from->items[item->item].position;
    n->record.device = (uint32_t)s->dev->id;
    n->record.slot = s->slot;
    n->record.amount = from->base + (uint64_t)item->item + 1;
    n->record.u.source.device = (uint32_t)from->stream->dev->id;
    n->record.u.source.slot = from->stream->slot;
}

/* Describes a kernel; the node takes over the item's timer. In a merge, the first member has the
 * launch and the cores. */
static void describe_kernel(const struct weir__program *p, struct weir__cuda_item *item,
                            struct weir__cuda_traced_node *n)
{
    n->record = weir__cuda_trace_describe(&n->stream->base, n->record.seq, &item->kernel);
    n->cores = weir__cuda_trace_cores(&item->kernel);
    n->is_recorded = is_kernel(item);
    n->timer = item->timer;
    n->mark = item->mark;
    item->timer = NULL;
    if (item->merge) {
        const struct weir__cuda_merge *m = &p->arrangement.merges[item->merge - 1];
        const struct weir__cuda_item *first = weir__cuda_item_at(p, m->members[0]);

        if (first != item) {
            n->with = first->position;
            n->cores = 0;
        }
    }
}

static struct weir__cuda_traced_run *describe(struct weir__program *p)
{
    struct weir__cuda_traced_run *run =
        weir__calloc(1, sizeof *run + (size_t)p->norder * sizeof *run->nodes);
    int call = -1;

    if (!run)
        return NULL;
    run->n = p->norder;
    for (int i = 0; i < p->norder; i++) {
        struct weir__cuda_lane *lane = &p->lanes[p->order[i].lane];
        struct weir__cuda_item *item = item_at(p, i);
        struct weir__cuda_traced_node *n = &run->nodes[i];

        item->position = i;
        n->stream = weir__cuda_stream_of(lane->stream);
        n->before = p->order[i].item ? item[-1].position : -1;
        n->source = n->call = n->with = -1;
        n->record.seq = lane->base + (uint64_t)p->order[i].item + 1;
        if (item->is_wait)
            describe_wait(p, item, n);
        else
            describe_kernel(p, item, n);
        if (item->kernel.is_collective) {
            n->call = call;
            call = i;
        }
    }
    return run;
}

struct weir__cuda_traced *weir__cuda_run_traced(struct weir__program *p)
{
    struct weir__cuda_traced *h = NULL;

    if (weir__cuda_trace_new(p->dev, &h) || make_ready(p)) {
        if (h)
            weir__cuda_trace_drop(p->dev, h);
        weir__hush(); /* the run is not recorded */
        return NULL;
    }
    h->stream = weir__cuda_stream_of(p->lanes[0].stream);
    if (!(h->run = describe(p)))
        give_timers(p);
    /* Plans with collectives are launched later, and then set their events. */
    if (!h->run ||
        (!p->has_collectives && weir__cuda_run_set_events(p->dev, p->traced.exec, h->run))) {
        weir__cuda_trace_drop(p->dev, h);
        weir__hush();
        return NULL;
    }
    return h;
}
