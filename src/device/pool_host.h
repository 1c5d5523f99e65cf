/* The functions by which a memory pool uses its device. */
#ifndef WEIR_DEVICE_POOL_HOST_H
#define WEIR_DEVICE_POOL_HOST_H

#include "device/device.h"

/* All but `user`, which is the device. */
extern const struct weir__pool_host weir__device_pool_host;

/* Waits for all streams, or with `errors` syncs them: then the first error is returned. Streams
 * queued to while this runs are waited for or not, as it falls. */
weir_status weir__device_await_all(weir_device *dev, bool errors);

#endif
