/* Descriptions of the kernels that a GPU compiles from src/cuda/kernels: each reads the argument
 * struct that the host's kernel of the same operator reads. An operator's prepare names both. */
#ifndef WEIR_OPS_GPU_GPU_H
#define WEIR_OPS_GPU_GPU_H

#include "device/code.h"

extern const struct weir__code weir__gpu_ew, weir__gpu_transpose, weir__gpu_concat;
extern const struct weir__code weir__gpu_reduce, weir__gpu_softmax, weir__gpu_norm,
    weir__gpu_gating;
extern const struct weir__code weir__gpu_take, weir__gpu_gather, weir__gpu_scatter;
extern const struct weir__code weir__gpu_sort, weir__gpu_nonzero, weir__gpu_gen, weir__gpu_rotary;
extern const struct weir__code weir__gpu_gemm, weir__gpu_conv, weir__gpu_attention;
extern const struct weir__code weir__gpu_busy;

/* Blocks that count for nonzero, and rows that are sorted in scratch memory at once. */
#define WEIR__GPU_NONZERO_BLOCKS 256
#define WEIR__GPU_SORT_ROWS 128
/* Rows up to this length are sorted in shared memory. */
#define WEIR__GPU_SORT_SHARED 2048

#endif
