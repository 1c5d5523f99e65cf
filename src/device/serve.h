/* Which threads do a device's work: they never wait for it. */
#ifndef WEIR_DEVICE_SERVE_H
#define WEIR_DEVICE_SERVE_H

#include "device/device.h"

/* From now on this thread runs work of `dev`, callbacks for one; NULL: of none. What would wait
 * until all of the device's streams are idle does not on such a thread: it would wait for itself.
 * returns  what was said before. */
const weir_device *weir__thread_serves(const weir_device *dev);

#endif
