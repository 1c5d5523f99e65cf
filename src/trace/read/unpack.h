#ifndef WEIR_TRACE_READ_UNPACK_H
#define WEIR_TRACE_READ_UNPACK_H

#include "base/base.h"

/* What is in a gzip or zstd file that was read whole; *out is NULL if it is neither, and
 * *out_size as it was. Free *out with weir__free().
 * returns  WEIR_EPARSE for a damaged file; WEIR_EUNSUPPORTED without the library; WEIR_ENOMEM. */
weir_status weir__trace_unpack(const char *path, const char *data, size_t size, char **out,
                               size_t *out_size);

#endif
