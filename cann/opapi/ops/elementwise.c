/* Arithmetic and the elementary functions.
 *
 * `X(self, ..., out)` and `InplaceX(self, ...)` share one function, which writes the first operand
 * that the row marks as written. */
#include "run.h"

int result(const struct call *c)
{
    for (int i = 0; i < c->row->count; i++)
        if (c->row->operands[i].kind == OPERAND_O || c->row->operands[i].kind == OPERAND_X)
            return i;
    return 0;
}

void give(struct call *c, tensor *x)
{
    put(c, result(c), x);
}

void give_promoted(struct call *c, tensor *x)
{
    int at = result(c);

    if (x && c->row->operands[at].kind == OPERAND_X && is_float(x) &&
        !weir_dtype_is_float(out_type(c, at)))
        (void)call_fail(c, "result type %s can't be cast to the desired output type %s",
                        weir_dtype_name(type(x)), weir_dtype_name(out_type(c, at)));
    else
        put(c, at, x);
}

/* True if weir's operator can write the result directly, without promotion or cast. */
static bool direct(const struct call *c, int at, int operands)
{
    const aclTensor *out = c->args[at].tensor;

    if (out->type == ACL_BOOL)
        return false;
    for (int i = 0; i < operands; i++)
        if (c->args[i].tensor->type != out->type)
            return false;
    for (int k = 0; k < out->ndim; k++)
        if (!out->shape[k])
            return false;
    return true;
}

/* ---- weir's unary operators ---- */

#define UNARY(name, floats)                                                                 \
    void run_##name(struct call *c)                                                         \
    {                                                                                       \
        tensor *x = in(c, 0);                                                               \
        if (!x)                                                                             \
            return;                                                                         \
        if (direct(c, result(c), 1) && (is_float(x) || !(floats))) {                        \
            tensor *out = result(c) ? in(c, result(c)) : x;                                 \
            if (out)                                                                        \
                (void)call_ok(c, weir_##name##_into(x, out));                               \
        } else {                                                                            \
            give(c, op_##name(c, (floats) && !is_float(x) ? wide(c, x) : countable(c, x))); \
        }                                                                                   \
    }
UNARY(neg, false)
UNARY(abs, false)
UNARY(relu, false)
UNARY(exp, true)
UNARY(log, true)
UNARY(sqrt, true)
UNARY(rsqrt, true)
UNARY(sigmoid, true)
UNARY(tanh, true)
UNARY(gelu, true)
UNARY(silu, true)

/* ---- elementary functions on the host ---- */

#define MATH(name, FN)                          \
    void run_##name(struct call *c)             \
    {                                           \
        give(c, math1(c, MATH_##FN, in(c, 0))); \
    }
MATH(sin, SIN)
MATH(cos, COS)
MATH(tan, TAN)
MATH(asin, ASIN)
MATH(acos, ACOS)
MATH(atan, ATAN)
MATH(sinh, SINH)
MATH(cosh, COSH)
MATH(asinh, ASINH)
MATH(acosh, ACOSH)
MATH(atanh, ATANH)
MATH(erf, ERF)
MATH(erfc, ERFC)
MATH(erfinv, ERFINV)
MATH(exp2, EXP2)
MATH(expm1, EXPM1)
MATH(log1p, LOG1P)
MATH(log2, LOG2)
MATH(log10, LOG10)
MATH(sinc, SINC)

/* Rounding functions; integers stay as they are. */
#define ROUNDING(name, FN)                                 \
    void run_##name(struct call *c)                        \
    {                                                      \
        tensor *x = in(c, 0);                              \
        give(c, is_float(x) ? math1(c, MATH_##FN, x) : x); \
    }
ROUNDING(floor, FLOOR)
ROUNDING(ceil, CEIL)
ROUNDING(round, ROUND)
ROUNDING(trunc, TRUNC)

void run_round_decimals(struct call *c)
{
    tensor *x = in(c, 0);
    double scale = pow(10, fabs((double)integer(c, 1)));

    if (!is_float(x) || !integer(c, 1)) {
        give(c, is_float(x) ? math1(c, MATH_ROUND, x) : x);
        return;
    }
    x = wide(c, x);
    if (integer(c, 1) > 0)
        give(c, op_divs(c, math1(c, MATH_ROUND, op_muls(c, x, scale)), scale));
    else
        give(c, op_muls(c, math1(c, MATH_ROUND, op_divs(c, x, scale)), scale));
}

void run_frac(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, is_float(x) ? op_sub(c, wide(c, x), math1(c, MATH_TRUNC, x))
                        : full_like(c, x, type(x), 0));
}

void run_reciprocal(struct call *c)
{
    give(c, op_rdivs(c, 1, wide(c, in(c, 0))));
}

tensor *op_sign(struct call *c, tensor *x)
{
    weir_dtype t = type(x);

    x = countable(c, x);
    return cast(c, op_sub(c, cast(c, op_gts(c, x, 0), WEIR_I8), cast(c, op_lts(c, x, 0), WEIR_I8)),
                t);
}

/* The sign of NaN is 0, as in PyTorch. */
void run_sign(struct call *c)
{
    give(c, op_sign(c, in(c, 0)));
}

void run_signbit(struct call *c)
{
    tensor *x = countable(c, in(c, 0));

    if (is_float(x)) /* the sign bit of -0 is set: replace 0 by its reciprocal, +-inf */
        x = op_where(c, op_eqs(c, x, 0), op_rdivs(c, 1, wide(c, x)), wide(c, x));
    give(c, op_lts(c, x, 0));
}

void run_positive_inf(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, is_float(x) ? op_eqs(c, wide(c, x), INFINITY) : full_like(c, x, WEIR_BOOL, 0));
}

void run_negative_inf(struct call *c)
{
    tensor *x = in(c, 0);

    give(c, is_float(x) ? op_eqs(c, wide(c, x), -INFINITY) : full_like(c, x, WEIR_BOOL, 0));
}

/* x - x is 0 for what is finite and NaN for what is not. */
tensor *op_finite(struct call *c, tensor *x)
{
    if (!is_float(x))
        return full_like(c, x, WEIR_BOOL, 1);
    x = wide(c, x);
    return op_eqs(c, op_sub(c, x, x), 0);
}

void run_finite(struct call *c)
{
    give(c, op_finite(c, in(c, 0)));
}

void run_nan_to_num(struct call *c)
{
    int base = 1;
    tensor *x = in(c, 0), *y = wide(c, x);

    if (!is_float(x)) {
        give(c, x);
        return;
    }
    y = op_where(c, op_ne(c, y, y), full(c, type(y), 0, NULL, real(c, base)), y);
    y = op_where(c, op_eqs(c, y, INFINITY), full(c, type(y), 0, NULL, real(c, base + 1)), y);
    give(c, op_where(c, op_eqs(c, y, -INFINITY), full(c, type(y), 0, NULL, real(c, base + 2)), y));
}

/* ---- arithmetic with two operands ---- */

tensor *beside(struct call *c, int i, tensor *x)
{
    const aclScalar *s = c->args[i].scalar;

    if (c->err || !x)
        return NULL;
    if (s->imaginary != 0)
        return call_fail(c, "%s is complex, which weir does not compute with",
                         c->row->operands[i].name);
    if (!s->whole)
        return literal(c, s, is_float(x) ? (type(x) == WEIR_F64 ? WEIR_F64 : WEIR_F32) : WEIR_F32);
    if (is_float(x))
        return literal(c, s, type(x) == WEIR_F64 ? WEIR_F64 : WEIR_F32);
    if (type(x) == WEIR_BOOL)
        return literal(c, s, s->type == ACL_BOOL ? WEIR_BOOL : WEIR_I64);
    return literal(c, s, type(x)); /* wraps, as in PyTorch */
}

bool plain(const struct call *c, int i, const tensor *x)
{
    const aclScalar *s = c->args[i].scalar;

    if (!s || s->imaginary != 0)
        return false;
    if (is_float(x))
        return !s->whole || fabs(s->number) < 9e15;
    if (!s->whole || type(x) == WEIR_BOOL)
        return false;
    return fabs(s->number) < (type(x) == WEIR_I64   ? 9e15
                              : type(x) == WEIR_I32 ? 2147483647
                                                    : 127) &&
           (type(x) != WEIR_U8 || s->integer >= 0);
}

/* Runs an operator of weir from the first two operands to the one that is written. */
static void into(struct call *c, int at, weir_status (*run)(tensor *, tensor *, tensor *))
{
    const int which[] = {0, 1, at};
    tensor *t[3];

    if (ins(c, which, at ? 3 : 2, t))
        (void)call_ok(c, run(t[0], t[1], at ? t[2] : t[0]));
}

/* self + alpha * other, or self - alpha * other. `other` is a tensor or a scalar. */
static void add(struct call *c, bool minus)
{
    const union arg *other = &c->args[1];
    bool scalar = c->row->operands[1].kind == OPERAND_S;
    const aclScalar *alpha = c->row->operands[2].kind == OPERAND_S ? c->args[2].scalar : NULL;
    bool one = !alpha || alpha->number == 1;
    int at = result(c);
    tensor *x, *y, *out;

    if (one && !scalar && direct(c, at, 2)) {
        into(c, at, minus ? weir_sub_into : weir_add_into);
        return;
    }
    if (!(x = in(c, 0)))
        return;
    if (one && scalar && direct(c, at, 1) && plain(c, 1, x)) {
        double v = other->scalar->number;

        if ((out = at ? in(c, at) : x))
            (void)call_ok(c, minus ? weir_sub_scalar_into(x, v, out)
                                   : weir_add_scalar_into(x, v, out));
        return;
    }
    y = scalar ? beside(c, 1, x) : in(c, 1);
    if (!one) {
        if (is_half(x) || is_half(y)) {
            x = wide(c, x);
            y = wide(c, y);
        }
        y = op_mul(c, y, beside(c, 2, y));
    }
    give_promoted(c, minus ? op_sub(c, x, y) : op_add(c, x, y));
}

void run_add(struct call *c)
{
    add(c, false);
}

void run_sub(struct call *c)
{
    add(c, true);
}

/* other - alpha * self */
void run_rsub(struct call *c)
{
    tensor *x = in(c, 0), *y = c->row->operands[1].kind == OPERAND_S ? beside(c, 1, x) : in(c, 1);

    if (number(c, 2, 1) != 1)
        x = op_mul(c, is_half(x) ? wide(c, x) : x, beside(c, 2, x));
    give(c, op_sub(c, y, x));
}

tensor *second(struct call *c, tensor *x)
{
    return c->row->operands[1].kind == OPERAND_S ? beside(c, 1, x) : in(c, 1);
}

void run_mul(struct call *c)
{
    bool scalar = c->row->operands[1].kind == OPERAND_S;
    int at = result(c);
    tensor *x, *out;

    if (!scalar && direct(c, at, 2)) {
        into(c, at, weir_mul_into);
        return;
    }
    if (!(x = in(c, 0)))
        return;
    if (scalar && direct(c, at, 1) && plain(c, 1, x)) {
        if ((out = at ? in(c, at) : x))
            (void)call_ok(c, weir_mul_scalar_into(x, number(c, 1, 0), out));
        return;
    }
    give_promoted(c, op_mul(c, x, second(c, x)));
}

tensor *divisible(struct call *c, tensor *x)
{
    return is_float(x) ? x : wide(c, x);
}

void run_div(struct call *c)
{
    tensor *x = in(c, 0), *y = second(c, x);

    give_promoted(c, op_div(c, divisible(c, x), divisible(c, y)));
}

/* mode 0 divides, 1 rounds towards zero, 2 down */
void run_div_mode(struct call *c)
{
    int64_t mode = integer(c, 2);
    tensor *x = in(c, 0), *y = second(c, x);

    if (mode == 1 &&
        (is_float(x) || is_float(y))) /* the quotient is rounded before it is truncated */
        give_promoted(c, math1(c, MATH_TRUNC, op_div(c, x, y)));
    else
        give_promoted(c, mode == 1   ? math2(c, MATH_TRUNC_DIVIDE, x, y)
                         : mode == 2 ? math2(c, MATH_FLOOR_DIVIDE, x, y)
                                     : op_div(c, divisible(c, x), divisible(c, y)));
}

#define MATH2(name, FN)                                         \
    void run_##name(struct call *c)                             \
    {                                                           \
        tensor *x = in(c, 0);                                   \
        give_promoted(c, math2(c, MATH_##FN, x, second(c, x))); \
    }
MATH2(floor_divide, FLOOR_DIVIDE)
MATH2(fmod, FMOD)
MATH2(remainder, REMAINDER)
MATH2(atan2, ATAN2)
MATH2(bit_and, AND)
MATH2(bit_or, OR)
MATH2(bit_xor, XOR)
MATH2(shift_left, SHIFT_LEFT)
MATH2(shift_right, SHIFT_RIGHT)
MATH2(gcd, GCD)

void run_remainder_scalar_tensor(struct call *c)
{
    tensor *y = in(c, 1);

    give_promoted(c, math2(c, MATH_REMAINDER, beside(c, 0, y), y));
}

void run_bit_not(struct call *c)
{
    tensor *x = in(c, 0);

    give_promoted(c, type(x) == WEIR_BOOL
                         ? op_not(c, x)
                         : op_rsubs(c, -1, cast(c, x, promoted(type(x), WEIR_I32))));
}

/* ---- powers ---- */

void run_pow(struct call *c)
{
    tensor *x = in(c, 0);

    give_promoted(c, op_pow(c, x, second(c, x)));
}

void run_pow_scalar_tensor(struct call *c)
{
    tensor *y = in(c, 1);

    give_promoted(c, op_pow(c, beside(c, 0, y), y));
}
