/* Matrix products with few rows and a row-major B: B is read once, in place, in long stretches of
 * several rows at a time. See weir__gemm_is_thin.
 *
 * The order of one sum: within a part of k the same as in tiles; the sums of the parts are added
 * one by one. Different cores may compute the parts.
 */
#ifndef WEIR_OPS_HOST_GEMM_THIN_H
#define WEIR_OPS_HOST_GEMM_THIN_H

#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm.h"
#include "ops/host/product/gemm_pack.h"

#define THIN_ROWS (WEIR__ISA_LEVEL == WEIR__ISA_V4 ? 8 : 4) /* at a time */
#define THIN_DEPTH 8                                        /* rows of B at a time, the most */
#define THIN_SUMS 4096                                      /* sums that stay in the L1 cache */
/* Bytes of each row of B to prefetch, of long and of short rows. */
#define THIN_AHEAD 2048
#define THIN_AHEAD_SHORT 512

_Static_assert(3 * THIN_SUMS * sizeof(real) <= WEIR_LOCAL_BYTES, "of a stretch, a part and all");

/* The current rows of B and the elements of A that they are multiplied by. */
struct thin_part {
    const struct weir__gemm *g;
    int64_t j0, cols, width; /* width: of a row of sums */
    int64_t k;
    int depth;                      /* rows of B */
    real a[THIN_ROWS * THIN_DEPTH]; /* [row][depth], zeros beyond A's edges */
    real *sums;                     /* [rows][width] */
    const char *ahead; /* the memory to prefetch: the counterpart of row k, column j0 */
};

/* The rows of B at a time. With one row of sums, fewer streams of B at a time are faster, unless
 * elements are converted. `rows` is a constant at each call. */
ALWAYS_INLINE int thin_depth(int rows, weir_dtype dtype)
{
    return rows == 1 && dtype == REAL_DTYPE ? THIN_DEPTH / 2 : THIN_DEPTH;
}

/* Adds the products of thin_depth rows of B to the sums of `nv` vectors of columns. `rows` and `nv`
 * are constants at each call. */
ALWAYS_INLINE void thin_columns(int rows, int nv, const struct thin_part *p, int64_t j,
                                weir_dtype dtype)
{
    const struct weir__gemm *g = p->g;
    const int64_t size = (int64_t)weir_dtype_size(dtype);
    vec acc[2 * THIN_ROWS];

#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            acc[i * nv + v] = *(const vec *)(p->sums + i * p->width + j + v * LANES);
#pragma GCC unroll 8
    for (int q = 0; q < thin_depth(rows, dtype); q++) {
        const int64_t at = (p->k + q) * g->b_row + p->j0 + j;
        vec b[4];

#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            if (v * LANES * size % 64 == 0)
                __builtin_prefetch(p->ahead + (q * g->b_row + j + v * LANES) * size);
            b[v] = load_vec(g->b, at + v * LANES, dtype);
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const vec x = vec_set(p->a[i * THIN_DEPTH + q]);

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                acc[i * nv + v] = fused(x, b[v], acc[i * nv + v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            *(vec *)(p->sums + i * p->width + j + v * LANES) = acc[i * nv + v];
}

/* The same for the rest: fewer rows of B, n <= LANES columns. */
ALWAYS_INLINE void thin_rest(int rows, const struct thin_part *p, int64_t j, int64_t n,
                             weir_dtype dtype)
{
#pragma GCC unroll 1
    for (int q = 0; q < p->depth; q++) {
        const int64_t at = (p->k + q) * p->g->b_row + p->j0 + j;
        const vec b = n == LANES ? load_vec(p->g->b, at, dtype) : load_part(p->g->b, at, n, dtype);

#pragma GCC unroll 1
        for (int i = 0; i < rows; i++) {
            vec *sum = (vec *)(p->sums + i * p->width + j);

            *sum = fused(vec_set(p->a[i * THIN_DEPTH + q]), b, *sum);
        }
    }
}

ALWAYS_INLINE void thin_step(int rows, struct thin_part *p, weir_dtype dtype)
{
    const int nv = rows <= 2 ? 4 : 2;
    const int64_t size = (int64_t)weir_dtype_size(dtype), step = nv * LANES;
    /* prefetches within these rows; at their end, in the next rows */
    const bool is_long = p->cols * size >= (rows > 4 ? 16384 : 8192);
    const int64_t ahead = is_long ? THIN_AHEAD : THIN_AHEAD_SHORT, here = p->cols - ahead / size;
    const char *const b = p->g->b + (p->k * p->g->b_row + p->j0) * size;
    int64_t j = 0;

    if (p->depth == thin_depth(rows, dtype)) {
        p->ahead = b + ahead;
        for (; j + step <= weir__min(p->cols, here); j += step)
            thin_columns(rows, nv, p, j, dtype);
        p->ahead = b +
                   (p->k + 2 * thin_depth(rows, dtype) <= p->g->k
                        ? thin_depth(rows, dtype) * p->g->b_row * size
                        : 0) -
                   weir__max(0, here) * size;
        for (; j + step <= p->cols; j += step)
            thin_columns(rows, nv, p, j, dtype);
    }
    for (; j < p->cols; j += LANES)
        thin_rest(rows, p, j, weir__min(LANES, p->cols - j), dtype);
}

/* Loads the elements of A that are multiplied with rows k and on of B. */
ALWAYS_INLINE void thin_rows_of_a(struct thin_part *p, int rows, weir_dtype dtype)
{
    const struct weir__gemm *g = p->g;

    for (int i = 0; i < rows; i++)
        for (int q = 0; q < THIN_DEPTH; q++)
            p->a[i * THIN_DEPTH + q] =
                i < g->m && q < p->depth
                    ? load_one(g->a, i * g->a_row + (p->k + q) * g->a_col, dtype)
                    : 0;
}

/* The same for rows k .. end of B, at least one; `rows` is a constant at each call. */
ALWAYS_INLINE void thin_rows(int rows, struct thin_part *p, int64_t k, int64_t end, real *total,
                             weir_dtype dtype)
{
    const size_t bytes = (size_t)(rows * p->width) * sizeof(real);
    bool set = true;

    do {
        const int64_t stop = weir__min(k + STRETCH, end);

        memset(p->sums, 0, bytes);
        for (p->k = k; p->k < stop; p->k += thin_depth(rows, dtype)) {
            p->depth = (int)weir__min(thin_depth(rows, dtype), stop - p->k);
            thin_rows_of_a(p, rows, dtype);
            thin_step(rows, p, dtype);
        }
        if (set)
            memcpy(total, p->sums, bytes);
        else
            for (int64_t j = 0; j < rows * p->width; j++)
                total[j] += p->sums[j];
        set = false;
        k = stop;
    } while (k < end);
}

ALWAYS_INLINE void thin_typed(struct thin_part *p, int64_t part, real *total, weir_dtype dtype)
{
    const int64_t length = weir__gemm_part(p->g->k);
    const int64_t k = part * length, end = weir__min(p->g->k, k + length);

    if (p->g->m == 1)
        thin_rows(1, p, k, end, total, dtype);
    else if (p->g->m == 2)
        thin_rows(2, p, k, end, total, dtype);
    else if (p->g->m <= 4)
        thin_rows(4, p, k, end, total, dtype);
    else
        thin_rows(THIN_ROWS, p, k, end, total, dtype);
}

/* Sets `total` to the sums of a part of k, for the current columns. */
static __attribute__((noinline)) void thin_one_part(struct thin_part *p, int64_t part, real *total)
{
#if !WEIR__REAL_F64
    if (p->g->dtype == WEIR_F16)
        thin_typed(p, part, total, WEIR_F16);
    else if (p->g->dtype == WEIR_BF16)
        thin_typed(p, part, total, WEIR_BF16);
    else
#endif
        thin_typed(p, part, total, REAL_DTYPE);
}

/* Adds the bias to rows of sums, `step` apart, and writes them to columns j0 .. j0+cols of C. */
static void thin_write(const struct weir__gemm *g, int64_t j0, int64_t cols, real *sums,
                       int64_t step)
{
    const weir_dtype dtype = g->dtype;
    const int64_t size = (int64_t)weir_dtype_size(dtype);

    for (int64_t i = 0; i < g->m; i++, sums += step) {
        if (g->bias)
            for (int64_t j = 0; j < cols; j++)
                sums[j] += load_one(g->bias, i * g->bias_row + (j0 + j) * g->bias_col, dtype);
        store_row(g->c + (i * g->c_row + j0 * g->c_col) * size, g->c_col, dtype, sums, cols);
    }
}

/* The destination of the sums: C, with all parts added; or memory, for one part. */
struct thin_target {
    int64_t part; /* -1: all parts */
    real *sums;
    int64_t step; /* distance between rows */
};

/* At most THIN_ROWS rows. */
static void thin_some(const struct weir__gemm *g, void *local, const struct thin_target *target)
{
    const int64_t rows = g->m == 1 ? 1 : g->m == 2 ? 2 : g->m <= 4 ? 4 : THIN_ROWS;
    const int64_t parts = weir__div_up(g->k, weir__gemm_part(g->k));
    struct thin_part p = {.g = g, .width = THIN_SUMS / rows, .sums = local};
    real *one = p.sums + THIN_SUMS, *all = one + THIN_SUMS;

    for (p.j0 = 0; p.j0 < g->n; p.j0 += p.width) {
        p.cols = weir__min(p.width, g->n - p.j0);
        if (target->part >= 0) {
            thin_one_part(&p, target->part, one);
            for (int64_t i = 0; i < g->m; i++)
                memcpy(target->sums + i * target->step + p.j0, one + i * p.width,
                       (size_t)p.cols * sizeof *one);
            continue;
        }
        thin_one_part(&p, 0, all);
        for (int64_t part = 1; part < parts; part++) {
            thin_one_part(&p, part, one);
            for (int64_t j = 0; j < rows * p.width; j++)
                all[j] += one[j];
        }
        thin_write(g, p.j0, p.cols, all, p.width);
    }
}

static void thin(const struct weir__gemm *g, void *local, struct thin_target target)
{
    const int64_t size = (int64_t)weir_dtype_size(g->dtype);
    struct weir__gemm some = *g;

    for (int64_t at = 0; at < g->m; at += THIN_ROWS) {
        some.m = weir__min(g->m - at, THIN_ROWS);
        some.a = g->a + at * g->a_row * size;
        some.c = g->c + at * g->c_row * size;
        some.bias = g->bias ? g->bias + at * g->bias_row * size : NULL;
        thin_some(&some, local, &target);
        target.sums += target.sums ? THIN_ROWS * target.step : 0;
    }
}

/* Computes C from the sums of its parts; rows are `step` apart, parts `next` apart. */
static void thin_join(const struct weir__gemm *g, const real *sums, int64_t parts, int64_t step,
                      int64_t next, void *local)
{
    real *row = local;
    struct weir__gemm one = *g;

    one.m = 1;
    for (int64_t i = 0; i < g->m; i++) {
        one.c = g->c + i * g->c_row * (int64_t)weir_dtype_size(g->dtype);
        one.bias = g->bias ? g->bias + i * g->bias_row * (int64_t)weir_dtype_size(g->dtype) : NULL;
        for (int64_t j0 = 0; j0 < g->n; j0 += THIN_SUMS) {
            const int64_t cols = weir__min(THIN_SUMS, g->n - j0);

            memcpy(row, sums + i * step + j0, (size_t)cols * sizeof *row);
            for (int64_t part = 1; part < parts; part++)
                for (int64_t j = 0; j < cols; j++)
                    row[j] += sums[part * next + i * step + j0 + j];
            thin_write(&one, j0, cols, row, 0);
        }
    }
}

#endif
