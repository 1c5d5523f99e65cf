/* Marks threads that run a device's work: such a thread must not wait for a device. */
#ifndef WEIR_DEVICE_SERVE_H
#define WEIR_DEVICE_SERVE_H

#include <stdbool.h>

/* From now on this thread runs work of a device, callbacks for one, or no longer does. What would
 * wait until all of a device's streams are idle does not on such a thread: one of them may wait for
 * it, also over another device.
 * returns  what was said before. */
bool weir__thread_serves(bool serves);

#endif
