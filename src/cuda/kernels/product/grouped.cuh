/* Finds the group of a tile of a grouped product. */
#pragma once

#include "kernel.cuh"
#include "ops/host/product/grouped.h"
#include "report.cuh"

/* A group and one of its tiles. The group after the last covers the rows of no group. */
struct Part {
    int64_t group, begin, end, tile;
};

/* The position of a warp's search, which reads 32 groups at a time. */
struct Walk {
    int64_t first, tiles, end; /* its first group; tiles before that */
};

static __device__ inline int64_t length_of(const weir__grouped &a)
{
    return V1 == WEIR__GROUPED_ROWS ? a.gemm.m : V1 == WEIR__GROUPED_COLUMNS ? a.gemm.n : a.gemm.k;
}

static __device__ inline int64_t end_of(const weir__grouped &a, int64_t group)
{
    return group < a.groups ? (int64_t)((const Type<V2>::store *)a.ends)[group * a.end_step]
                            : length_of(a);
}

/* One warp of one block reports the first end that is out of range. */
static __device__ inline void check_ends(const weir__grouped &a, const weir__code_context &c)
{
    int64_t length = length_of(a);

    if (blockIdx.x || threadIdx.x >= 32)
        return;
    for (int64_t first = 0; first < a.groups; first += 32) {
        int64_t g = first + threadIdx.x, end = g < a.groups ? end_of(a, g) : 0;
        int64_t begin = g < a.groups && g ? end_of(a, g - 1) : 0;
        unsigned bad = __ballot_sync(~0u, g < a.groups && (end < begin || end > length));

        if (bad) {
            if (threadIdx.x == __ffs(bad) - 1)
                weir__code_report(&c, end, length + 1, begin);
            return;
        }
    }
}

/* Finds tile t, which must not come before the tile found last. All lanes of the warp call it. Each
 * group has `across` tiles for every `step` rows or columns; if depth is cut, `across` tiles in
 * all. Parts lie within the size that is cut even if the ends do not. */
static __device__ inline bool find_part(const weir__grouped &a, int64_t t, int64_t across, int step,
                                        Walk &w, Part &p)
{
    int lane = threadIdx.x % 32;
    int64_t length = length_of(a);

    for (; w.first <= a.groups; w.first += 32) {
        int64_t g = w.first + lane, end = end_of(a, g), begin, tiles, all;
        unsigned after;

        end = end < 0 ? 0 : end > length ? length : end;
        for (int i = 1; i < 32; i *= 2) {
            int64_t other = __shfl_up_sync(~0u, end, i);

            end = lane >= i && other > end ? other : end;
        }
        end = end > w.end ? end : w.end;
        begin = __shfl_up_sync(~0u, end, 1);
        begin = lane ? begin : w.end;
        tiles = V1 == WEIR__GROUPED_DEPTH ? (g < a.groups ? across : 0)
                                          : (end - begin + step - 1) / step * across;
        all = tiles;
        for (int i = 1; i < 32; i *= 2) {
            int64_t other = __shfl_up_sync(~0u, all, i);

            all += lane >= i ? other : 0;
        }
        all += w.tiles;
        after = __ballot_sync(~0u, t < all);
        if (after) {
            int from = __ffs(after) - 1;

            p.group = w.first + from;
            p.begin = __shfl_sync(~0u, begin, from);
            p.end = __shfl_sync(~0u, end, from);
            p.tile = t - __shfl_sync(~0u, all - tiles, from);
            return true;
        }
        w.tiles = __shfl_sync(~0u, all, 31);
        w.end = __shfl_sync(~0u, end, 31);
    }
    return false;
}
