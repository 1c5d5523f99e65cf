/* Copies structs to and from callers that were built against another version of weir: see
 * weir/status.h. */
#ifndef WEIR_BASE_SIZED_H
#define WEIR_BASE_SIZED_H

#include <string.h>

#include "base/base.h"

/* Copies `own` to `out`, which has `size` bytes: fields that do not fit are dropped, and excess
 * bytes are set to 0. */
static inline void weir__sized_give(void *out, size_t size, const void *own, size_t own_size)
{
    memcpy(out, own, size < own_size ? size : own_size);
    if (size > own_size)
        memset((char *)out + own_size, 0, size - own_size);
}

/* Copies the caller's options, which begin with their size, to this library's struct; NULL means
 * all 0. `first` is the size of the struct in version 0.1. returns  WEIR_EINVAL if a byte that this
 * library does not know is not 0. */
weir_status weir__sized_take(void *own, size_t own_size, size_t first, const void *given,
                             const char *what);
#define WEIR__TAKE(own, given, what) \
    weir__sized_take(own, sizeof *(own), sizeof *(own), given, what) /* no struct has grown yet */

#endif
