/* Marks threads that run a device's work: such a thread must not wait for a device. */
#ifndef WEIR_DEVICE_SERVE_H
#define WEIR_DEVICE_SERVE_H

#include <stdbool.h>

/* Tells whether this thread runs work of a device from now on, such as callbacks. A memory request
 * on such a thread does not wait until all streams of a device are idle: a stream may be waiting
 * for this thread, directly or through another device.
 * returns  the previous value. */
bool weir__thread_serves(bool serves);

#endif
