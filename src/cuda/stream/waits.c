/* Order between streams: events, waits that are kept, and waits that are handed to CUDA.
 *
 * A wait is kept until its stream has something to do, since a plan that runs next may make it
 * needless. A stream's tail has every command before the first wait that it keeps, but for a gate
 * that is not put up yet. Keeping a wait for a command therefore begins with handing over the waits
 * that the command's own stream keeps before it: from then on an event at that stream's tail comes
 * after the command, whatever the stream goes on to keep, and no wait needs another to be handed
 * over first. */
#include "cuda/fault/faults.h"
#include "cuda/stream/order.h"

/* ---- under the tails lock ---- */

static inline uint64_t last_queued(const struct weir__cuda_stream *s)
{
    return atomic_load_explicit(&s->queued, memory_order_relaxed);
}

static inline void set_nkept(struct weir__cuda_stream *s, unsigned n)
{
    atomic_store_explicit(&s->order.nkept, n, memory_order_relaxed);
}

/* The last command that an event at the tail comes after. */
static inline uint64_t last_at_tail(const struct weir__cuda_stream *s)
{
    uint64_t last = s->order.nkept ? s->order.kept_after : last_queued(s);

    return weir__unlikely(s->gate.shut) && s->gate.seq <= last ? s->gate.seq - 1 : last;
}

weir_status weir__cuda_record(struct weir__cuda_stream *s, weir__cu_stream on, uint64_t seq)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_event *e = &s->order.ring[s->order.ring_at % WEIR__CUDA_RING];
    weir_status st = weir__cuda_check(dev, dev->api->cu.event_record(e->event, on), "an event");

    if (st)
        return st;
    e->seq = seq;
    e->on = on;
    s->order.ring_at++;
    return WEIR_OK;
}

/* An event at or behind a command that the tail has, with no gate between, which may be in `room`.
 * NULL if the command is over, or if that fails. */
static const struct weir__cuda_event *find(struct weir__cuda_stream *s, uint64_t seq,
                                           struct weir__cuda_event *room, weir_status *st)
{
    const struct weir__cuda_event *found = NULL, *e;
    unsigned i;

    if (atomic_load_explicit(&s->word->reached, memory_order_acquire) >= seq)
        return NULL;
    for (i = 1; i <= WEIR__CUDA_RING; i++) {
        e = &s->order.ring[(s->order.ring_at - i) % WEIR__CUDA_RING];
        if (!e->on || e->seq < seq)
            break;
        found = e;
    }
    if (weir__unlikely(i > WEIR__CUDA_RING) && found->seq > seq && s->gate.seq > seq) {
        *room = (struct weir__cuda_event){.seq = seq, .word = s->word};
        return room;
    }
    if (found || !s->order.tail)
        return found;
    if (weir__unlikely(s->gate.shut) && seq >= s->gate.seq && (*st = weir__cuda_raise_gate(s)))
        return NULL;
    *st = weir__cuda_record(s, s->order.tail, last_at_tail(s));
    return *st ? NULL : weir__cuda_newest(s);
}

static weir_status hand_over_one(struct weir__cuda_stream *s, const struct weir__cuda_kept *kept)
{
    struct weir__cuda_stream *from = kept->from;
    struct weir__cuda_event room;
    const struct weir__cuda_event *event = &kept->event;
    uint64_t seq = kept->seq;
    weir_status st = WEIR_OK;

    if (from) {
        weir__cuda_locate(&from, &seq);
        event = from == s ? NULL : find(from, seq, &room, &st);
    }
    return !event || event->on == s->order.tail
               ? st
               : weir__cuda_wait_for(weir__cuda_of(s->base.dev), s->order.tail, event);
}

/* One that CUDA does not take is kept: no later command may go without. */
static weir_status hand_over(struct weir__cuda_stream *s)
{
    unsigned n = s->order.nkept;
    weir_status st = WEIR_OK;

    s->order.busy |= n > 0;
    while (n && !(st = hand_over_one(s, &s->order.kept[n - 1])))
        set_nkept(s, --n);
    return st;
}

weir_status weir__cuda_flush(struct weir__cuda_stream *s)
{
    weir_status st = weir__unlikely(s->gate.shut) ? weir__cuda_raise_gate(s) : WEIR_OK;

    return st ? st : hand_over(s);
}

/* What has to be handed over before others may wait for the command. */
static inline weir_status bring_to_tail(struct weir__cuda_stream *s, uint64_t seq)
{
    return weir__likely(!s->order.nkept || seq <= s->order.kept_after) ? WEIR_OK : hand_over(s);
}

weir_status weir__cuda_keep(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                            uint64_t seq, const struct weir__cuda_event *event)
{
    struct weir__cuda_kept *k;
    unsigned n = s->order.nkept;
    weir_status st;

    for (unsigned i = 0; from && i < n; i++)
        if (s->order.kept[i].from == from) { /* the later one is enough */
            if (s->order.kept[i].seq < seq)
                s->order.kept[i].seq = seq;
            return WEIR_OK;
        }
    if (n == WEIR__CUDA_KEPT && (st = weir__cuda_flush(s)))
        return st;
    if (!(n = s->order.nkept))
        s->order.kept_after = last_queued(s);
    /* Field by field, as it is read soon: a copy of the whole would wait for its parts. */
    k = &s->order.kept[n];
    k->from = from;
    k->seq = seq;
    if (!from)
        k->event = *event;
    set_nkept(s, n + 1);
    return WEIR_OK;
}

weir_status weir__cuda_put_mark(struct weir__cuda_stream *s)
{
    struct weir__cuda_stream *at = s;
    uint64_t seq = last_queued(s);
    weir_status st = WEIR_OK;

    weir__cuda_locate(&at, &seq);
    if (at->order.tail && (!weir__cuda_newest(at)->on || weir__cuda_newest(at)->seq < seq) &&
        !(st = weir__cuda_flush(at)))
        st = weir__cuda_record(at, at->order.tail, last_at_tail(at)); /* needs no current context */
    s->order.is_due = st != WEIR_OK;
    return st;
}

/* ---- marks and waits ---- */

weir_status weir__cuda_mark(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base), *at = s;
    uint64_t seq = last_queued(s);
    weir_status st;

    s->order.is_due = true;
    weir__cuda_locate(&at, &seq); /* those who change where it leads have the device's lock too */
    at->order.is_due |= seq == last_queued(at);
    if (weir__likely(!s->native.stream))
        return WEIR_OK;
    /* Others queue behind it without a word. */
    weir__spin_lock(&weir__cuda_of(base->dev)->tails);
    st = weir__cuda_put_mark(s);
    weir__spin_unlock(&weir__cuda_of(base->dev)->tails);
    return st;
}

bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st)
{
    struct weir__cuda *dev = weir__cuda_of(mark.stream->dev);
    struct weir__cuda_stream *from = weir__cuda_stream_of(mark.stream);
    const struct weir__cuda_event *found = NULL;
    bool pushed = weir__cuda_enter(dev);

    weir__spin_lock(&dev->tails);
    weir__cuda_locate(&from, &mark.seq);
    if (!(*st = bring_to_tail(from, mark.seq)) && (found = find(from, mark.seq, out, st)))
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
    weir__spin_lock(&weir__cuda_of(s->base.dev)->tails);
    if (!(s->order.is_due && (st = weir__cuda_put_mark(s))) &&
        !(st = weir__cuda_keep(s, NULL, 0, &event)))
        st = weir__cuda_flush(s);
    weir__spin_unlock(&weir__cuda_of(s->base.dev)->tails);
    return st;
}

static weir_status wait_near(struct weir__cuda_stream *s, struct weir__cuda_stream *from,
                             uint64_t seq)
{
    struct weir__spin *tails = &weir__cuda_of(s->base.dev)->tails;
    weir_status st = WEIR_OK;

    if (atomic_load_explicit(&from->word->reached, memory_order_acquire) >= seq)
        return WEIR_OK;
    weir__spin_lock(tails);
    if (!(s->order.is_due && (st = weir__cuda_put_mark(s)))) {
        weir__cuda_locate(&from, &seq);
        if (from != s && !(st = bring_to_tail(from, seq))) { /* else it is in order already */
            from->order.is_due |= seq == last_queued(from);
            st = weir__cuda_keep(s, from, seq, NULL);
        }
        if (!st && s->native.stream)
            st = weir__cuda_flush(s);
    }
    weir__spin_unlock(tails);
    return st;
}

weir_status weir__cuda_wait(weir_stream *base, struct weir__mark mark, enum weir__wait how)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base),
                             *from = weir__cuda_stream_of(mark.stream);
    struct weir__cuda *dev = weir__cuda_of(base->dev);
    bool foreign = mark.stream->dev != base->dev, pushed = false, must_take;
    weir__cu_stream tail;
    weir_status st = weir__cuda_alive(dev);

    if (st)
        return st;
    must_take = how == WEIR__WAIT_ERRORS && atomic_load(&from->faults.may_fail);
    if (weir__unlikely(foreign || !s->order.tail || s->order.nkept == WEIR__CUDA_KEPT ||
                       s->native.stream)) {
        pushed = weir__cuda_enter(dev);
        if (!s->order.tail || s->order.nkept == WEIR__CUDA_KEPT) /* a place for the wait to go to */
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
            atomic_store(&dev->faults.looks_abroad, true);
    }
    if (weir__trace_on())
        weir__cuda_trace_wait(s, weir__stream_submitted(base) + 1, mark);
    weir__cuda_count(s, 1, "wait");
    if (weir__unlikely(foreign)) /* CUDA keeps what the event meant */
        atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    return WEIR_OK;
}
