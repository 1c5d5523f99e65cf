/* Operators that apply to each tensor of a list, and optimisers. */
#include "run.h"

static tensor *working(struct call *c, tensor *x)
{
    return is_half(x) ? wide(c, x) : x;
}

/* Returns the second operand for element k. It comes from a list of tensors, a scalar, a list of
 * scalars, or a tensor with one value. */
static tensor *other(struct call *c, int i, int k, tensor *x)
{
    const aclScalar *s;

    switch (c->row->operands[i].kind) {
    case OPERAND_L:
        return item(c, i, k);
    case OPERAND_T: {
        tensor *values = flat(c, in(c, i));

        return numel(values) > 1 ? reshape(c, slice(c, values, 0, k, k + 1, 1), 0, NULL)
                                 : reshape(c, values, 0, NULL);
    }
    case OPERAND_Z:
        if ((uint64_t)k >= c->args[i].scalars->size)
            return call_fail(c, "%s has %llu values, fewer than there are tensors",
                             c->row->operands[i].name,
                             (unsigned long long)c->args[i].scalars->size);
        s = c->args[i].scalars->value[k];
        break;
    default:
        s = c->args[i].scalar;
    }
    if (c->err || !x || !s)
        return NULL;
    if (is_float(x))
        return literal(c, s, type(x) == WEIR_F64 ? WEIR_F64 : WEIR_F32);
    return literal(c, s, s->whole ? type(x) : WEIR_F32);
}

/* Returns the index of the list that is written: the last operand. */
static int last(const struct call *c)
{
    return c->row->count - 1;
}

#define EACH(k) for (int k = 0; k < items(c, 0) && !c->err; k++)

#define EACH_UNARY(name, expr)                     \
    void each_##name(struct call *c)               \
    {                                              \
        EACH(k)                                    \
        {                                          \
            tensor *x = working(c, item(c, 0, k)); \
            put_item(c, last(c), k, expr);         \
        }                                          \
    }
EACH_UNARY(abs, op_abs(c, x))
EACH_UNARY(neg, op_neg(c, x))
EACH_UNARY(exp, op_exp(c, wide(c, x)))
EACH_UNARY(log, op_log(c, wide(c, x)))
EACH_UNARY(sqrt, op_sqrt(c, wide(c, x)))
EACH_UNARY(rsqrt, op_rsqrt(c, wide(c, x)))
EACH_UNARY(sigmoid, op_sigmoid(c, wide(c, x)))
EACH_UNARY(tanh, op_tanh(c, wide(c, x)))
EACH_UNARY(sign, op_sign(c, x))
EACH_UNARY(reciprocal, op_rdivs(c, 1, wide(c, x)))
EACH_UNARY(sin, math1(c, MATH_SIN, x))
EACH_UNARY(cos, math1(c, MATH_COS, x))
EACH_UNARY(tan, math1(c, MATH_TAN, x))
EACH_UNARY(asin, math1(c, MATH_ASIN, x))
EACH_UNARY(acos, math1(c, MATH_ACOS, x))
EACH_UNARY(atan, math1(c, MATH_ATAN, x))
EACH_UNARY(sinh, math1(c, MATH_SINH, x))
EACH_UNARY(cosh, math1(c, MATH_COSH, x))
EACH_UNARY(erf, math1(c, MATH_ERF, x))
EACH_UNARY(erfc, math1(c, MATH_ERFC, x))
EACH_UNARY(expm1, math1(c, MATH_EXPM1, x))
EACH_UNARY(log1p, math1(c, MATH_LOG1P, x))
EACH_UNARY(log2, math1(c, MATH_LOG2, x))
EACH_UNARY(log10, math1(c, MATH_LOG10, x))
EACH_UNARY(copy, x)

/* tensors */
void each_zero(struct call *c)
{
    EACH(k)
    {
        tensor *x = item(c, 0, k);

        if (numel(x))
            (void)call_ok(c, weir_fill(x, 0));
    }
}

#define EACH_BINARY(name, expr)                                                        \
    void each_##name(struct call *c)                                                   \
    {                                                                                  \
        EACH(k)                                                                        \
        {                                                                              \
            tensor *x = working(c, item(c, 0, k)), *y = working(c, other(c, 1, k, x)); \
            put_item(c, last(c), k, expr);                                             \
        }                                                                              \
    }
EACH_BINARY(mul, op_mul(c, x, y))
EACH_BINARY(div, op_div(c, is_float(x) ? x : wide(c, x), is_float(y) ? y : wide(c, y)))
EACH_BINARY(pow, op_pow(c, x, y))
EACH_BINARY(maximum, op_maximum(c, x, y))
EACH_BINARY(minimum, op_minimum(c, x, y))
/* x, p, out */
void each_norm(struct call *c)
{
    EACH(k)
    put_item(c, 2, k, op_norm(c, item(c, 0, k), number(c, 1, 2), NULL, 0, false));
}

/* x, y [, alpha], out */
static void each_sum(struct call *c, bool minus)
{
    EACH(k)
    {
        tensor *x = working(c, item(c, 0, k)), *y = working(c, other(c, 1, k, x));

        if (c->row->count > 3)
            y = op_mul(c, y, other(c, 2, k, y));
        put_item(c, last(c), k, minus ? op_sub(c, x, y) : op_add(c, x, y));
    }
}

void each_add(struct call *c)
{
    each_sum(c, false);
}

void each_sub(struct call *c)
{
    each_sum(c, true);
}

/* a scalar to the power of each, out */
void each_pow_scalar(struct call *c)
{
    for (int k = 0; k < items(c, 1) && !c->err; k++) {
        tensor *y = working(c, item(c, 1, k));

        put_item(c, 2, k, op_pow(c, other(c, 0, k, y), y));
    }
}

/* x, y, z, value, out */
void each_addcmul(struct call *c)
{
    EACH(k)
    {
        tensor *p = op_mul(c, working(c, item(c, 1, k)), working(c, item(c, 2, k)));

        p = op_mul(c, p, other(c, 3, k, p));
        put_item(c, 4, k, op_add(c, working(c, item(c, 0, k)), p));
    }
}

void each_addcdiv(struct call *c)
{
    EACH(k)
    {
        tensor *q = op_div(c, working(c, item(c, 1, k)), working(c, item(c, 2, k)));

        q = op_mul(c, q, other(c, 3, k, q));
        put_item(c, 4, k, op_add(c, working(c, item(c, 0, k)), q));
    }
}

/* x, y, weight, out */
void each_lerp(struct call *c)
{
    EACH(k)
    {
        tensor *x = working(c, item(c, 0, k)), *y = working(c, item(c, 1, k));

        put_item(c, 3, k, op_lerp(c, x, y, working(c, other(c, 2, k, x))));
    }
}

/* x, mode (2 floor, 3 ceil, 4 round half away, 5 trunc, 0 and 1 round half to even), out */
void each_round(struct call *c)
{
    int64_t mode = (int64_t)number(c, 1, 0);

    EACH(k)
    {
        tensor *x = item(c, 0, k), *y;

        if (mode == 7) /* the fraction */
            y = op_sub(c, wide(c, x), math1(c, MATH_TRUNC, x));
        else
            y = math1(c,
                      mode == 2   ? MATH_FLOOR
                      : mode == 3 ? MATH_CEIL
                      : mode == 5 ? MATH_TRUNC
                                  : MATH_ROUND,
                      x);
        put_item(c, last(c), k, y);
    }
}

/* gradients (written), found_inf (written), inverse scale */
void each_unscale(struct call *c)
{
    tensor *scale = reshape(c, in(c, 2), 0, NULL), *found = NULL;

    EACH(k)
    {
        tensor *x = working(c, item(c, 0, k)), *ok;

        if (!numel(x))
            continue;
        ok = op_min(c, op_finite(c, x), NULL, 0, false);
        found = found ? op_minimum(c, found, ok) : ok;
        put_item(c, 0, k, op_mul(c, x, scale));
    }
    if (found)
        put(c, 1, op_where(c, found, wide(c, in(c, 1)), full(c, WEIR_F32, 0, NULL, 1)));
}

/* ---- optimisers ---- */

/* var, m, v, max_v, grad, step, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize */
void run_adamw(struct call *c)
{
    double lr = real(c, 6), b1 = real(c, 7), b2 = real(c, 8), decay = real(c, 9), eps = real(c, 10);
    tensor *p = wide(c, in(c, 0)), *m = wide(c, in(c, 1)), *v = wide(c, in(c, 2));
    tensor *g = wide(c, in(c, 4)), *step = reshape(c, wide(c, in(c, 5)), 0, NULL), *root, *c1, *c2;

    if (integer(c, 12))
        g = op_neg(c, g);
    p = op_muls(c, p, 1 - lr * decay);
    m = op_add(c, op_muls(c, m, b1), op_muls(c, g, 1 - b1));
    v = op_add(c, op_muls(c, v, b2), op_muls(c, op_mul(c, g, g), 1 - b2));
    step = op_adds(c, step, 1);
    c1 = op_rsubs(c, 1, op_pow(c, full(c, type(step), 0, NULL, b1), step));
    c2 = op_sqrt(c, op_rsubs(c, 1, op_pow(c, full(c, type(step), 0, NULL, b2), step)));
    root = v;
    if (integer(c, 11)) {
        root = op_maximum(c, wide(c, in(c, 3)), v);
        put(c, 3, root);
    }
    root = op_adds(c, op_div(c, op_sqrt(c, root), c2), eps);
    put(c, 0, op_sub(c, p, op_div(c, op_muls(c, m, lr), op_mul(c, root, c1))));
    put(c, 1, m);
    put(c, 2, v);
}
