/* Opening and closing streams: their words in pinned memory, their events and CUDA streams. */
#include "cuda/cuda.h"

#include <string.h>

enum { WORDS = 256 };

static weir_status take_word(struct weir__cuda *dev, struct weir__cuda_stream *s)
{
    unsigned chunk = s->base.slot / WORDS;
    weir__cu_result r;

    if (chunk >= dev->nwords) {
        struct weir__cuda_word **words = weir__calloc(chunk + 1, sizeof *words);
        void *memory;

        if (!words)
            return weir__fail(WEIR_ENOMEM, "the words of %u streams", (chunk + 1) * WORDS);
        if ((r = dev->api->cu.host_alloc(&memory, WORDS * sizeof **words,
                                         CU_HOST_ALLOC_PORTABLE_MAPPED))) {
            weir__free(words);
            return weir__cuda_check(dev, r, "pinned memory");
        }
        memset(memory, 0, WORDS * sizeof **words);
        if (dev->nwords)
            memcpy(words, dev->words, dev->nwords * sizeof *words);
        words[dev->nwords++] = memory;
        weir__free(dev->words);
        dev->words = words;
    }
    s->word = &dev->words[chunk][s->base.slot % WORDS];
    return WEIR_OK;
}

weir_status weir__cuda_stream_open(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = take_word(dev, s);

    for (int i = 0; i < WEIR__CUDA_RING && !st; i++)
        st = weir__cuda_check(
            dev, dev->api->cu.event_create(&s->ring[i].event, CU_EVENT_DISABLE_TIMING), "an event");
    weir__cuda_leave(dev, pushed);
    if (st) {
        weir__cuda_stream_close(base);
        return st;
    }
    s->next = atomic_load(&dev->streams);
    atomic_store(&dev->streams, s);
    return WEIR_OK;
}

/* The device closes: nobody else looks any more, but a call that fails reports on those left. */
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
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    const struct weir__cu *cu = &dev->api->cu;
    bool pushed = weir__cuda_enter(dev);

    unlink_stream(dev, s);

    for (int i = 0; i < WEIR__CUDA_RING; i++)
        if (s->ring[i].event)
            cu->event_destroy(s->ring[i].event);
    if (s->inlet)
        cu->event_destroy(s->inlet);
    if (s->parted)
        cu->event_destroy(s->parted);
    weir__cuda_repeats_close(s);
    for (int i = 0; i < s->nqueues; i++)
        cu->stream_destroy(s->queues[i].stream);
    if (s->workspace)
        weir__cuda_free(dev, s->workspace);
    if (s->stage)
        weir__cuda_free_host(dev, s->stage);
    weir__cuda_leave(dev, pushed);
    weir__free(s->queues);
    weir__free(s->taken);
    weir__free(s->failures);
}

/* ---- CUDA streams ---- */

int weir__cuda_priority(const weir_stream *s)
{
    const struct weir__cuda *dev = weir__cuda(s->dev);
    int steps = dev->priority_least - dev->priority_greatest;

    return dev->priority_least - (WEIR__PRIORITY_LEAST - s->priority) * steps /
                                     (WEIR__PRIORITY_LEAST - WEIR__PRIORITY_MOST);
}

static weir_status find_queue(struct weir__cuda_stream *s, const struct weir__cuda_part *part,
                              bool side, weir__cu_stream *out)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    /* Streams of one priority may share a queue of the hardware, and a part must not stand there
     * behind a stream that waits for it. */
    int priority = side ? dev->priority_greatest : weir__cuda_priority(&s->base);
    weir_status st;

    for (int i = 0; i < s->nqueues; i++)
        if (s->queues[i].part == part && s->queues[i].priority == priority &&
            s->queues[i].side == side) {
            *out = s->queues[i].stream;
            return WEIR_OK;
        }
    if (!weir__grow(&s->queues, s->nqueues, &s->cap_queues, sizeof *s->queues))
        return WEIR_ENOMEM;
    if ((st = weir__cuda_new_stream(dev, part, priority, out)))
        return st;
    s->queues[s->nqueues++] = (struct weir__cuda_queue){priority, part, side, *out};
    return WEIR_OK;
}

weir_status weir__cuda_queue(struct weir__cuda_stream *s, unsigned cores, bool side,
                             weir__cu_stream *out)
{
    const struct weir__cuda_part *part = NULL;
    weir_status st = weir__cuda_part(s, cores, &part);

    return st ? st : find_queue(s, part, side, out);
}

weir_status weir__cuda_side(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st;

    if (!s->parted &&
        (st = weir__cuda_check(dev, dev->api->cu.event_create(&s->parted, CU_EVENT_DISABLE_TIMING),
                               "an event"))) {
        s->parted = NULL;
        return st;
    }
    return weir__cuda_queue(s, cores, true, out);
}
