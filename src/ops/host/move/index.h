/* Kernels that read and write by index: take (embedding, index_select), gather, scatter_add. */
#ifndef WEIR_OPS_HOST_INDEX_H
#define WEIR_OPS_HOST_INDEX_H

#include "ops/host/isa.h"
#include "weir/launch.h"

/* A group of collapsed dims of up to three tensors, stepped through together. Strides are in
 * elements; ndim is at least 1. */
struct weir__steps {
    int ndim;
    int64_t count;
    int64_t shape[WEIR_MAX_DIMS];
    int64_t stride[3][WEIR_MAX_DIMS];
};

/* out[o, i, j] = in[o, index[i], j] */
struct weir__take {
    const char *name; /* operator's name, for errors */
    const char *in, *index;
    char *out;
    size_t elem;
    weir_dtype index_type;
    int64_t limit, in_row;    /* in's size and stride along the indexed dim */
    struct weir__steps outer; /* strides: in, out */
    struct weir__steps place; /* strides: index, out */
    struct weir__steps inner; /* strides: in, out */
};

/* out[p] = in[p with its position along the dim replaced by index[p]] */
struct weir__gather_args {
    const char *in, *index;
    char *out;
    size_t elem;
    weir_dtype index_type;
    int64_t limit, in_row;
    struct weir__steps steps; /* strides: out, index, in (0 along the dim) */
};

/* x[o, index[o, i, j], j] += source[o, i, j], i ascending. */
struct weir__scatter {
    const char *index, *source;
    char *x;
    weir_dtype dtype, index_type;
    int64_t limit, n; /* sizes along the dim of x and of index */
    int64_t x_row, index_row, source_row;
    bool replaces;  /* true: the last source of a target replaces it; false: sources are added */
    bool by_target; /* blocks share the targets; else they share the positions across the dim */
    struct weir__steps outer, inner; /* strides: x, index, source */
};

/* Block functions; their arguments are the structs above. WEIR_ERANGE, with the index and its
 * position, if an index is out of range. */
WEIR__ISA_DECLARE(weir_status, weir__take_kernel, (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__gather_kernel, (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__scatter_kernel, (const void *args, const weir_block *block));

#endif
