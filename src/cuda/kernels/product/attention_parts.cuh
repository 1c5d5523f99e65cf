/* How the sums of a part of the keys are combined with those of the other parts: for
 * attention_few.cu, whose V4 to V6 it shares. Three ways give the same bits. */
#pragma once

#include "attention.cuh"
#include "ptx_cluster.cuh"

enum {
    CLUSTER = V5 > 2 ? V5 - 1 : 1, /* blocks */
    WARPS = V6,
    ROWS = 16,
    COLUMNS = 16 * V4,
};

/* A warp's rows at one time, in shared memory. The pitch lets eight rows be written at once. */
struct Share {
    float top[ROWS], total[ROWS], sums[ROWS][COLUMNS + 8];
};

/* What the block has made of its part, in shared memory: for the blocks of its cluster. */
struct Part {
    float2 ends[ROWS]; /* maximum and total */
    float sums[ROWS][COLUMNS];
};

/* It lies after the shares. */
static __device__ inline Part *part_of(char *memory)
{
    return (Part *)((Share *)memory + WARPS);
}

/* Returns the factor for the sums of a part whose maximum is `top`, if the maximum of all parts is
 * `best`. */
static __device__ inline float worth(float top, float best, float scale)
{
    return exp2_fast((top - (best == below() ? 0 : best)) * scale);
}

/* Returns the address of the maximum and the total of each part of each row, after all sums. */
static __device__ inline float2 *part_ends(const weir__attention &a)
{
    int64_t rows = a.heads * a.lq;

    for (int d = 0; d < a.ndims; d++)
        rows *= a.shape[d];
    return (float2 *)(a.partial + rows * a.splits * a.dv);
}

/* Writes four neighbouring elements of the output, from element `to` on. */
static __device__ inline void put_four(const weir__attention &a, int64_t to, const float *sum,
                                       float total)
{
    float share = total == 0 ? 0 : 1 / total;

    *(uint2 *)((half_bits *)a.out + to) = make_uint2(pack_two<V0>(sum[0] * share, sum[1] * share),
                                                     pack_two<V0>(sum[2] * share, sum[3] * share));
}

/* Four elements of the output, from element `to` on, from their `splits` parts. `load` loads a
 * part's; some are loaded at once. */
template <int at_once, typename Load>
static __device__ inline void combine(const weir__attention &a, int64_t to, float within,
                                      int splits, Load load)
{
    float best = below(), total = 0, sum[4] = {};

    for (int p = 0; p < splits; p += at_once) {
        float4 x[at_once];
        float2 end[at_once];
        float top = best, factor;

#pragma unroll
        for (int i = 0; i < at_once; i++)
            load(p + i < splits ? p + i : p, &x[i], &end[i]);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            top = fmaxf(top, end[i].x);
        factor = worth(best, top, within);
        best = top;
        total *= factor;
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] *= factor;
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            if (p + i >= splits)
                continue;
            factor = worth(end[i].x, best, within);
            total += end[i].y * factor;
            sum[0] += x[i].x * factor;
            sum[1] += x[i].y * factor;
            sum[2] += x[i].z * factor;
            sum[3] += x[i].w * factor;
        }
    }
    put_four(a, to, sum, total);
}

/* From parts in scratch memory. */
static __device__ inline void combine_stored(const weir__attention &a, int64_t row, int column,
                                             float within)
{
    const float4 *parts = (const float4 *)(a.partial + row * a.splits * a.dv + column);
    const float2 *ends = part_ends(a) + row * a.splits;

    combine<8>(a, out_of_row(a, row) + column, within, (int)a.splits, [&](int part, float4 *x, float2 *end) {
        *x = parts[part * (a.dv / 4)];
        *end = ends[part];
    });
}

/* The rows from `first` on from parts in the shared memory of the cluster's blocks, of which this one
 * has made `part`. Each block makes its share of the elements. */
static __device__ inline void combine_cluster(const weir__attention &a, int64_t first,
                                              unsigned rows, unsigned part, char *memory,
                                              float within)
{
    uint32_t sums = shared_address(part_of(memory)->sums);
    uint32_t ends = shared_address(part_of(memory)->ends);

    unsigned i = (threadIdx.x * CLUSTER + part) * 4, step = blockDim.x * CLUSTER * 4;
    int64_t row = out_of_row(a, first + i / COLUMNS); /* while the others come */

    cluster_sync(); /* the parts are written */
    for (; i < rows * COLUMNS; i += step, row = out_of_row(a, first + i / COLUMNS))
        if (i % COLUMNS < a.dv)
            combine<CLUSTER>(a, row + i % COLUMNS, within, CLUSTER,
                             [&](int from, float4 *x, float2 *end) {
                                 *x = load_four_of((unsigned)from, sums + i * 4);
                                 *end = load_two_of((unsigned)from, ends + i / COLUMNS * 8);
                             });
    cluster_leave(); /* no block reads the others' parts any more */
}

/* True if all other parts of the unit are in memory; the block's own part must be. All threads call
 * it and get the same result. The last block resets the counter to 0 at its end: doing it here
 * would make the fence wait for it. */
static __device__ inline bool is_last(uint32_t *counter, unsigned parts)
{
    __shared__ unsigned last;

    if (threadIdx.x == 0) {
        __threadfence(); /* a block that sees the count also sees this part */
        last = atomicAdd(counter, 1u) == parts - 1;
        __threadfence(); /* the other parts are read after the count */
    }
    __syncthreads();
    return last;
}
