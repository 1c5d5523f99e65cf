/* Coordinates of the nonzero elements: phase 0 counts per block, phase 1 writes each block after
 * the previous ones. V0: type */
#include "device/code.h"
#include "kernel.cuh"
#include "ops/host/move/nonzero.h"

static __device__ inline bool is_set(const weir__nonzero &a, int64_t i)
{
    int64_t at = 0;

    for (int d = a.ndim - 1; d >= 0; d--) {
        at += i % a.shape[d] * a.stride[d];
        i /= a.shape[d];
    }
    return load<V0>(a.in, at) != 0;
}

static __device__ inline void put(const weir__nonzero &a, int64_t row, int64_t i)
{
    for (int d = a.coords - 1; d >= 0; d--) {
        a.out[row * a.out_row + d * a.out_step] = i % a.coord_shape[d];
        i /= a.coord_shape[d];
    }
}

/* Returns how many threads before this one in the block have `set`; *all is the total. */
static __device__ inline int64_t rank_of(bool set, int64_t *all)
{
    __shared__ unsigned counts[32];
    unsigned mask = __ballot_sync(~0u, set), before = 0, total = 0;

    if (threadIdx.x % 32 == 0)
        counts[threadIdx.x / 32] = __popc(mask);
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        before += w < threadIdx.x / 32 ? counts[w] : 0;
        total += counts[w];
    }
    __syncthreads();
    *all = total;
    return before + __popc(mask & ((1u << threadIdx.x % 32) - 1));
}

extern "C" __global__ void nonzero(const __grid_constant__ weir__nonzero a, weir__code_context c)
{
    await_earlier();
    int64_t share = (a.numel + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * share;
    int64_t end = begin + share < a.numel ? begin + share : a.numel, row = 0, sum = 0;

    if (c.phase == 0) {
        for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
            sum += is_set(a, i);
        sum = block_sum((long long)sum);
        if (threadIdx.x == 0)
            a.counts[blockIdx.x] = sum;
        return;
    }
    for (unsigned b = 0; b < gridDim.x; b++) {
        row += b < blockIdx.x ? a.counts[b] : 0;
        sum += a.counts[b];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *a.count = sum;
    for (int64_t tile = begin; tile < end; tile += blockDim.x) {
        int64_t i = tile + threadIdx.x, all, rank;
        bool set = i < end && is_set(a, i);

        rank = rank_of(set, &all);
        if (set)
            put(a, row + rank, i);
        row += all;
    }
    /* All blocks together write the rows that hold no coordinates. */
    for (row = sum + blockIdx.x * blockDim.x + threadIdx.x; a.pad && row < a.numel;
         row += gridDim.x * blockDim.x)
        for (int d = 0; d < a.coords; d++)
            a.out[row * a.out_row + d * a.out_step] = -1;
}
