/* The k largest of a row's softmax, a block a row. V0: type; V1: renormalise */
#include "kernel.cuh"
#include "ops/host/norm.h"

typedef Type<V0>::compute real;

/* A probability and its place; of equal ones the first is the larger. */
struct Best {
    real p;
    int64_t at;
};

static __device__ inline bool beats(Best a, Best b)
{
    return a.at >= 0 && (b.at < 0 || a.p > b.p || (a.p == b.p && a.at < b.at));
}

static __device__ inline Best block_best(Best b)
{
    __shared__ Best part[32];

    for (int step = 16; step; step >>= 1) {
        Best other = {__shfl_xor_sync(~0u, b.p, step),
                      (int64_t)__shfl_xor_sync(~0u, (long long)b.at, step)};

        if (beats(other, b))
            b = other;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = b;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / 32; i++)
        if (beats(part[i], b))
            b = part[i];
    __syncthreads();
    return b;
}

extern "C" __global__ void gating(const __grid_constant__ weir__gating a)
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
        /* Once to add up what is chosen, where that is wanted, and once to write it. */
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
