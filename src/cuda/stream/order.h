/* Order between streams, for the files of this folder. All of it is under the tails lock. */
#ifndef WEIR_CUDA_STREAM_ORDER_H
#define WEIR_CUDA_STREAM_ORDER_H

#include "cuda/cuda.h"

/* The event that was recorded last; its `on` is NULL if none was. */
static inline const struct weir__cuda_event *weir__cuda_newest(const struct weir__cuda_stream *s)
{
    return &s->order.ring[(s->order.ring_at - 1) % WEIR__CUDA_RING];
}
/* Records an event at `on` that comes after the stream's commands up to `seq`. */
weir_status weir__cuda_record(struct weir__cuda_stream *s, weir__cu_stream on, uint64_t seq);
/* The next command of `s` waits for an event, or for a command of `from` that its tail has. There
 * may be no room: then the waits that are kept are handed over. */
weir_status weir__cuda_keep(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                            uint64_t seq, const struct weir__cuda_event *event);
/* What others may wait for gets its event before something comes behind it. What a plan's run
 * stands for is over where that was launched. */
weir_status weir__cuda_put_mark(struct weir__cuda_stream *s);
/* Puts up the gate that is shut, unless it is open by now. */
weir_status weir__cuda_raise_gate(struct weir__cuda_stream *s);

#endif
