/* Activations and their gradients, computed in f32 or f64. */
#include "run.h"

static tensor *constant(struct call *c, tensor *x, double value)
{
    return x ? full(c, type(x), 0, NULL, value) : NULL;
}

/* condition ? a : b, where one of them is a number */
static tensor *pick(struct call *c, tensor *condition, tensor *a, double b)
{
    return op_where(c, condition, a, constant(c, a, b));
}

static tensor *x_of(struct call *c, int i)
{
    return wide(c, in(c, i));
}

/* ---- gelu: 0 by erf, 1 by tanh ---- */

static const double root_2_pi = 0.79788456080286535588; /* sqrt(2 / pi) */

tensor *op_gelu_tanh(struct call *c, tensor *x)
{
    tensor *x3 = op_mul(c, x, op_mul(c, x, x));
    tensor *t = op_tanh(c, op_muls(c, op_add(c, x, op_muls(c, x3, 0.044715)), root_2_pi));

    return op_mul(c, op_muls(c, x, 0.5), op_adds(c, t, 1));
}

void run_gelu_mode(struct call *c)
{
    give(c, integer(c, 1) ? op_gelu_tanh(c, x_of(c, 0)) : op_gelu(c, x_of(c, 0)));
}

static tensor *gelu_slope(struct call *c, tensor *x, bool by_tanh)
{
    tensor *xx = op_mul(c, x, x);

    if (!by_tanh) {
        /* Phi(x) + x phi(x) */
        tensor *phi = op_muls(c, op_exp(c, op_muls(c, xx, -0.5)), 0.39894228040143267794);
        tensor *cdf = op_muls(
            c, op_adds(c, math1(c, MATH_ERF, op_muls(c, x, 0.70710678118654752440)), 1), 0.5);

        return op_add(c, cdf, op_mul(c, x, phi));
    } else {
        tensor *inner = op_muls(c, op_add(c, x, op_muls(c, op_mul(c, xx, x), 0.044715)), root_2_pi);
        tensor *t = op_tanh(c, inner), *left = op_muls(c, op_adds(c, t, 1), 0.5);
        tensor *slope = op_muls(c, op_adds(c, op_muls(c, xx, 3 * 0.044715), 1), root_2_pi);
        tensor *right =
            op_mul(c, op_mul(c, op_muls(c, x, 0.5), op_rsubs(c, 1, op_mul(c, t, t))), slope);

        return op_add(c, left, right);
    }
}

void run_gelu_backward(struct call *c)
{
    give(c, op_mul(c, x_of(c, 0), gelu_slope(c, x_of(c, 1), false)));
}

void run_gelu_backward_mode(struct call *c)
{
    give(c, op_mul(c, x_of(c, 0), gelu_slope(c, x_of(c, 1), text_is(c, 2, "tanh"))));
}

/* x * sigmoid(1.702 x) */
void run_fast_gelu(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_mul(c, x, op_sigmoid(c, op_muls(c, x, 1.702))));
}

void run_fast_gelu_backward(struct call *c)
{
    tensor *x = x_of(c, 1), *s = op_sigmoid(c, op_muls(c, x, 1.702));
    tensor *slope = op_mul(c, s, op_adds(c, op_mul(c, op_muls(c, x, 1.702), op_rsubs(c, 1, s)), 1));

    give(c, op_mul(c, x_of(c, 0), slope));
}

/* ---- gradients of activations that weir has operators for ---- */

void run_sigmoid_backward(struct call *c)
{
    tensor *y = x_of(c, 1);

    give(c, op_mul(c, x_of(c, 0), op_mul(c, y, op_rsubs(c, 1, y))));
}

void run_tanh_backward(struct call *c)
{
    tensor *y = x_of(c, 1);

    give(c, op_mul(c, x_of(c, 0), op_rsubs(c, 1, op_mul(c, y, y))));
}

static tensor *silu_slope(struct call *c, tensor *x)
{
    tensor *s = op_sigmoid(c, x);

    return op_mul(c, s, op_adds(c, op_mul(c, x, op_rsubs(c, 1, s)), 1));
}

void run_silu_backward(struct call *c)
{
    give(c, op_mul(c, x_of(c, 0), silu_slope(c, x_of(c, 1))));
}

/* grad where self > threshold */
void run_threshold_backward(struct call *c)
{
    give(c, pick(c, op_gts(c, in(c, 1), number(c, 2, 0)), in(c, 0), 0));
}

void run_threshold(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, op_where(c, op_gt(c, x, beside(c, 1, x)), x, cast(c, beside(c, 2, x), type(x))));
}

/* ---- leaky relu, elu and similar ---- */

void run_leaky_relu(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_where(c, op_gts(c, x, 0), x, op_muls(c, x, number(c, 1, 0.01))));
}

void run_leaky_relu_backward(struct call *c)
{
    tensor *g = x_of(c, 0);

    give(c, op_where(c, op_gts(c, in(c, 1), 0), g, op_muls(c, g, number(c, 2, 0.01))));
}

void run_prelu(struct call *c)
{
    tensor *x = x_of(c, 0), *w = flat(c, x_of(c, 1));
    int64_t to[MAX_DIMS] = {0};

    if (c->err)
        return;
    for (int i = 0; i < rank(x); i++)
        to[i] = i == 1 || rank(x) == 1 ? numel(w) : 1;
    if (numel(w) > 1)
        w = reshape(c, w, rank(x), to);
    give(c, op_where(c, op_gts(c, x, 0), x, op_mul(c, x, w)));
}

static tensor *elu(struct call *c, tensor *x, double alpha, double scale, double input_scale)
{
    tensor *low = op_muls(c, math1(c, MATH_EXPM1, op_muls(c, x, input_scale)), alpha * scale);

    return op_where(c, op_gts(c, x, 0), op_muls(c, x, scale), low);
}

void run_elu(struct call *c)
{
    give(c, elu(c, x_of(c, 0), number(c, 1, 1), number(c, 2, 1), number(c, 3, 1)));
}

void run_celu(struct call *c)
{
    double alpha = number(c, 1, 1);

    give(c, elu(c, x_of(c, 0), alpha, 1, 1 / alpha));
}

/* grad, alpha, scale, input_scale, is_result, self or result */
void run_elu_backward(struct call *c)
{
    double alpha = number(c, 1, 1), scale = number(c, 2, 1), input_scale = number(c, 3, 1);
    tensor *g = x_of(c, 0), *x = x_of(c, 5), *low;

    if (integer(c, 4))
        low = op_muls(c, op_adds(c, x, alpha * scale), input_scale);
    else
        low = op_muls(c, op_exp(c, op_muls(c, x, input_scale)), alpha * scale * input_scale);
    give(c, op_mul(c, g, op_where(c, op_gts(c, x, 0), constant(c, x, scale), low)));
}

void run_softplus(struct call *c)
{
    double beta = number(c, 1, 1), threshold = number(c, 2, 20);
    tensor *x = x_of(c, 0), *z = op_muls(c, x, beta);

    give(c, op_where(c, op_gts(c, z, threshold), x,
                     op_divs(c, math1(c, MATH_LOG1P, op_exp(c, z)), beta)));
}

void run_softplus_backward(struct call *c)
{
    double beta = number(c, 2, 1), threshold = number(c, 3, 20);
    tensor *g = x_of(c, 0), *z = op_muls(c, x_of(c, 1), beta);

    give(c, op_where(c, op_gts(c, z, threshold), g, op_mul(c, g, op_sigmoid(c, z))));
}

static tensor *softplus(struct call *c, tensor *x)
{
    /* max(x, 0) + log(1 + e^-|x|) */
    return op_add(c, op_relu(c, x), math1(c, MATH_LOG1P, op_exp(c, op_neg(c, op_abs(c, x)))));
}

void run_mish(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_mul(c, x, op_tanh(c, softplus(c, x))));
}

void run_mish_backward(struct call *c)
{
    tensor *x = x_of(c, 1), *t = op_tanh(c, softplus(c, x)), *s = op_sigmoid(c, x);
    tensor *slope = op_add(c, t, op_mul(c, op_mul(c, x, s), op_rsubs(c, 1, op_mul(c, t, t))));

    give(c, op_mul(c, x_of(c, 0), slope));
}

void run_log_sigmoid(struct call *c)
{
    tensor *x = x_of(c, 0);

    put(c, 1, op_neg(c, softplus(c, op_neg(c, x))));
    if (c->row->count > 2)
        put(c, 2, op_exp(c, op_neg(c, op_abs(c, x))));
}

void run_log_sigmoid_backward(struct call *c)
{
    give(c, op_mul(c, x_of(c, 0), op_sigmoid(c, op_neg(c, x_of(c, 1)))));
}

void run_softshrink(struct call *c)
{
    double l = number(c, 1, 0.5);
    tensor *x = x_of(c, 0), *zero = constant(c, x, 0);

    give(c, op_where(c, op_gts(c, x, l), op_subs(c, x, l),
                     op_where(c, op_lts(c, x, -l), op_adds(c, x, l), zero)));
}

void run_hardshrink(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_where(c, op_les(c, op_abs(c, x), number(c, 1, 0.5)), constant(c, x, 0), x));
}

/* grad, self, lambda: the gradient is 0 where the output is 0 */
void run_shrink_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *x = x_of(c, 1);

    give(c, op_where(c, op_les(c, op_abs(c, x), number(c, 2, 0.5)), constant(c, g, 0), g));
}

void run_hardsigmoid(struct call *c)
{
    give(c, op_divs(c, op_clamp(c, op_adds(c, x_of(c, 0), 3), 0, 6), 6));
}

static tensor *between(struct call *c, tensor *x, double low, double high)
{
    return op_minimum(c, op_gts(c, x, low), op_lts(c, x, high));
}

void run_hardsigmoid_backward(struct call *c)
{
    tensor *g = x_of(c, 0);

    give(c, pick(c, between(c, in(c, 1), -3, 3), op_divs(c, g, 6), 0));
}

void run_hardswish(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_divs(c, op_mul(c, x, op_clamp(c, op_adds(c, x, 3), 0, 6)), 6));
}

void run_hardswish_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *x = x_of(c, 1);
    tensor *middle = op_mul(c, g, op_adds(c, op_divs(c, x, 3), 0.5));

    give(c,
         op_where(c, op_les(c, x, -3), constant(c, g, 0), op_where(c, op_ges(c, x, 3), g, middle)));
}

void run_hardtanh(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, op_clamp(c, x, number(c, 1, -1), number(c, 2, 1)));
}

void run_hardtanh_backward(struct call *c)
{
    give(c, pick(c, between(c, in(c, 1), number(c, 2, -1), number(c, 3, 1)), x_of(c, 0), 0));
}

/* ---- gated units ---- */

void halves(struct call *c, tensor *x, int64_t dim, tensor **first, tensor **other)
{
    int d = wrap_dim(c, x, dim);
    int64_t n = size(x, d);

    *first = *other = NULL;
    if (c->err || !x)
        return;
    if (n % 2) {
        (void)call_fail(c, "dim %d of size %lld cannot be split into halves", d, (long long)n);
        return;
    }
    *first = slice(c, x, d, 0, n / 2, 1);
    *other = slice(c, x, d, n / 2, n, 1);
}

void run_glu(struct call *c)
{
    tensor *a, *b;

    halves(c, x_of(c, 0), integer(c, 1), &a, &b);
    give(c, op_mul(c, a, op_sigmoid(c, b)));
}

void run_glu_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *a, *b, *s, *both[2];

    halves(c, x_of(c, 1), integer(c, 2), &a, &b);
    s = op_sigmoid(c, b);
    both[0] = op_mul(c, g, s);
    both[1] = op_mul(c, g, op_mul(c, a, op_mul(c, s, op_rsubs(c, 1, s))));
    give(c, concat(c, both, 2, wrap_dim(c, a, integer(c, 2))));
}

void run_swiglu(struct call *c)
{
    tensor *x = in(c, 0), *out = NULL;

    if (x && call_ok(c, weir_swiglu(x, wrap_dim(c, x, integer(c, 1)), &out)))
        give(c, own(c, out));
}

void run_swiglu_grad(struct call *c)
{
    tensor *g = x_of(c, 0), *a, *b, *both[2];

    halves(c, x_of(c, 1), integer(c, 2), &a, &b);
    both[0] = op_mul(c, op_mul(c, g, b), silu_slope(c, a));
    both[1] = op_mul(c, g, op_silu(c, a));
    give(c, concat(c, both, 2, wrap_dim(c, a, integer(c, 2))));
}

/* self, dim, approximate (1: tanh), activate_left, out, out_gelu */
void run_geglu(struct call *c)
{
    tensor *a, *b, *gate;

    halves(c, x_of(c, 0), integer(c, 1), &a, &b);
    gate = integer(c, 3) ? a : b;
    gate = integer(c, 2) ? op_gelu_tanh(c, gate) : op_gelu(c, gate);
    put(c, 4, op_mul(c, gate, integer(c, 3) ? b : a));
    put(c, 5, gate);
}

/* grad, self, gelu, dim, approximate, activate_left, out */
void run_geglu_backward(struct call *c)
{
    bool left = integer(c, 5) != 0;
    tensor *g = x_of(c, 0), *gelu = x_of(c, 2), *a, *b, *gate, *value, *both[2];

    halves(c, x_of(c, 1), integer(c, 3), &a, &b);
    gate = op_mul(c, op_mul(c, g, left ? b : a), gelu_slope(c, left ? a : b, integer(c, 4) != 0));
    value = op_mul(c, g, gelu);
    both[0] = left ? gate : value;
    both[1] = left ? value : gate;
    give(c, concat(c, both, 2, wrap_dim(c, a, integer(c, 3))));
}

/* input, approximate ("none", "tanh"), out: gelu of the first half times the second */
void run_gelu_mul(struct call *c)
{
    tensor *a, *b;

    halves(c, x_of(c, 0), -1, &a, &b);
    give(c, op_mul(c, text_is(c, 1, "tanh") ? op_gelu_tanh(c, a) : op_gelu(c, a), b));
}
