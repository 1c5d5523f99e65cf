/* Rows of the elementwise operators. */
#include "conformance/ops/opcases.h"

#include <math.h>

/* ---- the references, in doubles; integers are whole numbers in them ---- */

static double ref_neg(double x)
{
    return -x;
}
static double ref_abs(double x)
{
    return fabs(x);
}
static double ref_rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double ref_relu(double x)
{
    return isnan(x) || x > 0 ? x : 0;
}
static double ref_gelu(double x)
{
    return x == -INFINITY ? 0 : x * 0.5 * erfc(-x / sqrt(2));
}
static double ref_silu(double x)
{
    return x == -INFINITY ? 0 : x / (1 + exp(-x));
}

static double ref_add(double a, double b)
{
    return a + b;
}
static double ref_sub(double a, double b)
{
    return a - b;
}
static double ref_mul(double a, double b)
{
    return a * b;
}
static double ref_div(double a, double b)
{
    return a / b;
}
static double ref_maximum(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}
static double ref_minimum(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmin(a, b);
}
static double ref_eq(double a, double b)
{
    return a == b;
}
static double ref_ne(double a, double b)
{
    return a != b;
}
static double ref_lt(double a, double b)
{
    return a < b;
}
static double ref_le(double a, double b)
{
    return a <= b;
}
static double ref_gt(double a, double b)
{
    return a > b;
}
static double ref_ge(double a, double b)
{
    return a >= b;
}

static double ref_bitwise_not(double x)
{
    return -1 - x;
}
static double ref_bitwise_and(double a, double b)
{
    return (double)((int64_t)a & (int64_t)b);
}
static double ref_bitwise_or(double a, double b)
{
    return (double)((int64_t)a | (int64_t)b);
}
static double ref_bitwise_xor(double a, double b)
{
    return (double)((int64_t)a ^ (int64_t)b);
}
static double ref_left_shift(double a, double b)
{
    return a * exp2(b);
}
static double ref_right_shift(double a, double b)
{
    return floor(a / exp2(b));
}

static bool is_shift(const struct op_case *op)
{
    return op->two == ref_left_shift || op->two == ref_right_shift;
}

static int width_of(weir_dtype dtype)
{
    return 8 * (int)weir_dtype_size(dtype);
}

/* By the type's width or more, or by less than 0: all bits go. The result wraps. */
static double shifted(const struct op_case *op, weir_dtype dtype, double a, double b)
{
    double y, span = exp2(width_of(dtype)), most = dtype == WEIR_U8 ? span : span / 2;

    if (b < 0 || b >= width_of(dtype))
        return op->two == ref_right_shift && a < 0 ? -1 : 0;
    y = op->two(a, b);
    if (y < most - span || y >= most) /* so large that no bits are lost below */
        y -= floor(y / span) * span;
    return y >= most ? y - span : y;
}

/* Integers divide towards zero, by zero to zero; powers wrap. */
static double apply_two(const struct op_case *op, weir_dtype dtype, double a, double b)
{
    if (weir_dtype_is_float(dtype))
        return op->two(a, b);
    if (is_shift(op))
        return shifted(op, dtype, a, b);
    if (op->two == ref_div)
        return b == 0 ? 0 : trunc(a / b);
    if (op->two == pow) {
        double y = 1;

        if (b < 0)
            return a == 0 ? 0 : trunc(pow(a, b));
        for (int64_t i = 0; i < (int64_t)b; i++)
            y = round_to(dtype, y * a);
        return y;
    }
    return op->two(a, b);
}

/* ---- unary ---- */

static void make_unary(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape);

    add_input(c, dtype, ndim, shape);
}

static weir_status run_unary(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return c->op->unary(in[0], out);
}

static weir_status run_unary_into(const struct call *c, weir_tensor *const *in, weir_tensor *out)
{
    return c->op->unary_into(in[0], out);
}

static void reference_unary(struct call *c)
{
    array_init(&c->out[0], c->in[0].dtype, c->in[0].ndim, c->in[0].shape);
    for (int64_t i = 0; i < array_numel(&c->out[0]); i++)
        c->out[0].at[i] = c->in[0].dtype == WEIR_BOOL ? c->in[0].at[i] == 0 /* there is no other */
                                                      : c->op->one(c->in[0].at[i]);
    c->terms = 8;
}

/* ---- binary ---- */

/* A shape that broadcasts to `shape`. */
static int narrowed(struct call *c, int ndim, const int64_t *shape, int64_t *out)
{
    int drop = rng_chance(&c->rng, 25) ? (int)rng_int(&c->rng, 0, ndim) : 0;

    for (int d = drop; d < ndim; d++)
        out[d - drop] = rng_chance(&c->rng, 15) ? 1 : shape[d];
    return ndim - drop;
}

static void make_binary(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], part[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape);
    bool spread = rng_chance(&c->rng, 60);
    int n = spread ? narrowed(c, ndim, shape, part) : ndim;

    add_input(c, dtype, n, spread ? part : shape);
    spread = rng_chance(&c->rng, 60);
    n = spread ? narrowed(c, ndim, shape, part) : ndim;
    add_input(c, dtype, n, spread ? part : shape);
    if (c->op->two == pow && !weir_dtype_is_float(dtype))
        for (int64_t i = 0; i < array_numel(&c->in[1]); i++) {
            double least = dtype == WEIR_U8 ? 0 : -3;

            c->in[1].at[i] = (double)rng_int(&c->rng, (int64_t)least, 3);
        }
    if (is_shift(c->op))
        for (int64_t i = 0; i < array_numel(&c->in[1]); i++)
            c->in[1].at[i] =
                (double)rng_int(&c->rng, dtype == WEIR_U8 ? 0 : -2, width_of(dtype) + 2);
    if (c->op->two == ref_eq || c->op->two == ref_ne)
        for (int64_t i = 0; i < array_numel(&c->in[1]); i++)
            if (array_numel(&c->in[0]) && rng_chance(&c->rng, 50))
                c->in[1].at[i] = c->in[0].at[i % array_numel(&c->in[0])];
}

/* The NumPy broadcast of two shapes that fit. */
static int broadcast(const struct array *a, const struct array *b, int64_t *shape)
{
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;

    for (int d = 1; d <= ndim; d++) {
        int64_t x = d <= a->ndim ? a->shape[a->ndim - d] : 1;
        int64_t y = d <= b->ndim ? b->shape[b->ndim - d] : 1;

        shape[ndim - d] = x == 1 ? y : x;
    }
    return ndim;
}

static weir_status run_binary(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return c->op->binary(in[0], in[1], out);
}

static weir_status run_binary_into(const struct call *c, weir_tensor *const *in, weir_tensor *out)
{
    return c->op->binary_into(in[0], in[1], out);
}

static bool gives_bool(const struct op_case *op)
{
    return op->two == ref_eq || op->two == ref_ne || op->two == ref_lt || op->two == ref_le ||
           op->two == ref_gt || op->two == ref_ge;
}

static void reference_binary(struct call *c)
{
    const struct array *a = &c->in[0], *b = &c->in[1];
    int64_t shape[WEIR_MAX_DIMS], index[WEIR_MAX_DIMS] = {0};
    int ndim = broadcast(a, b, shape);
    struct array *out = &c->out[0];

    array_init(out, gives_bool(c->op) ? WEIR_BOOL : a->dtype, ndim, shape);
    for (int64_t i = 0; i < array_numel(out); i++, step_index(ndim, shape, index))
        out->at[i] = apply_two(c->op, a->dtype, a->at[array_place(a, ndim, index)],
                               b->at[array_place(b, ndim, index)]);
    c->terms = 16;
}

/* ---- with a number ---- */

static void make_scalar(struct call *c, weir_dtype dtype)
{
    make_unary(c, dtype);
    if (dtype == WEIR_BOOL)
        c->real[0] = (double)rng_int(&c->rng, 0, 1);
    else if (is_shift(c->op))
        c->real[0] = (double)rng_int(&c->rng, 0, width_of(dtype) + 2);
    else if (c->op->two == pow)
        c->real[0] = (double)rng_int(&c->rng, 0, 3);
    else if (weir_dtype_is_float(dtype))
        c->real[0] = round_to(dtype, rng_real(&c->rng, 0.5, 3));
    else
        c->real[0] = (double)rng_int(&c->rng, 1, 100);
}

static weir_status run_scalar(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return c->op->scalar(in[0], c->real[0], out);
}

static weir_status run_scalar_into(const struct call *c, weir_tensor *const *in, weir_tensor *out)
{
    return c->op->scalar_into(in[0], c->real[0], out);
}

static void reference_scalar(struct call *c)
{
    const struct array *a = &c->in[0];

    array_init(&c->out[0], gives_bool(c->op) ? WEIR_BOOL : a->dtype, a->ndim, a->shape);
    for (int64_t i = 0; i < array_numel(a); i++)
        c->out[0].at[i] = apply_two(c->op, a->dtype, a->at[i], c->real[0]);
    c->terms = 16;
}

/* ---- clamp, where, swiglu ---- */

static void make_clamp(struct call *c, weir_dtype dtype)
{
    make_unary(c, dtype);
    c->real[0] = weir_dtype_is_float(dtype) ? -1.5 : 5;
    c->real[1] = weir_dtype_is_float(dtype) ? 2.25 : 90;
}

static weir_status run_clamp(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_clamp(in[0], c->real[0], c->real[1], out);
}

static void reference_clamp(struct call *c)
{
    const struct array *x = &c->in[0];

    array_init(&c->out[0], x->dtype, x->ndim, x->shape);
    for (int64_t i = 0; i < array_numel(x); i++)
        c->out[0].at[i] = x->at[i] < c->real[0]   ? c->real[0]
                          : x->at[i] > c->real[1] ? c->real[1]
                                                  : x->at[i];
}

static void make_where(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS], part[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 0, WEIR_MAX_DIMS, shape), n;

    n = narrowed(c, ndim, shape, part);
    add_input(c, WEIR_BOOL, n, part);
    n = narrowed(c, ndim, shape, part);
    add_input(c, dtype, n, part);
    add_input(c, dtype, ndim, shape);
}

static weir_status run_where(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_where(in[0], in[1], in[2], out);
}

static void reference_where(struct call *c)
{
    const struct array *a = &c->in[1], *b = &c->in[2];
    int64_t index[WEIR_MAX_DIMS] = {0};

    array_init(&c->out[0], b->dtype, b->ndim, b->shape);
    for (int64_t i = 0; i < array_numel(b); i++, step_index(b->ndim, b->shape, index))
        c->out[0].at[i] = c->in[0].at[array_place(&c->in[0], b->ndim, index)] != 0
                              ? a->at[array_place(a, b->ndim, index)]
                              : b->at[i];
}

static void make_swiglu(struct call *c, weir_dtype dtype)
{
    int64_t shape[WEIR_MAX_DIMS];
    int ndim = random_shape(c, 1, 4, shape), dim = (int)rng_int(&c->rng, 0, ndim - 1);

    shape[dim] += shape[dim] % 2;
    c->whole[0] = rng_chance(&c->rng, 50) ? dim : dim - ndim;
    add_input(c, dtype, ndim, shape);
}

static weir_status run_swiglu(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    return weir_swiglu(in[0], (int)c->whole[0], out);
}

static void reference_swiglu(struct call *c)
{
    const struct array *x = &c->in[0];
    int dim = (int)(c->whole[0] < 0 ? c->whole[0] + x->ndim : c->whole[0]);
    int64_t shape[WEIR_MAX_DIMS], index[WEIR_MAX_DIMS] = {0};
    struct array *out = &c->out[0];

    memcpy(shape, x->shape, sizeof shape);
    shape[dim] /= 2;
    array_init(out, x->dtype, x->ndim, shape);
    for (int64_t i = 0; i < array_numel(out); i++, step_index(x->ndim, shape, index)) {
        double gate = x->at[array_place(x, x->ndim, index)];

        index[dim] += shape[dim];
        out->at[i] = ref_silu(gate) * x->at[array_place(x, x->ndim, index)];
        index[dim] -= shape[dim];
    }
    c->terms = 8;
}

/* ---- rows ---- */

#define UNARY(fn, types_, flags_, low_, high_, ref)                                       \
    {                                                                                     \
        .name = #fn, .types = types_, .flags = flags_, .low = low_, .high = high_,        \
        .make = make_unary, .run = run_unary, .run_into = run_unary_into,                 \
        .reference = reference_unary, .unary = weir_##fn, .unary_into = weir_##fn##_into, \
        .one = ref,                                                                       \
    }
#define BINARY(fn, types_, flags_, low_, high_, ref)                                         \
    {                                                                                        \
        .name = #fn,                                                                         \
        .types = types_,                                                                     \
        .flags = flags_,                                                                     \
        .low = low_,                                                                         \
        .high = high_,                                                                       \
        .make = make_binary,                                                                 \
        .run = run_binary,                                                                   \
        .run_into = run_binary_into,                                                         \
        .reference = reference_binary,                                                       \
        .binary = weir_##fn,                                                                 \
        .binary_into = weir_##fn##_into,                                                     \
        .two = ref,                                                                          \
    },                                                                                       \
    {                                                                                        \
        .name = #fn "_scalar", .types = types_, .flags = flags_, .low = low_, .high = high_, \
        .make = make_scalar, .run = run_scalar, .run_into = run_scalar_into,                 \
        .reference = reference_scalar, .scalar = weir_##fn##_scalar,                         \
        .scalar_into = weir_##fn##_scalar_into, .two = ref,                                  \
    }

const struct op_case opcases_elementwise[] = {
    UNARY(neg, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_neg),
    UNARY(abs, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_abs),
    UNARY(exp, TYPES_FLOAT, OP_SPECIAL, -8, 8, exp),
    UNARY(log, TYPES_FLOAT, OP_SPECIAL, 1e-3, 100, log),
    UNARY(sqrt, TYPES_FLOAT, OP_EXACT | OP_SPECIAL, 0, 100, sqrt),
    UNARY(rsqrt, TYPES_FLOAT, OP_SPECIAL, 1e-3, 100, ref_rsqrt),
    UNARY(sigmoid, TYPES_FLOAT, OP_SPECIAL, -12, 12, ref_sigmoid),
    UNARY(tanh, TYPES_FLOAT, OP_SPECIAL, -6, 6, tanh),
    UNARY(relu, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_relu),
    UNARY(gelu, TYPES_FLOAT, OP_SPECIAL, -5, 5, ref_gelu),
    UNARY(silu, TYPES_FLOAT, OP_SPECIAL, -12, 12, ref_silu),
    UNARY(sin, TYPES_FLOAT, OP_SPECIAL, -20, 20, sin),
    UNARY(cos, TYPES_FLOAT, OP_SPECIAL, -20, 20, cos),
    UNARY(bitwise_not, TYPES_BITS, OP_EXACT, 0, 0, ref_bitwise_not),
    BINARY(add, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_add),
    BINARY(sub, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_sub),
    BINARY(mul, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_mul),
    BINARY(div, TYPES_NUMBER, OP_EXACT | OP_SPECIAL, 0, 0, ref_div),
    BINARY(pow, TYPES_NUMBER, OP_SPECIAL, 0.1, 3, pow),
    BINARY(maximum, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_maximum),
    BINARY(minimum, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_minimum),
    BINARY(bitwise_and, TYPES_BITS, OP_EXACT, 0, 0, ref_bitwise_and),
    BINARY(bitwise_or, TYPES_BITS, OP_EXACT, 0, 0, ref_bitwise_or),
    BINARY(bitwise_xor, TYPES_BITS, OP_EXACT, 0, 0, ref_bitwise_xor),
    BINARY(bitwise_left_shift, TYPES_INTEGER, OP_EXACT, 0, 0, ref_left_shift),
    BINARY(bitwise_right_shift, TYPES_INTEGER, OP_EXACT, 0, 0, ref_right_shift),
    BINARY(eq, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_eq),
    BINARY(ne, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_ne),
    BINARY(lt, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_lt),
    BINARY(le, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_le),
    BINARY(gt, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_gt),
    BINARY(ge, TYPES_ALL, OP_EXACT | OP_SPECIAL, 0, 0, ref_ge),
    {.name = "clamp",
     .types = TYPES_NUMBER,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_clamp,
     .run = run_clamp,
     .reference = reference_clamp},
    {.name = "where",
     .types = TYPES_ALL,
     .flags = OP_EXACT | OP_SPECIAL,
     .make = make_where,
     .run = run_where,
     .reference = reference_where},
    {.name = "swiglu",
     .types = TYPES_FLOAT,
     .make = make_swiglu,
     .run = run_swiglu,
     .reference = reference_swiglu},
    {.name = NULL},
};
