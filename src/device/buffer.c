/* The public functions of the memory pool. */
#include "base/sized.h"
#include "device/device.h"

weir_status weir_buffer_alloc(weir_stream *s, size_t size, weir_buffer **out)
{
    weir_device *dev;
    uint64_t before;
    bool queued, alone;
    weir_status st;

    WEIR__NEED(s, "stream");
    WEIR__NEED(out, "out");
    dev = s->dev;
    alone = weir__stream_lock(s);
    if (weir__unlikely(alone)) {
        if ((*out = weir__stream_alloc(s, size))) {
            weir__stream_unlock(s, true);
            return WEIR_OK;
        }
        weir__stream_lock_device(s, &alone);
    }
    before = weir__stream_submitted(s);
    st = weir__pool_alloc(&dev->pool, s->slot, size, out);
    /* The pool may have queued a wait on `s`, and poisoning of freed bytes on any stream. */
    queued = weir__stream_submitted(s) != before || dev->pool.poison;
    weir__device_unlock(dev);
    if (queued)
        dev->driver->kick(dev);
    return st;
}

void *weir_buffer_data(const weir_buffer *b)
{
    return b ? b->address : NULL;
}
size_t weir_buffer_size(const weir_buffer *b)
{
    return b ? b->asked : 0;
}

static weir_device *device_of(const weir_buffer *b)
{
    return b->pool->host.user;
}

weir_status weir_buffer_used_on(weir_buffer *b, weir_stream *s)
{
    uint64_t *fence = NULL;
    bool waits;
    weir_status st;

    WEIR__NEED(b, "buffer");
    WEIR__NEED(s, "stream");
    if (device_of(b) != s->dev)
        return weir__fail(WEIR_EDEVICE, "a buffer of %s cannot be used on stream '%s' of %s",
                          device_of(b)->label, s->name, s->dev->label);
    weir__device_lock(s->dev);
    waits = s->deferred.stream;
    if (!(st = weir__stream_queue_deferred(s)) && !(fence = weir__pool_fence(b, s->slot)))
        st = weir__fail_nomem("recording a use on stream '%s'", s->name);
    if (fence)
        *fence = weir__stream_submitted(s);
    weir__device_unlock(s->dev);
    if (waits)
        s->dev->driver->kick(s->dev);
    return st;
}

void weir_buffer_free(weir_buffer *b)
{
    weir_device *dev;
    weir_stream *owner;
    bool alone;

    if (!b)
        return;
    dev = device_of(b);
    if (weir__likely(weir__device_lock_quickly(dev))) {
        weir__pool_free(&dev->pool, b);
        weir__device_unlock(dev);
    } else {
        owner = weir__device_owner(dev, b);
        alone = weir__stream_lock(owner);
        if (alone && !weir__stream_free(owner, b))
            weir__stream_lock_device(owner, &alone);
        if (!alone)
            weir__pool_free(&dev->pool, b);
        weir__stream_unlock(owner, alone);
    }
    if (dev->pool.poison)
        dev->driver->kick(dev);
}

void weir__device_reap(weir_device *dev, bool all)
{
    weir_buffer *list;

    if (!atomic_load_explicit(&dev->pool.deferred, memory_order_relaxed))
        return;
    weir__device_lock(dev);
    list = weir__pool_take_released(&dev->pool, all);
    weir__device_unlock(dev);
    if (!list)
        return;
    for (weir_buffer *b = list; b; b = b->list_next)
        if (b->release)
            b->release(b->release_user);
    weir__device_lock(dev);
    weir__pool_drop(&dev->pool, list);
    weir__device_unlock(dev);
}

void weir_memory_get_stats(weir_device *dev, weir_memory_stats *out, size_t size)
{
    weir_memory_stats stats;

    if (!dev || !out)
        return;
    weir__device_lock(dev);
    weir__pool_get_stats(&dev->pool, &stats);
    stats.events_live = dev->events_live;
    weir__device_unlock(dev);
    weir__sized_give(out, size, &stats, sizeof stats);
}

void weir_memory_reset_peaks(weir_device *dev)
{
    if (!dev)
        return;
    weir__device_lock(dev);
    dev->pool.stats.peak_allocated = dev->pool.stats.allocated;
    dev->pool.stats.peak_reserved = dev->pool.stats.reserved;
    weir__device_unlock(dev);
}

size_t weir_memory_get_stream_stats(weir_device *dev, weir_memory_stream_stats *out, size_t size,
                                    size_t max)
{
    size_t n;

    if (!dev)
        return 0;
    weir__device_lock(dev);
    weir__pool_list_kept(&dev->pool);
    n = weir__pool_get_streams(&dev->pool, out, size, max);
    weir__device_unlock(dev);
    return n;
}

weir_status weir_memory_empty_cache(weir_device *dev)
{
    weir_status st;

    WEIR__NEED(dev, "dev");
    weir__device_reap(dev, false);
    /* With poison, freed bytes stay in use until the poisoning has completed. So the first round
     * queues it and waits, and the second round frees the memory. */
    for (int round = dev->pool.poison ? 2 : 1;; round--) {
        weir__device_lock(dev);
        st = weir__pool_empty_cache(&dev->pool);
        weir__device_unlock(dev);
        dev->driver->kick(dev);
        if (st || round == 1)
            return st;
        if ((st = weir_device_sync(dev)) == WEIR_ETIMEDOUT || st == WEIR_EINTERRUPTED)
            return st;
    }
}

weir_status weir_memory_set_limit(weir_device *dev, size_t bytes)
{
    WEIR__NEED(dev, "dev");
    if (!bytes)
        return weir__fail(WEIR_ERANGE, "memory limit 0 of %s is out of range: at least 1 byte",
                          dev->props.name);
    weir__device_lock(dev);
    dev->pool.stats.limit = bytes;
    weir__device_unlock(dev);
    return WEIR_OK;
}

char *weir_memory_summary(weir_device *dev)
{
    struct weir__text text = {0};

    if (!dev)
        return NULL;
    weir__text_add(&text, "memory of %s\n", dev->props.name);
    weir__device_lock(dev);
    weir__pool_list_kept(&dev->pool);
    weir__pool_summary(&dev->pool, &text);
    weir__device_unlock(dev);
    if (text.failed) {
        weir__text_free(&text);
        return NULL;
    }
    return text.data;
}

size_t weir_memory_get_blocks(weir_device *dev, weir_block_info *out, size_t size, size_t max)
{
    size_t n;

    if (!dev)
        return 0;
    weir__device_lock(dev);
    weir__pool_list_kept(&dev->pool);
    n = weir__pool_get_blocks(&dev->pool, out, size, max);
    weir__device_unlock(dev);
    return n;
}
