/* Tiles of 32 x 32 sums of products of bf16, by instructions that multiply pairs: AVX-512 BF16
 * here, AMX in pairs_amx.h. For files of level v4.
 *
 * A lies in rows; B in panels of 16 columns, [k / 2][16] pairs of consecutive k. Both have zeros up
 * to whole tiles. The instructions take subnormal numbers as zeros.
 */
#ifndef WEIR_OPS_HOST_PAIRS_H
#define WEIR_OPS_HOST_PAIRS_H

#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm_pack.h"

enum {
    UNIT = 32, /* of m, n and k */
    PANEL = 16,
};

static inline int64_t wide(int64_t n)
{
    return weir__div_up(n, UNIT) * UNIT;
}

/* ---- packing ---- */

/* Two rows of B, 16 columns each, as pairs. */
ALWAYS_INLINE void pack_two_rows(uint32_t *dst, const uint16_t *even, const uint16_t *odd)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd));

    _mm512_storeu_si512(dst, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

/* A square of 16 columns, each contiguous along k, by 16 pairs: the transpose of 32-bit words. */
static void pack_square_of_pairs(uint32_t *dst, const uint16_t *src, int64_t step)
{
    __m512i r[16], t[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_si512(src + i * step);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    /* r[4 i + q]: words q, q + 4, q + 8, q + 12 of columns 4 i .. 4 i + 3, in quarters */
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const __m512i a = _mm512_shuffle_i32x4(r[q], r[4 + q], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(r[q], r[4 + q], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + q], r[12 + q], 0xdd);

        _mm512_storeu_si512(dst + q * PANEL, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_storeu_si512(dst + (8 + q) * PANEL, _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_storeu_si512(dst + (4 + q) * PANEL, _mm512_shuffle_i32x4(b, d, 0x88));
        _mm512_storeu_si512(dst + (12 + q) * PANEL, _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}

/* A panel with an edge, or of any strides. */
static void pack_panel_slowly(uint32_t *dst, int64_t from, int64_t pairs, int64_t cols, int64_t kn,
                              const uint16_t *src, int64_t row, int64_t col)
{
    for (int64_t p = from; p < pairs; p++)
        for (int64_t j = 0; j < PANEL; j++) {
            const uint16_t *at = src + 2 * p * row + j * col;
            uint32_t low = j < cols && 2 * p < kn ? at[0] : 0;
            uint32_t high = j < cols && 2 * p + 1 < kn ? at[row] : 0;

            dst[p * PANEL + j] = low | high << 16;
        }
}

/* A panel of `pairs` pairs along k, of which kn elements are there, and of `cols` columns; element
 * (k, j) is at src + k * row + j * col. */
static void pack_panel_of_pairs(uint32_t *dst, int64_t pairs, int64_t cols, int64_t kn,
                                const uint16_t *src, int64_t row, int64_t col)
{
    int64_t p = 0;

    if (cols == PANEL && col == 1)
        for (; 2 * p + 1 < kn; p++)
            pack_two_rows(dst + p * PANEL, src + 2 * p * row, src + (2 * p + 1) * row);
    else if (cols == PANEL && row == 1)
        for (; 2 * (p + PANEL) <= kn; p += PANEL)
            pack_square_of_pairs(dst + p * PANEL, src + 2 * p, col);
    pack_panel_slowly(dst, p, pairs, cols, kn, src, row, col);
}

/* ---- tiles ---- */

/* What one tile of sums is made of. */
struct pair_tile {
    const uint16_t *a; /* UNIT rows, a_step elements apart, k of each */
    const uint32_t *b; /* two panels, b_next pairs apart */
    float *c;          /* UNIT rows, c_step apart */
    int64_t a_step, b_next, c_step;
    int64_t k; /* a multiple of UNIT */
    bool add;  /* to what is in c */
};

#define TARGET_BF16 __attribute__((target("avx512bf16")))
#define ROWS 8

static TARGET_BF16 void dots(const struct pair_tile *t)
{
    const int64_t a_step = t->a_step, c_step = t->c_step;
    const uint16_t *a = t->a;
    float *c = t->c;

    for (int part = 0; part < UNIT / ROWS; part++, a += ROWS * a_step, c += ROWS * c_step) {
        __m512 acc[2 * ROWS];

#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            acc[2 * i] = t->add ? _mm512_loadu_ps(c + i * c_step) : _mm512_setzero_ps();
            acc[2 * i + 1] = t->add ? _mm512_loadu_ps(c + i * c_step + PANEL) : _mm512_setzero_ps();
        }
        for (int64_t p = 0; p < t->k / 2; p++) {
            const __m512bh b0 = (__m512bh)_mm512_loadu_si512(t->b + p * PANEL);
            const __m512bh b1 = (__m512bh)_mm512_loadu_si512(t->b + t->b_next + p * PANEL);

#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                int32_t two;
                __m512bh x;

                memcpy(&two, a + i * a_step + 2 * p, sizeof two);
                x = (__m512bh)_mm512_set1_epi32(two);
                acc[2 * i] = _mm512_dpbf16_ps(acc[2 * i], x, b0);
                acc[2 * i + 1] = _mm512_dpbf16_ps(acc[2 * i + 1], x, b1);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            _mm512_storeu_ps(c + i * c_step, acc[2 * i]);
            _mm512_storeu_ps(c + i * c_step + PANEL, acc[2 * i + 1]);
        }
    }
}

#include "ops/host/product/pairs_amx.h"

#endif
