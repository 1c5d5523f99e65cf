/* The row of products of groups: whole is how many groups there are, flag 0 says that columns are
 * cut and flag 1 that depth is; else rows are. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

/* Ends of random groups, of which some are empty and few take one element. */
static void add_ends(struct call *c, int64_t groups, int64_t length)
{
    struct array *ends = &c->in[c->nin];
    int64_t at = 0;

    add_indices(c, 1, &groups, 1);
    for (int64_t g = 0; g < groups; g++) {
        int64_t most = length - at;

        at += rng_chance(&c->rng, 25)   ? 0
              : rng_chance(&c->rng, 25) ? (most > 0)
                                        : rng_int(&c->rng, 0, most);
        if (g == groups - 1 && rng_chance(&c->rng, 70))
            at = length;
        ends->at[g] = (double)at;
    }
}

static void make_grouped(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    int64_t most = c->budget > 10000 ? 20 : 5, unit = rng_chance(r, 50) ? 8 : 1;
    int64_t groups = rng_chance(r, 10) ? rng_int(r, 33, 70) : rng_int(r, 1, 6);
    int64_t m = rng_int(r, 1, most * 8), k = unit * rng_int(r, 1, most);
    int64_t n = unit * rng_int(r, 1, most), kind = rng_int(r, 0, 4);

    c->flag[0] = kind == 1;
    c->flag[1] = kind == 2;
    if (kind == 1) {
        add_input(c, dtype, 3, (int64_t[]){groups, m, k});
        add_input(c, dtype, 2, (int64_t[]){k, n});
        add_ends(c, groups, n);
    } else if (kind == 2) {
        add_input(c, dtype, 2, (int64_t[]){n, m});
        add_input(c, dtype, 2, (int64_t[]){m, k});
        add_ends(c, groups, m);
    } else {
        add_input(c, dtype, 2, (int64_t[]){m, k});
        add_input(c, dtype, 3, (int64_t[]){groups, k, n});
        add_ends(c, groups, m);
    }
    if (kind > 2 && rng_chance(r, 50))
        add_input(c, dtype, 2, (int64_t[]){groups, n});
    else
        c->nin++;
}

static weir_status run_grouped(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_grouped_matmul(in[0], in[1], in[2], in[3], out);
}

/* One element: row and column of the whole, and the depths that its group has. */
static void add_terms(struct call *c, int64_t group, int64_t row, int64_t column, int64_t from,
                      int64_t to, int64_t at)
{
    const struct array *a = &c->in[0], *b = &c->in[1], *bias = &c->in[3];
    int64_t k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1], m = a->shape[a->ndim - 2];
    int64_t a0 = a->ndim == 3 ? group * m * k : 0, b0 = b->ndim == 3 ? group * k * n : 0;
    struct array *out = &c->out[0];
    long double sum = 0;

    for (int64_t j = from; j < to; j++) {
        double term = a->at[a0 + row * k + j] * b->at[b0 + j * n + column];

        sum += term;
        out->reach[at] += fabs(term);
    }
    if (bias->at) {
        sum += bias->at[group * n + column];
        out->reach[at] += fabs(bias->at[group * n + column]);
    }
    out->at[at] = (double)sum;
}

static void reference_grouped(struct call *c)
{
    const struct array *a = &c->in[0], *b = &c->in[1], *ends = &c->in[2];
    int64_t m = a->shape[a->ndim - 2], k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1];
    int64_t groups = ends->shape[0], begin = 0;
    struct array *out = &c->out[0];

    if (c->flag[1])
        array_init(out, a->dtype, 3, (int64_t[]){groups, m, n});
    else
        array_init(out, a->dtype, 2, (int64_t[]){m, n});
    add_reach(out);
    for (int64_t g = 0; g < groups; g++) {
        int64_t end = (int64_t)ends->at[g];
        int64_t rows[2] = {0, m}, columns[2] = {0, n}, depth[2] = {0, k};
        int64_t *cut = c->flag[0] ? columns : c->flag[1] ? depth : rows;

        cut[0] = begin;
        cut[1] = begin = end;
        for (int64_t i = rows[0]; i < rows[1]; i++)
            for (int64_t j = columns[0]; j < columns[1]; j++)
                add_terms(c, g, i, j, depth[0], depth[1], (c->flag[1] ? g * m * n : 0) + i * n + j);
    }
    c->terms = (double)k + 1;
}

const struct op_case opcases_grouped[] = {
    {.name = "grouped_matmul",
     .types = TYPES_FLOAT,
     .make = make_grouped,
     .run = run_grouped,
     .reference = reference_grouped},
    {.name = NULL},
};
