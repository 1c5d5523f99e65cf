/* Copies between views that are contiguous along different dims, tile by tile. */
#ifndef WEIR_OPS_HOST_TRANSPOSE_H
#define WEIR_OPS_HOST_TRANSPOSE_H

#include "ops/host/isa.h"
#include "weir/launch.h"

#define WEIR__TRANSPOSE_TILE 64

/* out[.., r, c] = in[.., r, c]: out is contiguous along c, in along r. Strides are in elements. */
struct weir__transpose {
    char *out;
    const char *in;
    weir_dtype out_type, in_type;
    int64_t rows, cols;
    int64_t out_row; /* row stride of out */
    int64_t in_col;  /* column stride of in */
    int nouter;
    int64_t outer; /* number of matrices */
    int64_t shape[WEIR_MAX_DIMS], out_stride[WEIR_MAX_DIMS], in_stride[WEIR_MAX_DIMS];
};

static inline int64_t weir__transpose_tiles(const struct weir__transpose *t)
{
    int64_t size = WEIR__TRANSPOSE_TILE;

    return t->outer * ((t->rows + size - 1) / size) * ((t->cols + size - 1) / size);
}

/* The block function; its arguments are a struct weir__transpose. */
WEIR__ISA_DECLARE(weir_status, weir__transpose_kernel, (const void *args, const weir_block *block));

#endif
