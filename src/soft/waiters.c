/* Waiters for a command of a stream: other streams, host threads, relays. No waiter is missed: the
 * memory-ordering pairing is in docs/ARCHITECTURE.md, "The token". */
#include "device/relay.h"
#include "soft/soft.h"

enum { LOCKED = 1, ONE = 2 };

/* Returns the word with the number of waiters, to be passed to unlock_waiters. */
static uint32_t lock_waiters(struct weir__soft_stream *s)
{
    uint32_t seen;

    for (unsigned spins = 1; (seen = atomic_fetch_or(&s->waiters, LOCKED)) & LOCKED; spins++)
        while (atomic_load_explicit(&s->waiters, memory_order_relaxed) & LOCKED)
            if (++spins & 63)
                weir__relax();
            else
                weir__yield();
    return seen;
}

static void unlock_waiters(struct weir__soft_stream *s, uint32_t count)
{
    atomic_store_explicit(&s->waiters, count, memory_order_release);
}

static void link_waiter(struct weir__soft_stream *source, struct weir__waiter *w, uint64_t seq)
{
    w->seq = seq;
    w->prev = NULL;
    w->next = source->first_waiter;
    if (w->next)
        w->next->prev = w;
    source->first_waiter = w;
}

static void unlink_waiter(struct weir__soft_stream *source, struct weir__waiter *w)
{
    *(w->prev ? &w->prev->next : &source->first_waiter) = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

static bool park(struct weir__soft_stream *source, struct weir__waiter *w, uint64_t seq)
{
    uint32_t count = lock_waiters(source);
    bool parked = atomic_load(&source->completed) < seq;

    if (parked) {
        link_waiter(source, w, seq);
        count += ONE;
    }
    unlock_waiters(source, count);
    return parked;
}

bool weir__soft_park(struct weir__soft_stream *s, struct weir__soft_stream *source, uint64_t seq)
{
    s->waiting.stream = s;
    return park(source, &s->waiting, seq);
}

bool weir__soft_host_park(struct weir__soft_stream *s, struct weir__waiter *w, uint64_t seq)
{
    w->stream = NULL;
    atomic_store_explicit(&w->woken, 0, memory_order_relaxed);
    return park(s, w, seq);
}

bool weir__soft_host_unpark(struct weir__soft_stream *s, struct weir__waiter *w)
{
    uint32_t count = lock_waiters(s);
    bool waiting = !atomic_load_explicit(&w->woken, memory_order_relaxed);

    if (waiting) {
        unlink_waiter(s, w);
        count -= ONE;
    }
    unlock_waiters(s, count);
    return waiting;
}

void weir__soft_make_ready(struct weir__soft_stream *s)
{
    struct weir__sched *sched = weir__soft_sched(s);
    enum weir__core_kind kind;

    if (weir__runq_offer((struct weir__soft_device *)s->base.dev, s))
        return;
    kind = weir__soft_next_kind(s);
    weir__spin_lock(&sched->lock);
    weir__sched_add(sched, s, WEIR__WANTS_CORE, kind);
    weir__spin_unlock(&sched->lock);
}

void weir__soft_hand_back(struct weir__soft_stream *s)
{
    weir_device *dev = s->base.dev;

    atomic_fetch_add(&dev->visitors, 1);
    weir__soft_make_ready(s);
    weir__soft_hurry((struct weir__soft_device *)dev);
    dev->driver->kick(dev);
    atomic_fetch_sub(&dev->visitors, 1);
}

static void hand_back(void *stream)
{
    weir__soft_hand_back(stream);
}

bool weir__soft_pass_relay(struct weir__soft_stream *s, struct weir__relay *relay)
{
    atomic_store_explicit(&s->waits_device, relay->device, memory_order_relaxed);
    if (weir__relay_park(relay, hand_back, s))
        return false;
    atomic_store_explicit(&s->waits_device, 0, memory_order_relaxed);
    if (relay->status)
        weir__stream_fail(&s->base, s->over + 1, relay->status, relay->text);
    weir__relay_drop(relay);
    return true;
}

/* Appends the waiter's stream to `woken`, or wakes its host thread. */
static void wake(struct weir__soft_stream *s, struct weir__waiter *w, struct weir__soft_list *woken)
{
    if (!w->stream) {
        /* After the store the host thread may return, and *w is on its stack. */
        _Atomic uint32_t *word = &w->woken;

        weir__soft_host_is_up(w);
        atomic_store_explicit(word, 1, memory_order_release);
        weir__futex_wake(word, 1);
    } else if (w->stream->base.dev != s->base.dev) {
        weir__soft_hand_back(w->stream); /* another device's workers must run it */
    } else {
        weir__soft_append(woken, w->stream);
    }
}

void weir__soft_publish(struct weir__soft_stream *s, struct weir__soft_list *woken)
{
    struct weir__waiter *w, *next;
    uint32_t count;

    if (s->over == atomic_load_explicit(&s->completed, memory_order_relaxed))
        return;
    if (!atomic_load_explicit(&s->waiters, memory_order_relaxed)) {
        atomic_store(&s->completed, s->over);
        if (!atomic_load(&s->waiters))
            return;
    }
    count = lock_waiters(s);
    atomic_store_explicit(&s->completed, s->over, memory_order_release);
    for (w = s->first_waiter; w; w = next) {
        next = w->next;
        if (w->seq > s->over)
            continue;
        unlink_waiter(s, w);
        count -= ONE;
        wake(s, w, woken);
    }
    unlock_waiters(s, count);
}
