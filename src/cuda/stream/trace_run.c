/* Times of a plan's nodes, from the events after them. */
#include "cuda/stream/trace_run.h"

/* ---- timers ---- */

static void free_timers(const struct weir__cuda *dev, struct weir__cuda_timer *list)
{
    while (list) {
        struct weir__cuda_timer *next = list->next;

        dev->api->cu.event_destroy(list->event);
        weir__free(list);
        list = next;
    }
}

static weir_status new_timer(struct weir__cuda *dev, struct weir__cuda_timer **out)
{
    struct weir__cuda_timer *t = weir__calloc(1, sizeof *t);
    weir_status st;

    if (!t)
        return weir__fail_nomem("tracing a plan on %s", dev->base.props.name);
    st = weir__cuda_check(dev, dev->api->cu.event_create(&t->event, CU_EVENT_DEFAULT), "a trace");
    if (st) {
        weir__free(t);
        return st;
    }
    *out = t;
    return WEIR_OK;
}

static struct weir__cuda_timer *take_spare(struct weir__cuda *dev)
{
    struct weir__cuda_timer *t;

    weir__spin_lock(&dev->clock.lock);
    if ((t = dev->traced.timers))
        dev->traced.timers = t->next;
    weir__spin_unlock(&dev->clock.lock);
    return t;
}

weir_status weir__cuda_timers_take(struct weir__cuda *dev, int n, struct weir__cuda_timer **out)
{
    struct weir__cuda_timer *list = NULL, *t;
    weir_status st;

    *out = NULL;
    for (int i = 0; i < n; i++) {
        if (!(t = take_spare(dev)) && (st = new_timer(dev, &t))) {
            weir__cuda_timers_give(dev, list);
            return st;
        }
        t->next = list;
        list = t;
    }
    *out = list;
    return WEIR_OK;
}

void weir__cuda_timers_give(struct weir__cuda *dev, struct weir__cuda_timer *list)
{
    struct weir__cuda_timer *last = list;

    if (!list)
        return;
    while (last->next)
        last = last->next;
    weir__spin_lock(&dev->clock.lock);
    last->next = dev->traced.timers;
    dev->traced.timers = list;
    weir__spin_unlock(&dev->clock.lock);
}

void weir__cuda_timers_close(struct weir__cuda *dev)
{
    free_timers(dev, dev->traced.timers);
    dev->traced.timers = NULL;
}

/* ---- runs ---- */

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t over(const struct weir__cuda_traced_run *run, int node)
{
    return node < 0 ? 0 : run->nodes[node].over;
}

weir_status weir__cuda_run_set_events(struct weir__cuda *dev, weir__cu_exec exec,
                                      const struct weir__cuda_traced_run *run)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < run->n && !st; i++)
        if (run->nodes[i].mark)
            st = weir__cuda_check(
                dev,
                dev->api->cu.exec_set_event(exec, run->nodes[i].mark, run->nodes[i].timer->event),
                "a trace");
    return st;
}

/* Returns when the node began. Merged products of several lanes begin when all lanes have reached
 * them. */
static uint64_t begin_of(const struct weir__cuda_traced_run *run, int i, uint64_t from)
{
    from = latest(from, over(run, run->nodes[i].before));
    from = latest(from, over(run, run->nodes[i].call));
    for (int k = i + 1; k < run->n && run->nodes[k].with == i; k++)
        from = latest(from, over(run, run->nodes[k].before));
    return from;
}

static void write_wait(struct weir__cuda_traced_run *run, struct weir__cuda_traced_node *n)
{
    const struct weir__trace_record *r = &n->record;

    n->over = latest(n->from, over(run, n->source));
    weir__trace_put_wait(r->device, r->slot, r->seq, r->u.source.device, r->u.source.slot,
                         r->amount, n->from, n->over);
    weir__cuda_trace_note(n->stream, r->seq, n->over);
}

static void write_kernel(struct weir__cuda *dev, struct weir__cuda_traced_run *run,
                         struct weir__cuda_traced_node *n)
{
    uint64_t to;

    n->over = n->from;
    if (n->with >= 0) {
        n->from = run->nodes[n->with].from;
        n->over = run->nodes[n->with].over;
    } else if (n->timer) {
        if (weir__cuda_time_of(dev, &n->timer->event, &to))
            return;
        n->over = latest(n->from, to);
    }
    if (n->is_recorded)
        weir__cuda_trace_write(n->stream, &n->record, n->cores, n->from, n->over);
}

void weir__cuda_run_write(struct weir__cuda *dev, struct weir__cuda_traced_run *run, uint64_t from)
{
    for (int i = 0; i < run->n; i++) {
        struct weir__cuda_traced_node *n = &run->nodes[i];

        n->from = begin_of(run, i, from);
        if (n->is_wait)
            write_wait(run, n);
        else
            write_kernel(dev, run, n);
    }
}

void weir__cuda_run_drop(struct weir__cuda *dev, struct weir__cuda_traced_run *run)
{
    struct weir__cuda_timer *list = NULL;

    if (!run)
        return;
    for (int i = 0; i < run->n; i++) {
        struct weir__cuda_timer *t = run->nodes[i].timer;

        if (!t)
            continue;
        t->next = list;
        list = t;
    }
    weir__cuda_timers_give(dev, list);
    weir__free(run);
}
