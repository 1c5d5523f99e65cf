/* Run queues: ready streams of the default priority, one queue for each worker of a device.
 *
 * The scheduler (sched.h) orders streams and grants cores, under one lock. Most streams need
 * neither: they have the default priority, and every worker can have a core. Such a stream is put
 * into the run queue of its home, the worker that ran it last, and shares no cache line with the
 * other workers. A worker whose own queue is empty steals from the others.
 *
 * In the protocol of soft.h, the token of a stream in a run queue belongs to the scheduler: nobody
 * runs the stream, and the thread that takes the stream out of the queue becomes the holder.
 *
 * While a gang waits for cores, all streams compete in the scheduler: run queues are emptied into
 * it and stay empty until the gang has started. A device without run queues has runqs == NULL.
 *
 * `filled` is stored inside the lock and read outside. A thread that adds a stream stores `filled`
 * and then reads the number of sleepers. A worker that goes to sleep counts itself as a sleeper and
 * then reads `filled` of all queues. All are sequentially consistent, so at least one of the two
 * sees the other (cpu/rest.c).
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
/* True if the stream may be in a run queue now. */
bool weir__runq_takes(const struct weir__soft_device *dev, const struct weir__soft_stream *s);
/* Puts `before` in front of the queue and `after` behind it; both are empty afterwards. */
void weir__runq_put(struct weir__runq *q, struct weir__soft_list *before,
                    struct weir__soft_list *after);
/* Removes the first stream of the queue and returns it; NULL if the queue is empty. */
struct weir__soft_stream *weir__runq_take(struct weir__runq *q);
/* Moves all streams of the queue to the end of `list`. */
void weir__runq_take_all(struct weir__runq *q, struct weir__soft_list *list);
/* Removes this stream from its home's queue. False if it is not among the first few there. */
bool weir__runq_take_out(struct weir__soft_device *dev, struct weir__soft_stream *s);
/* Moves all streams from run queues to the scheduler. */
void weir__runqs_empty(struct weir__soft_device *dev);

static inline uint32_t weir__runq_has(const struct weir__runq *q)
{
    return atomic_load_explicit(&q->filled, memory_order_relaxed);
}

#endif
