/* Run queues: ready streams of the default priority, one queue for each worker of a device.
 *
 * The scheduler (sched.h) decides who goes first and grants cores, under one lock. Most streams
 * need none of that: they have the default priority, and every worker can have a core. Those go
 * to the run queue of their home, the worker that ran them last, and touch nothing that the other
 * workers touch. A worker whose own queue is empty steals from the others.
 *
 * A token in a run queue is the scheduler's as far as the protocol in soft.h is concerned: nobody
 * runs the stream, and whoever takes it out of the queue holds the token.
 *
 * While a gang waits for cores, everybody competes in the scheduler: run queues are emptied into
 * it and stay empty until the gang has started. A device without run queues has runqs == NULL.
 *
 * `filled` is stored inside the lock and read outside. Whoever adds stores it and then looks for
 * sleepers; whoever goes to sleep counts as one and then reads it of all queues; both
 * sequentially consistent, so one of them sees the other (cpu/rest.c).
 */
#ifndef WEIR_SOFT_RUNQ_H
#define WEIR_SOFT_RUNQ_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/lock.h"

struct weir__soft_device;
struct weir__soft_stream;

struct weir__soft_list {
    struct weir__soft_stream *first, **end;
    uint32_t count;
};

struct weir__runq {
    _Alignas(WEIR__LINE) struct weir__spin lock;
    _Atomic uint32_t filled; /* streams in the list */
    struct weir__soft_list list;
};

/* Makes n empty queues. returns WEIR_ENOMEM. */
weir_status weir__runqs_open(struct weir__soft_device *dev, unsigned n);
void weir__runqs_close(struct weir__soft_device *dev);

/* Puts the stream at the end of its home's queue; false if it must go to the scheduler. */
bool weir__runq_offer(struct weir__soft_device *dev, struct weir__soft_stream *s);
/* Whether it may be in a run queue now. */
bool weir__runq_takes(const struct weir__soft_device *dev, const struct weir__soft_stream *s);
/* Puts `before` in front of the queue and `after` behind it; both are empty afterwards. */
void weir__runq_put(struct weir__runq *q, struct weir__soft_list *before,
                    struct weir__soft_list *after);
/* The first stream of the queue; NULL if there is none. */
struct weir__soft_stream *weir__runq_take(struct weir__runq *q);
/* All of them, behind those of `list`. */
void weir__runq_take_all(struct weir__runq *q, struct weir__soft_list *list);
/* The stream itself, if it is among the first few of its queue. */
bool weir__runq_take_out(struct weir__soft_device *dev, struct weir__soft_stream *s);
/* Moves whatever is in run queues to the scheduler. */
void weir__runqs_empty(struct weir__soft_device *dev);

static inline uint32_t weir__runq_has(const struct weir__runq *q)
{
    return atomic_load_explicit(&q->filled, memory_order_relaxed);
}

#endif
