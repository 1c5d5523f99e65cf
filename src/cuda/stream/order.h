/* Order between streams, for the files of this folder. All of it is under the tails lock. */
#ifndef WEIR_CUDA_STREAM_ORDER_H
#define WEIR_CUDA_STREAM_ORDER_H

#include "cuda/cuda.h"

/* Returns the event that was recorded last; its `on` is NULL if none was. */
static inline const struct weir__cuda_event *weir__cuda_newest(const struct weir__cuda_stream *s)
{
    return &s->order.ring[(s->order.ring_at - 1) % WEIR__CUDA_RING];
}
/* Records an event at `on` that comes after the stream's commands up to `seq`. */
weir_status weir__cuda_record(struct weir__cuda_stream *s, weir__cu_stream on, uint64_t seq);
/* Keeps a wait of `s`: for `event` if `from` is NULL, else for command `seq` of `from`, which the
 * tail of `from` must have (waits.c). If there is no room, the kept waits are first handed to
 * CUDA. */
weir_status weir__cuda_keep(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                            uint64_t seq, const struct weir__cuda_event *event);
/* Records an event after the last command of `s`, so that others can wait for it and not for what
 * comes next. If that command belongs to a plan's run, the event is recorded on the leader. */
weir_status weir__cuda_put_mark(struct weir__cuda_stream *s);
/* Queues the wait for the gate that is shut, unless the gate has been opened meanwhile. */
weir_status weir__cuda_raise_gate(struct weir__cuda_stream *s);

#endif
