/* Shared by the attention kernels on tensor cores: offsets of a unit's operands, masks, and the
 * running maximum of the softmax.
 * V0: type; V1: type of the mask, 255 without one; V2: causal */
#pragma once

#include "mma.cuh"
#include "ops/host/product/attention.h"

typedef uint16_t half_bits;

/* Offsets of the operands of one batch, in elements. */
struct Places {
    int64_t q, k, v, mask;
};

static __device__ inline Places find_batch(const weir__attention &a, unsigned batch)
{
    Places p = {0, 0, 0, 0};

    for (int d = a.ndims - 1; d >= 0; d--) {
        unsigned at = batch % (unsigned)a.shape[d];

        batch /= (unsigned)a.shape[d];
        p.q += at * a.q.batch[d];
        p.k += at * a.k.batch[d];
        p.v += at * a.v.batch[d];
        p.mask += at * a.mask.batch[d];
    }
    return p;
}

/* Returns the offset of a query's row in the output. Heads are numbered through all batches. */
static __device__ inline int64_t out_of(const weir__attention &a, unsigned head, unsigned position)
{
    unsigned heads = (unsigned)a.heads;

    if (!a.rows_first)
        return ((int64_t)head * a.lq + position) * a.dv;
    return (((int64_t)(head / heads) * a.lq + position) * heads + head % heads) * a.dv;
}

/* The same for a row of all heads' queries. */
static __device__ inline int64_t out_of_row(const weir__attention &a, int64_t row)
{
    unsigned own = (unsigned)row, lq = (unsigned)a.lq;

    return a.rows_first ? out_of(a, own / lq, own % lq) : row * a.dv;
}

static __device__ inline float below()
{
    return -__int_as_float(0x7f800000);
}

/* Without an added mask, scores are kept unscaled: the scale is then applied in the exponent at no
 * cost. */
enum { ADDS = V1 != 255 && V1 != WEIR_BOOL };

/* One row of queries. */
struct Row {
    int64_t mask; /* the offset of its mask */
    int limit;    /* keys from here on are hidden */
    float top, total;
};

/* Returns the score of key first + i after scale and mask. */
static __device__ inline float visible(const weir__attention &a, const Row &row, float score,
                                       float log2_scale, int first, int i)
{
    if (i >= row.limit - first)
        return below();
    if constexpr (V1 == WEIR_BOOL)
        return a.mask.data[row.mask + (first + i) * a.mask.col] ? score : below();
    else if constexpr (ADDS)
        return score * log2_scale +
               load<V0>(a.mask.data, row.mask + (first + i) * a.mask.col) * 1.4426950408889634f;
    else
        return score;
}

/* Raises the row's maximum to `top`. Returns the factor for the sums so far; *bias is the maximum
 * times the scale. */
static __device__ inline float raise(Row &row, float top, float scale, float *bias)
{
    float used = top == below() ? 0 : top, factor = exp2_fast((row.top - used) * scale);

    *bias = used * scale;
    row.top = top;
    row.total *= factor;
    return factor;
}

/* The maximum over the four lanes that share a row. */
static __device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

static __device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}
