/* The error of a stream, and host threads that wait for a stream. */
#include "check/race/slots.h"
#include "device/device.h"

#include <stdio.h>

/* ---- errors ---- */

void weir__stream_fail(weir_stream *s, uint64_t seq, weir_status status, const char *text)
{
    weir__spin_lock(&s->error_lock);
    if (atomic_load_explicit(&s->failed_at, memory_order_relaxed) > seq) {
        s->error = status;
        snprintf(s->error_text, sizeof s->error_text, "%s", text);
        atomic_store_explicit(&s->failed_at, seq, memory_order_release);
    }
    weir__spin_unlock(&s->error_lock);
}

void weir__stream_forget_error(weir_stream *s)
{
    atomic_store_explicit(&s->failed_at, WEIR__NEVER_FAILED, memory_order_release);
}

weir_status weir__stream_copy_error(weir_stream *s, char *text, size_t size)
{
    weir_status st;

    weir__spin_lock(&s->error_lock);
    st = s->error;
    snprintf(text, size, "%s", s->error_text);
    weir__spin_unlock(&s->error_lock);
    return st;
}

void weir__stream_fail_like(weir_stream *s, uint64_t seq, weir_stream *source)
{
    char text[sizeof s->error_text];
    weir_status st = weir__stream_copy_error(source, text, sizeof text);

    weir__stream_fail(s, seq, st, text);
}

weir_status weir__stream_error(weir_stream *s, uint64_t seq)
{
    char text[sizeof s->error_text];
    weir_status st;

    if (atomic_load_explicit(&s->failed_at, memory_order_acquire) > seq)
        return WEIR_OK;
    st = weir__stream_copy_error(s, text, sizeof text);
    return weir__fail(st, "%s", text);
}

/* ---- waiting on the host ---- */

weir_status weir__stream_await(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    weir_device *dev = s->dev;
    weir_status st;
    bool alone;

    if ((st = dev->driver->sync(s, seq, timeout_ns, spin)))
        return st;
    alone = weir__stream_lock(s);
    weir__pool_synced(&dev->pool, s->slot, seq);
    weir__stream_unlock(s, alone);
    return weir__stream_error(s, seq);
}

void weir__stream_saw(weir_stream *s, uint64_t seq)
{
    weir__race_see_host((struct weir__race_stream){&s->race, seq, s->name, s->dev->props.name},
                        seq);
}

weir_status weir__stream_sync_seq(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin)
{
    weir_status st = weir__stream_await(s, seq, timeout_ns, spin);

    if (weir__race_on() && s->dev->driver->done(s) >= seq) /* false after a timeout or interrupt */
        weir__stream_saw(s, seq);
    return st;
}

weir_status weir__stream_mark(weir_stream *s, struct weir__mark *out)
{
    weir_device *dev = s->dev;
    bool waits, alone = weir__stream_lock(s);
    weir_status st;

    waits = s->deferred.stream;
    if (weir__unlikely(alone) && (waits || s->shared)) {
        weir__stream_lock_device(s, &alone);
        waits = s->deferred.stream;
    }
    st = weir__stream_queue_deferred(s);
    *out = (struct weir__mark){s, weir__stream_submitted(s)};
    weir__stream_unlock(s, alone);
    if (waits)
        dev->driver->kick(dev);
    return st;
}

weir_status weir_stream_sync_for(weir_stream *s, int64_t timeout_ns)
{
    WEIR__NEED(s, "stream");

    struct weir__mark now;
    weir_status st = weir__stream_mark(s, &now);

    return st ? st : weir__stream_sync_seq(s, now.seq, timeout_ns, true);
}

weir_status weir_stream_sync(weir_stream *s)
{
    WEIR__NEED(s, "stream");

    weir_status st = weir_stream_sync_for(s, WEIR_TIMEOUT_DEVICE);

    weir__device_reap(s->dev, false);
    return st;
}

weir_status weir_stream_query(weir_stream *s, bool *done)
{
    WEIR__NEED(s, "stream");
    WEIR__NEED(done, "done");

    struct weir__mark now;
    weir_status st = weir__stream_mark(s, &now);

    weir__device_poll(s->dev);
    *done = !st && s->dev->driver->done(s) >= now.seq;
    if (weir__race_on() && *done)
        weir__stream_saw(s, now.seq);
    return *done ? weir__stream_error(s, now.seq) : st;
}
