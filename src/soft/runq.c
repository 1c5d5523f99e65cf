#include "soft/soft.h"

enum { FIRST_FEW = 16 };

weir_status weir__runqs_open(struct weir__soft_device *dev, unsigned n)
{
    dev->runqs = weir__alloc_aligned(n * sizeof *dev->runqs, WEIR__LINE);
    if (!dev->runqs)
        return weir__fail_nomem("allocating run queues of %s", dev->base.props.name);
    for (unsigned i = 0; i < n; i++) {
        dev->runqs[i] = (struct weir__runq){.filled = 0};
        dev->runqs[i].list.end = &dev->runqs[i].list.first;
    }
    dev->nrunqs = n;
    return WEIR_OK;
}

void weir__runqs_close(struct weir__soft_device *dev)
{
    weir__free(dev->runqs);
    dev->runqs = NULL;
    dev->nrunqs = 0;
}

bool weir__runq_takes(const struct weir__soft_device *dev, const struct weir__soft_stream *s)
{
    return dev->runqs && s->base.priority == 0 &&
           !atomic_load_explicit(&dev->sched.gangs, memory_order_relaxed);
}

/* Moves `from` behind `to`. */
static void join(struct weir__soft_list *to, struct weir__soft_list *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    to->count += from->count;
    *from = (struct weir__soft_list){NULL, &from->first, 0};
}

void weir__runq_put(struct weir__runq *q, struct weir__soft_list *before,
                    struct weir__soft_list *after)
{
    weir__spin_lock(&q->lock);
    join(before, &q->list);
    join(before, after);
    join(&q->list, before);
    atomic_store(&q->filled, q->list.count);
    weir__spin_unlock(&q->lock);
}

bool weir__runq_offer(struct weir__soft_device *dev, struct weir__soft_stream *s)
{
    struct weir__runq *q;

    if (!weir__runq_takes(dev, s))
        return false;
    q = &dev->runqs[atomic_load_explicit(&s->home, memory_order_relaxed)];
    weir__spin_lock(&q->lock);
    weir__soft_append(&q->list, s);
    atomic_store(&q->filled, q->list.count);
    weir__spin_unlock(&q->lock);
    return true;
}

struct weir__soft_stream *weir__runq_take(struct weir__runq *q)
{
    struct weir__soft_stream *s;

    if (!weir__runq_has(q))
        return NULL;
    weir__spin_lock(&q->lock);
    s = weir__soft_take(&q->list);
    atomic_store_explicit(&q->filled, q->list.count, memory_order_relaxed);
    weir__spin_unlock(&q->lock);
    return s;
}

void weir__runq_take_all(struct weir__runq *q, struct weir__soft_list *list)
{
    if (!weir__runq_has(q))
        return;
    weir__spin_lock(&q->lock);
    join(list, &q->list);
    atomic_store_explicit(&q->filled, 0, memory_order_relaxed);
    weir__spin_unlock(&q->lock);
}

bool weir__runq_take_out(struct weir__soft_device *dev, struct weir__soft_stream *s)
{
    struct weir__runq *q = &dev->runqs[atomic_load_explicit(&s->home, memory_order_relaxed)];
    struct weir__soft_stream **link = &q->list.first;
    bool found;

    if (!weir__runq_has(q))
        return false;
    weir__spin_lock(&q->lock);
    for (int i = 0; i < FIRST_FEW && *link && *link != s; i++)
        link = &(*link)->local_next;
    found = *link == s;
    if (found) {
        if (!(*link = s->local_next))
            q->list.end = link;
        q->list.count--;
        atomic_store_explicit(&q->filled, q->list.count, memory_order_relaxed);
    }
    weir__spin_unlock(&q->lock);
    return found;
}

void weir__runqs_empty(struct weir__soft_device *dev)
{
    struct weir__soft_list all = {NULL, &all.first, 0};
    struct weir__soft_stream *s;

    for (unsigned i = 0; i < dev->nrunqs; i++)
        weir__runq_take_all(&dev->runqs[i], &all);
    if (!all.first)
        return;
    weir__spin_lock(&dev->sched.lock);
    while ((s = weir__soft_take(&all)))
        weir__sched_add(&dev->sched, s, WEIR__WANTS_CORE, weir__soft_next_kind(s));
    weir__spin_unlock(&dev->sched.lock);
}
