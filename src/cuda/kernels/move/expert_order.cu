/* Sorts entries by expert. Entries of one expert keep their order.
 * V0: type of experts.
 *
 * A block places a share of the entries. It counts all entries by expert in shared memory, with one
 * count for the entries before its share and one for the rest. From these counts it computes where
 * its first entry of each expert goes. Then its warps place their entries, one warp after the
 * other. No block waits for another, and the counts do not depend on the order of counting. */
#include "index.cuh"
#include "ops/host/move/experts.h"

enum { RANGE = 2048, EACH = 8 }; /* experts that are counted at a time; entries that a thread reads at once */

/* Where the block's next entry of each expert goes; at first, the number of entries before its
 * share. */
__shared__ unsigned next[RANGE];
/* The number of entries of each expert from the start of the block's share on. */
__shared__ unsigned rest[RANGE];

/* Counts the entries begin .. end - 1 of the `width` experts from `first` on. Returns the value of
 * an entry that is not a valid expert; 0 if there is none. */
static __device__ inline int64_t count(const weir__expert_order &a, int64_t begin, int64_t end, int64_t first,
                                       int64_t width, unsigned *counts)
{
    int64_t bad = 0;

    for (int64_t i = begin + threadIdx.x; i < end; i += EACH * blockDim.x) {
        int64_t e[EACH];

#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int64_t own = i + k * blockDim.x < end ? i + k * blockDim.x : i;

            e[k] = read_index<V0>(a.experts, own * a.experts_step);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (e[k] < 0 || e[k] >= a.n)
                bad = e[k];
            else if (e[k] >= first && e[k] < first + width && i + k * blockDim.x < end)
                atomicAdd(&counts[e[k] - first], 1u);
        }
    }
    return bad;
}

/* The sum of the values of the threads before this one, and the sum of all. */
static __device__ inline unsigned sum_before(unsigned own, unsigned *all)
{
    __shared__ unsigned sums[32];
    unsigned lane = threadIdx.x % 32, sum = own, before = 0;

    for (unsigned d = 1; d < 32; d *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, d);

        sum += lane >= d ? other : 0;
    }
    if (lane == 31)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    *all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        before += w < threadIdx.x / 32 ? sums[w] : 0;
        *all += sums[w];
    }
    __syncthreads();
    return before + sum - own;
}

/* Turns counts into positions. `start` is the number of entries of experts before `first`. Returns
 * `start` plus the number of entries of the current experts. */
static __device__ inline unsigned place_experts(const weir__expert_order &a, int64_t first, unsigned width,
                                                unsigned start)
{
    for (unsigned begin = 0; begin < width; begin += blockDim.x) {
        unsigned e = begin + threadIdx.x, all, at;
        unsigned before = e < width ? next[e] : 0, own = e < width ? before + rest[e] : 0;

        at = start + sum_before(own, &all);
        if (e < width) {
            next[e] = at + before;
            if (blockIdx.x == 0)
                a.ends[(first + e) * a.ends_step] = (int32_t)(at + own);
        }
        start += all;
    }
    __syncthreads();
    return start;
}

/* Places the entries begin .. end - 1 of the `width` experts from `first` on. */
static __device__ inline void place_entries(const weir__expert_order &a, int64_t begin, int64_t end, int64_t first,
                                            int64_t width)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (; begin < end; begin += blockDim.x) {
        int64_t i = begin + threadIdx.x;
        int64_t e = i < end ? read_index<V0>(a.experts, i * a.experts_step) - first : -1;
        bool here = e >= 0 && e < width;
        unsigned peers = __match_any_sync(~0u, here ? (unsigned)e : ~0u), to = 0;

        for (unsigned w = 0; w < blockDim.x / 32; w++) {
            if (w == warp && here)
                to = next[e];
            __syncwarp();
            if (w == warp && here && !(peers & ((1u << lane) - 1)))
                next[e] = to + __popc(peers);
            __syncthreads();
        }
        if (here) {
            to += __popc(peers & ((1u << lane) - 1));
            a.order[(int64_t)to * a.order_step] = (int64_t)((uint32_t)i / (uint32_t)a.k);
            a.places[i * a.places_step] = to;
        }
    }
}

extern "C" __global__ void expert_order(const __grid_constant__ weir__expert_order a,
                                        weir__code_context c)
{
    await_earlier();
    int64_t share = (a.m + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * share;
    int64_t end = begin + share < a.m ? begin + share : a.m;
    unsigned start = 0;

    begin = begin < end ? begin : end;
    for (int64_t first = 0; first < a.n; first += RANGE) {
        int64_t width = a.n - first < RANGE ? a.n - first : RANGE, bad, more;

        for (unsigned e = threadIdx.x; e < RANGE; e += blockDim.x)
            next[e] = rest[e] = 0;
        __syncthreads();
        bad = count(a, 0, begin, first, width, next);
        more = count(a, begin, a.m, first, width, rest);
        bad = bad ? bad : more;
        if (bad && blockIdx.x == 0)
            in_range(bad, a.n, c);
        if (__syncthreads_or(bad != 0))
            return;
        start = place_experts(a, first, (unsigned)width, start);
        place_entries(a, begin, end, first, width);
        __syncthreads(); /* all threads have read the places */
    }
}
