/* Rows of the operators on indices, of sorting and of rotary. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

static int wrapped(const struct call *c)
{
    return (int)(c->whole[0] < 0 ? c->whole[0] + c->in[0].ndim : c->whole[0]);
}

static int pick_dim(struct call *c, int ndim)
{
    int dim = (int)rng_int(&c->rng, 0, ndim - 1);

    c->whole[0] = rng_chance(&c->rng, 50) ? dim : dim - ndim;
    return dim;
}

/* ---- rows and slices by index ---- */

static void make_embedding(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], places[WEIR_MAX_DIMS], budget = c->budget;
    int ndim = random_shape(c, 1, 3, shape), n;

    shape[0] = shape[0] ? shape[0] : 1;
    c->whole[0] = 0;
    add_input(c, dtype, ndim, shape);
    c->budget = 1 + c->budget / (1 + array_numel(&c->in[0]) / shape[0]);
    n = random_shape(c, 0, 3, places);
    c->budget = budget;
    add_indices(c, n, places, shape[0]);
}

static weir_status run_embedding(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_embedding(in[0], in[1], out);
}

static void make_index_select(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], places = rng_int(&c->rng, 0, 30);
    int ndim = random_shape(c, 1, 4, shape), dim = pick_dim(c, ndim);

    shape[dim] = shape[dim] ? shape[dim] : 1;
    add_input(c, dtype, ndim, shape);
    add_indices(c, 1, &places, shape[dim]);
}

static weir_status run_index_select(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_index_select(in[0], (int)c->whole[0], in[1], out);
}

static void reference_take(struct call *c)
{
    const struct array *x = &c->in[0], *index = &c->in[1];
    int dim = wrapped(c), ndim = 0;
    int64_t shape[WEIR_MAX_DIMS], at[WEIR_MAX_DIMS] = {0};
    struct array *out = &c->out[0];

    for (int d = 0; d < dim; d++)
        shape[ndim++] = x->shape[d];
    for (int d = 0; d < index->ndim; d++)
        shape[ndim++] = index->shape[d];
    for (int d = dim + 1; d < x->ndim; d++)
        shape[ndim++] = x->shape[d];
    array_init(out, x->dtype, ndim, shape);
    for (int64_t i = 0; i < array_numel(out); i++, step_index(ndim, shape, at)) {
        int64_t from[WEIR_MAX_DIMS];

        memcpy(from, at, (size_t)dim * sizeof *from);
        from[dim] = (int64_t)index->at[array_place(index, index->ndim, at + dim)];
        for (int d = dim + 1; d < x->ndim; d++)
            from[d] = at[d - 1 + index->ndim];
        out->at[i] = x->at[array_place(x, x->ndim, from)];
    }
}

/* ---- element by element ---- */

static void make_gather(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], part[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 4, shape), dim = pick_dim(c, ndim);

    shape[dim] = shape[dim] ? shape[dim] : 1;
    add_input(c, dtype, ndim, shape);
    for (int d = 0; d < ndim; d++)
        part[d] = rng_chance(&c->rng, 70) ? shape[d] : rng_int(&c->rng, 0, shape[d]);
    part[dim] = rng_int(&c->rng, 0, 2 * shape[dim]);
    add_indices(c, ndim, part, shape[dim]);
    if (c->op->flags & OP_IN_PLACE)
        add_input(c, dtype, ndim, part);
}

static weir_status run_gather(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_gather(in[0], (int)c->whole[0], in[1], out);
}

static void reference_gather(struct call *c)
{
    const struct array *x = &c->in[0], *index = &c->in[1];
    int64_t at[WEIR_MAX_DIMS] = {0};
    int dim = wrapped(c);

    array_init(&c->out[0], x->dtype, index->ndim, index->shape);
    for (int64_t i = 0; i < array_numel(index); i++, step_index(x->ndim, index->shape, at)) {
        int64_t from[WEIR_MAX_DIMS];

        memcpy(from, at, sizeof from);
        from[dim] = (int64_t)index->at[i];
        c->out[0].at[i] = x->at[array_place(x, x->ndim, from)];
    }
}

static weir_status run_scatter(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_scatter(in[0], (int)c->whole[0], in[1], in[2]);
}

static void reference_scatter(struct call *c)
{
    const struct array *x = &c->in[0], *index = &c->in[1];
    int64_t at[WEIR_MAX_DIMS] = {0};
    int dim = wrapped(c);

    array_init(&c->out[0], x->dtype, x->ndim, x->shape);
    for (int64_t i = 0; i < array_numel(x); i++)
        c->out[0].at[i] = x->at[i];
    for (int64_t i = 0; i < array_numel(index); i++, step_index(x->ndim, index->shape, at)) {
        int64_t to[WEIR_MAX_DIMS];

        memcpy(to, at, sizeof to);
        to[dim] = (int64_t)index->at[i];
        c->out[0].at[array_place(&c->out[0], x->ndim, to)] = c->in[2].at[i];
    }
}

static weir_status run_scatter_add(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_scatter_add(in[0], (int)c->whole[0], in[1], in[2]);
}

static void reference_scatter_add(struct call *c)
{
    const struct array *x = &c->in[0], *index = &c->in[1];
    int64_t at[WEIR_MAX_DIMS] = {0};
    struct array *out = &c->out[0];
    int dim = wrapped(c);

    array_init(out, x->dtype, x->ndim, x->shape);
    add_reach(out);
    for (int64_t i = 0; i < array_numel(x); i++) {
        out->at[i] = x->at[i];
        out->reach[i] = fabs(x->at[i]);
    }
    for (int64_t i = 0; i < array_numel(index); i++, step_index(x->ndim, index->shape, at)) {
        int64_t to[WEIR_MAX_DIMS], place;

        memcpy(to, at, sizeof to);
        to[dim] = (int64_t)index->at[i];
        place = array_place(out, out->ndim, to);
        out->at[place] += c->in[2].at[i];
        out->reach[place] += fabs(c->in[2].at[i]);
    }
    c->terms = (double)index->shape[dim] + 1;
}

/* ---- sorting: whole is dim, k ---- */

static void make_sort(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 3, shape), dim = pick_dim(c, ndim);

    c->whole[1] = strcmp(c->op->name, "topk") ? shape[dim] : rng_int(&c->rng, 0, shape[dim]);
    c->flag[0] = rng_chance(&c->rng, 50);
    add_input(c, dtype, ndim, shape);
    for (int64_t i = 0; i < array_numel(&c->in[0]); i++) /* equal values keep their order */
        if (rng_chance(&c->rng, 30))
            c->in[0].at[i] = dtype == WEIR_BOOL ? 1 : (double)rng_int(&c->rng, 0, 2);
    c->nout = strcmp(c->op->name, "argsort") ? 2 : 1;
}

static weir_status run_sort(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_sort(in[0], (int)c->whole[0], c->flag[0], &out[0], &out[1]);
}

static weir_status run_argsort(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_argsort(in[0], (int)c->whole[0], c->flag[0], &out[0]);
}

static weir_status run_topk(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_topk(in[0], c->whole[1], (int)c->whole[0], c->flag[0], &out[0], &out[1]);
}

struct item {
    double value;
    int64_t place;
    bool descending;
};

/* NaN is larger than any number; equal values keep their order. */
static int compare_items(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;
    int sign = isnan(a->value) || isnan(b->value) ? !!isnan(a->value) - !!isnan(b->value)
                                                  : (a->value > b->value) - (a->value < b->value);

    if (sign)
        return a->descending ? -sign : sign;
    return (a->place > b->place) - (a->place < b->place);
}

static void reference_sort(struct call *c)
{
    const struct array *x = &c->in[0];
    int dim = wrapped(c);
    int64_t shape[WEIR_MAX_DIMS], outer[WEIR_MAX_DIMS], at[WEIR_MAX_DIMS] = {0};
    int64_t n = x->shape[dim], rows = 1;
    struct item *items = malloc((size_t)(n + 1) * sizeof *items);
    struct array values, indices;

    CHECK(items);
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = c->whole[1];
    memcpy(outer, x->shape, sizeof outer);
    outer[dim] = 1;
    for (int d = 0; d < x->ndim; d++)
        rows *= outer[d];
    array_init(&values, x->dtype, x->ndim, shape);
    array_init(&indices, WEIR_I64, x->ndim, shape);
    for (int64_t row = 0; row < rows; row++, step_index(x->ndim, outer, at)) {
        for (int64_t j = 0; j < n; j++) {
            at[dim] = j;
            items[j] = (struct item){x->at[array_place(x, x->ndim, at)], j, c->flag[0]};
        }
        qsort(items, (size_t)n, sizeof *items, compare_items);
        for (int64_t j = 0; j < shape[dim]; j++) {
            at[dim] = j;
            values.at[array_place(&values, x->ndim, at)] = items[j].value;
            indices.at[array_place(&indices, x->ndim, at)] = (double)items[j].place;
        }
        at[dim] = 0;
    }
    free(items);
    if (c->nout == 2) {
        c->out[0] = values;
        c->out[1] = indices;
    } else {
        c->out[0] = indices;
        array_free(&values);
    }
}

/* ---- nonzero ---- */

static void make_nonzero(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, 4, shape), percent = (int)rng_int(&c->rng, 0, 100);

    add_input(c, dtype, ndim, shape);
    for (int64_t i = 0; i < array_numel(&c->in[0]); i++)
        if (rng_chance(&c->rng, percent))
            c->in[0].at[i] = 0;
}

static weir_status run_nonzero(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_nonzero(in[0], out);
}

static void reference_nonzero(struct call *c)
{
    const struct array *x = &c->in[0];
    int64_t at[WEIR_MAX_DIMS] = {0}, shape[2] = {0, x->ndim};

    for (int64_t i = 0; i < array_numel(x); i++)
        shape[0] += x->at[i] != 0;
    array_init(&c->out[0], WEIR_I64, 2, shape);
    shape[0] = 0;
    for (int64_t i = 0; i < array_numel(x); i++, step_index(x->ndim, x->shape, at)) {
        if (x->at[i] == 0)
            continue;
        for (int d = 0; d < x->ndim; d++)
            c->out[0].at[shape[0] * x->ndim + d] = (double)at[d];
        shape[0]++;
    }
}

/* ---- moe gating: whole is k ---- */

static void make_moe_gating(struct call *c, weir_dtype dtype)
{
    int64_t tokens = rng_int(&c->rng, 0, c->budget > 10000 ? 3000 : 40);
    int64_t experts = rng_int(&c->rng, 1, 70);

    c->whole[0] = rng_int(&c->rng, 1, experts < 8 ? experts : 8);
    c->flag[0] = rng_chance(&c->rng, 50);
    c->nout = 2;
    add_input(c, dtype, 2, (int64_t[]){tokens, experts});
    /* Apart enough that rounding cannot swap two experts of a token. */
    for (int64_t i = 0; i < tokens; i++) {
        double *row = c->in[0].at + i * experts;

        for (int64_t j = 0; j < experts; j++)
            row[j] = round_to(dtype, (double)j / 16 - 2);
        for (int64_t j = experts - 1; j > 0; j--) {
            int64_t with = rng_int(&c->rng, 0, j);
            double held = row[j];

            row[j] = row[with];
            row[with] = held;
        }
    }
}

static weir_status run_moe_gating(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_moe_gating(in[0], c->whole[0], c->flag[0], &out[0], &out[1]);
}

static void reference_moe_gating(struct call *c)
{
    const struct array *x = &c->in[0];
    int64_t experts = x->shape[1], k = c->whole[0], shape[2] = {x->shape[0], k};

    array_init(&c->out[0], x->dtype, 2, shape);
    array_init(&c->out[1], WEIR_I32, 2, shape);
    for (int64_t t = 0; t < shape[0]; t++) {
        const double *row = x->at + t * experts;
        double sum = 0, chosen = 0, last = INFINITY;

        for (int64_t j = 0; j < experts; j++)
            sum += exp(row[j]);
        for (int64_t r = 0; r < k; r++) {
            int64_t best = -1;

            for (int64_t j = 0; j < experts; j++)
                if (row[j] < last && (best < 0 || row[j] > row[best]))
                    best = j;
            last = row[best];
            c->out[0].at[t * k + r] = exp(last) / sum;
            c->out[1].at[t * k + r] = (double)best;
            chosen += exp(last) / sum;
        }
        for (int64_t r = 0; r < k && c->flag[0]; r++)
            c->out[0].at[t * k + r] /= chosen;
    }
    c->terms = (double)experts + 16;
}

/* ---- rotary ---- */

static void make_rotary(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    int64_t d = 2 * rng_int(r, 1, 40);
    int64_t shape[5] = {rng_int(r, 1, 2), rng_int(r, 1, 3), rng_int(r, 1, 12), rng_int(r, 1, 5), d};
    int ndim = (int)rng_int(r, 3, 5);
    weir_dtype angle = rng_chance(r, 50) ? WEIR_F32 : dtype;

    if (c->budget > 10000)
        shape[2] *= 20;
    c->flag[0] = rng_chance(r, 50);
    add_input(c, dtype, ndim, shape + 5 - ndim);
    for (int i = 0; i < 2; i++)
        add_input(c, angle, 2, (int64_t[]){shape[2], d / 2});
}

static weir_status run_rotary(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_rotary(in[0], in[1], in[2], c->flag[0], out);
}

static void reference_rotary(struct call *c)
{
    const struct array *x = &c->in[0];
    int nd = x->ndim;
    int64_t d = x->shape[nd - 1], heads = x->shape[nd - 2], length = x->shape[nd - 3];
    struct array *out = &c->out[0];

    array_init(out, x->dtype, nd, x->shape);
    add_reach(out);
    for (int64_t row = 0; row < array_numel(x) / d; row++)
        for (int64_t i = 0; i < d / 2; i++) {
            int64_t place = row / heads % length * (d / 2) + i;
            int64_t p = row * d + (c->flag[0] ? 2 * i : i);
            int64_t q = row * d + (c->flag[0] ? 2 * i + 1 : i + d / 2);
            double cosine = c->in[1].at[place], sine = c->in[2].at[place];

            out->at[p] = x->at[p] * cosine - x->at[q] * sine;
            out->at[q] = x->at[q] * cosine + x->at[p] * sine;
            out->reach[p] = fabs(x->at[p] * cosine) + fabs(x->at[q] * sine);
            out->reach[q] = fabs(x->at[q] * cosine) + fabs(x->at[p] * sine);
        }
    c->terms = 2;
}

const struct op_case opcases_index[] = {
    {.name = "embedding",
     .types = TYPES_ALL,
     .flags = OP_EXACT,
     .make = make_embedding,
     .run = run_embedding,
     .reference = reference_take},
    {.name = "index_select",
     .types = TYPES_ALL,
     .flags = OP_EXACT,
     .make = make_index_select,
     .run = run_index_select,
     .reference = reference_take},
    {.name = "gather",
     .types = TYPES_ALL,
     .flags = OP_EXACT,
     .make = make_gather,
     .run = run_gather,
     .reference = reference_gather},
    {.name = "scatter_add",
     .types = TYPES_NUMBER,
     .flags = OP_IN_PLACE | OP_ROUNDS,
     .make = make_gather,
     .run = run_scatter_add,
     .reference = reference_scatter_add},
    {.name = "scatter",
     .types = TYPES_ALL,
     .flags = OP_IN_PLACE | OP_EXACT,
     .make = make_gather,
     .run = run_scatter,
     .reference = reference_scatter},
    {.name = "sort",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_sort,
     .run = run_sort,
     .reference = reference_sort},
    {.name = "argsort",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_sort,
     .run = run_argsort,
     .reference = reference_sort},
    {.name = "topk",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_sort,
     .run = run_topk,
     .reference = reference_sort},
    {.name = "nonzero",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_nonzero,
     .run = run_nonzero,
     .reference = reference_nonzero},
    {.name = "moe_gating",
     .types = TYPES_FLOAT,
     .make = make_moe_gating,
     .run = run_moe_gating,
     .reference = reference_moe_gating},
    {.name = "rotary",
     .types = TYPES_FLOAT,
     .make = make_rotary,
     .run = run_rotary,
     .reference = reference_rotary},
    {.name = NULL},
};
