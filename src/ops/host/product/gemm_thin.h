/* Matrix products with at most THIN_ROWS rows and B contiguous along its rows: B
 * is read once, where it lies, in long stretches. The order of the sums is that
 * of the tiles. */
#ifndef WEIR_OPS_HOST_GEMM_THIN_H
#define WEIR_OPS_HOST_GEMM_THIN_H

#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_pack.h"

#define THIN_ROWS 4
#define THIN_COLS 4096  /* whose sums stay in the first-level cache */
#define THIN_SHORT 4096 /* bytes */
#define THIN_AHEAD 16   /* rows of B that are on their way, if they are short */

_Static_assert(2 * THIN_ROWS * THIN_COLS * sizeof(real) <= WEIR_LOCAL_BYTES,
               "sums of two stretches");

/* sums[rows][THIN_COLS] += A[..][k .. k+depth) B[k .. k+depth)[j0 .. j0+cols). */
ALWAYS_INLINE void thin_step(int rows, int depth, const struct weir__gemm *g, int64_t k, int64_t j0,
                             int64_t cols, real *sums, weir_dtype dtype)
{
    vec a[8];

#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int q = 0; q < depth; q++)
            a[i * depth + q] = vec_set(load_one(g->a, i * g->a_row + (k + q) * g->a_col, dtype));
    for (int64_t j = 0; j < cols; j += LANES) {
        vec b[8];

        /* Of short stretches the hardware has not foreseen the next: it is on another page. */
        if (cols * (int64_t)weir_dtype_size(dtype) <= THIN_SHORT &&
            k + THIN_AHEAD + depth <= g->k) {
#pragma GCC unroll 8
            for (int q = 0; q < depth; q++)
                __builtin_prefetch(g->b + ((k + THIN_AHEAD + q) * g->b_row + j0 + j) *
                                              (int64_t)weir_dtype_size(dtype));
        }
#pragma GCC unroll 8
        for (int q = 0; q < depth; q++) {
            const int64_t at = (k + q) * g->b_row + j0 + j;

            b[q] = weir__likely(j + LANES <= cols) ? load_vec(g->b, at, dtype)
                                                   : load_part(g->b, at, cols - j, dtype);
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            vec *to = (vec *)(sums + i * THIN_COLS + j), sum = *to;

#pragma GCC unroll 8
            for (int q = 0; q < depth; q++)
                sum = fused(a[i * depth + q], b[q], sum);
            *to = sum;
        }
    }
}

ALWAYS_INLINE void thin_rows(int rows, int depth, const struct weir__gemm *g, int64_t j0,
                             int64_t cols, real *sums, weir_dtype dtype)
{
    int64_t k = 0;

    do {
        const int64_t stop = weir__min(k + STRETCH, g->k);
        const bool first = k == 0;
        real *to = first ? sums : sums + rows * THIN_COLS;

        memset(to, 0, (size_t)rows * THIN_COLS * sizeof *to);
        for (; k + depth <= stop; k += depth)
            thin_step(rows, depth, g, k, j0, cols, to, dtype);
        for (; k < stop; k++)
            thin_step(rows, 1, g, k, j0, cols, to, dtype);
        for (int i = 0; i < rows && !first; i++)
            for (int64_t j = 0; j < cols; j++)
                sums[i * THIN_COLS + j] += to[i * THIN_COLS + j];
    } while (k < g->k);
}

ALWAYS_INLINE void thin_typed(const struct weir__gemm *g, real *sums, weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype);

    for (int64_t j0 = 0; j0 < g->n; j0 += THIN_COLS) {
        const int64_t cols = weir__min(THIN_COLS, g->n - j0);

        switch (g->m) {
        case 1:
            thin_rows(1, 8, g, j0, cols, sums, dtype);
            break;
        case 2:
            thin_rows(2, 4, g, j0, cols, sums, dtype);
            break;
        case 3:
            thin_rows(3, 2, g, j0, cols, sums, dtype);
            break;
        default:
            thin_rows(4, 2, g, j0, cols, sums, dtype);
        }
        for (int64_t i = 0; i < g->m; i++) {
            real *row = sums + i * THIN_COLS;

            if (g->bias)
                for (int64_t j = 0; j < cols; j++)
                    row[j] += load_one(g->bias, i * g->bias_row + (j0 + j) * g->bias_col, dtype);
            store_row(g->c + (i * g->c_row + j0 * g->c_col) * size, g->c_col, dtype, row, cols);
        }
    }
}

/* Of f16 twice as many rows, in two goes: to read B twice costs less than to pack it as f32. */
static bool is_thin(const struct weir__gemm *g)
{
    return !g->pack_b && g->m <= (g->dtype == WEIR_F16 ? 2 : 1) * THIN_ROWS && g->b_col == 1 &&
           g->n >= 4 * NR;
}

#if !WEIR__REAL_F64
static void thin_f16(const struct weir__gemm *g, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(WEIR_F16);
    struct weir__gemm some = *g;

    for (int64_t at = 0; at < g->m; at += THIN_ROWS) {
        some.m = weir__min(g->m - at, THIN_ROWS);
        some.a = g->a + at * g->a_row * size;
        some.c = g->c + at * g->c_row * size;
        some.bias = g->bias ? g->bias + at * g->bias_row * size : NULL;
        thin_typed(&some, local, WEIR_F16);
    }
}
#endif

static void thin(const struct weir__gemm *g, void *local)
{
#if !WEIR__REAL_F64
    if (g->dtype == WEIR_F16)
        thin_f16(g, local);
    else if (g->dtype == WEIR_BF16)
        thin_typed(g, local, WEIR_BF16);
    else
#endif
        thin_typed(g, local, REAL_DTYPE);
}

#endif
