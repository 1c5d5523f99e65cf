/* Shared by all kernel sources: element types, conversions, the grid. */
#pragma once

#include "ptx.cuh"

/* Unsigned words by size. */
template <int bytes> struct Word;
template <> struct Word<1> { typedef uint8_t type; };
template <> struct Word<2> { typedef uint16_t type; };
template <> struct Word<4> { typedef uint32_t type; };
template <> struct Word<8> { typedef uint64_t type; };
template <> struct Word<16> { typedef uint4 type; };

static __device__ inline int64_t thread_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline int64_t thread_count()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* ---- f16 and bf16, which are computed in f32 ---- */

static __device__ inline float from_bf16(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}

/* Rounds to odd: rounding the result again to 16 bits then equals rounding once. */
static __device__ inline float to_odd(double x)
{
    float nearest = (float)x;
    uint32_t bits = __float_as_uint(nearest);

    if ((double)nearest == x || !(nearest - nearest == 0))
        return nearest;
    if ((nearest > x) == (x > 0))
        bits--;
    return __uint_as_float(bits | 1);
}

/* ---- types: `store` in memory, `compute` in registers ---- */

template <int dtype> struct Type;
#define PLAIN_TYPE(D, T, is_float)                                          \
    template <> struct Type<D> {                                            \
        typedef T store, compute;                                           \
        static const bool real = is_float;                                  \
        static __device__ inline T load(T x) { return x; }                  \
        static __device__ inline T pack(T x) { return x; }                  \
    }
PLAIN_TYPE(WEIR_F32, float, true);
PLAIN_TYPE(WEIR_F64, double, true);
PLAIN_TYPE(WEIR_I64, int64_t, false);
PLAIN_TYPE(WEIR_I32, int32_t, false);
PLAIN_TYPE(WEIR_I8, int8_t, false);
PLAIN_TYPE(WEIR_U8, uint8_t, false);
PLAIN_TYPE(WEIR_BOOL, uint8_t, false);
template <> struct Type<WEIR_F16> {
    typedef uint16_t store;
    typedef float compute;
    static const bool real = true;
    static __device__ inline float load(uint16_t x) { return from_f16(x); }
    static __device__ inline uint16_t pack(float x) { return to_f16(x); }
};
template <> struct Type<WEIR_BF16> {
    typedef uint16_t store;
    typedef float compute;
    static const bool real = true;
    static __device__ inline float load(uint16_t x) { return from_bf16(x); }
    static __device__ inline uint16_t pack(float x) { return to_bf16(x); }
};

template <int D> static __device__ inline typename Type<D>::compute load(const void *p, int64_t i)
{
    return Type<D>::load(((const typename Type<D>::store *)p)[i]);
}

template <int D>
static __device__ inline void store(void *p, int64_t i, typename Type<D>::compute x)
{
    ((typename Type<D>::store *)p)[i] = Type<D>::pack(x);
}

/* ---- conversions: floats to integers truncate and saturate, NaN gives 0; integers to
 * narrower ones wrap; anything but 0 is true ---- */

template <typename T> struct Bounds;
template <> struct Bounds<int64_t> {
    static constexpr double low = -9223372036854775808.0, high = 9223372036854775808.0;
    static constexpr int64_t most = 0x7fffffffffffffffll, least = -most - 1;
};
template <> struct Bounds<int32_t> {
    static constexpr double low = -2147483648.0, high = 2147483648.0;
    static constexpr int32_t most = 0x7fffffff, least = -most - 1;
};
template <> struct Bounds<int8_t> {
    static constexpr double low = -128, high = 128;
    static constexpr int8_t most = 127, least = -128;
};
template <> struct Bounds<uint8_t> {
    static constexpr double low = 0, high = 256;
    static constexpr uint8_t most = 255, least = 0;
};

template <typename To, typename From> static __device__ inline To saturate(From x)
{
    if (x >= (From)Bounds<To>::high)
        return Bounds<To>::most;
    if (x < (From)Bounds<To>::low)
        return Bounds<To>::least;
    return x == x ? (To)x : (To)0;
}

/* Converts an element of type `from` to type `to`, both as stored in memory. */
template <int to, int from>
static __device__ inline typename Type<to>::store convert(typename Type<from>::store raw)
{
    typedef typename Type<to>::store Store;

    if constexpr (to == from) {
        return (Store)raw;
    } else {
        auto x = Type<from>::load(raw);

        if constexpr (from == WEIR_BOOL)
            x = x != 0;
        if constexpr (to == WEIR_BOOL)
            return (Store)(x != 0);
        else if constexpr (Type<to>::real && sizeof(Store) == 2) {
            if constexpr (sizeof(x) == 4 && Type<from>::real)
                return Type<to>::pack(x);
            else
                return Type<to>::pack(to_odd((double)x));
        } else if constexpr (Type<to>::real || !Type<from>::real)
            return (Store)x;
        else
            return saturate<Store>(x);
    }
}

/* ---- blocks ---- */

template <typename T> static __device__ inline T warp_sum(T x)
{
    for (int step = 16; step; step >>= 1)
        x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* The sum over the block, added in a fixed order. All threads get the result. */
template <typename T> static __device__ inline T block_sum(T x)
{
    __shared__ T part[32];
    int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;

    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        part[warp] = x;
    __syncthreads();
    x = warp_sum((int)(threadIdx.x % 32) < warps ? part[threadIdx.x % 32] : (T)0);
    __syncthreads();
    return x;
}

/* The same as block_sum, with one barrier instead of two. Successive calls must use slots 0 and 1
 * in turn. */
template <typename T> static __device__ inline T block_sum_at(int slot, T x)
{
    __shared__ T part[2][32];
    int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;

    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        part[slot][warp] = x;
    __syncthreads();
    if (warps > 8)
        return warp_sum((int)(threadIdx.x % 32) < warps ? part[slot][threadIdx.x % 32] : (T)0);
    x = part[slot][0];
    for (int i = 1; i < warps; i++)
        x += part[slot][i];
    return x;
}

/* The maximum over the block. NaN counts as the largest value. */
template <typename T> static __device__ inline T larger(T a, T b)
{
    return a != a ? a : b != b ? b : a > b ? a : b;
}

template <> __device__ inline float larger(float a, float b)
{
    return max_or_nan(a, b);
}

template <typename T> static __device__ inline T block_max(T x)
{
    __shared__ T part[32];
    int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;

    for (int step = 16; step; step >>= 1)
        x = larger(x, __shfl_xor_sync(~0u, x, step));
    if (threadIdx.x % 32 == 0)
        part[warp] = x;
    __syncthreads();
    x = part[(int)(threadIdx.x % 32) < warps ? threadIdx.x % 32 : 0];
    for (int step = 16; step; step >>= 1)
        x = larger(x, __shfl_xor_sync(~0u, x, step));
    __syncthreads();
    return x;
}
