/* Opening and closing streams: their words in pinned memory, their events and CUDA streams. */
#include "cuda/cuda.h"

#include <string.h>

weir_status weir__cuda_stream_open(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    bool pushed;
    weir_status st = WEIR_OK;

    if (base->slot >= WEIR__CODE_STREAMS)
        return weir__fail(WEIR_ERANGE, "cannot open another stream on %s: it has at most %d",
                          dev->base.props.name, WEIR__CODE_STREAMS);
    s->word = &dev->words[base->slot];
    pushed = weir__cuda_enter(dev);
    for (int i = 0; i < WEIR__CUDA_RING && !st; i++)
        st = weir__cuda_check(
            dev, dev->api->cu.event_create(&s->order.ring[i].event, CU_EVENT_DISABLE_TIMING),
            "an event");
    weir__cuda_leave(dev, pushed);
    if (st) {
        weir__cuda_stream_close(base);
        return st;
    }
    s->next = atomic_load(&dev->streams);
    atomic_store(&dev->streams, s);
    return WEIR_OK;
}

/* Removes a stream from the list while the device closes. No other thread uses the list, but a
 * failing call still reports on the remaining streams. */
static void unlink_stream(struct weir__cuda *dev, const struct weir__cuda_stream *s)
{
    struct weir__cuda_stream *at = atomic_load(&dev->streams);

    if (at == s)
        atomic_store(&dev->streams, s->next);
    for (; at; at = at->next)
        if (at->next == s)
            at->next = s->next;
}

void weir__cuda_stream_close(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    const struct weir__cu *cu = &dev->api->cu;
    bool pushed = weir__cuda_enter(dev);

    unlink_stream(dev, s);

    for (int i = 0; i < WEIR__CUDA_RING; i++)
        if (s->order.ring[i].event)
            cu->event_destroy(s->order.ring[i].event);
    if (s->native.inlet)
        cu->event_destroy(s->native.inlet);
    if (s->queues.parted)
        cu->event_destroy(s->queues.parted);
    weir__cuda_repeats_close(s);
    for (int i = 0; i < s->queues.n; i++)
        cu->stream_destroy(s->queues.all[i].stream);
    if (s->scratch.workspace)
        weir__cuda_free(dev, s->scratch.workspace);
    if (s->scratch.stage)
        weir__cuda_free_host(dev, s->scratch.stage);
    weir__cuda_leave(dev, pushed);
    weir__free(s->queues.all);
    weir__free(s->faults.waits);
}

/* ---- CUDA streams ---- */

int weir__cuda_priority(const weir_stream *s)
{
    const struct weir__cuda *dev = weir__cuda_of(s->dev);
    int steps = dev->gpu.priority_least - dev->gpu.priority_greatest;

    return dev->gpu.priority_least - (WEIR__PRIORITY_LEAST - s->priority) * steps /
                                         (WEIR__PRIORITY_LEAST - WEIR__PRIORITY_MOST);
}

static weir_status find_queue(struct weir__cuda_stream *s, const struct weir__cuda_part *part,
                              bool side, weir__cu_stream *out)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    /* Streams of one priority may share a hardware queue. A part must not be queued there behind
     * a stream that waits for it. */
    int priority = side ? dev->gpu.priority_greatest : weir__cuda_priority(&s->base);
    weir_status st;

    for (int i = 0; i < s->queues.n; i++)
        if (s->queues.all[i].part == part && s->queues.all[i].priority == priority &&
            s->queues.all[i].side == side) {
            *out = s->queues.all[i].stream;
            return WEIR_OK;
        }
    if (!weir__grow(&s->queues.all, s->queues.n, &s->queues.cap, sizeof *s->queues.all))
        return WEIR_ENOMEM;
    if ((st = weir__cuda_new_stream(dev, part, priority, out)))
        return st;
    s->queues.all[s->queues.n++] = (struct weir__cuda_queue){priority, part, side, *out};
    return WEIR_OK;
}

weir_status weir__cuda_find_queue(struct weir__cuda_stream *s, unsigned cores, bool side,
                                  weir__cu_stream *out)
{
    const struct weir__cuda_part *part = NULL;
    weir_status st = weir__cuda_find_part(s, cores, &part);

    return st ? st : find_queue(s, part, side, out);
}

weir_status weir__cuda_side(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    weir_status st;

    if (!s->queues.parted &&
        (st = weir__cuda_check(
             dev, dev->api->cu.event_create(&s->queues.parted, CU_EVENT_DISABLE_TIMING),
             "an event"))) {
        s->queues.parted = NULL;
        return st;
    }
    return weir__cuda_find_queue(s, cores, true, out);
}
