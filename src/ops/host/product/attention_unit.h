/* What the two ways to compute attention share; included with WEIR__REAL_F64 set. */
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

/* A block of query rows, counted through the heads that share a key head, against
 * the block of keys at hand. */
struct unit {
    const struct weir__attention *a;
    const char *k, *v; /* of this batch and key head */
    const char *mask;  /* of this batch */
    int64_t key_head, row0, rows;
    int64_t key0, keys, keys_padded;
    int64_t end;       /* of the keys that take part */
    int64_t ld_out;    /* of `sums`: few rows: elements of a row; else rows of a panel */
    real *queries;     /* few rows: rows of whole vectors; else panels [d][NR] */
    real *operand;     /* panels of keys; few rows: a panel of values */
    real *values;      /* panels of them, [key][MR] */
    real *scores;      /* few rows: rows of key_block; else of each panel [key][NR] */
    real *weights;     /* few rows: the same as panels of MR rows; else the mask of a panel */
    real *sums;        /* rows of the output, not divided yet; else of each panel [dv][NR] */
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

#endif
