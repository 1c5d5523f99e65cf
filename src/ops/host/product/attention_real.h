/* Attention for one compute type; included by attention_f32.c and attention_f64.c. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "ops/host/product/attention.h"
#include "ops/host/product/gemm_pack.h"
#if !WEIR__REAL_F64
#include "ops/host/math/vmath.h"
#endif

#if WEIR__REAL_F64
typedef int64_t lanes_int __attribute__((vector_size(VEC_BYTES)));
#else
typedef int32_t lanes_int __attribute__((vector_size(VEC_BYTES)));
#endif

/* A block of query rows, counted through the heads that share a key head, against
 * the block of keys at hand. */
struct unit {
    const struct weir__attention *a;
    const char *k, *v; /* of this batch and key head */
    const char *mask;  /* of this batch */
    int64_t key_head, row0, rows;
    int64_t key0, keys, keys_padded;
    int64_t ld_out;    /* of `sums` */
    real *queries;     /* panels of MR rows */
    real *operand;     /* panels of keys, then a panel of values */
    real *scores;      /* rows of key_block */
    real *weights;     /* the same as panels of MR rows */
    real *sums;        /* rows of the output before division */
    real *top, *total; /* of each row: largest score so far, sum of weights */
};

/* Where row r of the unit lies: its query head and position. */
static int64_t head_of(const struct unit *u, int64_t r)
{
    const struct weir__attention *a = u->a;

    return u->key_head * (a->heads / a->key_heads) + (u->row0 + r) / a->lq;
}

static int64_t position_of(const struct unit *u, int64_t r)
{
    return (u->row0 + r) % u->a->lq;
}

/* Keys from this one on are hidden from row r by causality. */
static int64_t visible_keys(const struct unit *u, int64_t r)
{
    const struct weir__attention *a = u->a;

    if (!a->causal)
        return a->lk;
    return weir__max(0, weir__min(a->lk, position_of(u, r) + a->lk - a->lq + 1));
}

static void pack_queries(const struct unit *u, const char *q)
{
    const struct weir__attention *a = u->a;

    for (int64_t r = 0; r < weir__div_up(u->rows, MR) * MR; r++) {
        const int64_t from = head_of(u, r) * a->q.head + position_of(u, r) * a->q.row;
        real *dst = u->queries + r / MR * MR * a->d + r % MR;

        for (int64_t i = 0; i < a->d; i++)
            dst[i * MR] = r < u->rows ? load_one(q, from + i * a->q.col, a->dtype) : 0;
    }
}

static void score_keys(const struct unit *u)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);

    pack_cols(u->operand, u->keys, a->d, u->k + u->key0 * a->k.row * size, a->k.row, a->k.col,
              a->dtype);
    for (int64_t r = 0; r < u->rows; r += MR)
        for (int64_t j = 0; j < u->keys; j += NR)
            panel_tile(weir__min(MR, u->rows - r), weir__min(NR, u->keys - j), a->d,
                       u->queries + r * a->d, u->operand + j * a->d, NR, NULL,
                       u->scores + r * a->key_block + j, a->key_block, false);
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

static void add_values(const struct unit *u)
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

static void store_rows(const struct unit *u, char *out)
{
    const struct weir__attention *a = u->a;
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);

    for (int64_t r = 0; r < u->rows; r++) {
        real *sums = u->sums + r * u->ld_out;
        const real scale = u->total[r] == 0 ? 0 : 1 / u->total[r];

        for (int64_t i = 0; i < a->dv; i++)
            sums[i] *= scale;
        store_row(out + (head_of(u, r) * a->lq + position_of(u, r)) * a->dv * size, 1, a->dtype,
                  sums, a->dv);
    }
}

static void attend(const struct weir__attention *a, int64_t index, void *local)
{
    const int64_t size = (int64_t)weir_dtype_size(a->dtype);
    const int64_t panels = weir__div_up(a->row_block, MR) * MR;
    int64_t batch = index / a->row_blocks / a->key_heads, rest = batch;
    int64_t q = 0, k = 0, v = 0, mask = 0, last = 0;
    struct unit u = {.a = a, .key_head = index / a->row_blocks % a->key_heads};

    for (int d = a->ndims - 1; d >= 0; d--) {
        const int64_t at = rest % a->shape[d];

        rest /= a->shape[d];
        q += at * a->q.batch[d];
        k += at * a->k.batch[d];
        v += at * a->v.batch[d];
        mask += at * a->mask.batch[d];
    }
    u.k = a->k.data + (k + u.key_head * a->k.head) * size;
    u.v = a->v.data + (v + u.key_head * a->v.head) * size;
    if (a->mask.data)
        u.mask = a->mask.data + mask * (int64_t)weir_dtype_size(a->mask_dtype);
    u.row0 = index % a->row_blocks * a->row_block;
    u.rows = weir__min(a->row_block, a->heads / a->key_heads * a->lq - u.row0);
    u.ld_out = weir__div_up(a->dv, NR) * NR;
    u.queries = local;
    u.operand = u.queries + panels * a->d;
    u.scores = u.operand + weir__max(a->d, NR) * a->key_block;
    u.weights = u.scores + panels * a->key_block;
    u.sums = u.weights + panels * a->key_block;
    u.top = u.sums + panels * u.ld_out;
    u.total = u.top + panels;

    pack_queries(&u, a->q.data + q * size);
    memset(u.sums, 0, (size_t)(panels * u.ld_out) * sizeof *u.sums);
    for (int64_t r = 0; r < u.rows; r++) {
        u.top[r] = -(real)INFINITY;
        u.total[r] = 0;
        last = weir__max(last, visible_keys(&u, r));
    }
    for (u.key0 = 0; u.key0 < last; u.key0 += a->key_block) {
        u.keys = weir__min(a->key_block, last - u.key0);
        u.keys_padded = weir__div_up(u.keys, LANES) * LANES;
        score_keys(&u);
        for (int64_t r = 0; r < u.rows; r++) {
            mask_row(&u, r);
            soften_row(&u, r);
        }
        add_values(&u);
    }
    store_rows(&u, a->out + batch * a->heads * a->lq * a->dv * size);
}
