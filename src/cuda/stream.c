/* Streams: order within one and between them, and how far they got. */
#include "cuda/cuda.h"

enum { CHECKPOINT_EVERY = WEIR__CUDA_NAMES };

/* ---- under the tails lock ---- */

static bool find(struct weir__cuda_stream *s, uint64_t seq, struct weir__cuda_event *out,
                 weir_status *st);

/* Goes on to the stream that a plan of several lanes was launched on. */
static void locate(struct weir__cuda_stream **s, uint64_t *seq)
{
    while ((*s)->led_by && *seq <= (*s)->led_upto) {
        *seq = (*s)->led_seq;
        *s = (*s)->led_by;
    }
}

static weir_status wait_on_tail(struct weir__cuda_stream *s, const struct weir__cuda_pending *p)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    struct weir__cuda_event event = p->event;
    struct weir__cuda_stream *from = p->from;
    uint64_t seq = p->seq;
    weir_status st = WEIR_OK;

    if (from)
        locate(&from, &seq);
    if (from == s || (from && find(from, seq, &event, &st)) || st || event.on == s->tail)
        return st;
    return weir__cuda_wait_for(dev, s->tail, &event);
}

static void set_shut(struct weir__cuda_stream *s, bool shut)
{
    if (s->shut != shut)
        atomic_fetch_add(&weir__cuda(s->base.dev)->nshut, shut ? 1 : -1);
    s->shut = shut;
}

/* Whether what is queued next must wait for the host. */
static bool is_shut(struct weir__cuda_stream *s)
{
    if (s->shut && atomic_load_explicit(&s->word->gate, memory_order_acquire) >= s->gate)
        set_shut(s, false);
    return s->shut;
}

/* Puts up the gate that is due and hands the waits that are kept to CUDA, one at a time: finding an
 * event may flush other streams, which may come back here. One that it does not take is kept: no
 * later command may go without. */
static inline weir_status flush(struct weir__cuda_stream *s)
{
    weir_status st = WEIR_OK;

    if (weir__unlikely(s->shut) && is_shut(s)) {
        if ((st = weir__cuda_put_gate(s)))
            return st;
        set_shut(s, false);
    }
    s->busy |= s->npending > 0;
    while (s->npending && !st) {
        struct weir__cuda_pending p = s->pending[--s->npending];

        if ((st = wait_on_tail(s, &p)))
            s->pending[s->npending++] = p;
    }
    return st;
}

/* Of several waits for one stream the last one is enough. */
static weir_status add_pending(struct weir__cuda_stream *s, const struct weir__cuda_pending *p)
{
    weir_status st = WEIR_OK;

    for (unsigned i = 0; p->from && i < s->npending; i++)
        if (s->pending[i].from == p->from) {
            if (s->pending[i].seq < p->seq)
                s->pending[i].seq = p->seq;
            return WEIR_OK;
        }
    if (s->npending == WEIR__CUDA_PENDING && (st = flush(s)))
        return st;
    s->pending[s->npending++] = *p;
    return WEIR_OK;
}

/* An event after everything queued so far, which is over at `on`. */
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

/* Whether the command is over, and if not, an event at or behind it, with no gate between. */
static bool find(struct weir__cuda_stream *s, uint64_t seq, struct weir__cuda_event *out,
                 weir_status *st)
{
    const struct weir__cuda_event *found = NULL;
    unsigned i;

    *st = WEIR_OK;
    if (atomic_load_explicit(&s->word->reached, memory_order_acquire) >= seq)
        return true;
    for (i = 1; i <= WEIR__CUDA_RING; i++) {
        const struct weir__cuda_event *e =
            &s->ring[(s->ring_at + WEIR__CUDA_RING - i) % WEIR__CUDA_RING];

        if (!e->on || e->seq < seq)
            break;
        found = e;
    }
    if (i > WEIR__CUDA_RING && found->seq > seq && s->gate > seq) {
        *out = (struct weir__cuda_event){.seq = seq, .word = s->word};
        return false;
    }
    if (!found && s->tail && !(*st = flush(s)) && !(*st = record(s, s->tail)))
        found = newest(s);
    if (found)
        *out = *found;
    return !found;
}

/* For the first command that CUDA sees, or one that is to have other cores. */
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

/* ---- the tail, for the rest of the driver ---- */

weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    weir_status st;

    if (s->shared && cores == UINT32_MAX)
        *out = s->shared;
    else if ((st = weir__cuda_queue(s, cores, false, out)))
        return st;
    weir__spin_lock(&weir__cuda(s->base.dev)->tails);
    if (*out == s->tail || !(st = change_tail(s, *out)))
        st = flush(s);
    s->busy = true;
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

/* Whether a checkpoint is due. */
static bool add_commands(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    uint64_t before = atomic_load_explicit(&s->queued, memory_order_relaxed);

    s->names[(before + n) % WEIR__CUDA_NAMES] = name;
    atomic_store_explicit(&s->queued, before + n, memory_order_release);
    return (before + n) / CHECKPOINT_EVERY != before / CHECKPOINT_EVERY;
}

void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    weir_status st;

    if (s->shared && s->tail != s->shared && (st = rejoin(s)))
        weir__stream_fail(&s->base, atomic_load_explicit(&s->queued, memory_order_relaxed) + n, st,
                          weir_last_error());
    if (add_commands(s, n, name))
        (void)weir__cuda_checkpoint(s); /* if it fails, whoever asks tries again */
}

weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first)
{
    struct weir__spin *tails = &weir__cuda(lane->base.dev)->tails;
    weir__cu_stream tail;
    weir_status st = WEIR_OK;

    if (!first->tail && (st = weir__cuda_tail(first, UINT32_MAX, &tail)))
        return st;
    weir__spin_lock(tails);
    if (lane->tail && lane->busy) {
        if (!(st = flush(lane)) && !(st = record(lane, lane->tail)))
            st = add_pending(first, &(struct weir__cuda_pending){.event = *newest(lane)});
    } else {
        for (unsigned i = 0; i < lane->npending && !st; i++) {
            struct weir__cuda_pending p = lane->pending[i];

            if (p.from)
                locate(&p.from, &p.seq);
            if (p.from != first)
                st = add_pending(first, &p);
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
    bool due;

    if (!lane->tail && (st = weir__cuda_tail(lane, UINT32_MAX, &own)))
        return st;
    weir__spin_lock(tails);
    due = add_commands(lane, n, "a plan"); /* nobody sees them without their leader */
    if (counted) {
        lane->led_by = first;
        lane->led_seq = atomic_load_explicit(&first->queued, memory_order_relaxed);
        lane->led_upto = atomic_load_explicit(&lane->queued, memory_order_relaxed);
        lane->pending[0] = (struct weir__cuda_pending){.from = first, .seq = lane->led_seq};
    } else if (!(st = record(lane, on))) { /* no command of `first` stands for it */
        lane->pending[0] = (struct weir__cuda_pending){.event = *newest(lane)};
    }
    lane->npending = !st;
    if (st) /* the plan runs, and nothing that follows would come after it */
        weir__stream_fail(&lane->base, atomic_load_explicit(&lane->queued, memory_order_relaxed),
                          st, weir_last_error());
    lane->busy = lane->shared != NULL;
    if (!st && lane->shared)
        st = flush(lane);
    weir__spin_unlock(tails);
    if (due)
        (void)weir__cuda_checkpoint(lane);
    return st;
}

weir_status weir__cuda_mark(weir_stream *base)
{
    struct weir__cuda_stream *s = weir__cuda_stream(base);
    struct weir__cuda *dev = weir__cuda(base->dev);
    weir_status st = WEIR_OK;

    weir__spin_lock(&dev->tails);
    if (s->tail &&
        (!newest(s)->on ||
         newest(s)->seq != atomic_load_explicit(&s->queued, memory_order_relaxed)) &&
        !(st = flush(s)))
        st = record(s, s->tail); /* neither call needs a current context */
    weir__spin_unlock(&dev->tails);
    return st;
}

/* ---- how far it got ---- */

/* Under the tails lock: where a write comes after everything of the stream. What a plan's run
 * stands for is over where that was launched; its own tail would have to wait for it first, and the
 * next run for its tail. */
static weir_status end_of_all(struct weir__cuda_stream *s, uint64_t queued, weir__cu_stream *out)
{
    struct weir__cuda_stream *leader = s;

    if (!s->busy)
        locate(&leader, &queued);
    *out = leader->tail;
    return leader == s ? flush(s) : WEIR_OK;
}

/* Under the tails lock. */
static weir_status write_checkpoint(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire);
    weir_status st = WEIR_OK;
    weir__cu_stream on;

    if (s->checkpoint >= queued)
        return WEIR_OK;
    if (s->shut && s->gate == queued) /* who opens the gate writes it */
        s->checkpoint = queued;
    else if (!s->tail) /* nothing that CUDA would have to do */
        atomic_store_explicit(&s->word->reached, queued, memory_order_release);
    else if (!(st = end_of_all(s, queued, &on)))
        st = weir__cuda_check(dev,
                              dev->api->cu.stream_write(
                                  on, (weir__cu_address)(uintptr_t)&s->word->reached, queued, 0),
                              "a checkpoint");
    if (!st)
        s->checkpoint = queued;
    return st;
}

weir_status weir__cuda_checkpoint(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__spin_lock(&dev->tails);
    st = write_checkpoint(s);
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return st;
}

weir_status weir__cuda_before_gate(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_relaxed);
    weir_status st;

    weir__spin_lock(&dev->tails);
    if (!(st = flush(s)) && !(st = write_checkpoint(s)) &&
        (!newest(s)->on || newest(s)->seq != queued))
        st = record(s, s->tail);
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
        st = flush(s);
    if (st) { /* nobody will open it */
        set_shut(s, false);
        atomic_store(&s->word->gate, s->gate);
    }
    weir__spin_unlock(&dev->tails);
    return st;
}

/* A stream whose tail is idle and that keeps no wait has nothing left, though it has not said so.
 * Where others queue too that is the only way to see it: asking counts as a command. A checkpoint
 * that is still to come, perhaps from a leader, would take the word back. */
static void look(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_acquire), reached;

    weir__spin_lock(&dev->tails);
    reached = atomic_load_explicit(&s->word->reached, memory_order_acquire);
    if (reached < queued && reached >= s->checkpoint && s->tail && !s->npending && !is_shut(s) &&
        !dev->api->cu.stream_query(s->tail))
        atomic_store_explicit(&s->word->reached, queued, memory_order_release);
    weir__spin_unlock(&dev->tails);
}

void weir__cuda_look(weir_device *base)
{
    struct weir__cuda *dev = weir__cuda(base);
    bool pushed;

    if (atomic_load_explicit(&dev->dead, memory_order_acquire))
        return;
    pushed = weir__cuda_enter(dev);
    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        look(s);
    weir__cuda_leave(dev, pushed);
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
        atomic_load_explicit(&dev->looks_abroad, memory_order_relaxed) ||
        __atomic_load_n(&dev->log->next, __ATOMIC_RELAXED) != dev->log_read)
        weir__cuda_poll(dev);
    return reached;
}

/* ---- waits ---- */

bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st)
{
    struct weir__cuda *dev = weir__cuda(mark.stream->dev);
    struct weir__cuda_stream *from = weir__cuda_stream(mark.stream);
    bool pushed = weir__cuda_enter(dev), over;

    weir__spin_lock(&dev->tails);
    locate(&from, &mark.seq);
    over = find(from, mark.seq, out, st);
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return over || *st;
}

/* An event of another device is found at once, under that device's lock, and waited for at
 * once: the other device may be closed next, and its events with it. */
static weir_status wait_foreign(struct weir__cuda_stream *s, struct weir__mark mark)
{
    struct weir__cuda_pending p = {.from = NULL};
    weir_status st;

    if (weir__cuda_find(mark, &p.event, &st))
        return st;
    weir__spin_lock(&weir__cuda(s->base.dev)->tails);
    if (!(st = add_pending(s, &p)))
        st = flush(s);
    weir__spin_unlock(&weir__cuda(s->base.dev)->tails);
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
    must_take =
        how != WEIR__WAIT_ORDER && (from->fallible || (how == WEIR__WAIT_FRESH && s->fallible));
    if (foreign || !s->tail || s->npending == WEIR__CUDA_PENDING || s->shared)
        pushed = weir__cuda_enter(dev);
    if (!s->tail || s->npending == WEIR__CUDA_PENDING) /* a place for the wait to go to */
        st = weir__cuda_tail(s, UINT32_MAX, &tail);
    if (!st && foreign) {
        st = wait_foreign(s, mark);
    } else if (!st && atomic_load_explicit(&from->word->reached, memory_order_acquire) < mark.seq) {
        struct weir__cuda_pending p = {.from = from, .seq = mark.seq};

        weir__spin_lock(&dev->tails);
        locate(&p.from, &p.seq);
        if (p.from != s) /* else it is in order already */
            st = add_pending(s, &p);
        if (!st && s->shared)
            st = flush(s);
        weir__spin_unlock(&dev->tails);
    }
    if (!st && must_take)
        st = weir__cuda_take(s, weir__stream_submitted(base) + 1, mark, how);
    if (pushed)
        weir__cuda_leave(dev, pushed);
    if (st)
        return st;
    if (must_take)
        weir__cuda_may_fail(s);
    if (must_take && foreign)
        atomic_store(&dev->looks_abroad, true);
    if (weir__trace_on())
        weir__cuda_hear_wait(s, weir__stream_submitted(base) + 1, mark);
    weir__cuda_count(s, 1, "wait");
    if (foreign) /* CUDA keeps what the event meant */
        atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    return WEIR_OK;
}
