/* Comparisons, maxima, logic, clamps, and operators on three tensors. */
#include "run.h"

/* ---- comparisons, maxima, logic ---- */

/* A scalar is rounded to a half-precision tensor's type before it is compared, as PyTorch does. */
#define COMPARE(name)                                                    \
    void run_##name(struct call *c)                                      \
    {                                                                    \
        tensor *x = in(c, 0);                                            \
        bool scalar = c->row->operands[1].kind == OPERAND_S;             \
        if (scalar && is_half(x))                                        \
            give(c, op_##name(c, x, cast(c, beside(c, 1, x), type(x)))); \
        else if (scalar && plain(c, 1, x))                               \
            give(c, op_##name##s(c, x, number(c, 1, 0)));                \
        else                                                             \
            give(c, op_##name(c, x, second(c, x)));                      \
    }
COMPARE(eq)
COMPARE(ne)
COMPARE(lt)
COMPARE(le)
COMPARE(gt)
COMPARE(ge)

void run_maximum(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, op_maximum(c, x, second(c, x)));
}

void run_minimum(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, op_minimum(c, x, second(c, x)));
}

void run_logical_and(struct call *c)
{
    give(c, op_minimum(c, op_truth(c, in(c, 0)), op_truth(c, in(c, 1))));
}

void run_logical_or(struct call *c)
{
    give(c, op_maximum(c, op_truth(c, in(c, 0)), op_truth(c, in(c, 1))));
}

void run_logical_xor(struct call *c)
{
    give(c, op_ne(c, op_truth(c, in(c, 0)), op_truth(c, in(c, 1))));
}

void run_logical_not(struct call *c)
{
    give(c, op_not(c, in(c, 0)));
}

void run_isclose(struct call *c)
{
    tensor *x = in(c, 0), *y = in(c, 1), *a = wide(c, x), *b = wide(c, y), *near;

    near = op_le(c, op_abs(c, op_sub(c, a, b)),
                 op_adds(c, op_muls(c, op_abs(c, b), real(c, 2)), real(c, 3)));
    near = op_minimum(c, near, op_finite(c, op_sub(c, a, b)));
    near = op_maximum(c, near, op_eq(c, x, y));
    if (integer(c, 4))
        near = op_maximum(c, near, op_minimum(c, op_ne(c, x, x), op_ne(c, y, y)));
    give(c, near);
}

/* ---- clamps ---- */

void run_clamp(struct call *c)
{
    tensor *x = in(c, 0);

    if (c->args[1].scalar)
        x = op_maximum(c, x, beside(c, 1, x));
    if (c->args[2].scalar)
        x = op_minimum(c, x, beside(c, 2, x));
    give(c, x);
}

void run_clamp_tensor(struct call *c)
{
    tensor *x = in(c, 0);

    if (given(c, 1))
        x = op_maximum(c, x, in(c, 1));
    if (given(c, 2))
        x = op_minimum(c, x, in(c, 2));
    give(c, x);
}

/* ---- operators on three tensors ---- */

void run_where(struct call *c)
{
    give(c, op_where(c, in(c, 0), in(c, 1), in(c, 2)));
}

/* Converts halves to f32, so that the result is rounded only once; other types stay. */
static tensor *working(struct call *c, tensor *x)
{
    return is_half(x) ? wide(c, x) : x;
}

void run_addcmul(struct call *c)
{
    tensor *p = op_mul(c, working(c, in(c, 1)), working(c, in(c, 2)));

    if (number(c, 3, 1) != 1)
        p = op_mul(c, p, beside(c, 3, p));
    give(c, op_add(c, working(c, in(c, 0)), p));
}

void run_addcdiv(struct call *c)
{
    tensor *q = op_div(c, divisible(c, working(c, in(c, 1))), divisible(c, working(c, in(c, 2))));

    if (number(c, 3, 1) != 1)
        q = op_mul(c, q, beside(c, 3, q));
    give(c, op_add(c, working(c, in(c, 0)), q));
}

/* self + weight * (end - self), from the nearer end, as PyTorch rounds it */
tensor *op_lerp(struct call *c, tensor *a, tensor *b, tensor *w)
{
    tensor *d = op_sub(c, b, a);
    tensor *near = op_add(c, a, op_mul(c, w, d));
    tensor *far = op_sub(c, b, op_mul(c, d, op_rsubs(c, 1, w)));

    return op_where(c, op_lts(c, op_abs(c, w), 0.5), near, far);
}

void run_lerp(struct call *c)
{
    tensor *a = working(c, in(c, 0)), *b = working(c, in(c, 1)), *d;
    double w;

    if (c->row->operands[2].kind != OPERAND_S) {
        give(c, op_lerp(c, a, b, working(c, in(c, 2))));
        return;
    }
    w = number(c, 2, 0);
    d = op_sub(c, b, a);
    give(c, fabs(w) < 0.5 ? op_add(c, a, op_muls(c, d, w)) : op_sub(c, b, op_muls(c, d, 1 - w)));
}

void run_xlogy(struct call *c)
{
    bool scalar_first = c->row->operands[0].kind == OPERAND_S;
    tensor *y = scalar_first ? in(c, 1) : NULL, *x = scalar_first ? beside(c, 0, y) : in(c, 0);
    tensor *zero;

    if (!y)
        y = second(c, x);
    x = wide(c, x);
    y = wide(c, y);
    zero = full(c, type(x), 0, NULL, 0);
    /* if x is 0 the result is 0, even if log(y) is infinite; but NaN if y is NaN */
    give(c, op_where(c, op_minimum(c, op_eqs(c, x, 0), op_eq(c, y, y)), zero,
                     op_mul(c, x, op_log(c, y))));
}

/* max + log(1 + e^-|difference|), in base e or 2 */
static void logaddexp(struct call *c, bool two)
{
    tensor *a = wide(c, in(c, 0)), *b = wide(c, in(c, 1)), *most = op_maximum(c, a, b);
    tensor *d = op_neg(c, op_abs(c, op_sub(c, a, b)));

    d = two ? op_muls(c, math1(c, MATH_LOG1P, math1(c, MATH_EXP2, d)), 1.4426950408889634)
            : math1(c, MATH_LOG1P, op_exp(c, d));
    /* the difference of equal infinities would be NaN */
    give(c, op_where(c, op_eq(c, a, b), op_adds(c, most, two ? 1 : 0.69314718055994530942),
                     op_add(c, most, d)));
}

void run_logaddexp(struct call *c)
{
    logaddexp(c, false);
}

void run_logaddexp2(struct call *c)
{
    logaddexp(c, true);
}
