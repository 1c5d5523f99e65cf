/* One elementwise operator.
 * V0: code; V1: output type; V2..V4: input types; V5: bit i: input i is the constant; V6: log2 of
 * the elements that a thread moves at once, + 8 * dims (0 dims: all operands are packed), + 128:
 * positions fit 32 bits, or, if all is packed, every thread makes at most one move and there is no
 * remainder; V7: layouts of output and inputs, two bits each */
#include "elementwise.cuh"

template <bool fits> struct Index { typedef int64_t type; };
template <> struct Index<true> { typedef int32_t type; };

constexpr int at_once = 1 << (V6 & 7);
constexpr int ndim = V6 >> 3 & 15;
typedef Index<(V6 & 128) != 0>::type Place;

constexpr int layout(int operand)
{
    return V7 >> 2 * operand & 3;
}

/* The elements of some operand are not adjacent. */
constexpr bool apart()
{
    for (int i = 0; i <= inputs_of(V0); i++)
        if (layout(i) == WEIR__LAYOUT_ANY)
            return true;
    return false;
}

/* The position of element i in each operand. */
template <int n>
static __device__ inline void locate(const weir__ew &e, int64_t i, int64_t (*at)[n], int k)
{
    for (int operand = 0; operand < 4; operand++)
        at[operand][k] = ndim ? 0 : i;
#pragma unroll
    for (int d = ndim - 1; d >= 0; d--) {
        Place next, here;

        if constexpr ((V6 & 128) != 0)
            next = (Place)quotient((uint32_t)i, e.divisor[d]);
        else
            next = i / e.shape[d];
        here = (Place)i - next * (Place)e.shape[d];
        i = next;
        at[0][k] += (int64_t)here * (Place)e.out_stride[d];
        for (int operand = 0; operand < inputs_of(V0); operand++)
            at[operand + 1][k] += (int64_t)here * (Place)e.in_stride[operand][d];
    }
}

/* Sums, differences and products of f16 are rounded once with or without pairs. Pairs need less
 * code, and a short kernel spends most of its time fetching code. */
constexpr bool by_pairs()
{
    return V0 <= WEIR__BINARY_MUL && V1 == WEIR_F16 && V2 == WEIR_F16 && V3 == WEIR_F16 && !V5;
}

static __device__ inline uint32_t apply_to_pair(uint32_t x, uint32_t y)
{
    if constexpr (V0 == WEIR__BINARY_ADD)
        return add_f16x2(x, y);
    else if constexpr (V0 == WEIR__BINARY_SUB)
        return sub_f16x2(x, y);
    else
        return mul_f16x2(x, y);
}

/* Elements i .. i + n - 1. */
template <int n> static __device__ inline void run(const weir__ew &e, int64_t i)
{
    Pack<Type<V1>::store, n> out;
    Pack<Type<V2>::store, n> x = {};
    Pack<Type<V3>::store, n> y = {};
    Pack<Type<V4>::store, n> z = {};
    constexpr int places = apart() ? n : 1;
    int64_t at[4][places];

#pragma unroll
    for (int k = 0; k < places; k++)
        locate(e, i + k, at, k);
    if constexpr (!(V5 & 1))
        x = read<layout(1), n, Type<V2>::store>(e.in[0], at[1]);
    if constexpr (inputs_of(V0) > 1 && !(V5 & 2))
        y = read<layout(2), n, Type<V3>::store>(e.in[1], at[2]);
    if constexpr (inputs_of(V0) > 2)
        z = read<layout(3), n, Type<V4>::store>(e.in[2], at[3]);
    if constexpr (by_pairs() && n % 2 == 0) {
#pragma unroll
        for (int k = 0; k < n; k += 2) {
            uint32_t pair = apply_to_pair(x.v[k] | (uint32_t)x.v[k + 1] << 16,
                                          y.v[k] | (uint32_t)y.v[k + 1] << 16);

            out.v[k] = (uint16_t)pair;
            out.v[k + 1] = (uint16_t)(pair >> 16);
        }
    } else {
#pragma unroll
        for (int k = 0; k < n; k++)
            out.v[k] = apply<V0, V1, V2, V3, V4, V5>(x.v[k], y.v[k], z.v[k], e.constant);
    }
    write<layout(0), n>(e.out, at[0], out);
}

extern "C" __global__ void ew(const __grid_constant__ weir__ew e)
{
    await_earlier();
    int64_t whole = e.numel / at_once;

    if constexpr (!ndim && (V6 & 128) != 0) {
        if (thread_index() < whole)
            run<at_once>(e, thread_index() * at_once);
        return;
    }
    for (int64_t p = thread_index(); p < whole; p += thread_count())
        run<at_once>(e, p * at_once);
    for (int64_t i = whole * at_once + thread_index(); i < e.numel; i += thread_count())
        run<1>(e, i);
}
