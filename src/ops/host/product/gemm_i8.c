/* Matrix products of i8 with instructions that add four products of bytes (AVX-512 VNNI).
 *
 * They multiply unsigned bytes by signed ones. So 128 is added to each element of B, and 128 times
 * the sum of A's row is subtracted from each row of the product. Sums wrap in 32 bits, so that any
 * order gives the same bits.
 */
#include "ops/host/product/gemm_i8.h"

#include <string.h>

#include "base/base.h"

#if WEIR__ISA_LEVEL == WEIR__ISA_V4

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define TARGET_VNNI __attribute__((target("avx512vnni")))

enum {
    QUAD = 4,   /* bytes of k that one instruction adds */
    PANEL = 16, /* adjacent columns of B */
    ROWS = 12,  /* rows of A at a time, with two panels */
    MOST_M = 384,
    MOST_N = 512,
    MOST_K = 2048, /* more chunks would read and write C more often */
    STEP = 64,     /* bytes of a vector */
    LINES = 4,     /* lines of each operand at a time, if they are multiplied in place */
};
_Static_assert((MOST_M + MOST_N) * MOST_K + MOST_M * 4 + MOST_M * MOST_N * 4 <= WEIR_LOCAL_BYTES,
               "packed operands and sums");
_Static_assert(MOST_M % ROWS == 0 && MOST_N % (2 * PANEL) == 0 && MOST_K % 64 == 0, "whole tiles");

/* A block of C and the current chunk of k. */
struct block {
    const struct weir__gemm *g;
    int64_t i0, j0, k0, m, n, kn;
    int8_t *a;     /* [m, padded to whole tiles][MOST_K], zeros beyond */
    int32_t *b;    /* [n / PANEL][MOST_K / QUAD][PANEL], of unsigned bytes */
    int32_t *rows; /* [m, padded]: -128 times the sums of A's rows, in this chunk */
    int32_t *c;    /* the sums of the chunks so far: C itself, or local memory */
    int64_t c_row;
};

static int64_t whole(int64_t n, int64_t unit)
{
    return weir__div_up(n, unit) * unit;
}

/* ---- packing ---- */

/* The sum of n bytes. */
static TARGET_VNNI int32_t sum_of(const int8_t *x, int64_t n)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();

    for (int64_t k = 0; k < n; k += STEP) {
        const __mmask64 in = n - k >= STEP ? ~UINT64_C(0) : (UINT64_C(1) << (n - k)) - 1;

        sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8(in, x + k));
    }
    return _mm512_reduce_add_epi32(sum);
}

static void pack_a(const struct block *s)
{
    const struct weir__gemm *g = s->g;
    const int64_t width = whole(s->kn, QUAD);

    for (int64_t i = 0; i < whole(s->m, ROWS); i++) {
        const int8_t *from = (const int8_t *)g->a + (s->i0 + i) * g->a_row + s->k0 * g->a_col;
        const int64_t n = i < s->m ? s->kn : 0;
        int8_t *to = s->a + i * MOST_K;

        if (g->a_col == 1)
            memcpy(to, from, (size_t)n);
        else
            for (int64_t k = 0; k < n; k++)
                to[k] = from[k * g->a_col];
        memset(to + n, 0, (size_t)(width - n));
        s->rows[i] = (int32_t)(-128u * (uint32_t)sum_of(to, n));
    }
}

/* Packs four rows of B, 16 columns each, as groups of four. */
static void pack_four_rows(int32_t *dst, const int8_t *src, int64_t row)
{
    const __m128i r0 = _mm_loadu_si128((const void *)src);
    const __m128i r1 = _mm_loadu_si128((const void *)(src + row));
    const __m128i r2 = _mm_loadu_si128((const void *)(src + 2 * row));
    const __m128i r3 = _mm_loadu_si128((const void *)(src + 3 * row));
    const __m128i low = _mm_unpacklo_epi8(r0, r1), low2 = _mm_unpacklo_epi8(r2, r3);
    const __m128i high = _mm_unpackhi_epi8(r0, r1), high2 = _mm_unpackhi_epi8(r2, r3);
    const __m128i sign = _mm_set1_epi8((char)0x80);
    __m128i *to = (__m128i *)dst;

    _mm_storeu_si128(to, _mm_xor_si128(_mm_unpacklo_epi16(low, low2), sign));
    _mm_storeu_si128(to + 1, _mm_xor_si128(_mm_unpackhi_epi16(low, low2), sign));
    _mm_storeu_si128(to + 2, _mm_xor_si128(_mm_unpacklo_epi16(high, high2), sign));
    _mm_storeu_si128(to + 3, _mm_xor_si128(_mm_unpackhi_epi16(high, high2), sign));
}

/* Packs 16 columns that are contiguous along k, four groups of each: transposes 32-bit words. */
static void pack_four_quads(int32_t *dst, const int8_t *src, int64_t col)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i r[4], t[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const int8_t *at = src + i * col;

        /* columns i, i + 4, i + 8, i + 12, one per quarter */
        r[i] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)at));
        r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128((const void *)(at + 4 * col)), 1);
        r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128((const void *)(at + 8 * col)), 2);
        r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128((const void *)(at + 12 * col)), 3);
        r[i] = _mm512_xor_si512(r[i], sign);
    }
    t[0] = _mm512_unpacklo_epi32(r[0], r[1]);
    t[1] = _mm512_unpackhi_epi32(r[0], r[1]);
    t[2] = _mm512_unpacklo_epi32(r[2], r[3]);
    t[3] = _mm512_unpackhi_epi32(r[2], r[3]);
    _mm512_storeu_si512(dst, _mm512_unpacklo_epi64(t[0], t[2]));
    _mm512_storeu_si512(dst + PANEL, _mm512_unpackhi_epi64(t[0], t[2]));
    _mm512_storeu_si512(dst + 2 * PANEL, _mm512_unpacklo_epi64(t[1], t[3]));
    _mm512_storeu_si512(dst + 3 * PANEL, _mm512_unpackhi_epi64(t[1], t[3]));
}

/* Packs a panel with an edge, or with any strides. Elements beyond the edges are multiplied by
 * zeros of A, or are not stored. */
static void pack_panel_slowly(int32_t *dst, int64_t from, int64_t cols, int64_t kn,
                              const int8_t *src, int64_t row, int64_t col)
{
    for (int64_t k = from; k < whole(kn, QUAD); k += QUAD)
        for (int64_t j = 0; j < PANEL; j++) {
            uint8_t four[QUAD] = {0};

            for (int q = 0; q < QUAD && j < cols && k + q < kn; q++)
                four[q] = (uint8_t)(src[(k + q) * row + j * col] ^ 0x80);
            memcpy(dst + k / QUAD * PANEL + j, four, sizeof four);
        }
}

static void pack_b(const struct block *s)
{
    const struct weir__gemm *g = s->g;

    for (int64_t j = 0; j < whole(s->n, 2 * PANEL); j += PANEL) {
        const int8_t *src = (const int8_t *)g->b + s->k0 * g->b_row + (s->j0 + j) * g->b_col;
        const int64_t cols = weir__max(0, weir__min(PANEL, s->n - j));
        int32_t *dst = s->b + j * (MOST_K / QUAD);
        int64_t k = 0;

        if (cols == PANEL && g->b_col == 1)
            for (; k + QUAD <= s->kn; k += QUAD)
                pack_four_rows(dst + k / QUAD * PANEL, src + k * g->b_row, g->b_row);
        else if (cols == PANEL && g->b_row == 1)
            for (; k + 4 * QUAD <= s->kn; k += 4 * QUAD)
                pack_four_quads(dst + k / QUAD * PANEL, src + k, g->b_col);
        pack_panel_slowly(dst, k, cols, s->kn, src, g->b_row, g->b_col);
    }
}

/* ---- tiles ---- */

/* `rows` rows times two panels, added to C or, in the first chunk, stored there; `rows` is a
 * constant at each call. */
ALWAYS_INLINE TARGET_VNNI void tile(int rows, const struct block *s, int64_t i, int64_t j,
                                    int32_t *c, int64_t c_row)
{
    const int64_t next_panel = MOST_K / QUAD * PANEL, quads = weir__div_up(s->kn, QUAD);
    const int8_t *a = s->a + i * MOST_K;
    const int32_t *b = s->b + j * (MOST_K / QUAD);
    __m512i acc[2 * ROWS];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        acc[2 * r] = acc[2 * r + 1] = _mm512_set1_epi32(s->rows[i + r]);
        __builtin_prefetch(c + r * c_row, 1);
        __builtin_prefetch(c + r * c_row + PANEL, 1);
    }
    for (int64_t q = 0; q < quads; q++) {
        const __m512i b0 = _mm512_loadu_si512(b + q * PANEL);
        const __m512i b1 = _mm512_loadu_si512(b + next_panel + q * PANEL);

        __builtin_prefetch(b + (q + 16) * PANEL);
        __builtin_prefetch(b + next_panel + (q + 16) * PANEL);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            int32_t four;
            __m512i x;

            memcpy(&four, a + r * MOST_K + q * QUAD, sizeof four);
            x = _mm512_set1_epi32(four);
            acc[2 * r] = _mm512_dpbusd_epi32(acc[2 * r], b0, x);
            acc[2 * r + 1] = _mm512_dpbusd_epi32(acc[2 * r + 1], b1, x);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            int32_t *to = c + r * c_row + v * PANEL;

            if (s->k0)
                acc[2 * r + v] = _mm512_add_epi32(acc[2 * r + v], _mm512_loadu_si512(to));
            _mm512_storeu_si512(to, acc[2 * r + v]);
        }
}

/* Computes the next rows from i on and returns how many: fewer at the end, where the tile is
 * computed in memory of its own if it is larger than what is left of C. */
static TARGET_VNNI int64_t run_tile(const struct block *s, int64_t i, int64_t j)
{
    const int64_t left = s->m - i, cols = weir__min(2 * PANEL, s->n - j);
    const int64_t rows = left > 4 ? ROWS : left > 1 ? 4 : 1, valid = weir__min(rows, left);
    const size_t bytes = (size_t)cols * sizeof(int32_t);
    const bool edge = valid < rows || cols < 2 * PANEL;
    _Alignas(64) int32_t own[ROWS * 2 * PANEL];
    int32_t *out = s->c + i * s->c_row + j, *c = edge ? own : out;
    const int64_t c_row = edge ? 2 * PANEL : s->c_row;

    for (int64_t r = 0; r < valid && edge && s->k0; r++)
        memcpy(own + r * c_row, out + r * s->c_row, bytes);
    if (rows == ROWS)
        tile(ROWS, s, i, j, c, c_row);
    else if (rows == 4)
        tile(4, s, i, j, c, c_row);
    else
        tile(1, s, i, j, c, c_row);
    for (int64_t r = 0; r < valid && edge; r++)
        memcpy(out + r * s->c_row, own + r * c_row, bytes);
    return valid;
}

/* Stores a final sum, and adds the bias. */
static void put(const struct weir__gemm *g, int64_t i, int64_t j, uint32_t value)
{
    if (g->bias)
        value += ((const uint32_t *)g->bias)[i * g->bias_row + j * g->bias_col];
    ((uint32_t *)g->c)[i * g->c_row + j * g->c_col] = value;
}

/* All chunks of k of columns j0 .. j0 + n and rows from .. end. B is packed once. */
static void run_columns(struct block *s, int64_t from, int64_t end)
{
    const struct weir__gemm *g = s->g;
    const int64_t chunk = whole(weir__div_up(g->k, weir__div_up(g->k, MOST_K)), STEP);
    int32_t *const c = s->c;

    for (s->k0 = 0; s->k0 < g->k; s->k0 += chunk) {
        s->kn = weir__min(chunk, g->k - s->k0);
        pack_b(s);
        for (s->i0 = from; s->i0 < end; s->i0 += MOST_M) {
            s->m = weir__min(MOST_M, end - s->i0);
            s->c = c + (s->i0 - from) * s->c_row;
            pack_a(s);
            for (int64_t j = 0; j < s->n; j += 2 * PANEL)
                for (int64_t i = 0; i < s->m;)
                    i += run_tile(s, i, j);
        }
    }
    for (int64_t i = from; i < end && (g->bias || g->c_col != 1); i++)
        for (int64_t j = 0; j < s->n; j++)
            put(g, i, s->j0 + j, (uint32_t)c[(i - from) * s->c_row + j]);
    s->c = c;
}

/* ---- few rows: lines that are contiguous along k, in place ---- */

/* sums[f][q] of row f of A and column q of B, each contiguous; `few` and `many` are constants at
 * each call. */
ALWAYS_INLINE TARGET_VNNI void lines(int few, int many, int64_t k, const int8_t *a, int64_t a_step,
                                     const int8_t *b, int64_t b_step, int32_t sums[LINES][LINES])
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i acc[LINES * LINES];

#pragma GCC unroll 16
    for (int i = 0; i < few * many; i++)
        acc[i] = _mm512_setzero_si512();
    for (int64_t at = 0; at < k; at += 64) {
        const __mmask64 in = k - at >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (k - at)) - 1;
        __m512i line[LINES];

#pragma GCC unroll 4
        for (int q = 0; q < many; q++) {
            __builtin_prefetch(b + q * b_step + at + 1024);
            line[q] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(in, b + q * b_step + at), sign);
        }
#pragma GCC unroll 4
        for (int f = 0; f < few; f++) {
            const __m512i x = _mm512_maskz_loadu_epi8(in, a + f * a_step + at);

#pragma GCC unroll 4
            for (int q = 0; q < many; q++)
                acc[f * many + q] = _mm512_dpbusd_epi32(acc[f * many + q], line[q], x);
        }
    }
#pragma GCC unroll 4
    for (int f = 0; f < few; f++)
#pragma GCC unroll 4
        for (int q = 0; q < many; q++)
            sums[f][q] = _mm512_reduce_add_epi32(acc[f * many + q]);
}

static TARGET_VNNI void run_lines(const struct weir__gemm *g)
{
    const int8_t *a = (const int8_t *)g->a, *b = (const int8_t *)g->b;
    int32_t rows[WEIR__GEMM_DOT_MAX] = {0};

    for (int64_t i = 0; i < g->m; i++)
        for (int64_t k = 0; k < g->k; k++)
            rows[i] = (int32_t)((uint32_t)rows[i] + (uint32_t)a[i * g->a_row + k]);
    for (int64_t j = 0, many; j < g->n; j += many) {
        many = j + LINES <= g->n ? LINES : 1;
        for (int64_t i = 0, few; i < g->m; i += few) {
            const int8_t *x = a + i * g->a_row, *y = b + j * g->b_col;
            int32_t sums[LINES][LINES];

            few = i + LINES <= g->m && many == LINES ? LINES : 1;
            if (few == LINES)
                lines(LINES, LINES, g->k, x, g->a_row, y, g->b_col, sums);
            else if (many == LINES)
                lines(1, LINES, g->k, x, g->a_row, y, g->b_col, sums);
            else
                lines(1, 1, g->k, x, g->a_row, y, g->b_col, sums);
            for (int64_t f = 0; f < few; f++)
                for (int64_t q = 0; q < many; q++)
                    put(g, i + f, j + q, (uint32_t)sums[f][q] - 128u * (uint32_t)rows[i + f]);
        }
    }
}

#endif

void WEIR__ISA_NAME(weir__gemm_i8)(const struct weir__gemm *g, void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    struct block s = {.g = g, .a = local};

    if (g->m <= WEIR__GEMM_DOT_MAX && g->a_col == 1 && g->b_row == 1) {
        run_lines(g);
        return;
    }
    s.b = (int32_t *)(s.a + MOST_M * MOST_K);
    s.rows = s.b + MOST_N * MOST_K / QUAD;
    for (s.j0 = 0; s.j0 < g->n; s.j0 += MOST_N) {
        s.n = weir__min(MOST_N, g->n - s.j0);
        for (int64_t i = 0, end; i < g->m; i = end) {
            end = g->c_col == 1 ? g->m : weir__min(g->m, i + MOST_M);
            s.c = g->c_col == 1 ? (int32_t *)g->c + s.j0 : s.rows + MOST_M;
            s.c_row = g->c_col == 1 ? g->c_row : MOST_N;
            run_columns(&s, i, end);
        }
    }
#else
    WEIR__ISA_NAME(weir__gemm_int)(g, local); /* no processor of this level has the instructions */
#endif
}
