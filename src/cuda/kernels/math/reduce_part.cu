/* A rank's part of a reduction over ranks.
 * V0: type; V1: weir_reduce. Adds in the order of the ranks, so that the results are those of
 * ops/host/move/collective.c bit for bit. */
#include "kernel.cuh"
#include "ops/host/part.h"

enum { SUM, MAX, MIN, MEAN, PROD };

typedef Type<V0>::store Store;
template <bool wide, typename T> struct Sum { typedef T type; };
template <typename T> struct Sum<true, T> { typedef int64_t type; };
/* The sum of narrow integers may overflow their type. Their mean never does. */
typedef Sum<V1 == MEAN && !Type<V0>::real, Type<V0>::compute>::type value;

template <int n> struct __align__(sizeof(Store) * n) Pack {
    Store v[n];
};

static __device__ inline value merge(value a, value b)
{
    if constexpr (V1 == MAX)
        return a != a ? a : a > b ? a : b;
    else if constexpr (V1 == MIN)
        return a != a ? a : a < b ? a : b;
    else if constexpr (V1 == PROD && Type<V0>::real)
        return a * b;
    else if constexpr (V1 == PROD)
        return (value)((uint64_t)a * (uint64_t)b);
    else if constexpr (Type<V0>::real)
        return a + b;
    else
        return (value)((uint64_t)a + (uint64_t)b); /* integers wrap */
}

static __device__ inline Store finish(value x, int ranks)
{
    if (V1 == MEAN && ranks > 1)
        x /= (value)ranks;
    return Type<V0>::pack((Type<V0>::compute)x);
}

template <int n>
static __device__ inline void reduce(const weir__reduce_part &p, int64_t begin, int64_t end)
{
    for (int64_t i = begin / n + thread_index(); i < end / n; i += thread_count()) {
        Pack<n> x = ((const Pack<n> *)p.in[0])[i];
        value sum[n];

#pragma unroll
        for (int k = 0; k < n; k++)
            sum[k] = (value)Type<V0>::load(x.v[k]);
        for (int r = 1; r < p.ranks; r++) {
            x = ((const Pack<n> *)p.in[r])[i];
#pragma unroll
            for (int k = 0; k < n; k++)
                sum[k] = merge(sum[k], (value)Type<V0>::load(x.v[k]));
        }
#pragma unroll
        for (int k = 0; k < n; k++)
            x.v[k] = finish(sum[k], p.ranks);
        for (int r = 0; r < p.nout; r++)
            *(Pack<n> *)((Store *)p.out[r] + (i * n - p.shift)) = x;
    }
}

extern "C" __global__ void reduce_part(const __grid_constant__ weir__reduce_part p)
{
    await_earlier();
    constexpr int wide = 16 / sizeof(Store);
    int64_t first = (p.begin + wide - 1) / wide * wide, last = p.end / wide * wide;
    uint64_t bits = (uint64_t)(p.shift * sizeof(Store));

    for (int r = 0; r < p.ranks; r++)
        bits |= (uint64_t)p.in[r];
    for (int r = 0; r < p.nout; r++)
        bits |= (uint64_t)p.out[r];
    if (bits % 16 || first >= last) {
        reduce<1>(p, p.begin, p.end);
        return;
    }
    reduce<1>(p, p.begin, first);
    reduce<wide>(p, first, last);
    reduce<1>(p, last, p.end);
}
