/* Attention of many query rows of bf16, with instructions that multiply pairs (pairs.h). Scores and
 * weighted sums are f32; the weights between them are bf16, as in PyTorch.
 *
 * A row's weights are 2^(score - top), scores in units of ln 2. A row's total is the sum of the
 * rounded weights, so that rounding errors cancel.
 */
#include "ops/host/product/attention.h"

#if WEIR__ISA_LEVEL == WEIR__ISA_V4
#define WEIR__REAL_F64 0
#include "ops/host/product/attention_unit.h"
#include "ops/host/product/pairs.h"

#define LOG2E 1.44269504088896341

struct many {
    struct unit u;
    int64_t wide_d, wide_dv, wide_keys; /* padded to whole tiles; wide_keys: of key_block */
    uint16_t *queries;                  /* [rows][wide_d] */
    uint32_t *keys;                     /* panels of 16 keys, [wide_d / 2][16] */
    uint32_t *values;                   /* panels of 16 columns, [wide_keys / 2][16] */
    float *scores;                      /* [UNIT][wide_keys] */
    uint16_t *weights;                  /* [UNIT][wide_keys] */
    float *sums;                        /* [rows][wide_dv] */
    float *top, *total;                 /* per row */
    void (*multiply)(const struct pair_tile *tile);
};

/* Copies the unit's rows of q; rows beyond the last are zeros. */
static void copy_rows_of_q(const struct many *m)
{
    const struct weir__attention *a = m->u.a;

    for (int64_t r = 0; r < wide(m->u.rows); r++) {
        const int64_t d = r < m->u.rows ? a->d : 0;
        const uint16_t *from = (const uint16_t *)m->u.q;
        uint16_t *row = m->queries + r * m->wide_d;

        if (d)
            from += head_of(&m->u, r) * a->q.head + position_of(&m->u, r) * a->q.row;
        for (int64_t i = 0; i < d; i++)
            row[i] = from[i * a->q.col];
        memset(row + d, 0, (size_t)(m->wide_d - d) * sizeof *row);
    }
}

/* Packs the current block of keys and their values. */
static void pack_keys_and_values(const struct many *m)
{
    const struct weir__attention *a = m->u.a;
    const uint16_t *k = (const uint16_t *)m->u.k + m->u.key0 * a->k.row;
    const uint16_t *v = (const uint16_t *)m->u.v + m->u.key0 * a->v.row;

    for (int64_t j = 0; j < wide(m->u.keys); j += PANEL)
        pack_panel_of_pairs(m->keys + j * (m->wide_d / 2), m->wide_d / 2,
                            weir__max(0, weir__min(PANEL, m->u.keys - j)), a->d, k + j * a->k.row,
                            a->k.col, a->k.row);
    for (int64_t j = 0; j < m->wide_dv; j += PANEL)
        pack_panel_of_pairs(m->values + j * (m->wide_keys / 2), wide(m->u.keys) / 2,
                            weir__max(0, weir__min(PANEL, a->dv - j)), m->u.keys, v + j * a->v.col,
                            a->v.row, a->v.col);
}

/* Scales the scores of row r and masks them. */
static void mask_scores(const struct many *m, int64_t r, float *score)
{
    const struct unit *u = &m->u;
    const struct weir__attention *a = u->a;
    const int64_t visible = visible_keys(u, r) - u->key0;
    const float scale = (float)a->scale;

    for (int64_t j = 0; j < u->keys; j++)
        score[j] *= scale;
    if (u->mask) {
        const int64_t from =
            head_of(u, r) * a->mask.head + position_of(u, r) * a->mask.row + u->key0 * a->mask.col;

        if (a->mask_dtype == WEIR_BOOL)
            for (int64_t j = 0; j < u->keys; j++)
                score[j] = u->mask[from + j * a->mask.col] ? score[j] : -INFINITY;
        else
            for (int64_t j = 0; j < u->keys; j++)
                score[j] += load_one(u->mask, from + j * a->mask.col, WEIR_BF16);
    }
    for (int64_t j = weir__max(0, visible); j < u->keys; j++)
        score[j] = -INFINITY;
}

/* 2^x with an error below 3e-6, for weights: x is at most 0, up to rounding. The result for -inf is
 * 0. */
ALWAYS_INLINE __m512 exp2_of(__m512 x)
{
    __m512 n, r, y;

    x = _mm512_max_ps(_mm512_set1_ps(-200), x); /* NaN stays NaN */
    n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    r = _mm512_sub_ps(x, n);
    y = _mm512_set1_ps(9.570101276e-03f);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.591785908e-02f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(2.402474433e-01f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(6.931217909e-01f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(9.999992847e-01f));
    return _mm512_scalef_ps(y, n);
}

static float exp2_of_one(float x)
{
    return _mm512_cvtss_f32(exp2_of(_mm512_set1_ps(x)));
}

ALWAYS_INLINE __mmask16 lanes_in(int64_t n)
{
    return n >= PANEL ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Turns the scores of row r into weights, and rescales the sums so far to the new maximum. Scores
 * times `scale` are in units of ln 2. */
static TARGET_BF16 void soften_scores(const struct many *m, int64_t r, float scale)
{
    const int64_t keys = m->u.keys;
    const float *score = m->scores + r % UNIT * m->wide_keys;
    uint16_t *weight = m->weights + r % UNIT * m->wide_keys;
    float *sums = m->sums + r * m->wide_dv;
    const __m512 scales = _mm512_set1_ps(scale);
    __m512 most = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps(), base;
    float top, factor;

    for (int64_t j = 0; j < keys; j += PANEL) {
        const __mmask16 in = lanes_in(keys - j);
        const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, score + j), scales);

        most = _mm512_mask_max_ps(most, in, x, most); /* ignores NaN */
    }
    top = _mm512_reduce_max_ps(_mm512_max_ps(most, _mm512_set1_ps(m->top[r])));
    base = _mm512_set1_ps(top == -INFINITY ? 0 : -top); /* if all keys are masked, weights are 0,
                                                         * not NaN */
    for (int64_t j = 0; j < wide(keys); j += PANEL) {
        const __mmask16 in = j < keys ? lanes_in(keys - j) : 0;
        const __m512 x = _mm512_maskz_loadu_ps(in, score + j);
        const __m256i w =
            (__m256i)_mm512_maskz_cvtneps_pbh(in, exp2_of(_mm512_fmadd_ps(x, scales, base)));

        _mm256_storeu_si256((void *)(weight + j), w);
        total = _mm512_add_ps(total, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(w), 16));
    }
    factor = top == -INFINITY ? 1 : exp2_of_one(m->top[r] - top);
    m->top[r] = top;
    m->total[r] = m->total[r] * factor + lanes_sum((vec)total);
    if (factor != 1)
        for (int64_t i = 0; i < m->wide_dv; i += PANEL)
            _mm512_storeu_ps(sums + i,
                             _mm512_mul_ps(_mm512_loadu_ps(sums + i), _mm512_set1_ps(factor)));
}

/* Processes rows r0 .. r0 + UNIT of the unit with the current keys. */
static void attend_tile(const struct many *m, int64_t r0)
{
    const struct weir__attention *a = m->u.a;
    const int64_t keys = wide(m->u.keys), end = weir__min(m->u.rows, r0 + UNIT);
    struct pair_tile t = {.rows = UNIT,
                          .a = m->queries + r0 * m->wide_d,
                          .a_step = m->wide_d,
                          .b_next = m->wide_d / 2 * PANEL,
                          .c_step = m->wide_keys,
                          .k = m->wide_d};

    for (int64_t j = 0; j < keys; j += UNIT) {
        t.b = m->keys + j * (m->wide_d / 2);
        t.c = m->scores + j;
        m->multiply(&t);
    }
    for (int64_t r = r0; r < end; r++) {
        const bool plain = !m->u.mask && visible_keys(&m->u, r) >= m->u.key0 + m->u.keys;

        if (!plain)
            mask_scores(m, r, m->scores + (r - r0) * m->wide_keys);
        soften_scores(m, r, (float)(plain ? a->scale * LOG2E : LOG2E));
    }
    t = (struct pair_tile){.rows = UNIT,
                           .a = m->weights,
                           .a_step = m->wide_keys,
                           .b_next = m->wide_keys / 2 * PANEL,
                           .c_step = m->wide_dv,
                           .k = keys,
                           .add = true};
    for (int64_t i = 0; i < m->wide_dv; i += UNIT) {
        t.b = m->values + i * (m->wide_keys / 2);
        t.c = m->sums + r0 * m->wide_dv + i;
        m->multiply(&t);
    }
}

static void store_sums(const struct many *m)
{
    const struct weir__attention *a = m->u.a;

    for (int64_t r = 0; r < m->u.rows; r++) {
        const float scale = m->total[r] == 0 ? 0 : 1 / m->total[r];
        float *sums = m->sums + r * m->wide_dv;

        for (int64_t i = 0; i < a->dv; i++)
            sums[i] *= scale;
        store_row(a->out +
                      weir__attention_place(a, row_of_output(&m->u, r)) * (int64_t)sizeof(uint16_t),
                  1, WEIR_BF16, sums, a->dv);
    }
}

static void attend_pairs(const struct weir__attention *a, int64_t index, void *local)
{
    struct many m = {.u = find_unit(a, index),
                     .wide_d = wide(a->d),
                     .wide_dv = wide(a->dv),
                     .wide_keys = wide(a->key_block),
                     .sums = local};
    const int64_t rows = wide(a->row_block);

    m.scores = m.sums + rows * m.wide_dv;
    m.keys = (uint32_t *)(m.scores + UNIT * m.wide_keys);
    m.values = m.keys + m.wide_keys * m.wide_d / 2;
    m.queries = (uint16_t *)(m.values + m.wide_dv * m.wide_keys / 2);
    m.weights = m.queries + rows * m.wide_d;
    m.top = (float *)(m.weights + UNIT * m.wide_keys);
    m.total = m.top + rows;
    m.multiply = uses_amx() ? amx_tile : dots;

    memset(m.sums, 0, (size_t)(rows * m.wide_dv) * sizeof *m.sums);
    memset(m.weights, 0, (size_t)(UNIT * m.wide_keys) * sizeof *m.weights);
    for (int64_t r = 0; r < m.u.rows; r++) {
        m.top[r] = -INFINITY;
        m.total[r] = 0;
    }
    copy_rows_of_q(&m);
    if (uses_amx())
        amx_begin();
    for (; m.u.key0 < m.u.end; m.u.key0 += a->key_block) {
        m.u.keys = weir__min(a->key_block, m.u.end - m.u.key0);
        pack_keys_and_values(&m);
        for (int64_t r = 0; r < m.u.rows; r += UNIT)
            attend_tile(&m, r);
    }
    if (uses_amx())
        amx_end();
    store_sums(&m);
}
#endif

void WEIR__ISA_NAME(weir__attention_bf16)(const struct weir__attention *a, int64_t unit,
                                          void *local)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4
    attend_pairs(a, unit, local);
#else
    WEIR__ISA_NAME(weir__attention_f32)
    (a, unit, local); /* no processor of this level has the instructions */
#endif
}
