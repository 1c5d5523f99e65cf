/* Softmax and normalisation, row by row. */
#ifndef WEIR_OPS_HOST_NORM_H
#define WEIR_OPS_HOST_NORM_H

#include "ops/host/row.h"
#include "weir/launch.h"

/* softmax. If rows are too long for a block's local memory, `wide_rows` has room for one row per
 * block in the compute type; else it is NULL. */
struct weir__softmax {
    const char *in;
    char *out;
    weir_dtype dtype;
    char *wide_rows;
    struct weir__rows rows;
};

/* Rows longer than this many bytes, in the compute type, need wide_rows. */
#define WEIR__SOFTMAX_LOCAL (WEIR_LOCAL_BYTES / 2)

/* (x - mean) / sqrt(variance + eps) * weight + bias. If not `centred`, x / root mean square
 * instead. */
struct weir__norm {
    const char *in;
    char *out;
    const char *weight, *bias; /* NULL if absent */
    int64_t weight_step, bias_step;
    weir_dtype dtype;
    bool centred;
    double eps;
    struct weir__rows rows;
};

/* From logits: the k largest values of their softmax, sorted, and their indices. */
struct weir__gating {
    const char *in;
    char *weights;
    int32_t *experts;
    int64_t experts_row, experts_step; /* strides of `experts`; `rows` has those of `weights` */
    weir_dtype dtype;
    int64_t k;
    bool renormalise;
    struct weir__rows rows;
};

/* The most experts in a row that fits local memory. */
#define WEIR__GATING_MAX ((int64_t)1 << 16)

/* Whether rows are computed side by side. Depends only on shape and strides. */
WEIR__ISA_DECLARE(bool, weir__softmax_is_columns, (const struct weir__softmax *a));
/* Computes rows begin..end-1 side by side, in a block's local memory. */
WEIR__ISA_DECLARE(void, weir__softmax_columns,
                  (const struct weir__softmax *a, int64_t begin, int64_t end, void *local));

/* Block functions; their arguments are the structs above. */
WEIR__ISA_DECLARE(weir_status, weir__softmax_kernel, (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__norm_kernel, (const void *args, const weir_block *block));
WEIR__ISA_DECLARE(weir_status, weir__gating_kernel, (const void *args, const weir_block *block));

#endif
