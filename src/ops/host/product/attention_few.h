/* Attention of at most WEIR__ATTENTION_FEW query rows to a key head, as when tokens are generated
 * one by one: the keys are read once, in place. Scores are stored in rows. See attention_real.h. */
#ifndef WEIR_OPS_HOST_ATTENTION_FEW_H
#define WEIR_OPS_HOST_ATTENTION_FEW_H

#include "ops/host/product/attention_unit.h"

#define KEYS_AHEAD 16
#define VALUE_VECS \
    (WEIR__ISA_LEVEL == WEIR__ISA_V4 ? 4 : 2) /* with four rows this uses all registers */

static int64_t padded(int64_t n)
{
    return weir__div_up(n, LANES) * LANES;
}

/* Vectors of a row that are read at a time. For bf16 there are two: the elements at even and at odd
 * positions, each extracted by one instruction. */
ALWAYS_INLINE int step_vecs(weir_dtype dtype)
{
    return !WEIR__REAL_F64 && dtype == WEIR_BF16 ? 2 : 1;
}

/* The index of element i of a row in vectors read that way. */
static int64_t place_in_step(int64_t i, weir_dtype dtype)
{
    const int64_t at = i % (2 * LANES);

    return step_vecs(dtype) == 1 ? i : i - at + at / 2 + at % 2 * LANES;
}

/* Loads the elements from `at` on, of which n exist; zeros beyond. */
ALWAYS_INLINE void load_step(vec *out, const char *src, int64_t at, int64_t n, weir_dtype dtype)
{
#if !WEIR__REAL_F64
    if (dtype == WEIR_BF16) {
        const uint16_t *half = (const uint16_t *)src + at;
        word_vec pairs = {0};

        if (weir__likely(n >= 2 * LANES))
            memcpy(&pairs, half, sizeof pairs);
        else
            memcpy(&pairs, half, (size_t)n * sizeof *half);
        out[0] = (vec)(pairs << 16);
        out[1] = (vec)(pairs & 0xffff0000u);
        return;
    }
#endif
    out[0] = weir__likely(n >= LANES) ? load_vec(src, at, dtype) : load_part(src, at, n, dtype);
}

/* Contiguous rows: in place, or copies. */
struct lines {
    const char *data;
    int64_t step; /* elements */
    weir_dtype dtype;
};

/* The current keys or values of an operand, rows of n elements; copied to `copies` if they are not
 * contiguous. */
static struct lines lines_at_hand(const struct unit *u, const struct weir__attention_operand *o,
                                  const char *data, int64_t n, real *copies)
{
    const weir_dtype dtype = u->a->dtype;

    data += u->key0 * o->row * (int64_t)weir_dtype_size(dtype);
    if (o->col == 1)
        return (struct lines){data, o->row, dtype};
    for (int64_t j = 0; j < u->keys; j++)
        for (int64_t i = 0; i < n; i++)
            copies[j * n + i] = load_one(data, j * o->row + i * o->col, dtype);
    return (struct lines){(const char *)copies, n, REAL_DTYPE};
}

/* Elements of a row of `queries`. */
static int64_t query_step(const struct unit *u)
{
    return weir__div_up(u->a->d, 2 * LANES) * 2 * LANES;
}

/* Copies the queries in the order of elements that load_step gives the keys. */
static void copy_queries(const struct unit *u)
{
    const struct weir__attention *a = u->a;
    const weir_dtype keys = a->k.col == 1 ? a->dtype : REAL_DTYPE;

    memset(u->queries, 0, (size_t)(u->rows * query_step(u)) * sizeof *u->queries);
    for (int64_t r = 0; r < u->rows; r++) {
        const int64_t from = head_of(u, r) * a->q.head + position_of(u, r) * a->q.row;
        real *row = u->queries + r * query_step(u);

        for (int64_t i = 0; i < a->d; i++)
            row[place_in_step(i, keys)] = load_one(u->q, from + i * a->q.col, a->dtype);
    }
}

/* ---- scores ---- */

/* The current keys, and the memory to prefetch. */
struct scoring {
    real *scores; /* of the current rows */
    const real *queries;
    const char *keys, *values; /* of the current keys */
    int64_t d, rows, query_step, score_step;
    int64_t key_step, key_bytes; /* distance between rows, and size of a row; bytes */
    int64_t value_step, value_bytes;
};

/* Scores of `rows` rows with `keys` keys, both constants at each call. */
ALWAYS_INLINE void dot_keys(const struct scoring *s, int rows, int keys, const real *queries,
                            real *scores, weir_dtype dtype)
{
    const int64_t d = s->d, key_step = s->key_step, query_step = s->query_step;
    const char *const from = s->keys;
    const int nv = step_vecs(dtype);
    vec acc[16];

#pragma GCC unroll 16
    for (int i = 0; i < rows * keys; i++)
        acc[i] = vec_set(0);
    for (int64_t i = 0; i < d; i += nv * LANES) {
        vec key[4][2];

#pragma GCC unroll 4
        for (int q = 0; q < keys; q++)
            load_step(key[q], from + q * key_step, i, d - i, dtype);
#pragma GCC unroll 4
        for (int f = 0; f < rows; f++)
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++) {
                const vec x = *(const vec *)(queries + f * query_step + i + v * LANES);

#pragma GCC unroll 4
                for (int q = 0; q < keys; q++)
                    acc[f * keys + q] = fused(x, key[q][v], acc[f * keys + q]);
            }
    }
#pragma GCC unroll 4
    for (int f = 0; f < rows; f++)
        if (keys == 4)
            lanes_sums(&acc[f * 4], scores + f * s->score_step);
        else
            scores[f * s->score_step] = lanes_sum(acc[f]);
}

/* Prefetches bytes of a row into the second-level cache. */
ALWAYS_INLINE void ask_for_row(const char *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at, 0, 2);
}

/* Computes the scores of all rows with this many keys. Meanwhile prefetches the next keys, and the
 * values of these keys. */
ALWAYS_INLINE void score_some(struct scoring *s, int keys, weir_dtype dtype)
{
    int64_t r = 0;

    for (int q = 0; q < keys; q++) {
        ask_for_row(s->keys + (q + KEYS_AHEAD) * s->key_step, s->key_bytes);
        ask_for_row(s->values + q * s->value_step, s->value_bytes);
    }
    for (; r + 4 <= s->rows; r += 4)
        dot_keys(s, 4, keys, s->queries + r * s->query_step, s->scores + r * s->score_step, dtype);
    for (; r < s->rows; r++)
        dot_keys(s, 1, keys, s->queries + r * s->query_step, s->scores + r * s->score_step, dtype);
    s->scores += keys;
    s->keys += keys * s->key_step;
    s->values += keys * s->value_step;
}

ALWAYS_INLINE void score_typed(const struct unit *u, const struct lines *k, weir_dtype dtype)
{
    const struct weir__attention *a = u->a;
    const int64_t key_size = (int64_t)weir_dtype_size(dtype);
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    struct scoring s = {.scores = u->scores,
                        .queries = u->queries,
                        .keys = k->data,
                        .values = u->v + u->key0 * a->v.row * size,
                        .d = a->d,
                        .rows = u->rows,
                        .query_step = query_step(u),
                        .score_step = a->key_block,
                        .key_step = k->step * key_size,
                        .key_bytes = a->d * key_size,
                        .value_step = a->v.row * size,
                        .value_bytes = a->v.col == 1 ? a->dv * size : 0};
    int64_t j = 0;

    for (; j + 4 <= u->keys; j += 4)
        score_some(&s, 4, dtype);
    for (; j < u->keys; j++)
        score_some(&s, 1, dtype);
}

static void score_keys(const struct unit *u)
{
    const struct lines k = lines_at_hand(u, &u->a->k, u->k, u->a->d, u->operand);

#if !WEIR__REAL_F64
    if (k.dtype == WEIR_F16)
        score_typed(u, &k, WEIR_F16);
    else if (k.dtype == WEIR_BF16)
        score_typed(u, &k, WEIR_BF16);
    else
#endif
        score_typed(u, &k, REAL_DTYPE);
}

/* ---- weights ---- */

/* Scales the scores of row r and masks them. */
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

/* The maximum of `top` and the n scores, n a multiple of LANES; ignores NaN. */
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

/* Turns the n scores into exp(score - top) and returns their sum. n is a multiple of LANES. */
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

/* Turns the scores of row r into weights, and rescales the sums so far to the new maximum. */
static void soften_row(const struct unit *u, int64_t r)
{
    real *score = u->scores + r * u->a->key_block;
    real *sums = u->sums + r * u->ld_out;
    const real top = largest(score, u->keys_padded, u->top[r]);
    real factor;

    if (top == -(real)INFINITY) { /* all keys so far are masked; but a NaN among the scores
                                   * counts */
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

/* ---- values ---- */

/* Adds the current values to `rows` rows of sums from r on, in the columns from i on, of which n
 * exist. `rows`, and `nv`, the number of vectors of columns, are constants at each call. A single
 * row uses two chains of sums, to hide the latency of additions. */
ALWAYS_INLINE void add_columns(const struct unit *u, const struct lines *v, int rows, int nv,
                               int64_t r, int64_t i, int64_t n, weir_dtype dtype)
{
    const int chains = rows == 1 ? 2 : 1, step = step_vecs(dtype);
    const real *weight = u->scores + r * u->a->key_block;
    vec acc[4 * VALUE_VECS];

#pragma GCC unroll 16
    for (int q = 0; q < chains * rows * nv; q++)
        acc[q] = vec_set(0);
    for (int64_t j = 0; j < u->keys; j += chains)
#pragma GCC unroll 2
        for (int c = 0; c < chains; c++) {
            vec value[VALUE_VECS];

            if (c && j + c >= u->keys)
                break;
#pragma GCC unroll 4
            for (int q = 0; q < nv; q += step)
                load_step(value + q, v->data, (j + c) * v->step + i + q * LANES, n - q * LANES,
                          dtype);
#pragma GCC unroll 4
            for (int f = 0; f < rows; f++) {
                const vec w = vec_set(weight[f * u->a->key_block + j + c]);

#pragma GCC unroll 4
                for (int q = 0; q < nv; q++)
                    acc[(c * rows + f) * nv + q] = fused(w, value[q], acc[(c * rows + f) * nv + q]);
            }
        }
    for (int f = 0; f < rows; f++) {
        real *sums = u->sums + (r + f) * u->ld_out + i;
        real line[VALUE_VECS * LANES];

        for (int q = 0; q < nv; q++) {
            vec sum = acc[f * nv + q];

            if (chains == 2)
                sum += acc[(rows + f) * nv + q];
            *(vec *)(line + q * LANES) = sum;
        }
        for (int64_t q = 0; q < weir__min(n, nv * LANES); q++)
            sums[q] += line[place_in_step(q, dtype)];
    }
}

ALWAYS_INLINE void add_rows_typed(const struct unit *u, const struct lines *v, int rows, int64_t r,
                                  weir_dtype dtype)
{
    const int64_t dv = u->a->dv;
    int64_t i = 0;

    for (; i + VALUE_VECS * LANES <= dv; i += VALUE_VECS * LANES)
        add_columns(u, v, rows, VALUE_VECS, r, i, VALUE_VECS * LANES, dtype);
    for (; i < dv; i += step_vecs(dtype) * LANES)
        add_columns(u, v, rows, step_vecs(dtype), r, i, dv - i, dtype);
}

ALWAYS_INLINE void add_typed(const struct unit *u, const struct lines *v, weir_dtype dtype)
{
    int64_t r = 0;

    for (; r + 4 <= u->rows; r += 4)
        add_rows_typed(u, v, 4, r, dtype);
    for (; r + 2 <= u->rows; r += 2)
        add_rows_typed(u, v, 2, r, dtype);
    if (r < u->rows)
        add_rows_typed(u, v, 1, r, dtype);
}

static void add_few_values(const struct unit *u)
{
    const struct lines v = lines_at_hand(u, &u->a->v, u->v, u->a->dv, u->values);

#if !WEIR__REAL_F64
    if (v.dtype == WEIR_F16)
        add_typed(u, &v, WEIR_F16);
    else if (v.dtype == WEIR_BF16)
        add_typed(u, &v, WEIR_BF16);
    else
#endif
        add_typed(u, &v, REAL_DTYPE);
}

static void attend_few(struct unit *u)
{
    const struct weir__attention *a = u->a;

    copy_queries(u);
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
