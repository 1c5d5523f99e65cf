/* Rows of the operators that make and move values. */
#include "conformance/ops/opcases.h"

#include <math.h>

static void reference_same(struct call *c)
{
    array_init(&c->out[0], c->in[0].dtype, c->in[0].ndim, c->in[0].shape);
    memcpy(c->out[0].at, c->in[0].at, (size_t)array_numel(&c->in[0]) * sizeof *c->in[0].at);
}

static void make_one(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape);

    add_input(c, dtype, ndim, shape);
}

/* ---- cast ---- */

static void make_cast(struct call *c, weir_dtype dtype)
{
    make_one(c, dtype);
    c->whole[0] = rng_int(&c->rng, 0, WEIR_DTYPE_COUNT - 1);
}

static weir_status run_cast(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_cast(in[0], (weir_dtype)c->whole[0], out);
}

static void reference_cast(struct call *c)
{
    static const struct {
        double low, high;
    } range[WEIR_DTYPE_COUNT] = {
        [WEIR_I64] = {-0x1p63, 0x1p63},
        [WEIR_I32] = {-0x1p31, 0x1p31 - 1},
        [WEIR_I8] = {-128, 127},
        [WEIR_U8] = {0, 255},
    };
    weir_dtype to = (weir_dtype)c->whole[0];
    bool narrows = weir_dtype_is_float(c->in[0].dtype) && !weir_dtype_is_float(to);

    reference_same(c);
    c->out[0].dtype = to;
    /* Floats saturate on their way to integers and NaN becomes 0; integers wrap. */
    for (int64_t i = 0; narrows && to != WEIR_BOOL && i < array_numel(&c->out[0]); i++) {
        double x = trunc(c->out[0].at[i]);

        c->out[0].at[i] = isnan(x) ? 0 : fmin(fmax(x, range[to].low), range[to].high);
    }
}

/* ---- fill, arange, random ---- */

static void make_fill(struct call *c, weir_dtype dtype)
{
    make_one(c, dtype);
    c->real[0] = dtype == WEIR_BOOL ? 1 : (double)rng_int(&c->rng, 0, 100);
}

static weir_status run_fill(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_fill(in[0], c->real[0]);
}

static void reference_fill(struct call *c)
{
    array_init(&c->out[0], c->in[0].dtype, c->in[0].ndim, c->in[0].shape);
    for (int64_t i = 0; i < array_numel(&c->out[0]); i++)
        c->out[0].at[i] = c->real[0];
}

static void make_arange(struct call *c, weir_dtype dtype)
{
    bool real = weir_dtype_is_float(dtype);

    /* An input only says on which stream. */
    add_input(c, dtype, 0, NULL);
    c->whole[0] = rng_int(&c->rng, 0, dtype == WEIR_I8 || dtype == WEIR_U8 ? 20 : 1000);
    if (c->budget > 10000)
        c->whole[0] *= c->budget / 1000;
    c->real[0] = real ? 1.5 : (double)rng_int(&c->rng, 0, 5);
    c->real[1] = real ? 0.25 : (double)rng_int(&c->rng, 1, 5);
}

static weir_status run_arange(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    weir_stream *s = weir_stream_current(weir_tensor_device(in[0]));

    return weir_arange(s, c->in[0].dtype, c->whole[0], c->real[0], c->real[1], out);
}

static void reference_arange(struct call *c)
{
    array_init(&c->out[0], c->in[0].dtype, 1, c->whole);
    for (int64_t i = 0; i < c->whole[0]; i++)
        c->out[0].at[i] = c->real[0] + (double)i * c->real[1];
}

static weir_status run_uniform(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)out;
    return weir_random_uniform(in[0], 99, 0, weir_dtype_is_float(c->in[0].dtype) ? 1 : 100);
}

static weir_status run_normal(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    (void)out;
    return weir_random_normal(in[0], 7, 1, 2);
}

/* ---- copies ---- */

static weir_status run_copy(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_copy(in[0], out);
}

static weir_status run_contiguous(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_contiguous(in[0], out);
}

static void make_copy_into(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], part[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape), drop = (int)rng_int(&c->rng, 0, ndim / 2);

    for (int d = drop; d < ndim; d++)
        part[d - drop] = rng_chance(&c->rng, 20) ? 1 : shape[d];
    add_input(c, dtype, ndim, shape);
    add_input(c, dtype, ndim - drop, part);
}

static weir_status run_copy_into(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    (void)out;
    return weir_copy_into(in[1], in[0]);
}

static void reference_copy_into(struct call *c)
{
    const struct array *dst = &c->in[0], *src = &c->in[1];
    int64_t index[WEIR_MAX_DIMS] = {0};

    array_init(&c->out[0], dst->dtype, dst->ndim, dst->shape);
    for (int64_t i = 0; i < array_numel(dst); i++, step_index(dst->ndim, dst->shape, index))
        c->out[0].at[i] = src->at[array_place(src, dst->ndim, index)];
}

static void make_concat(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int n = (int)rng_int(&c->rng, 1, CALL_INPUTS), ndim, dim;

    c->budget /= n;
    ndim = random_shape(c, 1, 4, shape);
    dim = (int)rng_int(&c->rng, 0, ndim - 1);
    c->whole[0] = rng_chance(&c->rng, 50) ? dim : dim - ndim;
    for (int i = 0; i < n; i++) {
        shape[dim] = c->budget > 10000 ? shape[dim] : rng_int(&c->rng, 0, 9);
        add_input(c, dtype, ndim, shape);
    }
}

static weir_status run_concat(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_concat(in, c->nin, (int)c->whole[0], out);
}

static void reference_concat(struct call *c)
{
    int ndim = c->in[0].ndim;
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + ndim : c->whole[0]);
    int64_t shape[WEIR_MAX_DIMS], base = 0;
    struct array *out = &c->out[0];

    memcpy(shape, c->in[0].shape, sizeof shape);
    for (int k = 1; k < c->nin; k++)
        shape[dim] += c->in[k].shape[dim];
    array_init(out, c->in[0].dtype, ndim, shape);
    for (int k = 0; k < c->nin; base += c->in[k++].shape[dim]) {
        int64_t index[WEIR_MAX_DIMS] = {0};

        for (int64_t i = 0; i < array_numel(&c->in[k]); i++) {
            index[dim] += base;
            out->at[array_place(out, ndim, index)] = c->in[k].at[i];
            index[dim] -= base;
            step_index(ndim, c->in[k].shape, index);
        }
    }
}

const struct op_case opcases_move[] = {
    {.name = "cast",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .low = -300,
     .high = 300,
     .make = make_cast,
     .run = run_cast,
     .reference = reference_cast},
    {.name = "fill",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_IN_PLACE,
     .make = make_fill,
     .run = run_fill,
     .reference = reference_fill},
    {.name = "arange",
     .types = TYPES_NUMBER,
     .flags = OP_EXACT,
     .make = make_arange,
     .run = run_arange,
     .reference = reference_arange},
    {.name = "copy",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_one,
     .run = run_copy,
     .reference = reference_same},
    {.name = "contiguous",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_one,
     .run = run_contiguous,
     .reference = reference_same},
    {.name = "copy_into",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_IN_PLACE | OP_SPECIAL,
     .make = make_copy_into,
     .run = run_copy_into,
     .reference = reference_copy_into},
    {.name = "concat",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_concat,
     .run = run_concat,
     .reference = reference_concat},
    {.name = "random_uniform",
     .types = TYPES_NUMBER,
     .flags = OP_IN_PLACE | OP_NO_VALUES,
     .make = make_one,
     .run = run_uniform},
    {.name = "random_normal",
     .types = TYPES_FLOAT,
     .flags = OP_IN_PLACE | OP_NO_VALUES,
     .make = make_one,
     .run = run_normal},
    {.name = NULL},
};
