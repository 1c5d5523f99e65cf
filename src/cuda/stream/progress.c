/* Progress of streams: writing and reading checkpoints. */
#include "cuda/fault/faults.h"

/* Where a write comes after everything of the stream. What a plan's run stands for is over where
 * that was launched; its own tail would have to wait for it first, and the next run for its tail.
 */
static weir_status end_of_all(struct weir__cuda_stream *s, uint64_t queued, weir__cu_stream *out)
{
    struct weir__cuda_stream *leader = s;
    weir_status st;

    if (!s->order.busy)
        weir__cuda_locate(&leader, &queued);
    if (leader != s && queued == atomic_load_explicit(&leader->queued, memory_order_relaxed)) {
        *out = leader->order.tail;
        return WEIR_OK;
    }
    st = weir__cuda_flush(s); /* the leader has queued more since */
    *out = s->order.tail;
    return st;
}

weir_status weir__cuda_write(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire);
    weir_status st = WEIR_OK;
    weir__cu_stream on;

    if (s->progress.checkpoint >= queued)
        return WEIR_OK;
    if (s->gate.shut && s->gate.seq == queued) /* opening the gate writes it */
        s->progress.checkpoint = queued;
    else if (!s->order.tail) /* nothing that CUDA would have to do */
        atomic_store_explicit(&s->word->reached, queued, memory_order_release);
    else if (!(st = end_of_all(s, queued, &on)))
        st = weir__cuda_check(dev,
                              dev->api->cu.stream_write(
                                  on, (weir__cu_address)(uintptr_t)&s->word->reached, queued, 0),
                              "a checkpoint");
    if (!st) {
        s->progress.checkpoint = queued;
        s->progress.since = 0;
    }
    return st;
}

weir_status weir__cuda_checkpoint(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__spin_lock(&dev->tails);
    st = weir__cuda_write(s);
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return st;
}

/* A stream whose tail is idle and that keeps no wait has nothing left, though it has not said so.
 * Where others queue too that is the only way to see it: asking counts as a command. A checkpoint
 * that is still to come, perhaps from a leader, would take the word back. */
static void look(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire), reached;

    weir__spin_lock(&dev->tails);
    reached = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    if (reached < queued && reached >= s->progress.checkpoint && s->order.tail && !s->order.nkept &&
        !weir__cuda_is_shut(s) && !dev->api->cu.stream_query(s->order.tail))
        atomic_store_explicit(&s->word->reached, queued, memory_order_release);
    weir__spin_unlock(&dev->tails);
}

void weir__cuda_look(weir_device *base)
{
    struct weir__cuda *dev = weir__cuda_of(base);
    bool pushed;

    if (atomic_load_explicit(&dev->faults.dead, memory_order_acquire))
        return;
    pushed = weir__cuda_enter(dev);
    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        look(s);
    weir__cuda_leave(dev, pushed);
}

uint64_t weir__cuda_done(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire), reached;

    if (atomic_load_explicit(&dev->faults.dead, memory_order_acquire))
        return queued;
    reached = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    if (reached < queued && reached >= s->progress.checkpoint)
        (void)weir__cuda_checkpoint(s); /* the next call sees it */
    weir__cuda_poll(dev);
    return reached;
}
