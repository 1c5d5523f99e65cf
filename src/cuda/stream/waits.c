/* Order between streams: events, waits that are kept, and waits that are handed to CUDA.
 *
 * A wait is kept, not handed to CUDA, until its stream has another command: the run of a plan may
 * make it needless.
 *
 * Invariant: a stream's tail has every command before the stream's first kept wait (except a gate
 * that is still shut). So an event recorded at the tail of stream B comes after command q of B,
 * provided that B keeps no wait queued before q. bring_to_tail(B, q) makes sure of that: it runs
 * before any other stream keeps a wait for command q of B. Handing over a kept wait therefore never
 * has to hand over another stream's waits first: there is no recursion. */
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

/* The last command that an event recorded now at the tail would come after. */
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

/* The earliest recorded event at or after command `seq`, which the tail must have; records one if
 * there is none. If all events of the ring are later than `seq` and a gate lies between, the result
 * is a wait for the word, in `room`. NULL if the command has completed, or on an error. */
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

/* On an error the wait stays kept, because no later command may run without it. */
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

/* Keeps the invariant above: after this an event at the tail comes after command `seq`. */
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
        if (s->order.kept[i].from == from) { /* waiting for the later command is enough */
            if (s->order.kept[i].seq < seq)
                s->order.kept[i].seq = seq;
            return WEIR_OK;
        }
    if (n == WEIR__CUDA_KEPT && (st = weir__cuda_flush(s)))
        return st;
    if (!(n = s->order.nkept))
        s->order.kept_after = last_queued(s);
    /* Field by field: copying the whole struct would stall on store forwarding. */
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
    weir__cuda_locate(&at, &seq); /* the leader changes under the device lock only, held here */
    at->order.is_due |= seq == last_queued(at);
    if (weir__likely(!s->native.stream))
        return WEIR_OK;
    /* A shared stream: others may queue after this point at any time, so record now. */
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

/* A wait for a stream of another device is not kept: that device, and its events, may be closed
 * next. */
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
        if (from != s && !(st = bring_to_tail(from, seq))) { /* the same stream is in order */
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
        if (!s->order.tail || s->order.nkept == WEIR__CUDA_KEPT) /* the wait goes to CUDA now */
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
    if (weir__unlikely(foreign)) /* CUDA has the wait: the other device is no longer needed */
        atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    return WEIR_OK;
}
