#ifndef WEIR_TRACE_READ_UNPACK_H
#define WEIR_TRACE_READ_UNPACK_H

#include "base/base.h"

/* Unpacks a gzip or zstd file that is in memory. If `data` is neither, sets *out to NULL and leaves
 * *out_size unchanged. Free *out with weir__free().
 * returns  WEIR_EPARSE for a damaged file; WEIR_EUNSUPPORTED without the library; WEIR_ENOMEM. */
weir_status weir__trace_unpack(const char *path, const char *data, size_t size, char **out,
                               size_t *out_size);

#endif
