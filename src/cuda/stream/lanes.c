/* The streams of a plan's run: it is launched on the stream of its first lane, which leads the
 * others. */
#include "cuda/fault/faults.h"
#include "cuda/stream/order.h"

/* Moves the kept waits of `lane` to `first`, except waits for `first` itself. */
static weir_status keep_for(struct weir__cuda_stream *first, const struct weir__cuda_stream *lane)
{
    weir_status st = WEIR_OK;

    for (unsigned i = 0; !st && i < lane->order.nkept; i++) {
        const struct weir__cuda_kept *k = &lane->order.kept[i];
        struct weir__cuda_stream *from = k->from;
        uint64_t seq = k->seq;

        if (from)
            weir__cuda_locate(&from, &seq);
        if (from != first)
            st = weir__cuda_keep(first, from, seq, &k->event);
    }
    return st;
}

weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first)
{
    struct weir__spin *tails = &weir__cuda_of(lane->base.dev)->tails;
    weir__cu_stream tail;
    weir_status st = WEIR_OK;

    if (!first->order.tail && (st = weir__cuda_tail(first, UINT32_MAX, &tail)))
        return st;
    weir__spin_lock(tails);
    if (lane->order.is_due)
        st = weir__cuda_put_mark(
            lane); /* else streams that wait for the lane would wait for the plan */
    if (!st && first->order.nkept + lane->order.nkept > WEIR__CUDA_KEPT)
        st = weir__cuda_flush(first);
    if (!st && lane->order.tail && lane->order.busy) {
        if (!(st = weir__cuda_flush(lane)) &&
            !(st = weir__cuda_record(lane, lane->order.tail, atomic_load(&lane->queued))))
            st = weir__cuda_keep(first, NULL, 0, weir__cuda_newest(lane));
    } else if (!st) {
        st = keep_for(first, lane);
    }
    weir__spin_unlock(tails);
    return st;
}

weir_status weir__cuda_follow(struct weir__cuda_stream *lane, struct weir__cuda_stream *first,
                              weir__cu_stream on, bool counted, uint64_t n)
{
    struct weir__spin *tails = &weir__cuda_of(lane->base.dev)->tails;
    struct weir__cuda_ordering *o = &lane->order;
    weir__cu_stream own;
    weir_status st = WEIR_OK;
    uint64_t last;

    if (!o->tail && (st = weir__cuda_tail(lane, UINT32_MAX, &own)))
        return st;
    weir__spin_lock(tails);
    last = atomic_load_explicit(&lane->queued, memory_order_relaxed) + n;
    if (!o->nkept) /* else some earlier waits moved to `first` and are not at the tail */
        o->kept_after = last - n;
    lane->names[last % WEIR__CUDA_NAMES] = "a plan";
    atomic_store_explicit(&lane->queued, last, memory_order_release);
    if (counted) {
        o->leader = first;
        o->leader_seq = atomic_load_explicit(&first->queued, memory_order_relaxed);
        o->led_upto = last;
        o->kept[0] = (struct weir__cuda_kept){.from = first, .seq = o->leader_seq};
    } else if (!(st = weir__cuda_record(
                     lane, on, last))) { /* `first` has no command that ends when the lane does */
        o->kept[0] = (struct weir__cuda_kept){.event = *weir__cuda_newest(lane)};
    }
    atomic_store_explicit(&o->nkept, !st, memory_order_relaxed);
    if (st) { /* the plan runs, and later work of the lane would not wait for it */
        weir__cuda_may_fail(lane);
        weir__cuda_fail(lane, last, st, weir_last_error());
    }
    o->busy = lane->native.stream != NULL;
    if (!st && lane->native.stream)
        st = weir__cuda_flush(lane);
    weir__spin_unlock(tails);
    return st;
}
