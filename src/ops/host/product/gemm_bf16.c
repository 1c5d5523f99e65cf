/* Matrix products of bf16 by instructions that multiply pairs: AMX tiles, or AVX-512 BF16.
 *
 * A is packed by rows, B in panels of 16 columns, [k / 2][16] pairs of consecutive k; both are
 * padded with zeros to whole tiles of 32 x 32 x 32. Sums are f32 in local memory, over pairs of k
 * in ascending order: cutting C among any number of calls gives the same bits. The instructions
 * take subnormal numbers as zeros.
 */
#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm_bf16.h"

#define WEIR__REAL_F64 0
#include "ops/host/product/gemm_pack.h"

#if WEIR__ISA_LEVEL == WEIR__ISA_V4

enum {
    UNIT = 32, /* of m, n and k */
    PANEL = 16,
};

/* What is packed at once. B is, always. A is read where it lies if its rows are contiguous: AMX
 * multiplies it in the time that a copy takes. The dots want a panel of B that the first-level
 * cache holds. */
struct sizes {
    int64_t m, n, k;
};
static const struct sizes sizes[2][2] = {
    /* [AMX][in place] */
    {{512, 512, 256}, {1024, 512, 256}},
    {{256, 512, 1024}, {1024, 512, 1024}},
};
_Static_assert((UNIT * 1024 + 1024 * UNIT + 512 * 1024) * 2 + 1024 * 512 * 4 <= WEIR_LOCAL_BYTES,
               "in place");
_Static_assert((256 + 512) * 1024 * 2 + 256 * 512 * 4 <= WEIR_LOCAL_BYTES, "packed, AMX");
_Static_assert((512 + 512) * 256 * 2 + 512 * 512 * 4 <= WEIR_LOCAL_BYTES, "packed, dots");

struct block {
    const struct weir__gemm *g;
    const struct sizes *most;
    bool amx, in_place;                   /* A is read where it lies, but for its edges */
    int64_t i0, j0, m, n, wide_m, wide_n; /* wide: in whole tiles */
    int64_t k0, kn, wide_k;
    uint16_t *a;     /* [wide_m][most->k]; in place: the last rows, [UNIT][most->k] */
    uint16_t *tails; /* in place: what is beyond whole tiles along k, [m][UNIT] */
    uint32_t *b;     /* [wide_n / PANEL][most->k / 2][PANEL] */
    float *sums;     /* [wide_m][most->n] */
};

/* Rows of A for one tile. */
struct rows {
    const uint16_t *at;
    int64_t step, k; /* elements from row to row, and of a row */
};

static int64_t wide(int64_t n)
{
    return weir__div_up(n, UNIT) * UNIT;
}

/* ---- packing ---- */

/* Rows i .. i + count of A, from its k0 + k on, as rows of `width` elements `step` apart; zeros
 * beyond. */
static void pack_rows_of_a(const struct block *s, int64_t i, int64_t count, int64_t k,
                           int64_t width, uint16_t *row, int64_t step)
{
    const struct weir__gemm *g = s->g;
    const uint16_t *from = (const uint16_t *)g->a + (s->i0 + i) * g->a_row + (s->k0 + k) * g->a_col;

    for (int64_t r = 0; r < count; r++, from += g->a_row, row += step) {
        const int64_t n = i + r < s->m ? weir__min(width, s->kn - k) : 0;

        if (g->a_col == 1)
            memcpy(row, from, (size_t)n * sizeof *row);
        else
            for (int64_t q = 0; q < n; q++)
                row[q] = from[q * g->a_col];
        memset(row + n, 0, (size_t)(width - n) * sizeof *row);
    }
}

static void pack_a(const struct block *s)
{
    const int64_t rows = s->m - s->m % UNIT, k = s->kn - s->kn % UNIT;

    if (!s->in_place) {
        pack_rows_of_a(s, 0, s->wide_m, 0, s->wide_k, s->a, s->most->k);
        return;
    }
    if (rows < s->m)
        pack_rows_of_a(s, rows, UNIT, 0, s->wide_k, s->a, s->most->k);
    if (k < s->kn)
        pack_rows_of_a(s, 0, rows, k, UNIT, s->tails, UNIT);
}

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

static void pack_b(const struct block *s)
{
    const struct weir__gemm *g = s->g;
    const int64_t pairs = s->wide_k / 2;

    for (int64_t j = 0; j < s->wide_n; j += PANEL) {
        const uint16_t *src = (const uint16_t *)g->b + s->k0 * g->b_row + (s->j0 + j) * g->b_col;
        const int64_t cols = weir__max(0, weir__min(PANEL, s->n - j));
        uint32_t *dst = s->b + j * (s->most->k / 2);
        int64_t p = 0;

        if (cols == PANEL && g->b_col == 1)
            for (; 2 * p + 1 < s->kn; p++)
                pack_two_rows(dst + p * PANEL, src + 2 * p * g->b_row,
                              src + (2 * p + 1) * g->b_row);
        else if (cols == PANEL && g->b_row == 1)
            for (; 2 * (p + PANEL) <= s->kn; p += PANEL)
                pack_square_of_pairs(dst + p * PANEL, src + 2 * p, g->b_col);
        pack_panel_slowly(dst, p, pairs, cols, s->kn, src, g->b_row, g->b_col);
    }
}

/* ---- tiles of 32 x 32 sums ---- */

#define TARGET_BF16 __attribute__((target("avx512bf16")))
#define ROWS 8

static TARGET_BF16 void dots(const struct block *s, struct rows rows, const uint32_t *b, float *c,
                             bool add)
{
    const int64_t a_step = rows.step, c_step = s->most->n, next_panel = s->most->k / 2 * PANEL;
    const uint16_t *a = rows.at;

    for (int part = 0; part < UNIT / ROWS; part++, a += ROWS * a_step, c += ROWS * c_step) {
        __m512 acc[2 * ROWS];

#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            acc[2 * i] = add ? _mm512_loadu_ps(c + i * c_step) : _mm512_setzero_ps();
            acc[2 * i + 1] = add ? _mm512_loadu_ps(c + i * c_step + PANEL) : _mm512_setzero_ps();
        }
        for (int64_t p = 0; p < rows.k / 2; p++) {
            const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + p * PANEL);
            const __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + next_panel + p * PANEL);

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

#define TARGET_AMX __attribute__((target("amx-tile,amx-bf16")))

static TARGET_AMX void amx_begin(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    /* gcc 12's _tile_loadconfig reads but the first bytes, as far as the optimizer knows */
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static TARGET_AMX void amx_end(void)
{
    _tile_release();
}

static TARGET_AMX void amx_tile(const struct block *s, struct rows rows, const uint32_t *b,
                                float *c, bool add)
{
    const int64_t a_row = rows.step, c_row = s->most->n, next_panel = s->most->k / 2 * PANEL;
    const uint16_t *a = rows.at;
    const size_t a_step = (size_t)a_row * sizeof *a, b_step = PANEL * sizeof *b;
    const size_t c_step = (size_t)c_row * sizeof *c;

    __asm__ volatile("" : : : "memory"); /* nor does gcc 12 know that _tile_loadd reads memory */
    if (add) {
        _tile_loadd(0, c, c_step);
        _tile_loadd(1, c + PANEL, c_step);
        _tile_loadd(2, c + PANEL * c_row, c_step);
        _tile_loadd(3, c + PANEL * c_row + PANEL, c_step);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < rows.k; k += UNIT) {
        _tile_loadd(4, a + k, a_step);
        _tile_loadd(6, b + k / 2 * PANEL, b_step);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + next_panel + k / 2 * PANEL, b_step);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + PANEL * a_row + k, a_step);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_step);
    _tile_stored(1, c + PANEL, c_step);
    _tile_stored(2, c + PANEL * c_row, c_step);
    _tile_stored(3, c + PANEL * c_row + PANEL, c_step);
}

/* ---- few rows or columns: dot products of lines where they lie, see weir__gemm_is_dot ---- */

#define LINES 4      /* of either operand at a time */
#define AHEAD 1024   /* bytes */
#define LINE_STEP 32 /* elements of a line at a time */

struct lines {
    const uint16_t *data;
    int64_t count, step;
};

/* sums[f][q] of line f of x and line q of y, LINE_STEP elements at a time in ascending order in 16
 * lanes, then halves added onto halves; `few` and `many` are constants where it is called. */
ALWAYS_INLINE TARGET_BF16 void dot_pairs(int few, int many, int64_t k, const uint16_t *x,
                                         int64_t x_step, const uint16_t *y, int64_t y_step,
                                         float sums[LINES][LINES])
{
    __m512 acc[LINES * LINES];

#pragma GCC unroll 16
    for (int i = 0; i < few * many; i++)
        acc[i] = _mm512_setzero_ps();
    for (int64_t at = 0; at < k; at += LINE_STEP) {
        const __mmask32 in = k - at >= LINE_STEP ? ~0u : (1u << (k - at)) - 1;
        __m512bh line[LINES];

#pragma GCC unroll 4
        for (int q = 0; q < many; q++) {
            __builtin_prefetch((const char *)(y + q * y_step + at) + AHEAD);
            line[q] = (__m512bh)_mm512_maskz_loadu_epi16(in, y + q * y_step + at);
        }
#pragma GCC unroll 4
        for (int f = 0; f < few; f++) {
            const __m512bh v = (__m512bh)_mm512_maskz_loadu_epi16(in, x + f * x_step + at);

#pragma GCC unroll 4
            for (int q = 0; q < many; q++)
                acc[f * many + q] = _mm512_dpbf16_ps(acc[f * many + q], v, line[q]);
        }
    }
#pragma GCC unroll 4
    for (int f = 0; f < few; f++)
#pragma GCC unroll 4
        for (int q = 0; q < many; q++)
            sums[f][q] = lanes_sum((vec)acc[f * many + q]);
}

static TARGET_BF16 void dot_tile_of_pairs(int64_t few, int64_t many, int64_t k, const uint16_t *x,
                                          int64_t x_step, const uint16_t *y, int64_t y_step,
                                          float sums[LINES][LINES])
{
    if (many < LINES)
        dot_pairs(1, 1, k, x, x_step, y, y_step, sums);
    else if (few == 1)
        dot_pairs(1, LINES, k, x, x_step, y, y_step, sums);
    else if (few == 2)
        dot_pairs(2, LINES, k, x, x_step, y, y_step, sums);
    else if (few == 3)
        dot_pairs(3, LINES, k, x, x_step, y, y_step, sums);
    else
        dot_pairs(LINES, LINES, k, x, x_step, y, y_step, sums);
}

static void dot_lines_of_pairs(const struct weir__gemm *g)
{
    const struct lines a = {(const uint16_t *)g->a, g->m, g->a_row};
    const struct lines b = {(const uint16_t *)g->b, g->n, g->b_col};
    const bool few_rows = g->m <= g->n;
    const struct lines *x = few_rows ? &a : &b, *y = few_rows ? &b : &a;

    for (int64_t m = 0, many; m < y->count; m += many) {
        many = m + LINES <= y->count ? LINES : 1;
        for (int64_t f0 = 0, few; f0 < x->count; f0 += few) {
            float sums[LINES][LINES];

            few = many == LINES ? weir__min(LINES, x->count - f0) : 1;
            dot_tile_of_pairs(few, many, g->k, x->data + f0 * x->step, x->step,
                              y->data + m * y->step, y->step, sums);
            for (int64_t f = 0; f < few; f++)
                for (int64_t q = 0; q < many; q++) {
                    const int64_t i = few_rows ? f0 + f : m + q, j = few_rows ? m + q : f0 + f;
                    float sum = sums[f][q];

                    if (g->bias)
                        sum += load_one(g->bias, i * g->bias_row + j * g->bias_col, WEIR_BF16);
                    store_row(g->c + (i * g->c_row + j * g->c_col) * (int64_t)sizeof(uint16_t), 1,
                              WEIR_BF16, &sum, 1);
                }
        }
    }
}

#include "ops/host/product/gemm_bf16_thin.h"

/* ---- blocks ---- */

static void write_out(const struct block *s)
{
    const struct weir__gemm *g = s->g;

    for (int64_t i = 0; i < s->m; i++) {
        float *row = s->sums + i * s->most->n;
        uint16_t *out = (uint16_t *)g->c + (s->i0 + i) * g->c_row + s->j0 * g->c_col;

        if (g->bias)
            for (int64_t j = 0; j < s->n; j++)
                row[j] += load_one(g->bias, (s->i0 + i) * g->bias_row + (s->j0 + j) * g->bias_col,
                                   WEIR_BF16);
        store_row((char *)out, g->c_col, WEIR_BF16, row, s->n);
    }
}

/* The sums of a tile, by one call or, where A's rows end within a tile, by two. */
static void run_tile(const struct block *s, int64_t i, int64_t j)
{
    void (*const multiply)(const struct block *, struct rows, const uint32_t *, float *, bool) =
        s->amx ? amx_tile : dots;
    const uint32_t *b = s->b + j * (s->most->k / 2);
    float *sums = s->sums + i * s->most->n + j;
    const int64_t whole = s->kn - s->kn % UNIT;
    bool add = s->k0 > 0;

    if (!s->in_place || i + UNIT > s->m) {
        const uint16_t *at = s->in_place ? s->a : s->a + i * s->most->k;

        multiply(s, (struct rows){at, s->most->k, s->wide_k}, b, sums, add);
        return;
    }
    if (whole) {
        const uint16_t *at = (const uint16_t *)s->g->a + (s->i0 + i) * s->g->a_row + s->k0;

        multiply(s, (struct rows){at, s->g->a_row, whole}, b, sums, add);
        add = true;
    }
    if (whole < s->kn)
        multiply(s, (struct rows){s->tails + i * UNIT, UNIT, UNIT}, b + whole / 2 * PANEL, sums,
                 add);
}

static void run_block(struct block *s)
{
    for (s->k0 = 0; s->k0 < s->g->k; s->k0 += s->most->k) {
        s->kn = weir__min(s->most->k, s->g->k - s->k0);
        s->wide_k = wide(s->kn);
        pack_a(s);
        pack_b(s);
        for (int64_t i = 0; i < s->wide_m; i += UNIT)
            for (int64_t j = 0; j < s->wide_n; j += UNIT)
                run_tile(s, i, j);
    }
    write_out(s);
}

static void gemm_of_pairs(const struct weir__gemm *g, void *local, bool amx)
{
    const bool in_place = g->a_col == 1;
    const struct sizes most = sizes[amx][in_place];
    struct block s = {.g = g, .most = &most, .amx = amx, .in_place = in_place, .a = local};

    s.tails = s.a + (in_place ? UNIT : most.m) * most.k;
    s.b = (uint32_t *)(s.tails + (in_place ? most.m * UNIT : 0));
    s.sums = (float *)(s.b + most.n * most.k / 2);
    if (amx)
        amx_begin();
    for (s.j0 = 0; s.j0 < g->n; s.j0 += most.n) {
        s.n = weir__min(most.n, g->n - s.j0);
        s.wide_n = wide(s.n);
        for (s.i0 = 0; s.i0 < g->m; s.i0 += most.m) {
            s.m = weir__min(most.m, g->m - s.i0);
            s.wide_m = wide(s.m);
            run_block(&s);
        }
    }
    if (amx)
        amx_end();
}

#endif

void WEIR__ISA_NAME(weir__gemm_bf16)(const struct weir__gemm *g, void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    if (g->dot)
        dot_lines_of_pairs(g);
    else
        gemm_of_pairs(g, local, weir__isa_best_pairs() == WEIR__ISA_AMX);
#else
    WEIR__ISA_NAME(weir__gemm_f32)(g, local); /* no such processor has the instructions */
#endif
}

void WEIR__ISA_NAME(weir__gemm_bf16_thin)(const struct weir__gemm *g, void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    thin_pairs(g, local);
#else
    WEIR__ISA_NAME(weir__gemm_f32)(g, local);
#endif
}
