/* Rows of the reductions and normalisations. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

static void make_reduce(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape), n = (int)rng_int(&c->rng, 0, ndim), at = 0;
    bool needs_elements = !strcmp(c->op->name, "max") || !strcmp(c->op->name, "min");

    for (int d = 0; d < ndim && needs_elements; d++)
        shape[d] = shape[d] ? shape[d] : 1;
    for (int d = 0; d < ndim && at < n; d++)
        if (rng_chance(&c->rng, 60))
            c->whole[at++] = rng_chance(&c->rng, 50) ? d : d - ndim;
    c->real[0] = at;
    c->flag[0] = rng_chance(&c->rng, 50);
    add_input(c, dtype, ndim, shape);
}

static weir_status run_reduce(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    int dims[WEIR_MAX_DIMS], n = (int)c->real[0];

    for (int i = 0; i < n; i++)
        dims[i] = (int)c->whole[i];
    return c->op->reduce(in[0], dims, n, c->flag[0], out);
}

static unsigned reduced(const struct call *c)
{
    int ndim = c->in[0].ndim, n = (int)c->real[0];
    unsigned mask = n ? 0 : (1u << ndim) - 1;

    for (int i = 0; i < n; i++)
        mask |= 1u << (c->whole[i] < 0 ? c->whole[i] + ndim : c->whole[i]);
    return mask;
}

/* The shape that is left, and that of the walk over what is gone. */
static int split(const struct array *x, unsigned mask, bool keepdim, int64_t *kept, int64_t *gone)
{
    int n = 0;

    for (int d = 0; d < x->ndim; d++) {
        gone[d] = mask & 1u << d ? x->shape[d] : 1;
        if (!(mask & 1u << d))
            kept[n++] = x->shape[d];
        else if (keepdim)
            kept[n++] = 1;
    }
    return n;
}

/* Combines the elements of every slice by `op->two`, from `start`; adds them up without one. */
static void fold(struct call *c, weir_dtype dtype, double start)
{
    const struct array *x = &c->in[0];
    int64_t kept[WEIR_MAX_DIMS], gone[WEIR_MAX_DIMS], base[WEIR_MAX_DIMS] = {0};
    int64_t walk[WEIR_MAX_DIMS], outer[WEIR_MAX_DIMS], n = 1;
    unsigned mask = reduced(c);
    int ndim = split(x, mask, c->flag[0], kept, gone);
    struct array *out = &c->out[0];

    array_init(out, dtype, ndim, kept);
    add_reach(out);
    for (int d = 0; d < x->ndim; d++) {
        outer[d] = mask & 1u << d ? 1 : x->shape[d];
        n *= gone[d];
    }
    for (int64_t i = 0; i < array_numel(out); i++, step_index(x->ndim, outer, base)) {
        int64_t at[WEIR_MAX_DIMS] = {0};
        long double sum = 0; /* as exact as the host can: doubles are under test, too */

        out->at[i] = start;
        for (int64_t j = 0; j < n; j++, step_index(x->ndim, gone, at)) {
            double value;

            for (int d = 0; d < x->ndim; d++)
                walk[d] = base[d] + at[d];
            value = x->at[array_place(x, x->ndim, walk)];
            if (c->op->two)
                out->at[i] = c->op->two(out->at[i], value);
            sum += value;
            out->reach[i] += fabs(value);
        }
        if (!c->op->two)
            out->at[i] = (double)sum;
    }
    c->terms = (double)n;
}

static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}
static double smaller(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
}

static void reference_sum(struct call *c)
{
    fold(c, weir_dtype_is_float(c->in[0].dtype) ? c->in[0].dtype : WEIR_I64, 0);
}

static void reference_mean(struct call *c)
{
    fold(c, c->in[0].dtype, 0);
    for (int64_t i = 0; i < array_numel(&c->out[0]); i++) {
        c->out[0].at[i] /= c->terms; /* rounded once more than it could be, within the tolerance */
        c->out[0].reach[i] /= c->terms > 0 ? c->terms : 1;
    }
}

static void reference_max(struct call *c)
{
    fold(c, c->in[0].dtype, -INFINITY);
}
static void reference_min(struct call *c)
{
    fold(c, c->in[0].dtype, INFINITY);
}

/* ---- along one dim ---- */

static void make_along(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 4, shape), dim = (int)rng_int(&c->rng, 0, ndim - 1);

    if (!strcmp(c->op->name, "argmax"))
        shape[dim] = shape[dim] ? shape[dim] : 1;
    c->whole[0] = rng_chance(&c->rng, 50) ? dim : dim - ndim;
    c->real[0] = 1;
    c->flag[0] = rng_chance(&c->rng, 50);
    add_input(c, dtype, ndim, shape);
    if (!strcmp(c->op->name, "argmax")) /* equal values, so that the first of them counts */
        for (int64_t i = 0; i < array_numel(&c->in[0]); i++)
            if (rng_chance(&c->rng, 50))
                c->in[0].at[i] = dtype == WEIR_BOOL ? 1 : 4;
}

/* ---- scans: whole is dim ---- */

static void make_scan(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 4, shape), dim = (int)rng_int(&c->rng, 0, ndim - 1);

    c->whole[0] = rng_chance(&c->rng, 50) ? dim : dim - ndim;
    add_input(c, dtype, ndim, shape);
    if (!strcmp(c->op->name, "cummax") || !strcmp(c->op->name, "cummin")) {
        c->nout = 2; /* equal values, so that the last of them counts */
        for (int64_t i = 0; i < array_numel(&c->in[0]); i++)
            if (rng_chance(&c->rng, 30))
                c->in[0].at[i] = round_to(dtype, (double)rng_int(&c->rng, 0, 3));
    }
    if (!strcmp(c->op->name, "cumprod") && !weir_dtype_is_float(dtype) && dtype != WEIR_BOOL)
        for (int64_t i = 0; i < array_numel(&c->in[0]); i++) /* or they are no doubles */
            c->in[0].at[i] = (double)rng_int(&c->rng, dtype == WEIR_U8 ? 0 : -1, 1) *
                             (rng_chance(&c->rng, 5) ? 2 : 1);
}

static weir_status run_cumsum(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_cumsum(in[0], (int)c->whole[0], out);
}
static weir_status run_cumprod(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_cumprod(in[0], (int)c->whole[0], out);
}
static weir_status run_cummax(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_cummax(in[0], (int)c->whole[0], &out[0], &out[1]);
}
static weir_status run_cummin(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_cummin(in[0], (int)c->whole[0], &out[0], &out[1]);
}

static void reference_total(struct call *c)
{
    const struct array *x = &c->in[0];
    struct array *out = &c->out[0];
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + x->ndim : c->whole[0]);
    int64_t index[WEIR_MAX_DIMS] = {0};
    bool product = !strcmp(c->op->name, "cumprod");
    weir_dtype dtype = weir_dtype_is_float(x->dtype) ? x->dtype : WEIR_I64;

    array_init(out, dtype, x->ndim, x->shape);
    add_reach(out);
    for (int64_t i = 0; i < array_numel(x); i++, step_index(x->ndim, x->shape, index)) {
        double total = x->at[i], reach = fabs(total);

        if (index[dim]) {
            int64_t before;

            index[dim]--;
            before = array_place(x, x->ndim, index);
            index[dim]++;
            total = product ? out->at[before] * total : out->at[before] + total;
            reach = product ? fabs(total) : out->reach[before] + reach;
        }
        out->at[i] = total;
        out->reach[i] = reach;
    }
    c->terms = (double)x->shape[dim];
}

static void reference_so_far(struct call *c)
{
    const struct array *x = &c->in[0];
    struct array *out = &c->out[0], *places = &c->out[1];
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + x->ndim : c->whole[0]);
    int64_t index[WEIR_MAX_DIMS] = {0};
    double sign = !strcmp(c->op->name, "cummax") ? 1 : -1;

    array_init(out, x->dtype, x->ndim, x->shape);
    array_init(places, WEIR_I64, x->ndim, x->shape);
    for (int64_t i = 0; i < array_numel(x); i++, step_index(x->ndim, x->shape, index)) {
        out->at[i] = x->at[i];
        places->at[i] = (double)index[dim];
        if (index[dim]) {
            int64_t before;

            index[dim]--;
            before = array_place(x, x->ndim, index);
            index[dim]++;
            if (!isnan(x->at[i]) &&
                (isnan(out->at[before]) || sign * x->at[i] < sign * out->at[before])) {
                out->at[i] = out->at[before];
                places->at[i] = places->at[before];
            }
        }
    }
}

static weir_status run_argmax(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_argmax(in[0], (int)c->whole[0], c->flag[0], out);
}

static void reference_argmax(struct call *c)
{
    const struct array *x = &c->in[0];
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + x->ndim : c->whole[0]);
    int64_t kept[WEIR_MAX_DIMS], gone[WEIR_MAX_DIMS], outer[WEIR_MAX_DIMS], at[WEIR_MAX_DIMS] = {0};
    int ndim = split(x, 1u << dim, c->flag[0], kept, gone);

    memcpy(outer, x->shape, sizeof outer);
    outer[dim] = 1;
    array_init(&c->out[0], WEIR_I64, ndim, kept);
    for (int64_t i = 0; i < array_numel(&c->out[0]); i++, step_index(x->ndim, outer, at)) {
        double best = 0;

        for (int64_t j = 0; j < x->shape[dim]; j++) {
            double value;

            at[dim] = j;
            value = x->at[array_place(x, x->ndim, at)];
            if (j == 0 || value > best || (isnan(value) && !isnan(best))) {
                best = value;
                c->out[0].at[i] = (double)j;
            }
        }
        at[dim] = 0;
    }
}

static weir_status run_softmax(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_softmax(in[0], (int)c->whole[0], out);
}

static void reference_softmax(struct call *c)
{
    const struct array *x = &c->in[0];
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + x->ndim : c->whole[0]);
    int64_t index[WEIR_MAX_DIMS] = {0}, n = x->shape[dim], stride = 1;
    struct array *out = &c->out[0];

    array_init(out, x->dtype, x->ndim, x->shape);
    for (int d = dim + 1; d < x->ndim; d++)
        stride *= x->shape[d];
    for (int64_t i = 0; i < array_numel(x); i++, step_index(x->ndim, x->shape, index)) {
        double top = -INFINITY;
        long double sum = 0;
        const double *first = x->at + i;

        if (index[dim])
            continue;
        for (int64_t j = 0; j < n; j++)
            top = fmax(top, first[j * stride]);
        for (int64_t j = 0; j < n; j++)
            sum += exp(first[j * stride] - top);
        for (int64_t j = 0; j < n; j++)
            out->at[i + j * stride] = (double)(exp(first[j * stride] - top) / sum);
    }
    c->terms = (double)n + 16;
}

/* ---- norms over the last dim: weight, bias ---- */

static void make_norm(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 4, shape), optional = strcmp(c->op->name, "rms_norm") ? 2 : 1;

    add_input(c, dtype, ndim, shape);
    for (int i = 0; i < optional; i++)
        if (rng_chance(&c->rng, 60))
            add_input(c, dtype, 1, &shape[ndim - 1]);
        else
            c->nin++;
    c->real[0] = 1e-3;
}

static weir_status run_layer_norm(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_layer_norm(in[0], in[1], in[2], c->real[0], out);
}

static weir_status run_rms_norm(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_rms_norm(in[0], in[1], c->real[0], out);
}

static void normalise(struct call *c, bool centred)
{
    const struct array *x = &c->in[0], *weight = &c->in[1];
    const struct array *bias = c->nin > 2 ? &c->in[2] : NULL;
    int64_t n = x->shape[x->ndim - 1];
    struct array *out = &c->out[0];

    array_init(out, x->dtype, x->ndim, x->shape);
    add_reach(out);
    for (int64_t row = 0; row < array_numel(x); row += n) {
        long double sum = 0, squares = 0;
        double mean, large = 0, scale;

        for (int64_t j = 0; j < n; j++) {
            sum += centred ? x->at[row + j] : 0;
            large = fmax(large, fabs(x->at[row + j]));
        }
        mean = (double)(sum / n);
        for (int64_t j = 0; j < n; j++)
            squares += (x->at[row + j] - mean) * (x->at[row + j] - mean);
        scale = 1 / sqrt((double)(squares / n) + c->real[0]);
        for (int64_t j = 0; j < n; j++) {
            double w = weight->at ? weight->at[j] : 1, b = bias && bias->at ? bias->at[j] : 0;

            out->at[row + j] = (x->at[row + j] - mean) * scale * w + b;
            out->reach[row + j] = large * scale * fabs(w) * (1 + large * scale) + fabs(b);
        }
    }
    c->terms = (double)n;
}

static void reference_layer_norm(struct call *c)
{
    normalise(c, true);
}
static void reference_rms_norm(struct call *c)
{
    normalise(c, false);
}

const struct op_case opcases_reduce[] = {
    {.name = "sum",
     .types = TYPES_ALL,
     .make = make_reduce,
     .run = run_reduce,
     .reference = reference_sum,
     .reduce = weir_sum},
    {.name = "mean",
     .types = TYPES_FLOAT,
     .make = make_reduce,
     .run = run_reduce,
     .reference = reference_mean,
     .reduce = weir_mean},
    {.name = "max",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_reduce,
     .run = run_reduce,
     .reference = reference_max,
     .reduce = weir_max,
     .two = larger},
    {.name = "min",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_reduce,
     .run = run_reduce,
     .reference = reference_min,
     .reduce = weir_min,
     .two = smaller},
    {.name = "cumsum",
     .types = TYPES_ALL,
     .make = make_scan,
     .run = run_cumsum,
     .reference = reference_total},
    {.name = "cumprod",
     .types = TYPES_ALL,
     .low = 0.5,
     .high = 1.5,
     .make = make_scan,
     .run = run_cumprod,
     .reference = reference_total},
    {.name = "cummax",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_scan,
     .run = run_cummax,
     .reference = reference_so_far},
    {.name = "cummin",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_scan,
     .run = run_cummin,
     .reference = reference_so_far},
    {.name = "argmax",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_along,
     .run = run_argmax,
     .reference = reference_argmax},
    {.name = "softmax",
     .types = TYPES_FLOAT,
     .make = make_along,
     .run = run_softmax,
     .reference = reference_softmax},
    {.name = "layer_norm",
     .types = TYPES_FLOAT,
     .make = make_norm,
     .run = run_layer_norm,
     .reference = reference_layer_norm},
    {.name = "rms_norm",
     .types = TYPES_FLOAT,
     .make = make_norm,
     .run = run_rms_norm,
     .reference = reference_rms_norm},
    {.name = NULL},
};
