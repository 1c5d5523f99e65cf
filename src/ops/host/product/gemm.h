/* C = A B + bias on one core, for operands with any strides.
 *
 * f16 and bf16 are computed in f32, bf16 by instructions that add pairs of products where the
 * processor has them (gemm_bf16.c). Every element of C is the sum over k = 0, 1,
 * ... in this order, fused where the instruction set has it, in stretches of 96 whose
 * sums are added one by one, with the bias added last: cutting C among any number of
 * calls gives the same bits. `dot` and `thin` choose other orders that depend on nothing but k
 * either.
 */
#ifndef WEIR_OPS_HOST_GEMM_H
#define WEIR_OPS_HOST_GEMM_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__gemm {
    int64_t m, n, k;
    const char *a, *b, *bias; /* bias may be NULL */
    char *c;
    weir_dtype dtype; /* of all four; of i8 bias and c are i32 */
    bool dot, thin; /* weir__gemm_is_dot and _is_thin of the whole problem that this is a part of */
    /* in elements */
    int64_t a_row, a_col, b_row, b_col, c_row, c_col, bias_row, bias_col;
    /* Where set, stands in for b: writes B[k0 .. k0+kn)[j0 .. j0+jn) as rows of
     * `width` elements of the compute type, zeros beyond jn. For weir__gemm_bf16 as rows of `width`
     * pairs of consecutive k, the first in the lower half, zeros beyond kn too. */
    void (*pack_b)(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn, int64_t j0,
                   int64_t jn);
    const void *pack_source;
};

/* With pack_b and so many columns at most, twice as many where C is of the compute type, local
 * memory need not be larger than this. */
#define WEIR__GEMM_PACKED_N 512
#define WEIR__GEMM_PACKED_BYTES (2720 << 10)

/* A stack of products: matrices along the batch dims, broadcast where a step is 0. */
struct weir__gemm_stack {
    struct weir__gemm gemm; /* of the first matrices, whole */
    int ndims;              /* batch dims that are left after folding */
    int64_t shape[WEIR_MAX_DIMS - 2];
    int64_t a_step[WEIR_MAX_DIMS - 2], b_step[WEIR_MAX_DIMS - 2], c_step[WEIR_MAX_DIMS - 2];
    int64_t batch;
};

#define WEIR__GEMM_DOT_MAX 12

/* Whether the problem is a few rows against a matrix that is contiguous along k (a
 * linear layer with few tokens), or the mirror of that. Then nothing is packed,
 * and the sum of an element is taken in parallel lanes. */
static inline bool weir__gemm_is_dot(const struct weir__gemm *g)
{
    return !g->pack_b && weir_dtype_is_float(g->dtype) && g->a_col == 1 && g->b_row == 1 &&
           (g->m <= WEIR__GEMM_DOT_MAX || g->n <= WEIR__GEMM_DOT_MAX);
}

#define WEIR__GEMM_THIN_MAX 8

/* Whether the problem is a few rows against a matrix that lies in rows of n. Then that is read
 * where it lies, and k is in parts, whose sums are added up in their order. */
static inline bool weir__gemm_is_thin(const struct weir__gemm *g)
{
    return !g->pack_b && !g->dot && weir_dtype_is_float(g->dtype) && g->k > 0 &&
           g->m <= WEIR__GEMM_THIN_MAX && g->b_col == 1 && g->n >= 64;
}

/* The length of a part of k where the problem is thin. It depends on k alone, so that the result
 * does not depend on anything else. With shorter parts most of the time would go into adding up
 * sums. */
static inline int64_t weir__gemm_part(int64_t k)
{
    const int64_t stretches = (k + 16 * 128 - 1) / (16 * 128);

    return (stretches > 2 ? stretches : 2) * 128;
}

/* Whether weir__gemm_bf16 takes the problem: the processor multiplies pairs of bf16, and there are
 * rows enough to fill tiles, or pairs lie side by side. Asked of a whole problem, so that its parts
 * agree. */
static inline bool weir__gemm_takes_pairs(const struct weir__gemm *g)
{
    return g->dtype == WEIR_BF16 && !g->pack_b && g->k > 0 &&
           (g->dot || (g->m >= 8 && g->n >= 8)) && weir__isa_best_pairs() != WEIR__ISA_NO_PAIRS;
}

/* For f32, f16 and bf16; for bf16 by pairs, where weir__gemm_takes_pairs; for f64; for i32 and i64,
 * which wrap around, and i8.
 * local  WEIR_LOCAL_BYTES, 64-byte aligned.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__gemm_f32, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_bf16, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_f64, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_int, (const struct weir__gemm *g, void *local));

/* A thin problem in parts: writes the sums of part `part` of g's k, without the bias, as rows of
 * f32 or of f64, `step` apart; then C from those of all parts, which are `next` apart. The second
 * is for bf16 where weir__gemm_is_thin_pairs. Together they give what the functions above give.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__gemm_part_f32,
                  (const struct weir__gemm *g, int64_t part, void *sums, int64_t step,
                   void *local));
WEIR__ISA_DECLARE(void, weir__gemm_part_bf16,
                  (const struct weir__gemm *g, int64_t part, void *sums, int64_t step,
                   void *local));
WEIR__ISA_DECLARE(void, weir__gemm_part_f64,
                  (const struct weir__gemm *g, int64_t part, void *sums, int64_t step,
                   void *local));
WEIR__ISA_DECLARE(void, weir__gemm_join_f32,
                  (const struct weir__gemm *g, const void *sums, int64_t parts, int64_t step,
                   int64_t next, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_join_f64,
                  (const struct weir__gemm *g, const void *sums, int64_t parts, int64_t step,
                   int64_t next, void *local));

#endif
