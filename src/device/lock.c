/* The device lock, and launches that take only the lock of their stream (rules: device.h). */
#include "device/device.h"

/* per_stream is set after this many launches found the device lock held. Clearing it reads the lock
 * of every stream, which takes less time than those launches have waited. */
enum { HELD_BEFORE_PER_STREAM = 64 };

void weir__device_end_per_stream(weir_device *dev)
{
    atomic_store(&dev->per_stream, false);
    dev->found_held = 0;
    for (unsigned i = 0; i < dev->nstreams; i++)
        for (unsigned n = 1; atomic_load(&dev->streams[i]->lock.held); n++)
            n % 64 ? weir__relax() : weir__yield();
    for (unsigned i = 0; i < dev->nstreams; i++) {
        dev->tensors_live += (size_t)dev->streams[i]->tensors_more;
        dev->streams[i]->tensors_more = 0;
    }
    weir__pool_add_recent_stats(&dev->pool);
}

/* Takes the device lock. True if it was held, for the HELD_BEFORE_PER_STREAM-th time or later. */
static bool lock_and_count(weir_device *dev)
{
    if (weir__likely(weir__light_try(&dev->lock)))
        return false;
    weir__light_lock_slow(&dev->lock);
    return weir__device_can(dev, WEIR__SUBMITS_BY_STREAM) &&
           ++dev->found_held >= HELD_BEFORE_PER_STREAM;
}

bool weir__stream_lock_slow(weir_stream *s)
{
    weir_device *dev = s->dev;

    for (;;) {
        if (atomic_load_explicit(&dev->per_stream, memory_order_relaxed)) {
            weir__spin_lock(&s->lock);
            if (weir__likely(atomic_load(&dev->per_stream)))
                return true;
            weir__spin_unlock(&s->lock);
        }
        if (lock_and_count(dev))
            atomic_store(&dev->per_stream, true);
        if (!atomic_load_explicit(&dev->per_stream, memory_order_relaxed))
            return false;
        weir__light_unlock(&dev->lock);
    }
}
