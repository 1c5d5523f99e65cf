/* Matrix products of bf16 with instructions that multiply pairs: AMX tiles, or AVX-512 BF16.
 *
 * A is packed by rows, B in panels of 16 columns, [k / 2][16] pairs of consecutive k; both are
 * padded with zeros to whole tiles, with AMX of 32 x 32 x 32. Sums are f32 in local memory, over
 * pairs of k in ascending order: cutting C among any number of calls gives the same bits. The
 * instructions treat subnormal numbers as zero.
 */
#include <string.h>

#include "base/base.h"
#include "ops/host/product/gemm_bf16.h"

#define WEIR__REAL_F64 0
#include "ops/host/product/gemm_pack.h"

#if WEIR__ISA_LEVEL == WEIR__ISA_V4
#include "ops/host/product/pairs.h"

/* The sizes packed at once. B is always packed. A is read in place if its rows are contiguous: AMX
 * multiplies it in the time that a copy takes. For dot products a panel of B should fit the
 * first-level cache. */
struct sizes {
    int64_t m, n, k;
};
static const struct sizes sizes[2][2] = {
    /* [AMX][in place] */
    {{512, 512, 512}, {1024, 512, 512}},
    {{256, 512, 1024}, {1024, 512, 1024}},
};
_Static_assert((UNIT * 1024 + 1024 * UNIT + 512 * 1024) * 2 + 1024 * 512 * 4 <= WEIR_LOCAL_BYTES,
               "in place");
_Static_assert((256 + 512) * 1024 * 2 + 256 * 512 * 4 <= WEIR_LOCAL_BYTES, "packed, AMX");
_Static_assert((512 + 512) * 512 * 2 + 512 * 512 * 4 <= WEIR_LOCAL_BYTES, "packed, dots");
/* If pack_b packs B, the rest of local memory belongs to pack_b's owner. */
#define HOOKED_M 512
_Static_assert((UNIT * 1024 + HOOKED_M * UNIT + 512 * 1024) * 2 + HOOKED_M * 512 * 4 <=
                   WEIR__GEMM_PACKED_BYTES,
               "packed by others");

struct block {
    const struct weir__gemm *g;
    const struct sizes *most;
    bool amx, in_place;                   /* in_place: A is read in place, except at its edges */
    int64_t i0, j0, m, n, wide_m, wide_n; /* wide: padded to whole tiles */
    int64_t k0, kn, wide_k, unit_k;       /* wide: padded to whole units */
    uint16_t *a;     /* [wide_m][most->k]; in place: only the last rows, [UNIT][most->k] */
    uint16_t *tails; /* in place: the elements beyond whole tiles along k, [m][UNIT] */
    uint32_t *b;     /* [wide_n / PANEL][most->k / 2][PANEL] */
    float *sums;     /* [wide_m][most->n] */
};

/* ---- packing ---- */

/* Packs rows i .. i + count of A, from its k0 + k on, as rows of `width` elements `step` apart;
 * zeros beyond. */
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
    const int64_t rows = s->m - s->m % UNIT, k = s->kn - s->kn % s->unit_k;

    if (!s->in_place) {
        pack_rows_of_a(s, 0, s->wide_m, 0, s->wide_k, s->a, s->most->k);
        return;
    }
    if (rows < s->m)
        pack_rows_of_a(s, rows, UNIT, 0, s->wide_k, s->a, s->most->k);
    if (k < s->kn)
        pack_rows_of_a(s, 0, rows, k, UNIT, s->tails, UNIT);
}

static void pack_b(const struct block *s)
{
    const struct weir__gemm *g = s->g;
    const int64_t pairs = weir__div_up(s->kn, 2);

    for (int64_t j = 0; j < s->wide_n; j += PANEL) {
        const uint16_t *src = (const uint16_t *)g->b + s->k0 * g->b_row + (s->j0 + j) * g->b_col;
        const int64_t cols = weir__max(0, weir__min(PANEL, s->n - j));
        uint32_t *dst = s->b + j * (s->most->k / 2);

        if (g->pack_b) {
            g->pack_b(g->pack_source, dst, PANEL, s->k0, s->kn, s->j0 + j, cols);
            memset(dst + pairs * PANEL, 0, (size_t)(s->wide_k / 2 - pairs) * PANEL * sizeof *dst);
        } else {
            pack_panel_of_pairs(dst, s->wide_k / 2, cols, s->kn, src, g->b_row, g->b_col);
        }
    }
}

/* ---- few rows or columns: dot products of lines in place, see weir__gemm_is_dot ---- */

#define LINES 4      /* of each operand at a time */
#define AHEAD 1024   /* bytes */
#define LINE_STEP 32 /* elements of a line at a time */

struct lines {
    const uint16_t *data;
    int64_t count, step;
};

/* sums[f][q] of line f of x and line q of y: LINE_STEP elements at a time, ascending, in 16 lanes;
 * then halves are added to halves. `few` and `many` are constants at each call. */
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

        if (g->bias && g->bias_col)
            for (int64_t j = 0; j < s->n; j++)
                row[j] += load_one(g->bias, (s->i0 + i) * g->bias_row + (s->j0 + j) * g->bias_col,
                                   WEIR_BF16);
        else if (g->bias) {
            const float same = load_one(g->bias, (s->i0 + i) * g->bias_row, WEIR_BF16);

            for (int64_t j = 0; j < s->n; j++)
                row[j] += same;
        }
        store_row((char *)out, g->c_col, WEIR_BF16, row, s->n);
    }
}

/* Computes the sums of a tile, in one call, or two if A's rows end within a tile. */
static void run_tile(const struct block *s, int64_t i, int64_t j)
{
    void (*const multiply)(const struct pair_tile *) = s->amx ? amx_tile : dots;
    const int64_t whole = s->kn - s->kn % s->unit_k;
    struct pair_tile t = {.rows = (int)weir__div_up(weir__min(UNIT, s->m - i), ROWS) * ROWS,
                          .narrow = s->n - j <= PANEL,
                          .b = s->b + j * (s->most->k / 2),
                          .b_next = s->most->k / 2 * PANEL,
                          .c = s->sums + i * s->most->n + j,
                          .c_step = s->most->n,
                          .add = s->k0 > 0};

    if (!s->in_place || i + UNIT > s->m) {
        t.a = s->in_place ? s->a : s->a + i * s->most->k;
        t.a_step = s->most->k;
        t.k = s->wide_k;
        multiply(&t);
        return;
    }
    if (whole) {
        t.a = (const uint16_t *)s->g->a + (s->i0 + i) * s->g->a_row + s->k0;
        t.a_step = s->g->a_row;
        t.k = whole;
        multiply(&t);
        t.add = true;
    }
    if (whole < s->kn) {
        t.a = s->tails + i * UNIT;
        t.b += whole / 2 * PANEL;
        t.a_step = UNIT;
        t.k = s->unit_k;
        multiply(&t);
    }
}

static void run_block(struct block *s)
{
    for (s->k0 = 0; s->k0 < s->g->k; s->k0 += s->most->k) {
        s->kn = weir__min(s->most->k, s->g->k - s->k0);
        s->wide_k = weir__div_up(s->kn, s->unit_k) * s->unit_k;
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
    struct sizes most = sizes[amx][in_place];
    struct block s = {.g = g,
                      .most = &most,
                      .amx = amx,
                      .in_place = in_place,
                      .unit_k = amx ? UNIT : 2,
                      .a = local};

    if (g->pack_b)
        most.m = weir__min(most.m, HOOKED_M);
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
        gemm_of_pairs(g, local, uses_amx());
#else
    WEIR__ISA_NAME(weir__gemm_f32)(g, local); /* no processor of this level has the instructions */
#endif
}

void WEIR__ISA_NAME(weir__gemm_bf16_thin)(const struct weir__gemm *g, void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    thin_pairs(g, local, 0, NULL, 0);
#else
    WEIR__ISA_NAME(weir__gemm_f32)(g, local);
#endif
}

void WEIR__ISA_NAME(weir__gemm_part_bf16)(const struct weir__gemm *g, int64_t part, void *sums,
                                          int64_t step, void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    thin_pairs(g, local, part, sums, step);
#else
    WEIR__ISA_NAME(weir__gemm_part_f32)(g, part, sums, step, local);
#endif
}
