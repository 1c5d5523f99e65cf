/* Streams: order within one and between them, and how far they got. */
#include "cuda/cuda.h"

#include <string.h>

enum { WORDS = 256, CHECKPOINT_EVERY = 32 };

/* ---- slots ---- */

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

void weir__cuda_stream_close(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    const struct weir__cu *cu = &dev->api->cu;
    bool pushed = weir__cuda_enter(dev);

    for (int i = 0; i < WEIR__CUDA_RING; i++)
        if (s->ring[i].event)
            cu->event_destroy(s->ring[i].event);
    for (int i = 0; i < s->nqueues; i++)
        cu->stream_destroy(s->queues[i].stream);
    if (s->workspace)
        cu->memory_free((weir__cu_address)(uintptr_t)s->workspace);
    if (s->stage)
        cu->host_free(s->stage);
    weir__cuda_leave(dev, pushed);
    weir__free(s->queues);
    weir__free(s->taken);
    weir__free(s->failures);
}

/* ---- the tail ---- */

static int cuda_priority(const struct weir__cuda *dev, int priority)
{
    int steps = dev->priority_least - dev->priority_greatest;

    return dev->priority_least -
           (WEIR__PRIORITY_LEAST - priority) * steps / (WEIR__PRIORITY_LEAST - WEIR__PRIORITY_MOST);
}

static weir_status find_queue(struct weir__cuda_stream *s, const struct weir__cuda_part *part,
                              weir__cu_stream *out)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    int priority = cuda_priority(dev, s->base.priority);
    weir_status st;

    for (int i = 0; i < s->nqueues; i++)
        if (s->queues[i].part == part && s->queues[i].priority == priority) {
            *out = s->queues[i].stream;
            return WEIR_OK;
        }
    if (!weir__grow(&s->queues, s->nqueues, &s->cap_queues, sizeof *s->queues))
        return WEIR_ENOMEM;
    if ((st = weir__cuda_new_stream(dev, part, priority, out)))
        return st;
    s->queues[s->nqueues++] = (struct weir__cuda_queue){priority, part, *out};
    return WEIR_OK;
}

/* Under tail_lock. */
static weir_status flush(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st = WEIR_OK;

    for (unsigned i = 0; i < s->npending && !st; i++)
        if (s->pending[i].on != s->tail)
            st = weir__cuda_check(dev, dev->api->cu.stream_wait(s->tail, s->pending[i].event, 0),
                                  "a wait");
    s->busy |= s->npending > 0;
    s->npending = 0;
    return st;
}

/* Under tail_lock: an event after everything queued so far, which is over at `on`. */
static weir_status record(struct weir__cuda_stream *s, weir__cu_stream on)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    struct weir__cuda_event *e = &s->ring[s->ring_at];
    weir_status st = weir__cuda_check(dev, dev->api->cu.event_record(e->event, on), "an event");

    if (st)
        return st;
    e->seq = atomic_load_explicit(&s->queued, memory_order_relaxed);
    e->on = on;
    s->ring_at = (s->ring_at + 1) % WEIR__CUDA_RING;
    return WEIR_OK;
}

static const struct weir__cuda_event *newest(const struct weir__cuda_stream *s)
{
    return &s->ring[(s->ring_at + WEIR__CUDA_RING - 1) % WEIR__CUDA_RING];
}

/* Under tail_lock: for the first command that CUDA sees, or one that is to have other cores. */
static weir_status change_tail(struct weir__cuda_stream *s, weir__cu_stream to)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st = WEIR_OK;

    if (s->tail && !(st = flush(s)) && !(st = record(s, s->tail)))
        st = weir__cuda_check(dev, dev->api->cu.stream_wait(to, newest(s)->event, 0), "a wait");
    if (!st)
        s->tail = to;
    return st;
}

weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    const struct weir__cuda_part *part = NULL;
    weir_status st;

    if ((st = weir__cuda_part(s, cores, &part)) || (st = find_queue(s, part, out)))
        return st;
    weir__spin_lock(&s->tail_lock);
    if (*out == s->tail || !(st = change_tail(s, *out)))
        st = flush(s);
    s->busy = true;
    weir__spin_unlock(&s->tail_lock);
    return st;
}

void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    uint64_t before = atomic_load_explicit(&s->queued, memory_order_relaxed);

    s->names[(before + n) % WEIR__CUDA_NAMES] = name;
    atomic_store_explicit(&s->queued, before + n, memory_order_release);
    if ((before + n) / CHECKPOINT_EVERY != before / CHECKPOINT_EVERY)
        (void)weir__cuda_checkpoint(s); /* if it fails, whoever asks tries again */
}

weir_status weir__cuda_after(struct weir__cuda_stream *s, const struct weir__cuda_event *event)
{
    weir_status st = WEIR_OK;

    if (!s->tail) { /* so that the wait has a place to be flushed to */
        weir__cu_stream tail;

        if ((st = weir__cuda_tail(s, UINT32_MAX, &tail)))
            return st;
    }
    weir__spin_lock(&s->tail_lock);
    if (event->on != s->tail) {
        if (s->npending == WEIR__CUDA_PENDING)
            st = flush(s);
        s->pending[s->npending++] = *event;
    }
    weir__spin_unlock(&s->tail_lock);
    return st;
}

weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first)
{
    struct weir__cuda_event events[WEIR__CUDA_PENDING];
    unsigned n = 0;
    weir_status st = WEIR_OK;

    weir__spin_lock(&lane->tail_lock);
    if (lane->tail && lane->busy) {
        if (!(st = flush(lane)) && !(st = record(lane, lane->tail)))
            events[n++] = *newest(lane);
    } else {
        for (; n < lane->npending; n++)
            events[n] = lane->pending[n];
    }
    weir__spin_unlock(&lane->tail_lock);
    for (unsigned i = 0; i < n && !st; i++)
        st = weir__cuda_after(first, &events[i]);
    return st;
}

weir_status weir__cuda_follow(struct weir__cuda_stream *lane, weir__cu_stream tail)
{
    weir__cu_stream own;
    weir_status st = WEIR_OK;

    if (!lane->tail && (st = weir__cuda_tail(lane, UINT32_MAX, &own)))
        return st;
    weir__spin_lock(&lane->tail_lock);
    if (!(st = record(lane, tail))) {
        lane->pending[0] = *newest(lane);
        lane->npending = 1;
        lane->busy = false;
    }
    weir__spin_unlock(&lane->tail_lock);
    return st;
}

bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st)
{
    struct weir__cuda_stream *s = weir__cuda_stream(mark.stream);
    const struct weir__cuda_event *found = NULL;
    struct weir__cuda *dev = weir__cuda(mark.stream->dev);
    bool pushed;

    *st = WEIR_OK;
    if (atomic_load_explicit(&s->word->reached, memory_order_acquire) >= mark.seq)
        return true;
    pushed = weir__cuda_enter(dev);
    weir__spin_lock(&s->tail_lock);
    for (unsigned i = 1; i <= WEIR__CUDA_RING; i++) {
        const struct weir__cuda_event *e =
            &s->ring[(s->ring_at + WEIR__CUDA_RING - i) % WEIR__CUDA_RING];

        if (!e->on || e->seq < mark.seq)
            break;
        found = e;
    }
    if (!found && s->tail && !(*st = flush(s)) && !(*st = record(s, s->tail)))
        found = newest(s);
    if (found)
        *out = *found;
    weir__spin_unlock(&s->tail_lock);
    weir__cuda_leave(dev, pushed);
    return !found;
}

weir_status weir__cuda_mark(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;

    weir__spin_lock(&s->tail_lock);
    if (s->tail &&
        (!newest(s)->on ||
         newest(s)->seq != atomic_load_explicit(&s->queued, memory_order_relaxed)) &&
        !(st = flush(s)))
        st = record(s, s->tail);
    weir__spin_unlock(&s->tail_lock);
    weir__cuda_leave(dev, pushed);
    return st;
}

/* ---- how far it got ---- */

weir_status weir__cuda_checkpoint(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st = WEIR_OK;
    uint64_t queued;

    weir__spin_lock(&s->tail_lock);
    queued = atomic_load_explicit(&s->queued, memory_order_acquire);
    if (s->checkpoint < queued) {
        if (!s->tail) /* nothing that CUDA would have to do */
            atomic_store_explicit(&s->word->reached, queued, memory_order_release);
        else if (!(st = flush(s)))
            st = weir__cuda_check(
                dev,
                dev->api->cu.stream_write(s->tail, (weir__cu_address)(uintptr_t)&s->word->reached,
                                          queued, 0),
                "a checkpoint");
        if (!st)
            s->checkpoint = queued;
    }
    weir__spin_unlock(&s->tail_lock);
    weir__cuda_leave(dev, pushed);
    return st;
}

uint64_t weir__cuda_done(const weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire), reached;

    if (atomic_load_explicit(&dev->dead, memory_order_acquire))
        return queued;
    reached = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    if (reached < queued && reached >= s->checkpoint)
        (void)weir__cuda_checkpoint(s); /* the next to ask will know */
    if (atomic_load_explicit(&dev->failed, memory_order_relaxed) ||
        ((volatile struct weir__code_failure *)dev->log)->next != dev->log_read)
        weir__cuda_poll(dev);
    return reached;
}

/* ---- commands ---- */

weir_status weir__cuda_submit(weir_stream *base, const struct weir__kernel *k)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    uint64_t seq = weir__stream_submitted(base) + 1;
    struct weir__cuda_sink sink = {
        .dev = dev,
        .cores = k->cores,
        .where = weir__cuda_where(base, seq),
        .workspace = &s->workspace,
    };
    weir_status st = weir__cuda_alive(dev);
    bool pushed;

    if (!st && k->fn && !k->code)
        st = weir__fail(WEIR_EUNSUPPORTED,
                        "'%s' is a function of the host, which %s cannot run: use an operator, or "
                        "a device such as cpu",
                        k->name, base->dev->props.name);
    if (st)
        return st;
    if (k->fn) {
        pushed = weir__cuda_enter(dev);
        if (!(st = weir__cuda_tail(s, k->engine <= WEIR_ENGINE_MIX ? k->cores : UINT32_MAX,
                                   &sink.stream)))
            st = k->code->kind == WEIR__CODE_COPY ? weir__cuda_copy(s, sink.stream, k->args)
                                                  : weir__cuda_issue(&sink, k);
        weir__cuda_leave(dev, pushed);
    }
    if (st)
        return st;
    if (k->never_timeout)
        atomic_store_explicit(&s->untimed, seq, memory_order_relaxed);
    weir__cuda_count(s, 1, k->name);
    return WEIR_OK;
}

weir_status weir__cuda_wait(weir_stream *base, struct weir__mark mark, enum weir__wait how)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    bool foreign = mark.stream->dev != base->dev, pushed;
    struct weir__cuda_event event;
    weir_status st = weir__cuda_alive(dev);

    if (st)
        return st;
    pushed = weir__cuda_enter(dev);
    if (!weir__cuda_find(mark, &event, &st) && !st)
        st = weir__cuda_after(s, &event);
    weir__cuda_leave(dev, pushed);
    if (!st && how != WEIR__WAIT_ORDER && !foreign) /* errors stay on their device */
        st = weir__cuda_take(s, weir__stream_submitted(base) + 1, mark, how);
    if (st)
        return st;
    weir__cuda_count(s, 1, "wait");
    if (foreign) /* CUDA keeps what the event meant */
        atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    return WEIR_OK;
}
