/* Progress of streams: writing and reading checkpoints. */
#include "cuda/fault/faults.h"

/* Finds the CUDA stream on which a write comes after all commands of the stream. If its last
 * command belongs to a plan's run, that is the leader's tail: the stream's own tail would first
 * have to wait for the run, and the next run would have to wait for the tail. */
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
    if (s->gate.shut && s->gate.seq == queued) /* opening the gate stores `reached` */
        s->progress.checkpoint = queued;
    else if (!s->order.tail) /* CUDA has no work of the stream */
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

/* If the stream's tail is idle and it keeps no wait, all its commands have completed: stores that.
 * On a shared stream there is no other way to find out, because asking for its last command queues
 * a new one. Not while a checkpoint is pending, perhaps on a leader: its write would set the word
 * back. */
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
