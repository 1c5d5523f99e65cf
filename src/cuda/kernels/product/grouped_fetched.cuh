/* Products of groups of rows on Hopper. One warp only starts copies of whole tiles; two groups of
 * four warps compute 64 rows by 128 columns each. If a tile contains rows of the next group, these
 * are computed with the wrong matrix and not stored. Variants: see grouped_tiles.cu. */
#pragma once

#include "device/code.h"
#include "wgmma.cuh"

enum {
    GROUP_ROWS = 64,
    GROUP_COLUMNS = 128,
    GROUP_BYTES = GROUP_COLUMNS * DEPTH * 2, /* of b */
    DOWN = V3 / 4,                           /* groups of warps along the rows */
    ACROSS = 2 / DOWN,                       /* groups of warps along the columns */
};

typedef float Sums[GROUP_COLUMNS / 8][4];

struct Maps {
    TileMap a, b;
};

struct Memory {
    uint32_t stages, full, empty; /* the last two: a barrier for each stage */
};

static __device__ inline Memory lay_out(const char *memory)
{
    uint32_t barriers = shared_address(memory);

    return {(barriers + 128 + 1023) & ~1023u, barriers, barriers + STAGES * 8};
}

/* Fetches the steps of all tiles of this block. Whole warps call it. */
static __device__ inline void fetch_all(const weir__grouped &a, const Maps &maps, const Memory &m,
                                        int64_t across)
{
    const weir__gemm &g = a.gemm;
    Walk walk = {0, 0, 0};
    int t = 0;
    Part p;

    for (int64_t n = blockIdx.x; find_part(a, n, across, ROWS, walk, p); n += gridDim.x) {
        int64_t down = (p.end - p.begin + ROWS - 1) / ROWS;
        int row = (int)(p.begin + p.tile % down * ROWS), column = (int)(p.tile / down * COLUMNS);
        int steps = p.group == a.groups ? 0 : (int)((g.k + DEPTH - 1) / DEPTH);
        int parts = ACROSS > 1 && column + GROUP_COLUMNS >= g.n ? 1 : ACROSS; /* that are there */

        for (int i = 0; i < steps; i++, t++) {
            uint32_t stage = m.stages + t % STAGES * STAGE_BYTES, full = m.full + t % STAGES * 8;

            if (threadIdx.x % 32)
                continue;
            if (t >= STAGES)
                barrier_wait(m.empty + t % STAGES * 8, t / STAGES - 1 & 1);
            barrier_expect(full, A_BYTES + parts * GROUP_BYTES);
            copy_tile(stage, maps.a, i * DEPTH, row, 0, full);
            for (int j = 0; j < parts; j++)
                copy_tile(stage + A_BYTES + j * GROUP_BYTES, maps.b, i * DEPTH,
                          column + j * GROUP_COLUMNS, (int)(p.group * a.b_group / 8), full);
        }
    }
}

/* One thread of each warp reports that the warp no longer needs the stage. */
static __device__ inline void leave(const Memory &m, int t)
{
    if (threadIdx.x % 32 == 0)
        barrier_arrive(m.empty + t % STAGES * 8);
}

static __device__ inline void compute(const weir__grouped &a, const Memory &m, int64_t across)
{
    const weir__gemm &g = a.gemm;
    int group = threadIdx.x / 128, own_row = group / ACROSS * GROUP_ROWS, own = group % ACROSS;
    Walk walk = {0, 0, 0};
    int t = 0;
    Part p;

    for (int64_t n = blockIdx.x; find_part(a, n, across, ROWS, walk, p); n += gridDim.x) {
        Tile tile = make_tile(a, p);
        int steps = tile.empty ? 0 : (tile.depth + DEPTH - 1) / DEPTH;
        Sums sums;

#pragma unroll
        for (int j = 0; j < GROUP_COLUMNS / 8; j++)
            sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
        for (int i = 0; i < steps; i++, t++) {
            uint32_t stage = m.stages + t % STAGES * STAGE_BYTES;
            uint32_t rows = stage + own_row * 128, columns = stage + A_BYTES + own * GROUP_BYTES;

            barrier_wait(m.full + t % STAGES * 8, t / STAGES & 1);
            products_begin();
#pragma unroll
            for (int k = 0; k < DEPTH / 16; k++)
                multiply_shared<V0, GROUP_COLUMNS>(sums, tile_descriptor(rows + k * 32, 16),
                                                   tile_descriptor(columns + k * 32, 16), 1);
            products_commit();
            products_wait<1>();
            if (i)
                leave(m, t - 1);
        }
        products_wait<0>();
        products_hold<GROUP_COLUMNS / 8>(sums);
        if (steps)
            leave(m, t - 1);
        put_sums<GROUP_COLUMNS / 8>(g, tile, sums,
                                    own_row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4,
                                    own * GROUP_COLUMNS + threadIdx.x % 4 * 2);
    }
}

extern "C" __global__ void __launch_bounds__(288, 1)
    grouped_tiles(const __grid_constant__ weir__grouped a, weir__code_context c,
                  const __grid_constant__ Maps maps)
{
    await_earlier();
    extern __shared__ char memory[];
    Memory m = lay_out(memory);
    int64_t across = (a.gemm.n + COLUMNS - 1) / COLUMNS;

    check_ends(a, c);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(m.full + i * 8, 1);
            barrier_init(m.empty + i * 8, 8);
        }
        barriers_show();
    }
    __syncthreads();
    if (threadIdx.x < 256)
        compute(a, m, across);
    else
        fetch_all(a, maps, m, across);
}
