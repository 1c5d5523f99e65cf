/* Kernels whose element i depends only on i: arange and random numbers. */
#ifndef WEIR_OPS_HOST_GENERATE_H
#define WEIR_OPS_HOST_GENERATE_H

#include "ops/host/isa.h"
#include "weir/launch.h"

enum weir__gen_kind {
    WEIR__GEN_ARANGE_F64,  /* a + i * b in doubles */
    WEIR__GEN_ARANGE_I64,  /* the same in i64, wrapping */
    WEIR__GEN_UNIFORM_F32, /* uniform in a .. b */
    WEIR__GEN_UNIFORM_F64,
    WEIR__GEN_UNIFORM_I64, /* uniform integers in a .. b-1 */
    WEIR__GEN_NORMAL_F32,  /* mean a, standard deviation b */
    WEIR__GEN_NORMAL_F64,
};

struct weir__gen {
    enum weir__gen_kind kind;
    weir_dtype dtype;
    double a, b;
    uint64_t seed;
    int64_t numel;
    char *data;
    int ndim; /* collapsed, in row-major order, at least 1 */
    int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
};

/* The block function; its arguments are a struct weir__gen. */
WEIR__ISA_DECLARE(weir_status, weir__gen_kernel, (const void *args, const weir_block *block));

#endif
