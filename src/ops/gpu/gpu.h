/* Descriptions of the kernels that a GPU compiles from src/cuda/kernels: each takes the same
 * argument struct as the host's kernel of the operator. An operator's prepare names both. */
#ifndef WEIR_OPS_GPU_GPU_H
#define WEIR_OPS_GPU_GPU_H

#include "device/code.h"
#include "ops/host/conv/conv.h"
#include "ops/host/product/attention.h"
#include "ops/host/product/grouped.h"
#include "ops/host/row.h"

extern const struct weir__code weir__gpu_ew, weir__gpu_chain, weir__gpu_chain_norm;
extern const struct weir__code weir__gpu_transpose, weir__gpu_concat;
extern const struct weir__code weir__gpu_reduce, weir__gpu_softmax, weir__gpu_norm,
    weir__gpu_gating, weir__gpu_scan;
extern const struct weir__code weir__gpu_take, weir__gpu_gather, weir__gpu_scatter,
    weir__gpu_scatters;
extern const struct weir__code weir__gpu_expert_order, weir__gpu_expert_sum, weir__gpu_choice;
extern const struct weir__code weir__gpu_sort, weir__gpu_nonzero, weir__gpu_gen, weir__gpu_rotary;
extern const struct weir__code weir__gpu_gemm, weir__gpu_busy, weir__gpu_busy_part;
extern const struct weir__code weir__gpu_reduce_part, weir__gpu_move_part;
extern const struct weir__code weir__gpu_moe_dispatch, weir__gpu_moe_combine;

/* The kernel for the call: on tensor cores if type, sizes and strides allow it. It may split the
 * keys into parts. A second phase combines them in `scratch` (NULL: not on this device), whose size
 * depends only on the shape. */
const struct weir__code *weir__gpu_attention(struct weir__attention *a, void *scratch);
size_t weir__gpu_attention_scratch(const struct weir__attention *a);

/* The same for a convolution, whose arguments are the struct and the number of images. On tensor
 * cores a first phase may reorder the weight into `scratch`; c->packed then says so. */
const struct weir__code *weir__gpu_conv(struct weir__conv *c, int64_t images, void *scratch);
size_t weir__gpu_conv_scratch(const struct weir__conv *c);

/* The kernel for products of groups: on tensor cores if type, sizes and strides allow it. */
const struct weir__code *weir__gpu_grouped(const struct weir__grouped *g);

/* The operation code of an elementwise call in kernel sources. */
struct weir__ew;
uint8_t weir__gpu_ew_code(const struct weir__ew *e);

/* Blocks that count elements for nonzero. */
#define WEIR__GPU_NONZERO_BLOCKS 256

/* Sorting: the number of phases, and the bytes of scratch memory. */
unsigned weir__gpu_sort_phases(weir_dtype dtype, const struct weir__rows *rows);
size_t weir__gpu_sort_scratch(weir_dtype dtype, const struct weir__rows *rows);

#endif
