/* Matrix products with at most WEIR__GEMM_DOT_MAX rows or columns, both operands contiguous along
 * k: dot products of lines in place. See weir__gemm_is_dot.
 *
 * The order of one sum: LANES partial sums, the last step padded with zeros; then halves are added
 * to halves. */
#ifndef WEIR_OPS_HOST_GEMM_DOT_H
#define WEIR_OPS_HOST_GEMM_DOT_H

#include "base/base.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_thin.h"

/* Lines of the smaller and of the larger operand at a time: as many sums as fit into registers. */
#define DOT_FEW (WEIR__ISA_LEVEL == WEIR__ISA_V4 ? 4 : 2)
#define DOT_MANY 4
#define DOT_AHEAD 1024 /* bytes of a line: prefetches farther ahead than the hardware */

/* Inlined: a call in the innermost loop would spill all sums to memory. */
ALWAYS_INLINE int64_t element_size(weir_dtype dtype)
{
    return dtype == REAL_DTYPE ? (int64_t)sizeof(real) : 2;
}

/* Lines of an operand, `step` elements apart. */
struct lines {
    const char *data;
    int64_t count, step;
};

/* Adds `n` elements from k on, at most LANES; `ahead`: prefetches later ones. */
ALWAYS_INLINE void dot_step(int few, int many, int64_t k, int64_t n, bool ahead,
                            const struct lines *x, int64_t f0, const struct lines *y, int64_t m,
                            weir_dtype dtype, vec *acc)
{
    vec line[DOT_MANY];

#pragma GCC unroll 4
    for (int q = 0; q < many; q++) {
        const int64_t at = (m + q) * y->step + k;

        if (ahead)
            __builtin_prefetch(y->data + at * element_size(dtype) + DOT_AHEAD);
        line[q] = n == LANES ? load_vec(y->data, at, dtype) : load_part(y->data, at, n, dtype);
    }
#pragma GCC unroll 4
    for (int f = 0; f < few; f++) {
        const int64_t at = (f0 + f) * x->step + k;
        vec v = n == LANES ? load_vec(x->data, at, dtype) : load_part(x->data, at, n, dtype);

#pragma GCC unroll 4
        for (int q = 0; q < many; q++)
            acc[f * many + q] = fused(v, line[q], acc[f * many + q]);
    }
}

/* sums[f][q] of lines f0 + f of x and m + q of y; `few` and `many` are constants at each call. */
ALWAYS_INLINE void dot_tile(int few, int many, int64_t kn, const struct lines *x, int64_t f0,
                            const struct lines *y, int64_t m, weir_dtype dtype,
                            real sums[][DOT_MANY])
{
    vec acc[DOT_FEW * DOT_MANY];
    int64_t k = 0;

#pragma GCC unroll 16
    for (int i = 0; i < few * many; i++)
        acc[i] = vec_set(0);
    if (element_size(dtype) * 2 == sizeof(real)) /* two steps per cache line */
        for (; k + 2 * LANES <= kn; k += 2 * LANES) {
            dot_step(few, many, k, LANES, true, x, f0, y, m, dtype, acc);
            dot_step(few, many, k + LANES, LANES, false, x, f0, y, m, dtype, acc);
        }
    for (; k + LANES <= kn; k += LANES)
        dot_step(few, many, k, LANES, true, x, f0, y, m, dtype, acc);
    if (k < kn)
        dot_step(few, many, k, kn - k, false, x, f0, y, m, dtype, acc);
#pragma GCC unroll 4
    for (int f = 0; f < few; f++)
        if (many == DOT_MANY)
            lanes_sums(&acc[f * DOT_MANY], sums[f]);
        else
            sums[f][0] = lanes_sum(acc[f]);
}

ALWAYS_INLINE void dot_few(int64_t few, int many, int64_t kn, const struct lines *x, int64_t f0,
                           const struct lines *y, int64_t m, weir_dtype dtype,
                           real sums[][DOT_MANY])
{
    if (few == 1)
        dot_tile(1, many, kn, x, f0, y, m, dtype, sums);
    else if (few == 2)
        dot_tile(2, many, kn, x, f0, y, m, dtype, sums);
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    else if (few == 3)
        dot_tile(3, many, kn, x, f0, y, m, dtype, sums);
    else
        dot_tile(4, many, kn, x, f0, y, m, dtype, sums);
#endif
}

ALWAYS_INLINE void dot_typed(const struct weir__gemm *g, weir_dtype dtype)
{
    const int64_t size = element_size(dtype);
    const struct lines a = {g->a, g->m, g->a_row}, b = {g->b, g->n, g->b_col};
    const bool few_rows = g->m <= g->n;
    const struct lines *x = few_rows ? &a : &b, *y = few_rows ? &b : &a;

    for (int64_t m = 0; m < y->count;) {
        const int many = m + DOT_MANY <= y->count ? DOT_MANY : 1;

        for (int64_t f0 = 0; f0 < x->count; f0 += DOT_FEW) {
            const int64_t few = weir__min(DOT_FEW, x->count - f0);
            real sums[DOT_FEW][DOT_MANY];

            if (many == DOT_MANY)
                dot_few(few, DOT_MANY, g->k, x, f0, y, m, dtype, sums);
            else
                dot_few(few, 1, g->k, x, f0, y, m, dtype, sums);
            for (int64_t f = 0; f < few; f++)
                for (int q = 0; q < many; q++) {
                    const int64_t i = few_rows ? f0 + f : m + q, j = few_rows ? m + q : f0 + f;
                    real sum = sums[f][q];

                    if (g->bias)
                        sum += load_one(g->bias, i * g->bias_row + j * g->bias_col, dtype);
                    store_row(g->c + (i * g->c_row + j * g->c_col) * size, 1, dtype, &sum, 1);
                }
        }
        m += many;
    }
}

static void dot_lines(const struct weir__gemm *g)
{
#if !WEIR__REAL_F64
    if (g->dtype == WEIR_F16)
        dot_typed(g, WEIR_F16);
    else if (g->dtype == WEIR_BF16)
        dot_typed(g, WEIR_BF16);
    else
#endif
        dot_typed(g, REAL_DTYPE);
}

#endif
