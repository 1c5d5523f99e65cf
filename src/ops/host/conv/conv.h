/* Two-dimensional convolution on one core; strip.h describes the method. */
#ifndef WEIR_OPS_HOST_CONV_H
#define WEIR_OPS_HOST_CONV_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__conv {
    const char *x, *weight, *bias; /* bias may be NULL */
    char *out;                     /* [batch, groups * outputs, oh, ow], contiguous */
    weir_dtype dtype;
    int64_t groups, channels, outputs; /* channels and outputs of one group */
    int64_t h, w, kh, kw, oh, ow;
    int64_t stride[2], padding[2], dilation[2];
    int64_t x_step[4], weight_step[4], bias_step; /* in elements */
    char *packed; /* GPUs: the reordered weight; NULL if it is not reordered */
};

/* GPUs without tensor cores for the type: a row of the product, which is one kernel position of one
 * channel. */
struct weir__conv_row {
    int64_t x; /* offset from the first kernel position of the first channel, in elements */
    int32_t down, right;
    int32_t left; /* channels left, from this one on, at most 16; 0: no row */
};

/* GPUs: a tile of outputs is 64 filters times at most WEIR__CONV_TILE positions, given as columns
 * and rows of an image. */
#define WEIR__CONV_TILE 256

static inline int64_t weir__conv_tile_columns(const struct weir__conv *c)
{
    return (c->ow + (c->ow + 63) / 64 - 1) / ((c->ow + 63) / 64);
}

static inline int64_t weir__conv_tile_rows(const struct weir__conv *c)
{
    int64_t rows = WEIR__CONV_TILE / weir__conv_tile_columns(c);

    return rows < c->oh ? rows : c->oh;
}

/* Rows and columns of the image that such a tile reads. */
static inline int64_t weir__conv_patch_rows(const struct weir__conv *c)
{
    return (weir__conv_tile_rows(c) - 1) * c->stride[0] + (c->kh - 1) * c->dilation[0] + 1;
}

static inline int64_t weir__conv_patch_columns(const struct weir__conv *c)
{
    return (weir__conv_tile_columns(c) - 1) * c->stride[1] + (c->kw - 1) * c->dilation[1] + 1;
}

/* Whether the weight is contiguous in the order of the sum. If not, rows of the weight are
 * reordered, and one row must fit into WEIR__CONV_WEIGHT_BYTES. */
#define WEIR__CONV_WEIGHT_BYTES (256 << 10)
#define WEIR__CONV_MOST_TAPS (WEIR__CONV_WEIGHT_BYTES / (int64_t)sizeof(double))

static inline bool weir__conv_weight_is_matrix(const struct weir__conv *c)
{
    return (c->weight_step[3] == 1 || c->kw == 1) && (c->weight_step[2] == c->kw || c->kh == 1) &&
           c->weight_step[1] == c->kh * c->kw;
}

/* The part that one call computes: units are images x groups; o: outputs of a group; n: rows of the
 * output, or columns if it has only one row. */
struct weir__conv_part {
    int64_t unit0, unit1, o0, o1, n0, n1;
};

/* Whether weir__conv_bf16 handles the problem: the processor multiplies pairs of bf16, and there
 * are enough outputs to fill tiles. Decided for a whole problem, so that its parts agree. */
static inline bool weir__conv_takes_pairs(const struct weir__conv *c)
{
    return c->dtype == WEIR_BF16 && c->outputs >= 8 && c->oh * c->ow >= 8 && c->channels > 0 &&
           weir__isa_best_pairs() != WEIR__ISA_NO_PAIRS;
}

/* For f32, f16 and bf16; for f64; for bf16 by pairs. Each element is summed over channel, ky, kx in
 * this order, in stretches and pairs as in gemm.h, so that the cut does not affect the result.
 * local WEIR_LOCAL_BYTES, 64-byte aligned.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__conv_f32,
                  (const struct weir__conv *c, const struct weir__conv_part *part, void *local));
WEIR__ISA_DECLARE(void, weir__conv_f64,
                  (const struct weir__conv *c, const struct weir__conv_part *part, void *local));
WEIR__ISA_DECLARE(void, weir__conv_bf16,
                  (const struct weir__conv *c, const struct weir__conv_part *part, void *local));

#endif
