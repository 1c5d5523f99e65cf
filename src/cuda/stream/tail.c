/* The tail of a stream: the CUDA stream that takes its next command, and the gates that stop it. */
#include "cuda/fault/faults.h"
#include "cuda/stream/order.h"

/* Counted in commands queued to CUDA; writing a checkpoint costs as much as a few launches. */
enum { CHECKPOINT_EVERY = WEIR__CUDA_NAMES };

/* Makes `to` the tail, ordered after the old one: for the first command, or one with other cores.
 * Under the tails lock. */
static weir_status change_tail(struct weir__cuda_stream *s, weir__cu_stream to)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    weir_status st = WEIR_OK;

    if (s->order.tail && !(st = weir__cuda_flush(s)) &&
        !(st = weir__cuda_record(s, s->order.tail, atomic_load(&s->queued))))
        st = weir__cuda_check(dev, dev->api->cu.stream_wait(to, weir__cuda_newest(s)->event, 0),
                              "a wait");
    if (!st)
        s->order.tail = to;
    return st;
}

weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    weir_status st;

    if (s->native.stream && cores == UINT32_MAX)
        *out = s->native.stream;
    else if ((st = weir__cuda_find_queue(s, cores, false, out)))
        return st;
    weir__spin_lock(&weir__cuda_of(s->base.dev)->tails);
    if (!(s->order.is_due && (st = weir__cuda_put_mark(s))) &&
        (*out == s->order.tail || !(st = change_tail(s, *out))))
        st = weir__cuda_flush(s);
    s->order.busy = true;
    if (++s->progress.since >= CHECKPOINT_EVERY)
        (void)weir__cuda_write(s); /* after an error the next query for progress tries again */
    weir__spin_unlock(&weir__cuda_of(s->base.dev)->tails);
    return st;
}

weir_status weir__cuda_share(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out)
{
    weir_status st = weir__cuda_tail(s, cores, out);

    if (!st)
        s->native.stream = *out;
    return st;
}

/* Orders the shared handle after the last command, which went to another CUDA stream. */
static weir_status rejoin(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__spin_lock(&dev->tails);
    st = change_tail(s, s->native.stream);
    weir__spin_unlock(&dev->tails);
    weir__cuda_leave(dev, pushed);
    return st;
}

void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name)
{
    uint64_t last = atomic_load_explicit(&s->queued, memory_order_relaxed) + n;
    weir_status st;

    if (weir__unlikely(s->native.stream) && s->order.tail != s->native.stream && (st = rejoin(s))) {
        weir__cuda_may_fail(s);
        weir__cuda_fail(s, last, st, weir_last_error());
    }
    s->names[last % WEIR__CUDA_NAMES] = name;
    atomic_store_explicit(&s->queued, last, memory_order_release);
}

/* ---- gates ---- */

static void set_shut(struct weir__cuda_stream *s, bool shut)
{
    if (s->gate.shut != shut)
        atomic_fetch_add(&weir__cuda_of(s->base.dev)->nshut, shut ? 1 : -1);
    s->gate.shut = shut;
}

bool weir__cuda_is_shut(struct weir__cuda_stream *s)
{
    if (s->gate.shut && atomic_load_explicit(&s->word->gate, memory_order_acquire) >= s->gate.seq)
        set_shut(s, false);
    return s->gate.shut;
}

weir_status weir__cuda_raise_gate(struct weir__cuda_stream *s)
{
    weir_status st = weir__cuda_is_shut(s) ? weir__cuda_put_gate(s) : WEIR_OK;

    if (!st)
        set_shut(s, false);
    return st;
}

weir_status weir__cuda_before_gate(struct weir__cuda_stream *s)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    uint64_t queued = atomic_load_explicit(&s->queued, memory_order_relaxed);
    weir_status st;

    weir__spin_lock(&dev->tails);
    if (!(st = weir__cuda_flush(s)) && !(st = weir__cuda_write(s)) &&
        (!weir__cuda_newest(s)->on || weir__cuda_newest(s)->seq != queued))
        st = weir__cuda_record(s, s->order.tail, queued);
    s->order.is_due &= st != WEIR_OK;
    weir__spin_unlock(&dev->tails);
    return st;
}

weir_status weir__cuda_gate(struct weir__cuda_stream *s, bool far)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    weir_status st = WEIR_OK;

    weir__spin_lock(&dev->tails);
    s->gate.seq = atomic_load_explicit(&s->queued, memory_order_relaxed) + 1;
    s->gate.far = far;
    set_shut(s, true);
    if (s->native.stream) /* a shared stream: others may queue after the gate at any time */
        st = weir__cuda_flush(s);
    if (st) { /* the gate was not queued: open it, because no job will */
        set_shut(s, false);
        atomic_store(&s->word->gate, s->gate.seq);
    }
    weir__spin_unlock(&dev->tails);
    return st;
}
