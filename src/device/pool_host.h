/* The functions by which a memory pool uses its device. */
#ifndef WEIR_DEVICE_POOL_HOST_H
#define WEIR_DEVICE_POOL_HOST_H

#include "device/device.h"

/* All fields but `user`, which the device sets to itself. */
extern const struct weir__pool_host weir__device_pool_host;

/* Waits for all streams. With `errors` it is a sync of the user's and returns the first error.
 * Commands that are queued meanwhile may or may not be waited for. */
weir_status weir__device_await_all(weir_device *dev, bool errors);

#endif
