/* C = A B + bias on one core, for operands with any strides.
 *
 * f16 and bf16 are computed in f32, bf16 with instructions that add pairs of products if the
 * processor has them (gemm_bf16.c). Every element of C is the sum over k = 0, 1, ... in this order,
 * with fused multiply-adds if available, in stretches of 96 whose sums are added one by one. The
 * bias is added last. So cutting C among any number of calls gives the same bits. `dot` and `thin`
 * choose other orders, which also depend only on k.
 */
#ifndef WEIR_OPS_HOST_GEMM_H
#define WEIR_OPS_HOST_GEMM_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__gemm {
    int64_t m, n, k;
    const char *a, *b, *bias; /* bias may be NULL */
    char *c;
    weir_dtype dtype; /* of all four; for i8, bias and c are i32 */
    bool dot, thin; /* weir__gemm_is_dot and _is_thin of the whole problem that this is a part of */
    /* strides in elements */
    int64_t a_row, a_col, b_row, b_col, c_row, c_col, bias_row, bias_col;
    /* If set, replaces b: writes B[k0 .. k0+kn)[j0 .. j0+jn) as rows of `width` elements of the
     * compute type, zeros beyond jn. For weir__gemm_bf16: as rows of `width` pairs of consecutive
     * k, the first in the lower half, zeros beyond kn too. */
    void (*pack_b)(const void *source, void *dst, int64_t width, int64_t k0, int64_t kn, int64_t j0,
                   int64_t jn);
    const void *pack_source;
};

/* With pack_b and at most this many columns, twice as many if C has the compute type, this much
 * local memory is enough. */
#define WEIR__GEMM_PACKED_N 512
#define WEIR__GEMM_PACKED_BYTES (2720 << 10)

/* A stack of products: matrices along batch dims, broadcast where a stride is 0. */
struct weir__gemm_stack {
    struct weir__gemm gemm; /* of the first matrices, whole */
    int ndims;              /* batch dims left after folding */
    int64_t shape[WEIR_MAX_DIMS - 2];
    int64_t a_step[WEIR_MAX_DIMS - 2], b_step[WEIR_MAX_DIMS - 2], c_step[WEIR_MAX_DIMS - 2];
    int64_t batch;
};

#define WEIR__GEMM_DOT_MAX 12

/* Whether the problem is a few rows times a matrix that is contiguous along k (a linear layer with
 * few tokens), or the mirror image. Then nothing is packed, and an element is summed in parallel
 * lanes. */
static inline bool weir__gemm_is_dot(const struct weir__gemm *g)
{
    return !g->pack_b && weir_dtype_is_float(g->dtype) && g->a_col == 1 && g->b_row == 1 &&
           (g->m <= WEIR__GEMM_DOT_MAX || g->n <= WEIR__GEMM_DOT_MAX);
}

#define WEIR__GEMM_THIN_MAX 8

/* Whether the problem is a few rows times a row-major matrix [k, n]. Then the matrix is read in
 * place, and k is cut into parts, whose sums are added in their order. */
static inline bool weir__gemm_is_thin(const struct weir__gemm *g)
{
    return !g->pack_b && !g->dot && weir_dtype_is_float(g->dtype) && g->k > 0 &&
           g->m <= WEIR__GEMM_THIN_MAX && g->b_col == 1 && g->n >= 64;
}

/* The length of a part of k in a thin problem. It depends only on k, and so does the result. With
 * shorter parts most of the time would go into adding sums. */
static inline int64_t weir__gemm_part(int64_t k)
{
    const int64_t stretches = (k + 16 * 128 - 1) / (16 * 128);

    return (stretches > 2 ? stretches : 2) * 128;
}

/* Whether weir__gemm_bf16 handles the problem: the processor multiplies pairs of bf16, and there
 * are enough rows to fill tiles, or pairs are adjacent in memory. Decided for a whole problem, so
 * that its parts agree. */
static inline bool weir__gemm_takes_pairs(const struct weir__gemm *g)
{
    return g->dtype == WEIR_BF16 && !g->pack_b && g->k > 0 &&
           (g->dot || (g->m >= 8 && g->n >= 8)) && weir__isa_best_pairs() != WEIR__ISA_NO_PAIRS;
}

/* For f32, f16 and bf16; for bf16 by pairs, if weir__gemm_takes_pairs; for f64; for i8, i32 and
 * i64, which wrap. local WEIR_LOCAL_BYTES, 64-byte aligned.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__gemm_f32, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_bf16, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_f64, (const struct weir__gemm *g, void *local));
WEIR__ISA_DECLARE(void, weir__gemm_int, (const struct weir__gemm *g, void *local));

/* A thin problem in parts. `part` writes the sums of part `part` of g's k, without the bias, as
 * rows of f32 or f64 that are `step` apart. `join` computes C from the sums of all parts, which are
 * `next` apart. The second function is for bf16 if weir__gemm_is_thin_pairs. The results equal
 * those of the functions above. threads  any. */
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
