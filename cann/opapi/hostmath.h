/* Elementwise functions for which weir has no operator. */
#ifndef WEIR_OPAPI_HOSTMATH_H
#define WEIR_OPAPI_HOSTMATH_H

#include "call.h"

/* clang-format off */
/* name, float, double */
#define MATH_UNARY(X)                                                                \
    X(SIN, sinf(x), sin(x)) X(COS, cosf(x), cos(x)) X(TAN, tanf(x), tan(x))          \
    X(ASIN, asinf(x), asin(x)) X(ACOS, acosf(x), acos(x)) X(ATAN, atanf(x), atan(x)) \
    X(SINH, sinhf(x), sinh(x)) X(COSH, coshf(x), cosh(x))                            \
    X(ASINH, asinhf(x), asinh(x)) X(ACOSH, acoshf(x), acosh(x))                      \
    X(ATANH, atanhf(x), atanh(x)) X(ERF, erff(x), erf(x)) X(ERFC, erfcf(x), erfc(x)) \
    X(ERFINV, (float)erf_inverse((double)x), erf_inverse(x))                         \
    X(EXP2, exp2f(x), exp2(x)) X(EXPM1, expm1f(x), expm1(x))                         \
    X(LOG1P, log1pf(x), log1p(x)) X(LOG2, log2f(x), log2(x))                         \
    X(LOG10, log10f(x), log10(x)) X(FLOOR, floorf(x), floor(x))                      \
    X(CEIL, ceilf(x), ceil(x)) X(ROUND, rintf(x), rint(x))                           \
    X(TRUNC, truncf(x), trunc(x)) X(SINC, sinc_f(x), sinc(x))

/* name, float and double, integer */
#define MATH_BINARY(X)                                                  \
    X(FMOD, fmod(a, b), b == 0 || b == -1 ? 0 : a % b)                  \
    X(REMAINDER, remainder_f(a, b), remainder_i(a, b))                  \
    X(FLOOR_DIVIDE, floor_divide_f(a, b), floor_divide_i(a, b))         \
    X(TRUNC_DIVIDE, trunc(a / b), trunc_divide_i(a, b))                 \
    X(ATAN2, atan2(a, b), 0) X(HYPOT, hypot(a, b), 0)                   \
    X(AND, 0, a & b) X(OR, 0, a | b) X(XOR, 0, a ^ b)                   \
    X(SHIFT_LEFT, 0, b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b)) \
    X(SHIFT_RIGHT, 0, b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b)      \
    X(GCD, 0, gcd(a, b))
/* clang-format on */

enum math_unary {
#define MATH_ENUM(name, f, d) MATH_##name,
    MATH_UNARY(MATH_ENUM)
#undef MATH_ENUM
};
enum math_binary {
#define MATH_ENUM(name, f, i) MATH_##name,
    MATH_BINARY(MATH_ENUM)
#undef MATH_ENUM
};

/* Applies a function to floats of at least 32 bits; other types are converted to them. */
tensor *math1(struct call *c, enum math_unary fn, tensor *x);
/* Broadcasts and promotes the operands; integers and bool stay as they are. */
tensor *math2(struct call *c, enum math_binary fn, tensor *a, tensor *b);
/* Expands both tensors to their common shape. */
void broadcast(struct call *c, tensor **a, tensor **b);

#endif
