/* Order between weir's streams and native streams of other libraries on the same hardware. */
#include "device/device.h"

static weir_status refuse(const weir_stream *s)
{
    return weir__fail(WEIR_EUNSUPPORTED,
                      "stream '%s' of %s has no native handle; only cuda streams do", s->name,
                      s->dev->props.name);
}

weir_status weir_stream_native(weir_stream *s, void **handle)
{
    WEIR__NEED(s, "stream");
    WEIR__NEED(handle, "native");

    weir_device *dev = s->dev;
    weir_cores scope = weir__current_get_set()->limit;
    weir_status st;

    *handle = NULL;
    if (!dev->driver->native)
        return refuse(s);
    weir__device_lock(dev);
    if (!(st = weir__stream_queue_deferred(s)) &&
        !(st = dev->driver->native->stream(s, weir__stream_cores(s, WEIR_ENGINE_MIX, scope),
                                           handle)))
        s->shared = true;
    weir__device_unlock(dev);
    return st;
}

weir_status weir_stream_wait_native(weir_stream *s, void *native)
{
    WEIR__NEED(s, "stream");

    weir_device *dev = s->dev;
    weir_status st;

    if (!dev->driver->native)
        return refuse(s);
    weir__device_lock(dev);
    if (!(st = weir__stream_queue_deferred(s)) && !(st = dev->driver->native->wait(s, native)))
        s->clock.seq[s->slot]++;
    weir__device_unlock(dev);
    return st;
}

weir_status weir_stream_signal_native(weir_stream *s, void *native)
{
    WEIR__NEED(s, "stream");

    weir_device *dev = s->dev;
    weir_status st;

    if (!dev->driver->native)
        return refuse(s);
    weir__device_lock(dev);
    if (!(st = weir__stream_queue_deferred(s)))
        st = dev->driver->native->signal((struct weir__mark){s, weir__stream_submitted(s)}, native);
    weir__device_unlock(dev);
    return st;
}

weir_status weir_stream_begin_native(weir_stream *s, void *native, const char *name)
{
    WEIR__NEED(s, "stream");

    static const struct weir__kernel nothing = {.name = "work of others"};
    weir_device *dev = s->dev;
    struct weir__kernel work = {.name = name, .engine = WEIR_ENGINE_VECTOR};
    weir_status st;

    if (!dev->driver->native)
        return refuse(s);
    if ((st = weir__need(name, "the name of work on a native stream")) || !weir__trace_on())
        return st;
    weir__device_lock(dev);
    work.cores = weir__stream_cores(s, WEIR_ENGINE_MIX, weir__current_get_set()->limit);
    if (!(st = weir__stream_submit(s, &nothing))) /* gives the record a command number */
        dev->driver->native->trace(s, native, &work);
    weir__device_unlock(dev);
    return st;
}

weir_status weir_stream_end_native(weir_stream *s, void *native)
{
    WEIR__NEED(s, "stream");

    weir_device *dev = s->dev;

    if (!dev->driver->native)
        return refuse(s);
    weir__device_lock(dev);
    dev->driver->native->trace(s, native, NULL);
    weir__device_unlock(dev);
    return WEIR_OK;
}

static weir_status fence(weir_buffer *b, weir_stream *s)
{
    uint64_t *at = weir__pool_fence(b, s->slot);

    if (!at)
        return weir__fail_nomem("recording a use on stream '%s'", s->name);
    *at = weir__stream_submitted(s);
    return WEIR_OK;
}

weir_status weir__device_used_by_others(weir_device *dev, weir_buffer *b)
{
    weir_stream *first = dev->default_stream;
    weir_status st = WEIR_OK;

    if (!dev->driver->native)
        return WEIR_OK;
    weir__device_lock(dev);
    /* Weir's default stream waits for the hardware's, so a fence on ours covers both. */
    if (!(st = weir__stream_queue_deferred(first)) &&
        !(st = dev->driver->native->wait(first, NULL))) {
        first->clock.seq[first->slot]++;
        st = fence(b, first);
    }
    for (unsigned i = 0; i < dev->nstreams && !st; i++)
        if (dev->streams[i]->shared && !(st = weir__stream_queue_deferred(dev->streams[i])))
            st = fence(b, dev->streams[i]);
    weir__device_unlock(dev);
    return st;
}
