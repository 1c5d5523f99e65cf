/* Elementwise operations on values of the type in memory, and loads of operands with different
 * layouts. Shared by single calls (ew.cu) and chains of calls. */
#pragma once

#include "kernel.cuh"
#include "ops/gpu/layout.h"
#include "ops/host/math/elementwise.h"

#define INF __int_as_float(0x7f800000)

/* 16-bit values are computed in f32 with about half its precision: the hardware's exponential and
 * division are precise enough. */
template <bool narrow, typename T> static __device__ inline T power_of_e(T x)
{
    if constexpr (narrow)
        return __expf(x);
    else
        return exp(x);
}

template <bool narrow, typename T> static __device__ inline T sigmoid(T x)
{
    T e = power_of_e<narrow>(-fabs(x)), y = x < 0 ? e : (T)1;

    if constexpr (narrow)
        return __fdividef(y, (T)1 + e);
    else
        return y / ((T)1 + e);
}

/* For values of 16 bits. Uses the hardware's exponential and quotient where they are precise
 * enough, else the series. The relative error is below 2^-19 everywhere. */
static __device__ inline float tanh_narrow(float x)
{
    float size = fabsf(x), square = x * x;
    float e = exp2_fast(size * 2.885390081777927f); /* e^2x; infinite beyond 44 */
    float large = fmaf(__fdividef(-2.0f, 1.0f + fminf(e, 1e30f)), 1.0f, 1.0f);
    float series = fmaf(square, fmaf(square, -0.053968254f, 0.13333333f), -0.33333334f);

    return size < 0.125f ? x * fmaf(square, series, 1.0f)
           : size == size ? copysignf(large, x)
                          : x;
}

static __device__ inline uint64_t power(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, y = 1;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? (uint64_t)-1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            y *= base;
    return y;
}

/* Squares and cubes, the common powers in models, are computed as products. */
template <typename T> static __device__ inline T raised(T a, T b)
{
    return b == (T)2 ? a * a : b == (T)3 ? a * a * a : pow(a, b);
}

/* Unsigned, so that integers wrap. */
template <typename T> struct Wide { typedef uint32_t type; };
template <> struct Wide<int64_t> { typedef uint64_t type; };

template <typename T> static __device__ inline T divide(T a, T b)
{
    typedef typename Wide<T>::type wide;

    if (b == 0)
        return 0;
    return (T)-1 < 0 && b == (T)-1 ? (T)(0 - (wide)a) : (T)(a / b);
}

/* A shift by the width or more, or by less than 0, shifts all bits out; right shifts fill in the
 * sign. */
template <typename T> static __device__ inline T left_shift(T a, T b)
{
    typedef typename Wide<T>::type wide;

    return (wide)b < 8 * sizeof(T) ? (T)((wide)a << (wide)b) : (T)0;
}

template <typename T> static __device__ inline T right_shift(T a, T b)
{
    typedef typename Wide<T>::type wide;
    constexpr wide most = 8 * sizeof(T) - ((T)-1 < 0);

    return (T)(a >> ((wide)b < most ? (wide)b : most));
}

template <int code, int type, typename T> static __device__ inline T binary(T a, T b)
{
    if constexpr (code == WEIR__BINARY_MAXIMUM)
        return type == WEIR_BOOL ? (T)(a || b) : a != a ? a : a > b ? a : b;
    else if constexpr (code == WEIR__BINARY_MINIMUM)
        return type == WEIR_BOOL ? (T)(a && b) : a != a ? a : a < b ? a : b;
    else if constexpr (Type<type>::real) {
        if constexpr (code == WEIR__BINARY_ADD)
            return a + b;
        else if constexpr (code == WEIR__BINARY_SUB)
            return a - b;
        else if constexpr (code == WEIR__BINARY_MUL)
            return a * b;
        else if constexpr (code == WEIR__BINARY_DIV)
            return a / b;
        else
            return raised(a, b);
    } else {
        typedef typename Wide<T>::type wide;

        if constexpr (code == WEIR__BINARY_ADD)
            return (T)((wide)a + (wide)b);
        else if constexpr (code == WEIR__BINARY_SUB)
            return (T)((wide)a - (wide)b);
        else if constexpr (code == WEIR__BINARY_MUL)
            return (T)((wide)a * (wide)b);
        else if constexpr (code == WEIR__BINARY_DIV)
            return divide(a, b);
        else if constexpr (code == WEIR__BINARY_BITWISE_AND)
            return type == WEIR_BOOL ? (T)(a && b) : (T)(a & b);
        else if constexpr (code == WEIR__BINARY_BITWISE_OR)
            return type == WEIR_BOOL ? (T)(a || b) : (T)(a | b);
        else if constexpr (code == WEIR__BINARY_BITWISE_XOR)
            return type == WEIR_BOOL ? (T)(!a != !b) : (T)(a ^ b);
        else if constexpr (code == WEIR__BINARY_LEFT_SHIFT)
            return left_shift(a, b);
        else if constexpr (code == WEIR__BINARY_RIGHT_SHIFT)
            return right_shift(a, b);
        else
            return (T)power(a, b);
    }
}

template <int code, int type, typename T> static __device__ inline uint8_t compare(T a, T b)
{
    if (type == WEIR_BOOL) {
        a = a != 0;
        b = b != 0;
    }
    switch (code) {
    case WEIR__BINARY_EQ:
        return a == b;
    case WEIR__BINARY_NE:
        return a != b;
    case WEIR__BINARY_LT:
        return a < b;
    case WEIR__BINARY_LE:
        return a <= b;
    case WEIR__BINARY_GT:
        return a > b;
    default:
        return a >= b;
    }
}

template <typename T> static __device__ inline T clamped(T x, const double *constant)
{
    T low = *(const T *)&constant[0], high = *(const T *)&constant[1];
    T y = x < low ? low : x;

    return y > high ? high : y;
}

template <int code, int type, typename T>
static __device__ inline T unary(T x, const double *constant)
{
    constexpr bool real = Type<type>::real, narrow = real && sizeof(typename Type<type>::store) == 2;

    if constexpr (code == WEIR__UNARY_CLAMP)
        return clamped(x, constant);
    else if constexpr (code == WEIR__UNARY_RELU)
        return x < 0 ? (T)0 : x;
    else if constexpr (code == WEIR__UNARY_BITWISE_NOT)
        return type == WEIR_BOOL ? (T)!x : (T)~x;
    else if constexpr (!real) {
        typedef typename Wide<T>::type wide;

        return code == WEIR__UNARY_NEG || x < 0 ? (T)(0 - (wide)x) : x;
    } else if constexpr (code == WEIR__UNARY_NEG)
        return -x;
    else if constexpr (code == WEIR__UNARY_ABS)
        return fabs(x);
    else if constexpr (code == WEIR__UNARY_EXP)
        return power_of_e<narrow>(x);
    else if constexpr (code == WEIR__UNARY_LOG)
        return log(x);
    else if constexpr (code == WEIR__UNARY_SQRT)
        return sqrt(x);
    else if constexpr (code == WEIR__UNARY_RSQRT)
        return (T)1 / sqrt(x);
    else if constexpr (code == WEIR__UNARY_SIGMOID)
        return sigmoid<narrow>(x);
    else if constexpr (code == WEIR__UNARY_TANH && narrow)
        return tanh_narrow(x);
    else if constexpr (code == WEIR__UNARY_TANH)
        return tanh(x);
    else if constexpr (code == WEIR__UNARY_SIN)
        return sin(x);
    else if constexpr (code == WEIR__UNARY_COS)
        return cos(x);
    else if constexpr (code == WEIR__UNARY_GELU)
        return x == -INF ? -(T)0 : (T)0.5 * x * erfc(x * (T)-0.70710678118654752440);
    else
        return x == -INF ? -(T)0 : x * sigmoid<narrow>(x);
}

/* Returns the number of inputs of an operation. */
static constexpr int inputs_of(int code)
{
    return code == WEIR__EW_WHERE                         ? 3
           : code < WEIR__EW_UNARY || code == WEIR__EW_SWIGLU ? 2
                                                          : 1;
}

/* True if the operation's result is rounded to 16 bits. */
template <int code, int out, int t0> static constexpr bool rounds()
{
    if (out != WEIR_F16 && out != WEIR_BF16)
        return false;
    if (code == WEIR__EW_CONVERT)
        return t0 == WEIR_F32;
    return code != WEIR__EW_WHERE && !(code >= WEIR__BINARY_EQ && code <= WEIR__BINARY_GE);
}

/* The result of an arithmetic operation before it is rounded; see below. */
template <int code, int t0, int t1, int constants>
static __device__ inline typename Type<t0>::compute
value(typename Type<t0>::store x, typename Type<t1>::store y, const double *constant)
{
    if constexpr ((constants & 1) != 0)
        x = *(const typename Type<t0>::store *)constant;
    auto a = Type<t0>::load(x);
    auto b = Type<t1>::load(y);

    if constexpr ((constants & 2) != 0)
        b = *(const decltype(b) *)constant;
    if constexpr (code == WEIR__EW_CONVERT)
        return a;
    else if constexpr (code == WEIR__EW_CUBE)
        return a * a * a;
    else if constexpr (code == WEIR__EW_SWIGLU)
        return unary<WEIR__UNARY_SILU, t0>(a, constant) * b;
    else if constexpr (code >= WEIR__EW_UNARY)
        return unary<code - WEIR__EW_UNARY, t0>(a, constant);
    else
        return binary<code, t0>(a, (decltype(a))b);
}

/* One operation. `constants` has a bit for each input that is the call's constant: a value of the
 * compute type, not an element in memory. */
template <int code, int out, int t0, int t1, int t2, int constants>
static __device__ inline typename Type<out>::store
apply(typename Type<t0>::store x, typename Type<t1>::store y, typename Type<t2>::store z,
      const double *constant)
{
    if constexpr ((constants & 1) != 0)
        x = *(const typename Type<t0>::store *)constant;
    if constexpr (code == WEIR__EW_CONVERT)
        return convert<out, t0>(x);
    else if constexpr (code == WEIR__EW_WHERE)
        return (typename Type<out>::store)(x ? y : z);
    else {
        auto a = Type<t0>::load(x);
        auto b = Type<t1>::load(y);

        if constexpr ((constants & 2) != 0)
            b = *(const decltype(b) *)constant;
        if constexpr (code >= WEIR__BINARY_EQ && code <= WEIR__BINARY_GE)
            return compare<code, t0>(a, (decltype(a))b);
        else
            return Type<out>::pack(value<code, t0, t1, constants>(x, y, constant));
    }
}

/* The same on w elements. w is 1 or 2: one instruction rounds two results. */
template <int w, int code, int out, int t0, int t1, int t2, int constants>
static __device__ inline void
apply_some(typename Type<out>::store *to, const typename Type<t0>::store *x,
           const typename Type<t1>::store *y, const typename Type<t2>::store *z,
           const double *constant)
{
    if constexpr (w == 2 && rounds<code, out, t0>()) {
        auto low = value<code, t0, t1, constants>(x ? x[0] : 0, y ? y[0] : 0, constant);
        auto high = value<code, t0, t1, constants>(x ? x[1] : 0, y ? y[1] : 0, constant);
        uint32_t both = pack_two<out>(low, high);

        to[0] = (uint16_t)both;
        to[1] = (uint16_t)(both >> 16);
    } else {
#pragma unroll
        for (int i = 0; i < w; i++)
            to[i] = apply<code, out, t0, t1, t2, constants>(x ? x[i] : 0, y ? y[i] : 0,
                                                            z ? z[i] : 0, constant);
    }
}

/* ---- operands, n elements at a time ---- */

template <typename T, int n> struct __align__(sizeof(T) * n > 16 ? 16 : sizeof(T) * n) Pack {
    T v[n];
};

/* `at` has the position of the first element if the elements are adjacent, else the positions of
 * all. */
template <int layout, int n, typename T>
static __device__ inline Pack<T, n> read(const char *data, const int64_t *at)
{
    const T *from = (const T *)data;
    Pack<T, n> p;

    if constexpr (layout == WEIR__LAYOUT_NEXT)
        return *(const Pack<T, n> *)(from + at[0]);
#pragma unroll
    for (int k = 0; k < n; k++)
        p.v[k] = from[layout == WEIR__LAYOUT_ANY ? at[k] : layout == WEIR__LAYOUT_SAME ? at[0] : at[0] + k];
    return p;
}

template <int layout, int n, typename T>
static __device__ inline void write(char *data, const int64_t *at, const Pack<T, n> &p)
{
    T *to = (T *)data;

    if constexpr (layout == WEIR__LAYOUT_NEXT)
        *(Pack<T, n> *)(to + at[0]) = p;
    else
#pragma unroll
        for (int k = 0; k < n; k++)
            to[layout == WEIR__LAYOUT_ANY ? at[k] : at[0] + k] = p.v[k];
}

static __device__ inline uint32_t quotient(uint32_t i, const weir__divisor &d)
{
    return (__umulhi(i, d.magic) + i) >> d.shift;
}
