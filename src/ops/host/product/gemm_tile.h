/* The inner parts of matrix multiplication, shared by gemm and attention.
 *
 * Included with WEIR__REAL_F64 set to 0 or 1, which decides the compute type
 * `real`. A is packed in panels of MR rows, [k][MR]; B in panels of NR columns, [k][NR]; both have
 * zeros beyond the edge. A kernel keeps a tile of C in registers and loops over k once.
 */
#ifndef WEIR_OPS_HOST_GEMM_TILE_H
#define WEIR_OPS_HOST_GEMM_TILE_H

#include <stdbool.h>

#include "base/half.h"
#include "ops/host/isa.h"
#include "weir/tensor.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#if WEIR__REAL_F64
typedef double real;
#define REAL_DTYPE WEIR_F64
#else
typedef float real;
#define REAL_DTYPE WEIR_F32
#endif

#if WEIR__ISA_LEVEL == WEIR__ISA_V4
#define VEC_BYTES 64
#define MR 8
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
#define VEC_BYTES 32
#define MR 4
#else
#define VEC_BYTES 16
#define MR 4
#endif

#define LANES ((int)(VEC_BYTES / sizeof(real)))
#define NV 3
#define NR (NV * LANES)
#define AHEAD_ROWS 8

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef real vec __attribute__((vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias));
typedef real vec4 __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* Uses explicit instructions, because compilers differ in whether they fuse a * b + c. */
ALWAYS_INLINE vec fused(vec a, vec b, vec c)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && WEIR__REAL_F64
    return _mm512_fmadd_pd(a, b, c);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V4
    return _mm512_fmadd_ps(a, b, c);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3 && WEIR__REAL_F64
    return _mm256_fmadd_pd(a, b, c);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

ALWAYS_INLINE vec vec_set(real x)
{
    return x - (vec){0};
}

/* The sums of four vectors, each in a fixed order: halves are added to halves. */
#if WEIR__ISA_LEVEL >= WEIR__ISA_V3 && !WEIR__REAL_F64
ALWAYS_INLINE __m128 lanes_quarter(vec v)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v),
                                _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
#else
    __m256 half = v;
#endif
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

ALWAYS_INLINE void lanes_sums(const vec v[4], real sums[4])
{
    __m128 a = lanes_quarter(v[0]), b = lanes_quarter(v[1]);
    __m128 c = lanes_quarter(v[2]), d = lanes_quarter(v[3]);

    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(sums, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
}

ALWAYS_INLINE real lanes_sum(vec v)
{
    __m128 q = lanes_quarter(v), h = _mm_add_ps(q, _mm_movehl_ps(q, q));

    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}
#else
ALWAYS_INLINE real lanes_sum(vec v)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    return v[0];
}

ALWAYS_INLINE void lanes_sums(const vec v[4], real sums[4])
{
    for (int i = 0; i < 4; i++)
        sums[i] = lanes_sum(v[i]);
}
#endif

/* This many products are added one after another; then the sums of such stretches are added. The
 * error of a sum grows with the length of its chain. */
enum { STRETCH = 96 };
/* A stretch never crosses a chunk of k; a packed panel holds one chunk. */
enum { CHUNK = (int)(2048 / sizeof(real)) };

/* A tile of `rows` x `nv` vectors of C, row stride ldc, set to or increased by the product of A and
 * `kn` rows of B. A is a panel, or rows that are `lda` apart if `lda` is not 0. Row k of B is at
 * b + k * ldb, or at b + at[k] if `at` is given. `rows`, `nv` and whether there is an `lda` and an
 * `at` are constants at each call. */
ALWAYS_INLINE void tile(int rows, int nv, int64_t kn, const real *a, int64_t lda, const real *b,
                        int64_t ldb, const int32_t *at, real *c, int64_t ldc, bool add)
{
    int64_t k = 0;

    do { /* at least once: with k = 0, C is 0 */
        const int64_t stop = kn - k < STRETCH ? kn : k + STRETCH;
        vec acc[NV * MR];

#pragma GCC unroll 24
        for (int i = 0; i < rows * nv; i++)
            acc[i] = vec_set(0);
        for (; k < stop; k++, a += lda ? 1 : MR) {
            const real *from = at ? b + at[k] : b;
            vec row[NV];

#if WEIR__ISA_LEVEL == WEIR__ISA_V4 /* a panel of B is in the second-level cache */
#pragma GCC unroll 12
            for (int v = 0; v < nv; v++)
                __builtin_prefetch(from + AHEAD_ROWS * ldb + v * LANES);
#endif
#pragma GCC unroll 12
            for (int v = 0; v < nv; v++)
                row[v] = *(const vec *)(from + v * LANES);
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++) {
                const vec x = vec_set(a[lda ? i * lda : i]);

#pragma GCC unroll 12
                for (int v = 0; v < nv; v++)
                    acc[i * nv + v] = fused(x, row[v], acc[i * nv + v]);
            }
            b += ldb;
        }
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 12
            for (int v = 0; v < nv; v++) {
                vec *to = (vec *)(c + i * ldc + v * LANES);

                if (add)
                    acc[i * nv + v] += *to;
                *to = acc[i * nv + v];
            }
        }
        add = true;
    } while (k < kn);
}

/* The rows and columns of C that panel_tile writes for this many valid ones. */
ALWAYS_INLINE int tile_rows(int64_t rows)
{
    return rows > MR / 2 ? MR : rows > MR / 4 ? MR / 2 : MR / 4;
}

ALWAYS_INLINE int tile_cols(int64_t cols)
{
    return cols > 2 * LANES ? NR : cols > LANES ? 2 * LANES : LANES;
}

ALWAYS_INLINE void tile_of_rows(int rows, int64_t cols, int64_t kn, const real *a, int64_t lda,
                                const real *b, int64_t ldb, const int32_t *at, real *c, int64_t ldc,
                                bool add)
{
    if (tile_cols(cols) == NR) /* no switch: with two vectors per panel, its cases would be
                                * identical */
        tile(rows, NV, kn, a, lda, b, ldb, at, c, ldc, add);
    else if (tile_cols(cols) == 2 * LANES)
        tile(rows, 2, kn, a, lda, b, ldb, at, c, ldc, add);
    else
        tile(rows, 1, kn, a, lda, b, ldb, at, c, ldc, add);
}

/* Computes the tile of a packed panel of A with `rows` valid rows and of `cols` valid columns of
 * B. */
ALWAYS_INLINE void panel_tile(int64_t rows, int64_t cols, int64_t kn, const real *a, const real *b,
                              int64_t ldb, const int32_t *at, real *c, int64_t ldc, bool add)
{
    switch (tile_rows(rows)) {
    case MR:
        tile_of_rows(MR, cols, kn, a, 0, b, ldb, at, c, ldc, add);
        break;
    case MR / 2:
        tile_of_rows(MR / 2, cols, kn, a, 0, b, ldb, at, c, ldc, add);
        break;
    default:
        tile_of_rows(MR / 4, cols, kn, a, 0, b, ldb, at, c, ldc, add);
    }
}

#endif
