/* Attention of many query rows: panels of NR rows, one vector lane per row, so that a row's maximum
 * and sum never cross lanes, and the weights already have the layout of the second product's
 * operand. See attention_real.h. */
#ifndef WEIR_OPS_HOST_ATTENTION_MANY_H
#define WEIR_OPS_HOST_ATTENTION_MANY_H

#include "ops/host/product/attention_unit.h"

/* A panel of the unit's rows. */
struct panel {
    int64_t row0;  /* in the unit */
    int64_t width; /* lanes in use: tile_cols of the number of rows */
    const real *queries;
    real *scores, *sums;
    _Alignas(64) real limit[NR]; /* causality hides the current keys from this one on */
    bool causal;                 /* causality hides some keys */
};

static void make_panel(struct panel *p, const struct unit *u, int64_t row0)
{
    p->row0 = row0;
    p->width = tile_cols(weir__min(NR, u->rows - row0));
    p->queries = u->queries + row0 * u->a->d;
    p->scores = u->scores + row0 * u->a->key_block;
    p->sums = u->sums + row0 * u->ld_out;
    p->causal = false;
    for (int64_t r = 0; r < p->width; r++) {
        int64_t limit = u->keys;

        if (row0 + r < u->rows)
            limit = weir__max(0, weir__min(limit, visible_keys(u, row0 + r) - u->key0));
        p->causal |= limit < u->keys;
        p->limit[r] = (real)limit;
    }
}

static void pack_queries(const struct unit *u)
{
    const struct weir__attention *a = u->a;

    for (int64_t r = 0; r < weir__div_up(u->rows, NR) * NR; r++) {
        const int64_t from = head_of(u, r) * a->q.head + position_of(u, r) * a->q.row;
        real *dst = u->queries + r / NR * NR * a->d + r % NR;

        for (int64_t i = 0; i < a->d; i++)
            dst[i * NR] = r < u->rows ? load_one(u->q, from + i * a->q.col, a->dtype) : 0;
    }
}

static void score_panel(const struct unit *u, const struct panel *p)
{
    const struct weir__attention *a = u->a;

    for (int64_t j = 0; j < u->keys; j += MR) /* zeros beyond the last key */
        panel_tile(weir__min(MR, u->keys - j), p->width, a->d, u->operand + j * a->d, p->queries,
                   NR, NULL, p->scores + j * NR, NR, false);
}

/* Reads the mask of the panel's rows for the current keys, as [key][NR]. */
static void read_mask(const struct unit *u, const struct panel *p)
{
    const struct weir__attention *a = u->a;

    for (int64_t r = 0; r < p->width; r++) {
        const int64_t row = weir__min(p->row0 + r, u->rows - 1);
        const int64_t from = head_of(u, row) * a->mask.head + position_of(u, row) * a->mask.row +
                             u->key0 * a->mask.col;

        if (a->mask_dtype == WEIR_BOOL)
            for (int64_t j = 0; j < u->keys; j++)
                u->weights[j * NR + r] = u->mask[from + j * a->mask.col] ? 0 : 1;
        else
            for (int64_t j = 0; j < u->keys; j++)
                u->weights[j * NR + r] = load_one(u->mask, from + j * a->mask.col, a->dtype);
    }
}

ALWAYS_INLINE vec pick_lanes(lanes_int which, vec yes, vec no)
{
    return (vec)((which & (lanes_int)yes) | (~which & (lanes_int)no));
}

/* The larger of the two; a NaN in x is ignored. */
ALWAYS_INLINE vec larger(vec x, vec than)
{
#if WEIR__ISA_LEVEL == WEIR__ISA_V4 && WEIR__REAL_F64
    return _mm512_max_pd(x, than);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V4
    return _mm512_max_ps(x, than);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3 && WEIR__REAL_F64
    return _mm256_max_pd(x, than);
#elif WEIR__ISA_LEVEL == WEIR__ISA_V3
    return _mm256_max_ps(x, than);
#else
    return pick_lanes(x > than, x, than);
#endif
}

ALWAYS_INLINE vec exp_lanes(vec x)
{
#if WEIR__REAL_F64
    for (int i = 0; i < LANES; i++)
        x[i] = exp(x[i]);
    return x;
#else
    return weir__vf_exp(x);
#endif
}

/* For one vector of rows: scales and masks the scores, turns them into weights, and rescales the
 * sums so far to the new maximum. Callers pass the kinds of mask as constants. */
ALWAYS_INLINE void soften_lanes(const struct unit *u, const struct panel *p, int64_t lane,
                                bool causal, bool bools, bool floats)
{
    const vec scale = vec_set((real)u->a->scale), none = vec_set(-(real)INFINITY);
    vec *const top_at = (vec *)(u->top + p->row0 + lane);
    vec *const total_at = (vec *)(u->total + p->row0 + lane);
    const vec limit = *(const vec *)(p->limit + lane);
    const vec before = *top_at;
    vec top = before, base, factor, total = vec_set(0);
    bool same = true;

    for (int64_t j = 0; j < u->keys; j++) {
        vec *const at = (vec *)(p->scores + j * NR + lane);
        vec x = *at * scale;

        if (bools)
            x = pick_lanes(*(const vec *)(u->weights + j * NR + lane) != vec_set(0), none, x);
        if (floats)
            x += *(const vec *)(u->weights + j * NR + lane);
        if (causal)
            x = pick_lanes(vec_set((real)j) >= limit, none, x);
        *at = x;
        top = larger(x, top);
    }
    base = pick_lanes(top == none, vec_set(0), top); /* if all keys are masked, weights are 0, not
                                                      * NaN */
    for (int64_t j = 0; j < u->keys; j++) {
        vec *const at = (vec *)(p->scores + j * NR + lane);
        const vec weight = exp_lanes(*at - base);

        *at = weight;
        total += weight;
    }
    factor = exp_lanes(before - base);
    *top_at = top;
    *total_at = *total_at * factor + total;
    for (int i = 0; i < LANES; i++)
        same &= factor[i] == 1;
    if (!same)
        for (int64_t i = 0; i < u->a->dv; i++)
            *(vec *)(p->sums + i * NR + lane) *= factor;
}

static void soften_panel(const struct unit *u, const struct panel *p)
{
    const struct weir__attention *a = u->a;

    if (u->mask)
        read_mask(u, p);
    for (int64_t lane = 0; lane < p->width; lane += LANES)
        if (!u->mask && !p->causal)
            soften_lanes(u, p, lane, false, false, false);
        else if (!u->mask)
            soften_lanes(u, p, lane, true, false, false);
        else if (a->mask_dtype == WEIR_BOOL)
            soften_lanes(u, p, lane, true, true, false);
        else
            soften_lanes(u, p, lane, true, false, true);
}

/* sums += transposed values times the weights of the panel. */
static void add_values(const struct unit *u, const struct panel *p)
{
    const int64_t dv = u->a->dv;

    for (int64_t i = 0; i < dv; i += MR)
        panel_tile(weir__min(MR, dv - i), p->width, u->keys, u->values + i * u->keys, p->scores, NR,
                   NULL, p->sums + i * NR, NR, true);
}

/* Copies row r of the sums out of its panel. */
static void take_row(const struct unit *u, int64_t r, real *row)
{
    const real *sums = u->sums + r / NR * NR * u->ld_out + r % NR;

    for (int64_t i = 0; i < u->a->dv; i++)
        row[i] = sums[i * NR];
}

static void attend_many(struct unit *u)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);

    pack_queries(u);
    for (; u->key0 < u->end; u->key0 += a->key_block) {
        u->keys = weir__min(a->key_block, u->end - u->key0);
        pack_rows(u->operand, u->keys, a->d, u->k + u->key0 * a->k.row * size, a->k.row, a->k.col,
                  a->dtype);
        pack_rows(u->values, a->dv, u->keys, u->v + u->key0 * a->v.row * size, a->v.col, a->v.row,
                  a->dtype);
        for (int64_t r = 0; r < u->rows; r += NR) {
            struct panel p;

            make_panel(&p, u, r);
            score_panel(u, &p);
            soften_panel(u, &p);
            add_values(u, &p);
        }
    }
}

#endif
