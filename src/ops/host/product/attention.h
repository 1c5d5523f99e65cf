/* Scaled dot product attention on one core, one block of query rows at a time.
 *
 * The keys are processed in blocks; a running maximum and sum give the exact softmax without a
 * matrix of all scores. Query heads that share a key head are rows of one problem.
 */
#ifndef WEIR_OPS_HOST_ATTENTION_H
#define WEIR_OPS_HOST_ATTENTION_H

#include "ops/host/isa.h"
#include "weir/launch.h"

#define WEIR__ATTENTION_FEW 8
#define WEIR__ATTENTION_DIMS (WEIR_MAX_DIMS - 2)

/* An operand [batch..., heads, rows, columns]; strides in elements, 0 where broadcast. */
struct weir__attention_operand {
    const char *data;
    int64_t batch[WEIR__ATTENTION_DIMS];
    int64_t head, row, col;
};

struct weir__attention {
    struct weir__attention_operand q, k, v, mask; /* mask.data may be NULL */
    char *out;                                    /* contiguous; see weir__attention_place */
    weir_dtype dtype, mask_dtype;                 /* mask_dtype is bool or dtype */
    bool causal;
    bool rows_first; /* the output is [batch..., lq, heads, dv], else [batch..., heads, lq, dv] */
    int ndims;       /* batch dims */
    int64_t shape[WEIR__ATTENTION_DIMS];
    int64_t heads, key_heads, lq, lk, d, dv;
    double scale;
    /* The cut, which depends only on the shape: row_blocks * key_heads * batches units, each of
     * row_block rows, with key_block keys at a time. Both are multiples of 48, or row_block of
     * 24. */
    int64_t row_block, key_block, row_blocks;
    /* The keys are cut into `splits` parts, on the host of split_keys keys each. If there are
     * several parts, their results go to scratch memory: for each query row and part, dv sums,
     * their maximum and their total, in the compute type. */
    int64_t splits;
    float *partial;
    int64_t split_keys;
    bool few; /* on the host: a key head has at most WEIR__ATTENTION_FEW rows */
};

/* The offset of a query's row in the output, in elements. Queries are numbered through [batch...,
 * heads, lq].
 */
static inline int64_t weir__attention_place(const struct weir__attention *a, int64_t row)
{
    const int64_t head = row / a->lq, batch = head / a->heads;

    if (!a->rows_first)
        return row * a->dv;
    return ((batch * a->lq + row % a->lq) * a->heads + head % a->heads) * a->dv;
}

/* Whether weir__attention_bf16 handles the problem: it has many rows of bf16, and the processor
 * multiplies pairs of bf16. Its units are not split into parts. */
static inline bool weir__attention_takes_pairs(const struct weir__attention *a)
{
    return a->dtype == WEIR_BF16 && !a->few && a->splits == 1 &&
           weir__isa_best_pairs() != WEIR__ISA_NO_PAIRS;
}

/* Computes one part of one unit: the first function for f32, f16 and bf16, the second for bf16 if
 * weir__attention_takes_pairs, the third for f64. If there are several parts, `combine` then
 * computes one row of the output. Results do not depend on which thread computes them. threads
 * any. */
WEIR__ISA_DECLARE(void, weir__attention_f32,
                  (const struct weir__attention *a, int64_t unit, void *local));
WEIR__ISA_DECLARE(void, weir__attention_bf16,
                  (const struct weir__attention *a, int64_t unit, void *local));
WEIR__ISA_DECLARE(void, weir__attention_f64,
                  (const struct weir__attention *a, int64_t unit, void *local));

WEIR__ISA_DECLARE(void, weir__attention_combine_f32,
                  (const struct weir__attention *a, int64_t row, void *local));
WEIR__ISA_DECLARE(void, weir__attention_combine_f64,
                  (const struct weir__attention *a, int64_t row, void *local));

#endif
