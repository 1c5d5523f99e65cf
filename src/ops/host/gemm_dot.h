/* Matrix products with at most DOT_FEW rows or columns, both operands contiguous
 * along k: dot products of lines where they lie. See weir__gemm_is_dot.
 *
 * The order of one sum: LANES partial sums, the last step filled up with zeros,
 * then halves added onto halves. */
#ifndef WEIR_OPS_HOST_GEMM_DOT_H
#define WEIR_OPS_HOST_GEMM_DOT_H

#include "base/base.h"
#include "ops/host/gemm.h"
#include "ops/host/gemm_pack.h"

/* Lines of an operand, `step` elements apart. */
struct lines {
    const char *data;
    int64_t count, step;
};

ALWAYS_INLINE vec load_part(const char *src, int64_t at, int64_t n, weir_dtype dtype)
{
    vec v = vec_set(0);

    for (int64_t i = 0; i < n; i++)
        v[i] = load_one(src, at + i, dtype);
    return v;
}

/* sums[f][m] for `few` x `many` lines, both constants where it is called. */
ALWAYS_INLINE void dot_tile(int few, int many, int64_t kn, const struct lines *x, int64_t m,
                            const struct lines *y, weir_dtype dtype, real sums[][4])
{
    vec acc[8];
    int64_t k = 0;

#pragma GCC unroll 8
    for (int i = 0; i < few * many; i++)
        acc[i] = vec_set(0);
    for (; k < kn; k += LANES) {
        const bool whole = k + LANES <= kn;
        vec line[4];

#pragma GCC unroll 4
        for (int q = 0; q < many; q++) {
            const int64_t at = (m + q) * y->step + k;

            line[q] = weir__likely(whole) ? load_vec(y->data, at, dtype)
                                          : load_part(y->data, at, kn - k, dtype);
        }
#pragma GCC unroll 4
        for (int f = 0; f < few; f++) {
            const int64_t at = f * x->step + k;
            vec v = weir__likely(whole) ? load_vec(x->data, at, dtype)
                                        : load_part(x->data, at, kn - k, dtype);

#pragma GCC unroll 4
            for (int q = 0; q < many; q++)
                acc[f * many + q] = fused(v, line[q], acc[f * many + q]);
        }
    }
#pragma GCC unroll 4
    for (int f = 0; f < few; f++)
#pragma GCC unroll 4
        for (int q = 0; q < many; q++)
            sums[f][q] = lanes_sum(acc[f * many + q]);
}

/* Lines m .. m+return of y against all of x. */
ALWAYS_INLINE int dot_step(int64_t kn, const struct lines *x, int64_t m, const struct lines *y,
                           weir_dtype dtype, real sums[][4])
{
    const int64_t left = y->count - m;

    switch (x->count) {
    case 1:
        if (left >= 4)
            return dot_tile(1, 4, kn, x, m, y, dtype, sums), 4;
        return dot_tile(1, 1, kn, x, m, y, dtype, sums), 1;
    case 2:
        if (left >= 4)
            return dot_tile(2, 4, kn, x, m, y, dtype, sums), 4;
        return dot_tile(2, 1, kn, x, m, y, dtype, sums), 1;
    case 3:
        if (left >= 2)
            return dot_tile(3, 2, kn, x, m, y, dtype, sums), 2;
        return dot_tile(3, 1, kn, x, m, y, dtype, sums), 1;
    default:
        if (left >= 2)
            return dot_tile(4, 2, kn, x, m, y, dtype, sums), 2;
        return dot_tile(4, 1, kn, x, m, y, dtype, sums), 1;
    }
}

ALWAYS_INLINE void dot_typed(const struct weir__gemm *g, weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype);
    const struct lines a = {g->a, g->m, g->a_row}, b = {g->b, g->n, g->b_col};
    const bool few_rows = g->m <= g->n;
    const struct lines *x = few_rows ? &a : &b, *y = few_rows ? &b : &a;
    real sums[4][4];

    for (int64_t m = 0; m < y->count;) {
        const int step = dot_step(g->k, x, m, y, dtype, sums);

        for (int64_t f = 0; f < x->count; f++)
            for (int q = 0; q < step; q++) {
                const int64_t i = few_rows ? f : m + q, j = few_rows ? m + q : f;
                real sum = sums[f][q];

                if (g->bias)
                    sum += load_one(g->bias, i * g->bias_row + j * g->bias_col, dtype);
                store_row(g->c + (i * g->c_row + j * g->c_col) * size, 1, dtype, &sum, 1);
            }
        m += step;
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
