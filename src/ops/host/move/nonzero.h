/* Coordinates of the nonzero elements. */
#ifndef WEIR_OPS_HOST_NONZERO_H
#define WEIR_OPS_HOST_NONZERO_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__nonzero {
    const char *in;
    weir_dtype dtype;
    int64_t *out, *count; /* coordinates, and the number of their rows */
    int64_t *counts;      /* scratch, one per block */
    int64_t out_row, out_step;
    int64_t numel;
    bool pad;   /* rows past the count become -1 */
    int coords; /* dims of the tensor before collapsing */
    int64_t coord_shape[WEIR_MAX_DIMS];
    int ndim; /* collapsed, in row-major order, at least 1 */
    int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
};

/* The block function; its arguments are a struct weir__nonzero. Two phases: count, then write
 * behind the rows of earlier blocks. */
WEIR__ISA_DECLARE(weir_status, weir__nonzero_kernel, (const void *args, const weir_block *block));

#endif
