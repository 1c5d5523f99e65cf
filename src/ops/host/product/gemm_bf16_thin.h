/* Products of a few rows of bf16 with a row-major B, with instructions that multiply pairs. B is
 * read once, in place, in long stretches of many rows at a time.
 *
 * Sums go over pairs of k in ascending order; the sums of the parts of k (weir__gemm_part) are
 * added in their order, however C is cut.
 */
#ifndef WEIR_OPS_HOST_GEMM_BF16_THIN_H
#define WEIR_OPS_HOST_GEMM_BF16_THIN_H

enum {
    THIN_DEPTH = 8,   /* pairs of rows of B at a time */
    THIN_STEP = 32,   /* columns */
    THIN_SUMS = 8192, /* sums that stay in the first-level cache */
    THIN_MOST = WEIR__GEMM_THIN_PAIRS,
};

struct thin_part {
    const struct weir__gemm *g;
    int64_t j0, cols, width; /* width: of a row of sums */
    int64_t k;
    int rows;                         /* current rows of B, at most 2 THIN_DEPTH */
    int32_t a[THIN_MOST][THIN_DEPTH]; /* pairs of A, zeros beyond its edges */
    float *sums;                      /* [m][width] */
};

/* Adds the products with B's rows from k on to the sums of columns j and on. `m` is a constant at
 * each call. */
ALWAYS_INLINE TARGET_BF16 void thin_columns(int m, const struct thin_part *p, int64_t j,
                                            __mmask32 in, bool ahead)
{
    static const uint16_t low_words[THIN_STEP] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                  11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i low = _mm512_loadu_si512(low_words);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const int64_t row = p->g->b_row;
    const uint16_t *b = (const uint16_t *)p->g->b + p->k * row + p->j0 + j;
    float *sums = p->sums + j;
    __m512 acc[2 * THIN_MOST];

#pragma GCC unroll 12
    for (int i = 0; i < m; i++) {
        acc[2 * i] = _mm512_loadu_ps(sums + i * p->width);
        acc[2 * i + 1] = _mm512_loadu_ps(sums + i * p->width + PANEL);
    }
#pragma GCC unroll 8
    for (int q = 0; q < THIN_DEPTH; q++, b += 2 * row) {
        __m512i even, odd;
        __m512bh b0, b1;

        if (2 * q >= p->rows)
            break;
        if (ahead) {
            __builtin_prefetch(b + 2 * THIN_DEPTH * row);
            __builtin_prefetch(b + (2 * THIN_DEPTH + 1) * row);
        }
        even = _mm512_maskz_loadu_epi16(in, b);
        odd = _mm512_maskz_loadu_epi16(2 * q + 1 < p->rows ? in : 0, b + row);
        b0 = (__m512bh)_mm512_permutex2var_epi16(even, low, odd);
        b1 = (__m512bh)_mm512_permutex2var_epi16(even, high, odd);
#pragma GCC unroll 12
        for (int i = 0; i < m; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32(p->a[i][q]);

            acc[2 * i] = _mm512_dpbf16_ps(acc[2 * i], x, b0);
            acc[2 * i + 1] = _mm512_dpbf16_ps(acc[2 * i + 1], x, b1);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < m; i++) {
        _mm512_storeu_ps(sums + i * p->width, acc[2 * i]);
        _mm512_storeu_ps(sums + i * p->width + PANEL, acc[2 * i + 1]);
    }
}

ALWAYS_INLINE TARGET_BF16 void thin_rows_of_b(int m, const struct thin_part *p)
{
    const bool ahead = p->k + 4 * THIN_DEPTH <= p->g->k;
    int64_t j = 0;

    for (; j + THIN_STEP <= p->cols; j += THIN_STEP)
        thin_columns(m, p, j, ~0u, ahead);
    if (j < p->cols)
        thin_columns(m, p, j, (1u << (p->cols - j)) - 1, false);
}

/* Loads the pairs of A that are multiplied with rows k and on of B. */
static void thin_pairs_of_a(struct thin_part *p)
{
    const struct weir__gemm *g = p->g;
    const uint16_t *a = (const uint16_t *)g->a + p->k * g->a_col;

    for (int64_t i = 0; i < g->m; i++)
        for (int q = 0; q < THIN_DEPTH; q++) {
            const uint16_t *at = a + i * g->a_row + 2 * q * g->a_col;
            uint32_t low = 2 * q < p->rows ? at[0] : 0;
            uint32_t high = 2 * q + 1 < p->rows ? at[g->a_col] : 0;

            p->a[i][q] = (int32_t)(low | high << 16);
        }
}

/* Sets `sums` to the sums of a part of k, for the current columns. */
static TARGET_BF16 void thin_part_of_pairs(struct thin_part *p, int rows, int64_t part, float *sums)
{
    const int64_t length = weir__gemm_part(p->g->k), end = weir__min(p->g->k, (part + 1) * length);

    p->sums = sums;
    memset(sums, 0, (size_t)(rows * p->width) * sizeof *sums);
    for (p->k = part * length; p->k < end; p->k += 2 * THIN_DEPTH) {
        p->rows = (int)weir__min(2 * THIN_DEPTH, end - p->k);
        thin_pairs_of_a(p);
        if (rows == 2)
            thin_rows_of_b(2, p);
        else if (rows == 4)
            thin_rows_of_b(4, p);
        else if (rows == 8)
            thin_rows_of_b(8, p);
        else
            thin_rows_of_b(THIN_MOST, p);
    }
}

static void thin_write_pairs(const struct thin_part *p, float *sums)
{
    const struct weir__gemm *g = p->g;

    for (int64_t i = 0; i < g->m; i++) {
        float *row = sums + i * p->width;

        if (g->bias)
            for (int64_t j = 0; j < p->cols; j++)
                row[j] += load_one(g->bias, i * g->bias_row + (p->j0 + j) * g->bias_col, WEIR_BF16);
        store_row(g->c + (i * g->c_row + p->j0 * g->c_col) * (int64_t)sizeof(uint16_t), g->c_col,
                  WEIR_BF16, row, p->cols);
    }
}

/* Computes C; or, if `sums` is given, only the sums of part `part`, in rows `step` apart. */
static void thin_pairs(const struct weir__gemm *g, void *local, int64_t part, float *sums,
                       int64_t step)
{
    const int rows = g->m <= 2 ? 2 : g->m <= 4 ? 4 : g->m <= 8 ? 8 : THIN_MOST;
    const int64_t parts = weir__div_up(g->k, weir__gemm_part(g->k));
    struct thin_part p = {.g = g, .width = THIN_SUMS / rows / THIN_STEP * THIN_STEP};
    float *one = local, *all = one + THIN_SUMS;

    for (p.j0 = 0; p.j0 < g->n; p.j0 += p.width) {
        p.cols = weir__min(p.width, g->n - p.j0);
        if (sums) {
            thin_part_of_pairs(&p, rows, part, one);
            for (int64_t i = 0; i < g->m; i++)
                memcpy(sums + i * step + p.j0, one + i * p.width, (size_t)p.cols * sizeof *one);
            continue;
        }
        thin_part_of_pairs(&p, rows, 0, all);
        for (int64_t at = 1; at < parts; at++) {
            thin_part_of_pairs(&p, rows, at, one);
            for (int64_t j = 0; j < rows * p.width; j++)
                all[j] += one[j];
        }
        thin_write_pairs(&p, all);
    }
}

#endif
