/* Shared by the two variants of attention; included with WEIR__REAL_F64 set. */
#ifndef WEIR_OPS_HOST_ATTENTION_UNIT_H
#define WEIR_OPS_HOST_ATTENTION_UNIT_H

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

/* A block of query rows, numbered through the heads that share a key head, with the current block
 * of keys. */
struct unit {
    const struct weir__attention *a;
    const char *q;     /* of this batch */
    const char *k, *v; /* of this batch and key head */
    const char *mask;  /* of this batch */
    int64_t batch, key_head, part, row0, rows;
    int64_t key0, keys, keys_padded;
    int64_t end;       /* end of the keys that are used */
    int64_t ld_out;    /* stride of `sums`: few rows: elements of a row; else rows of a panel */
    real *queries;     /* few rows: rows of whole vectors; else panels [d][NR] */
    real *operand;     /* panels of keys; few rows: copies of keys */
    real *values;      /* panels of values, [key][MR]; few rows: copies of values */
    real *scores;      /* few rows: rows of key_block; else of each panel [key][NR] */
    real *weights;     /* many rows: the mask of a panel */
    real *sums;        /* rows of the output before division; else for each panel [dv][NR] */
    real *top, *total; /* per row: largest score so far, sum of weights */
};

/* The query head and the position of row r of the unit. */
static int64_t head_of(const struct unit *u, int64_t r)
{
    const struct weir__attention *a = u->a;

    return u->key_head * (a->heads / a->key_heads) + (u->row0 + r) / a->lq;
}

static int64_t position_of(const struct unit *u, int64_t r)
{
    return (u->row0 + r) % u->a->lq;
}

/* Causality hides the keys from this one on from row r. */
static int64_t visible_keys(const struct unit *u, int64_t r)
{
    const struct weir__attention *a = u->a;

    if (!a->causal)
        return a->lk;
    return weir__max(0, weir__min(a->lk, position_of(u, r) + a->lk - a->lq + 1));
}

/* Finds unit and part `index` and the keys that they use. Does not set up local memory. */
static struct unit find_unit(const struct weir__attention *a, int64_t index)
{
    const int64_t size = (int64_t)weir_dtype_size(a->dtype), unit = index / a->splits;
    struct unit u = {.a = a,
                     .batch = unit / a->row_blocks / a->key_heads,
                     .key_head = unit / a->row_blocks % a->key_heads,
                     .part = index % a->splits,
                     .row0 = unit % a->row_blocks * a->row_block};
    int64_t q = 0, k = 0, v = 0, mask = 0, last = 0, rest = u.batch;

    for (int d = a->ndims - 1; d >= 0; d--) {
        const int64_t at = rest % a->shape[d];

        rest /= a->shape[d];
        q += at * a->q.batch[d];
        k += at * a->k.batch[d];
        v += at * a->v.batch[d];
        mask += at * a->mask.batch[d];
    }
    u.q = a->q.data + q * size;
    u.k = a->k.data + (k + u.key_head * a->k.head) * size;
    u.v = a->v.data + (v + u.key_head * a->v.head) * size;
    if (a->mask.data)
        u.mask = a->mask.data + mask * (int64_t)weir_dtype_size(a->mask_dtype);
    u.rows = weir__min(a->row_block, a->heads / a->key_heads * a->lq - u.row0);
    for (int64_t r = 0; r < u.rows; r++)
        last = weir__max(last, visible_keys(&u, r));
    u.key0 = u.part * a->split_keys;
    u.end = weir__min(last, u.key0 + a->split_keys);
    return u;
}

/* The row of the output for row r of the unit. */
static int64_t row_of_output(const struct unit *u, int64_t r)
{
    return (u->batch * u->a->heads + head_of(u, r)) * u->a->lq + position_of(u, r);
}

#endif
