/* The k largest of a row's softmax. V0: type; V1: renormalise; V2: a warp per row, with this many
 * elements in each thread; 0: a block per row */
#include "kernel.cuh"
#include "ops/host/math/norm.h"

typedef Type<V0>::compute real;

/* A probability and its index. Of equal probabilities the one with the lower index wins. */
struct Best {
    real p;
    int64_t at;
};

static __device__ inline bool beats(Best a, Best b)
{
    return a.at >= 0 && (b.at < 0 || a.p > b.p || (a.p == b.p && a.at < b.at));
}

static __device__ inline Best warp_best(Best b)
{
    for (int step = 16; step; step >>= 1) {
        Best other = {__shfl_xor_sync(~0u, b.p, step),
                      (int64_t)__shfl_xor_sync(~0u, (long long)b.at, step)};

        if (beats(other, b))
            b = other;
    }
    return b;
}

static __device__ inline Best block_best(Best b)
{
    __shared__ Best part[32];

    b = warp_best(b);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = b;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / 32; i++)
        if (beats(part[i], b))
            b = part[i];
    __syncthreads();
    return b;
}

static __device__ inline void by_block(const weir__gating &a)
{
    const weir__rows &rows = a.rows;

    for (int64_t i = blockIdx.x; i < rows.count; i += gridDim.x) {
        real top = -(real)__int_as_float(0x7f800000), sum = 0, scale = 1;
        Best last = {0, -1};
        int64_t in, out;

        weir__rows_at(&rows, i, &in, &out);
        for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
            top = larger(top, load<V0>(a.in, in + j * rows.in_step));
        top = block_max(top);
        for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
            sum += exp(load<V0>(a.in, in + j * rows.in_step) - top);
        sum = (real)1 / block_sum(sum);
        /* The first pass, if asked for, sums the chosen probabilities; the second writes them. */
        for (int pass = V1 ? 0 : 1; pass < 2; pass++) {
            real chosen = 0;

            last.at = -1;
            for (int64_t k = 0; k < a.k; k++) {
                Best best = {0, -1};

                for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x) {
                    Best x = {exp(load<V0>(a.in, in + j * rows.in_step) - top) * sum, j};

                    if ((last.at < 0 || beats(last, x)) && beats(x, best))
                        best = x;
                }
                last = block_best(best);
                chosen += last.p;
                if (pass == 1 && threadIdx.x == 0) {
                    store<V0>(a.weights, out + k * rows.out_step, last.p * scale);
                    a.experts[i * a.experts_row + k * a.experts_step] = (int32_t)last.at;
                }
            }
            scale = (real)1 / chosen;
        }
    }
}

/* Thread t holds elements t, t + 32, ... in registers, and later the chosen elements with those
 * numbers. */
template <int each> static __device__ inline void by_warp(const weir__gating &a)
{
    const weir__rows &rows = a.rows;
    const real least = -(real)__int_as_float(0x7f800000);

    for (int64_t i = blockIdx.x; i < rows.count; i += gridDim.x) {
        real x[each], top = least, sum = 0, chosen = 0, scale;
        Best last = {0, -1}, mine[each];
        int64_t in, out;

        weir__rows_at(&rows, i, &in, &out);
        for (int e = 0; e < each; e++) {
            int64_t j = threadIdx.x + 32 * e;

            x[e] = j < rows.n ? load<V0>(a.in, in + j * rows.in_step) : least;
            top = larger(top, x[e]);
        }
        for (int step = 16; step; step >>= 1)
            top = larger(top, __shfl_xor_sync(~0u, top, step));
        for (int e = 0; e < each; e++) {
            x[e] = exp(x[e] - top);
            sum += threadIdx.x + 32 * e < rows.n ? x[e] : 0;
        }
        sum = (real)1 / warp_sum(sum);
        for (int64_t k = 0; k < a.k; k++) {
            Best best = {0, -1};

            for (int e = 0; e < each; e++) {
                Best b = {x[e] * sum, threadIdx.x + 32 * e};

                if (b.at < rows.n && (last.at < 0 || beats(last, b)) && beats(b, best))
                    best = b;
            }
            last = warp_best(best);
            chosen += last.p;
            for (int e = 0; e < each; e++)
                if (k == threadIdx.x + 32 * e)
                    mine[e] = last;
        }
        scale = V1 ? (real)1 / chosen : (real)1;
        for (int e = 0; e < each; e++) {
            int64_t k = threadIdx.x + 32 * e;

            if (k < a.k) {
                store<V0>(a.weights, out + k * rows.out_step, mine[e].p * scale);
                a.experts[i * a.experts_row + k * a.experts_step] = (int32_t)mine[e].at;
            }
        }
    }
}

extern "C" __global__ void gating(const __grid_constant__ weir__gating a)
{
    await_earlier();
    if constexpr (V2 != 0)
        by_warp<V2 ? V2 : 1>(a);
    else
        by_block(a);
}
