/* Tiles of 32 x 32 sums of products of bf16, with instructions that multiply pairs: AVX-512 BF16
 * here, AMX in pairs_amx.h. For files compiled at level v4.
 *
 * A is row-major; B is in panels of 16 columns, [k / 2][16] pairs of consecutive k. Both are padded
 * with zeros to whole tiles. The instructions treat subnormal numbers as zero.
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

/* Packs two rows of B, 16 columns each, as pairs. */
ALWAYS_INLINE void pack_two_rows(uint32_t *dst, const uint16_t *even, const uint16_t *odd)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd));

    _mm512_storeu_si512(dst, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

/* Packs a square of 16 columns, each contiguous along k, by 16 pairs: transposes 32-bit words. */
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
    /* r[4 i + q]: words q, q + 4, q + 8, q + 12 of columns 4 i .. 4 i + 3, one per quarter */
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

/* Packs a panel with an edge, or with any strides. */
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

/* Packs a panel of `pairs` pairs along k, of which kn elements exist, and of `cols` columns;
 * element (k, j) is at src + k * row + j * col. */
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

/* The operands of one tile of sums. */
struct pair_tile {
    const uint16_t *a; /* UNIT rows, a_step elements apart, k of each */
    const uint32_t *b; /* two panels, b_next pairs apart */
    float *c;          /* UNIT rows, c_step apart */
    int64_t a_step, b_next, c_step;
    int64_t k; /* a multiple of UNIT, or of 2 for dots */
    bool add;  /* adds to the contents of c */
    /* for dots: the number of rows wanted, a multiple of ROWS; narrow: only the first panel is
     * wanted */
    int rows;
    bool narrow;
};

#define TARGET_BF16 __attribute__((target("avx512bf16")))
#define ROWS 8

/* ROWS rows times `panels` panels; `panels` is a constant at each call. */
ALWAYS_INLINE TARGET_BF16 void dots_of_rows(int panels, const struct pair_tile *t,
                                            const uint16_t *a, float *c)
{
    const int64_t a_step = t->a_step, c_step = t->c_step;
    __m512 acc[2 * ROWS];

#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 2
        for (int v = 0; v < panels; v++)
            acc[2 * i + v] =
                t->add ? _mm512_loadu_ps(c + i * c_step + v * PANEL) : _mm512_setzero_ps();
    for (int64_t p = 0; p < t->k / 2; p++) {
        __m512bh b[2];

#pragma GCC unroll 2
        for (int v = 0; v < panels; v++) {
            __builtin_prefetch(t->b + v * t->b_next + (p + 16) * PANEL);
            b[v] = (__m512bh)_mm512_loadu_si512(t->b + v * t->b_next + p * PANEL);
        }
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            int32_t two;
            __m512bh x;

            memcpy(&two, a + i * a_step + 2 * p, sizeof two);
            x = (__m512bh)_mm512_set1_epi32(two);
#pragma GCC unroll 2
            for (int v = 0; v < panels; v++)
                acc[2 * i + v] = _mm512_dpbf16_ps(acc[2 * i + v], x, b[v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 2
        for (int v = 0; v < panels; v++)
            _mm512_storeu_ps(c + i * c_step + v * PANEL, acc[2 * i + v]);
}

static TARGET_BF16 void dots(const struct pair_tile *t)
{
    for (int i = 0; i < t->rows; i += ROWS) {
        /* prefetches the next sums, below or to the right */
        const float *next = t->c + (i + ROWS < t->rows ? (i + ROWS) * t->c_step : UNIT);

#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            __builtin_prefetch(next + r * t->c_step, 1);
            __builtin_prefetch(next + r * t->c_step + PANEL, 1);
        }
        if (t->narrow)
            dots_of_rows(1, t, t->a + i * t->a_step, t->c + i * t->c_step);
        else
            dots_of_rows(2, t, t->a + i * t->a_step, t->c + i * t->c_step);
    }
}

#include "ops/host/product/pairs_amx.h"

#endif
