/* Launches by the lock of their stream (device/device.h), without waiting until threads have got in
 * each other's way often enough. */
#ifndef TESTS_DEVICE_PER_STREAM_H
#define TESTS_DEVICE_PER_STREAM_H

#include "device/device.h"

static inline void lock_per_stream(weir_device *dev)
{
    weir__light_lock(&dev->lock);
    atomic_store(&dev->per_stream, true);
    weir__light_unlock(&dev->lock);
}

static inline bool locks_per_stream(weir_device *dev)
{
    return atomic_load(&dev->per_stream);
}

#endif
