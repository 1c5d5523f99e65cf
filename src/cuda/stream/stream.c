/* Streams: order within one and between them. */
#include "cuda/fault/faults.h"

/* Commands that CUDA sees. A stream that writes takes as long as a few launches. */
enum { CHECKPOINT_EVERY = WEIR__CUDA_NAMES };

/* ---- under the tails lock ---- */

static const struct weir__cuda_event *find(struct weir__cuda_stream *s, uint64_t seq,
                                           struct weir__cuda_event *room, weir_status *st);

/* For an event, or for a command of `from`. */
static inline weir_status wait_on_tail(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                                       uint64_t seq, struct weir__cuda_event *room)
{
    const struct weir__cuda_event *event = room;
    weir_status st = WEIR_OK;

    if (from) {
        weir__cuda_locate(&from, &seq);
        event = from == s ? NULL : find(from, seq, room, &st);
    }
    return !event || event->on == s->tail
               ? st
               : weir__cuda_wait_for(weir__cuda(s->base.dev), s->tail, event);
}

static void set_shut(struct weir__cuda_stream *s, bool shut)
{
    if (s->shut != shut)
        atomic_fetch_add(&weir__cuda(s->base.dev)->nshut, shut ? 1 : -1);
    s->shut = shut;
}

bool weir__cuda_is_shut(struct weir__cuda_stream *s)
{
    if (s->shut && atomic_load_explicit(&s->word->gate, memory_order_acquire) >= s->gate)
        set_shut(s, false);
    return s->shut;
}

static inline void set_npending(struct weir__cuda_stream *s, unsigned n)
{
    atomic_store_explicit(&s->npending, n, memory_order_relaxed);
}

/* For an event, or for a command of `from`. Field by field, as it is read soon: a copy of the whole
 * would wait for its parts to be written. */
static inline void keep(struct weir__cuda_stream *s, struct weir__cuda_stream *from, uint64_t seq,
                        const struct weir__cuda_event *event)
{
    unsigned n = atomic_load_explicit(&s->npending, memory_order_relaxed);
    struct weir__cuda_pending *p = &s->pending[n];

    set_npending(s, n + 1);
    p->from = from;
    p->seq = seq;
    if (!from)
        p->event = *event;
}

/* One wait at a time: finding an event may flush other streams, which may come back here. One that
 * CUDA does not take is kept: no later command may go without. */
weir_status weir__cuda_flush(struct weir__cuda_stream *s)
{
    bool outer = s->is_flushing;
    weir_status st = WEIR_OK;

    if (weir__unlikely(s->shut) && weir__cuda_is_shut(s)) {
        if ((st = weir__cuda_put_gate(s)))
            return st;
        set_shut(s, false);
    }
    s->busy |= s->npending > 0;
    s->is_flushing = true;
    while (s->npending && !st) {
        unsigned n = s->npending - 1;
        const struct weir__cuda_pending *p = &s->pending[n];
        struct weir__cuda_stream *from = p->from;
        struct weir__cuda_event event;
        uint64_t seq = p->seq;

        set_npending(s, n);
        if (!from)
            event = p->event;
        if ((st = wait_on_tail(s, from, seq, &event)))
            keep(s, from, seq, &event);
    }
    s->is_flushing = outer;
    return st;
}

/* The same, if there is room or can be made: of several of one stream the last one is enough. */
static inline weir_status add_pending(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                                      uint64_t seq, const struct weir__cuda_event *event)
{
    weir_status st;

    for (unsigned i = 0; from && i < s->npending; i++)
        if (s->pending[i].from == from) {
            if (s->pending[i].seq < seq)
                s->pending[i].seq = seq;
            return WEIR_OK;
        }
    if (s->npending == WEIR__CUDA_PENDING && (st = weir__cuda_flush(s)))
        return st;
    keep(s, from, seq, event);
    return WEIR_OK;
}

static const struct weir__cuda_event *newest(const struct weir__cuda_stream *s)
{
    return &s->ring[(s->ring_at - 1) % WEIR__CUDA_RING];
}

/* An event after everything queued so far, which is over at `on`. While a wait of the stream is
 * being handed over it lacks that one: then it is for whoever is to be waited for, and stands for
 * no command that the one before it does not. */
static inline weir_status record(struct weir__cuda_stream *s, weir__cu_stream on)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    struct weir__cuda_event *e = &s->ring[s->ring_at % WEIR__CUDA_RING];
    weir_status st = weir__cuda_check(dev, dev->api->cu.event_record(e->event, on), "an event");

    if (st)
        return st;
    e->seq = weir__unlikely(s->is_flushing)
                 ? newest(s)->seq
                 : atomic_load_explicit(&s->queued, memory_order_relaxed);
    e->on = on;
    s->ring_at++;
    return WEIR_OK;
}

/* What others may wait for gets its event when something is to come behind it, unless whoever waits
 * was there first. What a plan's run stands for is over where that was launched. */
static inline weir_status put_mark(struct weir__cuda_stream *s)
{
    struct weir__cuda_stream *at = s;
    uint64_t seq = atomic_load_explicit(&s->queued, memory_order_relaxed);
    weir_status st = WEIR_OK;

    weir__cuda_locate(&at, &seq);
    if (at->tail && (!newest(at)->on || newest(at)->seq < seq) && !(st = weir__cuda_flush(at)))
        st = record(at, at->tail); /* neither call needs a current context */
    s->is_due = st != WEIR_OK;
    return st;
}

/* An event at or behind the command, with no gate between, which may be in `room`. NULL if the
 * command is over, or if that fails. */
static const struct weir__cuda_event *find(struct weir__cuda_stream *s, uint64_t seq,
                                           struct weir__cuda_event *room, weir_status *st)
{
    const struct weir__cuda_event *found = NULL, *e;
    unsigned i;

    if (atomic_load_explicit(&s->word->reached, memory_order_acquire) >= seq)
        return NULL;
    for (i = 1; i <= WEIR__CUDA_RING; i++) {
        e = &s->ring[(s->ring_at - i) % WEIR__CUDA_RING];
        if (!e->on || e->seq < seq)
            break;
        found = e;
    }
    if (weir__unlikely(i > WEIR__CUDA_RING) && found->seq > seq && s->gate > seq) {
        *room = (struct weir__cuda_event){.seq = seq, .word = s->word};
        return room;
    }
    if (!found && s->tail && !(*st = weir__cuda_flush(s)) && !(*st = record(s, s->tail)))
        found = newest(s);
    return found;
}

/* For the first command that CUDA sees, or one that is to have other cores. */
static weir_status change_tail(struct weir__cuda_stream *s, weir__cu_stream to)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st = WEIR_OK;

    if (s->tail && !(st = weir__cuda_flush(s)) && !(st = record(s, s->tail)))
        st = weir__cuda_check(dev, dev->api->cu.stream_wait(to, newest(s)->event, 0), "a wait");
    if (!st)
        s->tail = to;
    return st;
}

/* ---- the tail, for the rest of the driver ---- */

weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    weir_status st;

    if (s->shared && cores == UINT32_MAX)
        *out = s->shared;
    else if ((st = weir__cuda_queue(s, cores, false, out)))
        return st;
    weir__spin_lock(&weir__cuda(s->base.dev)->tails);
    if (!(s->is_due && (st = put_mark(s))) && (*out == s->tail || !(st = change_tail(s, *out))))
        st = weir__cuda_flush(s);
    s->busy = true;
    if (++s->since_checkpoint >= CHECKPOINT_EVERY)
        (void)weir__cuda_write(s); /* if it fails, whoever asks tries again */
    weir__spin_unlock(&weir__cuda(s->base.dev)->tails);
    return st;
}

/* What others queue on the handle they have comes after the command, wherever that went. */
static weir_status rejoin(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__spin_lock(&dev->tails);
    st = change_tail(s, s->shared);
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return st;
}

weir_status weir__cuda_share(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    weir_status st = weir__cuda_tail(s, cores, out);

    if (!st)
        s->shared = *out;
    return st;
}

static inline void add_commands(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_relaxed) + n;

    s->names[queued % WEIR__CUDA_NAMES] = name;
    atomic_store_explicit(&s->queued, queued, memory_order_release);
}

static inline void count(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    weir_status st;

    if (weir__unlikely(s->shared) && s->tail != s->shared && (st = rejoin(s))) {
        uint64_t seq = atomic_load_explicit(&s->queued, memory_order_relaxed) + n;

        weir__cuda_may_fail(s);
        weir__cuda_fail(s, seq, st, weir_last_error());
    }
    add_commands(s, n, name);
}

void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    count(s, n, name);
}

weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first)
{
    struct weir__spin *tails = &weir__cuda(lane->base.dev)->tails;
    weir__cu_stream tail;
    weir_status st = WEIR_OK;

    if (!first->tail && (st = weir__cuda_tail(first, UINT32_MAX, &tail)))
        return st;
    weir__spin_lock(tails);
    if (lane->is_due)
        st = put_mark(lane); /* else what waits for it would wait for the plan */
    /* Room first: making it may hand over waits of `lane`, which is busy then. */
    if (!st && first->npending + lane->npending > WEIR__CUDA_PENDING)
        st = weir__cuda_flush(first);
    if (!st && lane->tail && lane->busy) {
        if (!(st = weir__cuda_flush(lane)) && !(st = record(lane, lane->tail)))
            st = add_pending(first, NULL, 0, newest(lane));
    } else {
        for (unsigned i = 0; !st && i < lane->npending; i++) {
            const struct weir__cuda_pending *p = &lane->pending[i];
            struct weir__cuda_stream *from = p->from;
            uint64_t seq = p->seq;

            if (from)
                weir__cuda_locate(&from, &seq);
            if (from != first)
                st = add_pending(first, from, seq, &p->event);
        }
    }
    weir__spin_unlock(tails);
    return st;
}

weir_status weir__cuda_follow(struct weir__cuda_stream *lane, struct weir__cuda_stream *first,
                              weir__cu_stream on, bool counted, uint64_t n)
{
    struct weir__spin *tails = &weir__cuda(lane->base.dev)->tails;
    weir__cu_stream own;
    weir_status st = WEIR_OK;

    if (!lane->tail && (st = weir__cuda_tail(lane, UINT32_MAX, &own)))
        return st;
    weir__spin_lock(tails);
    add_commands(lane, n, "a plan"); /* nobody sees them without their leader */
    if (counted) {
        lane->led_by = first;
        lane->led_seq = atomic_load_explicit(&first->queued, memory_order_relaxed);
        lane->led_upto = atomic_load_explicit(&lane->queued, memory_order_relaxed);
        lane->pending[0] = (struct weir__cuda_pending){.from = first, .seq = lane->led_seq};
    } else if (!(st = record(lane, on))) { /* no command of `first` stands for it */
        lane->pending[0] = (struct weir__cuda_pending){.event = *newest(lane)};
    }
    set_npending(lane, !st);
    if (st) { /* the plan runs, and nothing that follows would come after it */
        weir__cuda_may_fail(lane);
        weir__cuda_fail(lane, atomic_load_explicit(&lane->queued, memory_order_relaxed), st,
                        weir_last_error());
    }
    lane->busy = lane->shared != NULL;
    if (!st && lane->shared)
        st = weir__cuda_flush(lane);
    weir__spin_unlock(tails);
    return st;
}

weir_status weir__cuda_mark(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base), *at = s;
    uint64_t seq = atomic_load_explicit(&s->queued, memory_order_relaxed);
    weir_status st;

    s->is_due = true;
    weir__cuda_locate(&at, &seq); /* those who change where it leads have the device's lock too */
    at->is_due |= seq == atomic_load_explicit(&at->queued, memory_order_relaxed);
    if (weir__likely(!s->shared))
        return WEIR_OK;
    /* Others queue behind it without a word. */
    weir__spin_lock(&weir__cuda(base->dev)->tails);
    st = put_mark(s);
    weir__spin_unlock(&weir__cuda(base->dev)->tails);
    return st;
}

/* ---- gates ---- */

weir_status weir__cuda_before_gate(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_relaxed);
    weir_status st;

    weir__spin_lock(&dev->tails);
    if (!(st = weir__cuda_flush(s)) && !(st = weir__cuda_write(s)) &&
        (!newest(s)->on || newest(s)->seq != queued))
        st = record(s, s->tail);
    s->is_due &= st != WEIR_OK;
    weir__spin_unlock(&dev->tails);
    return st;
}

weir_status weir__cuda_gate(struct weir__cuda_stream *s, bool far)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    weir_status st = WEIR_OK;

    weir__spin_lock(&dev->tails);
    s->gate = atomic_load_explicit(&s->queued, memory_order_relaxed) + 1;
    s->gate_far = far;
    set_shut(s, true);
    /* Others may queue behind it, or a trace wants to know when it is over. */
    if (s->shared || (far && weir__trace_on()))
        st = weir__cuda_flush(s);
    if (st) { /* nobody will open it */
        set_shut(s, false);
        atomic_store(&s->word->gate, s->gate);
    }
    weir__spin_unlock(&dev->tails);
    return st;
}

/* ---- waits ---- */

bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st)
{
    struct weir__cuda *dev = weir__cuda(mark.stream->dev);
    struct weir__cuda_stream *from = weir__cuda_stream(mark.stream);
    const struct weir__cuda_event *found;
    bool pushed = weir__cuda_enter(dev);

    *st = WEIR_OK;
    weir__spin_lock(&dev->tails);
    weir__cuda_locate(&from, &mark.seq);
    if ((found = find(from, mark.seq, out, st)))
        *out = *found;
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return !found;
}

/* An event of another device is found at once, under that device's lock, and waited for at
 * once: the other device may be closed next, and its events with it. */
static weir_status wait_foreign(struct weir__cuda_stream *s, struct weir__mark mark)
{
    struct weir__cuda_event event;
    weir_status st;

    if (weir__cuda_find(mark, &event, &st))
        return st;
    weir__spin_lock(&weir__cuda(s->base.dev)->tails);
    if (!(s->is_due && (st = put_mark(s))) && !(st = add_pending(s, NULL, 0, &event)))
        st = weir__cuda_flush(s);
    weir__spin_unlock(&weir__cuda(s->base.dev)->tails);
    return st;
}

static weir_status wait_near(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                             uint64_t seq)
{
    struct weir__spin *tails = &weir__cuda(s->base.dev)->tails;
    weir_status st = WEIR_OK;

    if (atomic_load_explicit(&from->word->reached, memory_order_acquire) >= seq)
        return WEIR_OK;
    weir__spin_lock(tails);
    if (!(s->is_due && (st = put_mark(s)))) {
        weir__cuda_locate(&from, &seq);
        if (from != s) { /* else it is in order already */
            from->is_due |= seq == atomic_load_explicit(&from->queued, memory_order_relaxed);
            st = add_pending(s, from, seq, NULL);
        }
        if (!st && s->shared)
            st = weir__cuda_flush(s);
    }
    weir__spin_unlock(tails);
    return st;
}

weir_status weir__cuda_wait(weir_stream *base, struct weir__mark mark, enum weir__wait how)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base), *from = weir__cuda_stream(mark.stream);
    struct weir__cuda *dev = weir__cuda(base->dev);
    bool foreign = mark.stream->dev != base->dev, pushed = false, must_take;
    weir__cu_stream tail;
    weir_status st = weir__cuda_alive(dev);

    if (st)
        return st;
    must_take = how == WEIR__WAIT_ERRORS && atomic_load(&from->faults.may_fail);
    if (weir__unlikely(foreign || !s->tail || s->npending == WEIR__CUDA_PENDING || s->shared)) {
        pushed = weir__cuda_enter(dev);
        if (!s->tail || s->npending == WEIR__CUDA_PENDING) /* a place for the wait to go to */
            st = weir__cuda_tail(s, UINT32_MAX, &tail);
    }
    if (!st)
        st = weir__unlikely(foreign) ? wait_foreign(s, mark) : wait_near(s, from, mark.seq);
    if (!st && must_take)
        st = weir__cuda_take(s, weir__stream_submitted(base) + 1, mark);
    if (weir__unlikely(pushed))
        weir__cuda_leave(dev, pushed);
    if (weir__unlikely(st))
        return st;
    if (weir__unlikely(must_take)) {
        weir__cuda_may_fail(s);
        if (foreign)
            atomic_store(&dev->looks_abroad, true);
    }
    if (weir__trace_on())
        weir__cuda_hear_wait(s, weir__stream_submitted(base) + 1, mark);
    count(s, 1, "wait");
    if (weir__unlikely(foreign)) /* CUDA keeps what the event meant */
        atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    return WEIR_OK;
}
