/* Elementwise operators.
 * V0: code; V1: output type; V2..V4: input types; V5: bit i: input i is the constant;
 * V6: elements a thread moves at once, 0 for strided operands; V7: the index fits 32 bits */
#include "kernel.cuh"
#include "ops/host/elementwise.h"

#define INF __int_as_float(0x7f800000)

template <typename T> static __device__ inline T sigmoid(T x)
{
    T e = exp(-fabs(x));

    return (x < 0 ? e : (T)1) / ((T)1 + e);
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

template <bool real, typename T> static __device__ inline T binary(T a, T b)
{
    constexpr int code = V0;

    if constexpr (code == WEIR__BINARY_MAXIMUM)
        return V2 == WEIR_BOOL ? (T)(a || b) : a != a ? a : a > b ? a : b;
    else if constexpr (code == WEIR__BINARY_MINIMUM)
        return V2 == WEIR_BOOL ? (T)(a && b) : a != a ? a : a < b ? a : b;
    else if constexpr (real) {
        if constexpr (code == WEIR__BINARY_ADD)
            return a + b;
        else if constexpr (code == WEIR__BINARY_SUB)
            return a - b;
        else if constexpr (code == WEIR__BINARY_MUL)
            return a * b;
        else if constexpr (code == WEIR__BINARY_DIV)
            return a / b;
        else
            return pow(a, b);
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
        else
            return (T)power(a, b);
    }
}

template <typename T> static __device__ inline uint8_t compare(T a, T b)
{
    if (V2 == WEIR_BOOL) {
        a = a != 0;
        b = b != 0;
    }
    switch (V0) {
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

template <typename T> static __device__ inline T clamped(T x, const weir__ew &e)
{
    T low = *(const T *)&e.constant[0], high = *(const T *)&e.constant[1];
    T y = x < low ? low : x;

    return y > high ? high : y;
}

template <bool real, typename T> static __device__ inline T unary(T x, const weir__ew &e)
{
    constexpr int code = V0 - WEIR__EW_UNARY;

    if constexpr (code == WEIR__UNARY_CLAMP)
        return clamped(x, e);
    else if constexpr (code == WEIR__UNARY_RELU)
        return x < 0 ? (T)0 : x;
    else if constexpr (!real) {
        typedef typename Wide<T>::type wide;

        return code == WEIR__UNARY_NEG || x < 0 ? (T)(0 - (wide)x) : x;
    } else if constexpr (code == WEIR__UNARY_NEG)
        return -x;
    else if constexpr (code == WEIR__UNARY_ABS)
        return fabs(x);
    else if constexpr (code == WEIR__UNARY_EXP)
        return exp(x);
    else if constexpr (code == WEIR__UNARY_LOG)
        return log(x);
    else if constexpr (code == WEIR__UNARY_SQRT)
        return sqrt(x);
    else if constexpr (code == WEIR__UNARY_RSQRT)
        return (T)1 / sqrt(x);
    else if constexpr (code == WEIR__UNARY_SIGMOID)
        return sigmoid(x);
    else if constexpr (code == WEIR__UNARY_TANH)
        return tanh(x);
    else if constexpr (code == WEIR__UNARY_GELU)
        return x == -INF ? -(T)0 : (T)0.5 * x * erfc(x * (T)-0.70710678118654752440);
    else
        return x == -INF ? -(T)0 : x * sigmoid(x);
}

typedef Type<V1>::store Out;
typedef Type<V2>::store In0;
typedef Type<V3>::store In1;
typedef Type<V4>::store In2;

static __device__ inline Out apply(In0 x, In1 y, In2 z, const weir__ew &e)
{
    if constexpr (V0 == WEIR__EW_CONVERT)
        return convert<V1, V2>(x);
    else if constexpr (V0 == WEIR__EW_WHERE)
        return x ? (Out)y : (Out)z;
    else {
        auto a = Type<V2>::load(x);
        auto b = Type<V3>::load(y);

        /* The constant is a value of the compute type, not an element. */
        if constexpr ((V5 & 2) != 0)
            b = *(const decltype(b) *)e.constant;
        if constexpr (V0 == WEIR__EW_SWIGLU)
            return Type<V1>::pack((a == -INF ? -(decltype(a))0 : a * sigmoid(a)) * b);
        else if constexpr (V0 >= WEIR__EW_UNARY)
            return Type<V1>::pack(unary<Type<V2>::real>(a, e));
        else if constexpr (V0 >= WEIR__BINARY_EQ)
            return compare(a, (decltype(a))b);
        else
            return Type<V1>::pack(binary<Type<V2>::real>(a, (decltype(a))b));
    }
}

template <typename T, int n> struct __align__(sizeof(T) * n) Pack {
    T v[n];
};

/* Packed operands, n elements at a time; their addresses are multiples of n elements. */
template <int n> static __device__ inline void flat(const weir__ew &e)
{
    int64_t whole = e.numel / n;

    for (int64_t i = thread_index(); i < whole; i += thread_count()) {
        Pack<In0, n> x = {};
        Pack<In1, n> y = {};
        Pack<In2, n> z = {};
        Pack<Out, n> out;

        if (!(V5 & 1))
            x = ((const Pack<In0, n> *)e.in[0])[i];
        if (e.nin > 1 && !(V5 & 2))
            y = ((const Pack<In1, n> *)e.in[1])[i];
        if (e.nin > 2)
            z = ((const Pack<In2, n> *)e.in[2])[i];
#pragma unroll
        for (int k = 0; k < n; k++)
            out.v[k] = apply((V5 & 1) ? *(const In0 *)e.constant : x.v[k], y.v[k], z.v[k], e);
        ((Pack<Out, n> *)e.out)[i] = out;
    }
    for (int64_t i = whole * n + thread_index(); i < e.numel; i += thread_count())
        ((Out *)e.out)[i] = apply(*((V5 & 1) ? (const In0 *)e.constant : (const In0 *)e.in[0] + i),
                                  e.nin > 1 && !(V5 & 2) ? ((const In1 *)e.in[1])[i] : (In1)0,
                                  e.nin > 2 ? ((const In2 *)e.in[2])[i] : (In2)0, e);
}

template <typename I> static __device__ inline void strided(const weir__ew &e)
{
    for (I i = (I)thread_index(); i < (I)e.numel; i += (I)thread_count()) {
        I rest = i;
        int64_t out = 0, in0 = 0, in1 = 0, in2 = 0;

        for (int d = e.ndim - 1; d >= 0; d--) {
            I size = (I)e.shape[d], next = rest / size;
            int64_t at = rest - next * size;

            rest = next;
            out += at * e.out_stride[d];
            in0 += at * e.in_stride[0][d];
            in1 += at * e.in_stride[1][d];
            in2 += at * e.in_stride[2][d];
        }
        ((Out *)e.out)[out] =
            apply(*((V5 & 1) ? (const In0 *)e.constant : (const In0 *)e.in[0] + in0),
                  e.nin > 1 && !(V5 & 2) ? ((const In1 *)e.in[1])[in1] : (In1)0,
                  e.nin > 2 ? ((const In2 *)e.in[2])[in2] : (In2)0, e);
    }
}

extern "C" __global__ void ew(const __grid_constant__ weir__ew e)
{
    if constexpr (V6 != 0)
        flat<V6 ? V6 : 1>(e);
    else if constexpr (V7 != 0)
        strided<uint32_t>(e);
    else
        strided<int64_t>(e);
}
