/* Attention of at most WEIR__ATTENTION_FEW query rows to a key head, as when tokens are generated
 * one by one: the keys are read once, where they lie. Rows of scores, one after the other. See
 * attention_real.h. */
#ifndef WEIR_OPS_HOST_ATTENTION_FEW_H
#define WEIR_OPS_HOST_ATTENTION_FEW_H

#include "ops/host/product/attention_unit.h"

static int64_t padded(int64_t n)
{
    return weir__div_up(n, LANES) * LANES;
}

static void copy_queries(const struct unit *u, const char *q)
{
    const struct weir__attention *a = u->a;

    for (int64_t r = 0; r < u->rows; r++) {
        const int64_t from = head_of(u, r) * a->q.head + position_of(u, r) * a->q.row;
        real *row = u->queries + r * padded(a->d);

        for (int64_t i = 0; i < padded(a->d); i++)
            row[i] = i < a->d ? load_one(q, from + i * a->q.col, a->dtype) : 0;
    }
}

/* The keys at hand, contiguous along d. */
struct keys {
    const char *data;
    int64_t step; /* elements */
};

/* Scores of `rows` rows from r on against `keys` keys from j on, both constants where it is
 * called. */
ALWAYS_INLINE void dot_keys(const struct unit *u, const struct keys *k, int rows, int keys,
                            int64_t r, int64_t j, weir_dtype dtype)
{
    const struct weir__attention *a = u->a;
    const char *from = k->data + j * k->step * (int64_t)weir_dtype_size(dtype);
    vec acc[16];

#pragma GCC unroll 16
    for (int i = 0; i < rows * keys; i++)
        acc[i] = vec_set(0);
    for (int64_t i = 0; i < a->d; i += LANES) {
        vec key[4];

#pragma GCC unroll 4
        for (int q = 0; q < keys; q++)
            key[q] = weir__likely(i + LANES <= a->d)
                         ? load_vec(from, q * k->step + i, dtype)
                         : load_part(from, q * k->step + i, a->d - i, dtype);
#pragma GCC unroll 4
        for (int f = 0; f < rows; f++) {
            const vec x = *(const vec *)(u->queries + (r + f) * padded(a->d) + i);

#pragma GCC unroll 4
            for (int q = 0; q < keys; q++)
                acc[f * keys + q] = fused(x, key[q], acc[f * keys + q]);
        }
    }
#pragma GCC unroll 4
    for (int f = 0; f < rows; f++)
#pragma GCC unroll 4
        for (int q = 0; q < keys; q++)
            u->scores[(r + f) * a->key_block + j + q] = lanes_sum(acc[f * keys + q]);
}

/* All rows against so many keys; the ones ahead are on their way meanwhile. */
ALWAYS_INLINE void score_some(const struct unit *u, const struct keys *k, int keys, int64_t j,
                              weir_dtype dtype)
{
    const int64_t size = (int64_t)weir_dtype_size(dtype);
    int64_t r = 0;

    for (int q = 0; q < keys; q++)
        for (int64_t at = 0; at < u->a->d * size; at += 64)
            __builtin_prefetch(k->data + (j + q + 16) * k->step * size + at);
    for (; r + 4 <= u->rows; r += 4)
        dot_keys(u, k, 4, keys, r, j, dtype);
    for (; r < u->rows; r++)
        dot_keys(u, k, 1, keys, r, j, dtype);
}

ALWAYS_INLINE void score_typed(const struct unit *u, const struct keys *k, weir_dtype dtype)
{
    int64_t j = 0;

    for (; j + 4 <= u->keys; j += 4)
        score_some(u, k, 4, j, dtype);
    for (; j < u->keys; j++)
        score_some(u, k, 1, j, dtype);
}

static void score_keys(const struct unit *u)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    struct keys k = {u->k + u->key0 * a->k.row * size, a->k.row};

    if (a->k.col != 1) {
        for (int64_t j = 0; j < u->keys; j++)
            for (int64_t i = 0; i < a->d; i++)
                u->operand[j * a->d + i] = load_one(k.data, j * a->k.row + i * a->k.col, a->dtype);
        k = (struct keys){(const char *)u->operand, a->d};
    }
#if !WEIR__REAL_F64
    if (a->dtype == WEIR_F16 && a->k.col == 1)
        score_typed(u, &k, WEIR_F16);
    else if (a->dtype == WEIR_BF16 && a->k.col == 1)
        score_typed(u, &k, WEIR_BF16);
    else
#endif
        score_typed(u, &k, REAL_DTYPE);
}

/* Scales the scores of row r and hides what is masked. */
static void mask_row(const struct unit *u, int64_t r)
{
    const struct weir__attention *a = u->a;
    const int64_t visible = visible_keys(u, r) - u->key0;
    real *score = u->scores + r * a->key_block;

    for (int64_t j = 0; j < u->keys; j++)
        score[j] *= (real)a->scale;
    if (u->mask) {
        const int64_t from =
            head_of(u, r) * a->mask.head + position_of(u, r) * a->mask.row + u->key0 * a->mask.col;

        if (a->mask_dtype == WEIR_BOOL)
            for (int64_t j = 0; j < u->keys; j++)
                score[j] = u->mask[from + j * a->mask.col] ? score[j] : -(real)INFINITY;
        else
            for (int64_t j = 0; j < u->keys; j++)
                score[j] += load_one(u->mask, from + j * a->mask.col, a->dtype);
    }
    for (int64_t j = weir__max(0, visible); j < u->keys_padded; j++)
        score[j] = -(real)INFINITY;
    for (int64_t j = u->keys; j < u->keys_padded; j++)
        score[j] = -(real)INFINITY;
}

/* The largest of the n scores, a multiple of LANES, and `top`; NaN is passed over. */
static real largest(const real *score, int64_t n, real top)
{
    vec most = vec_set(top);

    for (int64_t j = 0; j < n; j += LANES) {
        const vec v = *(const vec *)(score + j);
        const lanes_int more = v > most;

        most = (vec)((more & (lanes_int)v) | (~more & (lanes_int)most));
    }
    for (int i = 0; i < LANES; i++)
        top = most[i] > top ? most[i] : top;
    return top;
}

/* Turns the n scores, a multiple of LANES, into exp(score - top); returns their sum. */
static real weigh(real *score, int64_t n, real top)
{
    vec sum = vec_set(0);

    for (int64_t j = 0; j < n; j += LANES) {
        vec *at = (vec *)(score + j);
#if WEIR__REAL_F64
        for (int i = 0; i < LANES; i++)
            score[j + i] = exp(score[j + i] - top);
#else
        *at = weir__vf_exp(*at - top);
#endif
        sum += *at;
    }
    return lanes_sum(sum);
}

/* Row r: scores become weights, and what was summed before is brought to the new
 * maximum. */
static void soften_row(const struct unit *u, int64_t r)
{
    real *score = u->scores + r * u->a->key_block;
    real *sums = u->sums + r * u->ld_out;
    const real top = largest(score, u->keys_padded, u->top[r]);
    real factor;

    if (top == -(real)INFINITY) { /* nothing takes part yet; NaN among the scores counts */
        bool nan = false;

        for (int64_t j = 0; j < u->keys; j++) {
            nan |= score[j] != score[j];
            score[j] = 0;
        }
        if (nan)
            u->total[r] = (real)NAN;
        return;
    }
    factor = (real)exp((double)(u->top[r] - top));
    u->total[r] = u->total[r] * factor + weigh(score, u->keys_padded, top);
    u->top[r] = top;
    if (factor != 1)
        for (int64_t i = 0; i < u->ld_out; i++)
            sums[i] *= factor;
}

static void add_few_values(const struct unit *u)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    const char *v = u->v + u->key0 * a->v.row * size;

    pack_rows(u->weights, u->rows, u->keys, (const char *)u->scores, a->key_block, 1, REAL_DTYPE);
    for (int64_t j = 0; j < a->dv; j += NR) {
        const int64_t cols = weir__min(NR, a->dv - j);
        const char *from = v + j * a->v.col * size;
        const bool direct = a->dtype == REAL_DTYPE && a->v.col == 1 && tile_cols(cols) == cols;

        if (!direct)
            pack_cols(u->operand, cols, u->keys, from, a->v.col, a->v.row, a->dtype);
        for (int64_t r = 0; r < u->rows; r += MR)
            panel_tile(weir__min(MR, u->rows - r), cols, u->keys, u->weights + r * u->keys,
                       direct ? (const real *)from : u->operand, direct ? a->v.row : NR, NULL,
                       u->sums + r * u->ld_out + j, u->ld_out, true);
    }
}

static void attend_few(struct unit *u, const char *q)
{
    const struct weir__attention *a = u->a;

    copy_queries(u, q);
    for (; u->key0 < u->end; u->key0 += a->key_block) {
        u->keys = weir__min(a->key_block, u->end - u->key0);
        u->keys_padded = padded(u->keys);
        score_keys(u);
        for (int64_t r = 0; r < u->rows; r++) {
            mask_row(u, r);
            soften_row(u, r);
        }
        add_few_values(u);
    }
}

#endif
