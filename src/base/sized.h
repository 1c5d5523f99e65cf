/* Structs of callers that were built against another version of weir: see weir/status.h. */
#ifndef WEIR_BASE_SIZED_H
#define WEIR_BASE_SIZED_H

#include <string.h>

#include "base/base.h"

/* Fills `out`, which has `size` bytes: what does not fit is left out, what is left over is 0. */
static inline void weir__sized_give(void *out, size_t size, const void *own, size_t own_size)
{
    memcpy(out, own, size < own_size ? size : own_size);
    if (size > own_size)
        memset((char *)out + own_size, 0, size - own_size);
}

/* The caller's options, which begin with their size, as this library's; NULL is all 0. `first` is
 * the size of version 0.1.
 * returns  WEIR_EINVAL if anything that this library does not know is not 0. */
weir_status weir__sized_take(void *own, size_t own_size, size_t first, const void *given,
                             const char *what);
#define WEIR__TAKE(own, given, what) \
    weir__sized_take(own, sizeof *(own), sizeof *(own), given, what) /* all are of 0.1 still */

#endif
