/* Sum, max, min and argmax. A unit is one output, or `width` neighbouring outputs (columns). Its
 * reduced positions are split into chunks whose results are combined in order, so the result
 * depends on the shape alone.
 * V0: code; V1: input type; V2: output type; V3: 0 a block per unit, 1 columns, 2 a warp per unit;
 * V4: phase 0 writes partial results, phase 1 combines them; V5: elements that a thread takes at
 * once: 16 bytes of a row or of neighbouring columns, or 1 element */
#include "device/code.h"
#include "kernel.cuh"
#include "ops/host/math/reduce.h"

/* Sums of floats are computed in f64; maxima in the type itself. */
template <bool real, bool sums> struct Value { typedef int64_t type; };
template <> struct Value<true, true> { typedef double type; };
template <> struct Value<true, false> { typedef Type<V1>::compute type; };
typedef Value<Type<V1>::real, V0 == WEIR__REDUCE_SUM>::type value;

struct Part {
    value v;
    int64_t at;
};

static __device__ inline Part start()
{
    if (V0 == WEIR__REDUCE_SUM)
        return {0, -1};
    if (Type<V1>::real)
        return {(value)(V0 == WEIR__REDUCE_MIN ? __longlong_as_double(0x7ff0000000000000ll)
                                               : __longlong_as_double(0xfff0000000000000ll)),
                -1};
    return {(value)(V0 == WEIR__REDUCE_MIN ? 0x7fffffffffffffffll : -0x7fffffffffffffffll - 1), -1};
}

/* The smaller value; NaN counts as the smallest. */
template <typename T> static __device__ inline T smaller(T a, T b)
{
    return a != a ? a : b != b ? b : b < a ? b : a;
}

template <> __device__ inline float smaller(float a, float b)
{
    return -larger(-a, -b);
}

/* a comes before b. */
static __device__ inline Part merge(Part a, Part b)
{
    switch (V0) {
    case WEIR__REDUCE_SUM:
        if constexpr (Type<V1>::real)
            return {a.v + b.v, 0};
        else
            return {(value)((uint64_t)a.v + (uint64_t)b.v), 0};
    case WEIR__REDUCE_MAX:
        return {larger(a.v, b.v), 0};
    case WEIR__REDUCE_MIN:
        return {smaller(a.v, b.v), 0};
    default:
        if (a.at < 0 || b.at < 0)
            return a.at < 0 ? b : a;
        if (a.v != a.v || b.v != b.v)
            return a.v != a.v && (b.v == b.v || a.at < b.at) ? a : b;
        return a.v > b.v || (a.v == b.v && a.at < b.at) ? a : b;
    }
}

static __device__ inline Part shuffle(Part p, int step)
{
    return {__shfl_xor_sync(~0u, p.v, step),
            V0 == WEIR__REDUCE_ARGMAX ? (int64_t)__shfl_xor_sync(~0u, (long long)p.at, step) : 0};
}

static __device__ inline Part warp_merge(Part p)
{
    for (int step = 1; step < 32; step <<= 1) {
        Part other = shuffle(p, step);

        p = threadIdx.x & step ? merge(other, p) : merge(p, other);
    }
    return p;
}

static __device__ inline Part block_merge(Part p)
{
    __shared__ Part parts[32];
    int warps = blockDim.x / 32;

    p = warp_merge(p);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = p;
    __syncthreads();
    p = start();
    for (int i = 0; i < warps; i++)
        p = merge(p, parts[i]);
    __syncthreads();
    return p;
}

static __device__ inline int64_t red_offset(const weir__reduce &r, int64_t i)
{
    int64_t at = 0;

    if (r.nred == 1)
        return i * r.red_in[0];
    for (int d = r.nred - 1; d >= 0; d--) {
        at += i % r.red_shape[d] * r.red_in[d];
        i /= r.red_shape[d];
    }
    return at;
}

static __device__ inline Part part_of(Type<V1>::store raw, int64_t i)
{
    auto x = Type<V1>::load(raw);

    if (V1 == WEIR_BOOL)
        x = x != 0;
    return {(value)x, i};
}

static __device__ inline Part element(const weir__reduce &r, int64_t base, int64_t i)
{
    return part_of(((const Type<V1>::store *)r.in)[base + red_offset(r, i)], i);
}

union Packed {
    uint4 bits;
    Type<V1>::store element[V5];
};

/* Adjacent elements of a row, the first at position i. A few 16-bit values can be summed in f32:
 * the final rounding is much coarser. */
static __device__ inline Part merge_packed(const Packed &x, int64_t i)
{
    if constexpr (V0 == WEIR__REDUCE_SUM && Type<V1>::real && sizeof(Type<V1>::store) == 2) {
        float sum = 0;

#pragma unroll
        for (int k = 0; k < V5; k++)
            sum += Type<V1>::load(x.element[k]);
        return {(value)sum, 0};
    } else {
        Part p = part_of(x.element[0], i);

#pragma unroll
        for (int k = 1; k < V5; k++)
            p = merge(p, part_of(x.element[k], i + k));
        return p;
    }
}

struct Unit {
    int64_t in, out, width;
};

static __device__ inline Unit find_unit(const weir__reduce &r, int64_t i)
{
    int d = r.nkeep - 1;
    Unit u = {0, 0, 1};

    if (V3 == 1) {
        int64_t tiles = (r.keep_shape[d] + r.width - 1) / r.width, first = i % tiles * r.width;

        u.in = first * r.keep_in[d];
        u.out = first * r.keep_out[d];
        u.width = r.keep_shape[d] - first < r.width ? r.keep_shape[d] - first : r.width;
        i /= tiles;
        d--;
    }
    for (; d >= 0; d--) {
        u.in += i % r.keep_shape[d] * r.keep_in[d];
        u.out += i % r.keep_shape[d] * r.keep_out[d];
        i /= r.keep_shape[d];
    }
    return u;
}

static __device__ inline void put(const weir__reduce &r, int64_t at, Part p)
{
    typedef Type<V2>::store Out;

    if (V0 == WEIR__REDUCE_ARGMAX)
        ((Out *)r.out)[at] = (Out)p.at;
    else if constexpr (Type<V1>::real)
        ((Out *)r.out)[at] = convert<V2, WEIR_F64>(r.divisor != 1 ? p.v / r.divisor : p.v);
    else
        ((Out *)r.out)[at] = (Out)p.v;
}

static __device__ inline void leave(const weir__reduce &r, int64_t item, int64_t j, Part p)
{
    ((value *)r.partial)[item * r.width + j] = p.v;
    if (V0 == WEIR__REDUCE_ARGMAX)
        ((int64_t *)r.partial)[r.units * r.chunks * r.width + item * r.width + j] = p.at;
}

static __device__ inline Part found(const weir__reduce &r, int64_t item, int64_t j)
{
    return {((const value *)r.partial)[item * r.width + j],
            V0 == WEIR__REDUCE_ARGMAX
                ? ((const int64_t *)r.partial)[r.units * r.chunks * r.width + item * r.width + j]
                : 0};
}

/* Positions begin..end-1 of a unit, by a block, or a warp. */
static __device__ inline Part run_row(const weir__reduce &r, const Unit &u, int64_t begin,
                                      int64_t end)
{
    int lane = V3 == 2 ? threadIdx.x % 32 : threadIdx.x, lanes = V3 == 2 ? 32 : blockDim.x;
    Part p = start();

    if constexpr (V5 > 1) {
#pragma unroll 4
        for (int64_t i = begin + lane * V5; i < end; i += lanes * V5) {
            Packed x;

            x.bits = *(const uint4 *)((const Type<V1>::store *)r.in + u.in + i);
            p = merge(p, merge_packed(x, i));
        }
    } else {
        for (int64_t i = begin + lane; i < end; i += lanes)
            p = merge(p, element(r, u.in, i));
    }
    return V3 == 2 ? warp_merge(p) : block_merge(p);
}

/* Neighbouring columns of a unit, V5 columns to a thread. Adjacent threads have adjacent columns;
 * the rows of threads have successive positions, and their results are combined in order. */
static __device__ inline void run_columns(const weir__reduce &r, const Unit &u, int64_t item,
                                          int64_t begin, int64_t end, bool split)
{
    __shared__ Part parts[256][V5];
    int across = (int)(r.width / V5), behind = 256 / across;
    int64_t column = threadIdx.x % across * V5;
    Part p[V5];

#pragma unroll
    for (int k = 0; k < V5; k++)
        p[k] = start();
    if ((int)threadIdx.x < across * behind && column < u.width)
#pragma unroll 4
        for (int64_t i = begin + threadIdx.x / across; i < end; i += behind) {
            Packed x;

            x.bits = *(const uint4 *)((const Type<V1>::store *)r.in + u.in + column +
                                      red_offset(r, i));
#pragma unroll
            for (int k = 0; k < V5; k++)
                p[k] = merge(p[k], part_of(x.element[k], i));
        }
#pragma unroll
    for (int k = 0; k < V5; k++)
        parts[threadIdx.x][k] = p[k];
    __syncthreads();
    for (int64_t j = threadIdx.x; j < u.width; j += blockDim.x) {
        Part sum = start();

        for (int i = 0; i < behind; i++)
            sum = merge(sum, parts[i * across + j / V5][j % V5]);
        if (split)
            leave(r, item, j, sum);
        else
            put(r, u.out + j * r.keep_out[r.nkeep - 1], sum);
    }
    __syncthreads();
}

/* Combines the results of the chunks of one output. */
static __device__ inline void combine_chunks(const weir__reduce &r, int64_t i)
{
    Unit u = find_unit(r, i / r.width);
    Part p = start();

    if (i % r.width >= u.width)
        return;
#pragma unroll 8
    for (int64_t k = 0; k < r.chunks; k++)
        p = merge(p, found(r, i / r.width * r.chunks + k, i % r.width));
    put(r, u.out + (V3 == 1 ? i % r.width * r.keep_out[r.nkeep - 1] : 0), p);
}

extern "C" __global__ void reduce(const __grid_constant__ weir__reduce r, weir__code_context c)
{
    await_earlier();
    bool split = V4 && c.phase == 0;
    int64_t items = split ? r.units * r.chunks : r.units;
    int64_t first = V3 == 2 ? thread_index() / 32 : blockIdx.x;
    int64_t step = V3 == 2 ? thread_count() / 32 : gridDim.x;

    if (V4 && c.phase == 1) {
        for (int64_t i = thread_index(); i < r.units * r.width; i += thread_count())
            combine_chunks(r, i);
        return;
    }
    for (int64_t i = first; i < items; i += step) {
        Unit u = find_unit(r, split ? i / r.chunks : i);
        int64_t begin = split ? i % r.chunks * r.chunk : 0;
        int64_t end = split && begin + r.chunk < r.reduced ? begin + r.chunk : r.reduced;

        if constexpr (V3 == 1 && V5 > 1) {
            run_columns(r, u, i, begin, end, split);
        } else if (V3 == 1) {
            for (int64_t j = threadIdx.x; j < u.width; j += blockDim.x) {
                Part p = start();

                for (int64_t k = begin; k < end; k++)
                    p = merge(p, element(r, u.in + j * r.keep_in[r.nkeep - 1], k));
                if (split)
                    leave(r, i, j, p);
                else
                    put(r, u.out + j * r.keep_out[r.nkeep - 1], p);
            }
        } else {
            Part p = run_row(r, u, begin, end);

            if ((V3 == 2 ? threadIdx.x % 32 : threadIdx.x) == 0) {
                if (split)
                    leave(r, i, 0, p);
                else
                    put(r, u.out, p);
            }
        }
    }
}
