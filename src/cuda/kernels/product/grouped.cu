/* Products of groups for any strides and types. A block has a tile of 64 by 64, a thread 4 by 4 of
 * it. V0: type; V1: the size that the groups cut; V2: type of the ends */
#include "grouped.cuh"

enum { TILE = 64, DEPTH = 16, STEP = TILE / 16 };
typedef Type<V0>::compute real;

extern "C" __global__ void __launch_bounds__(256)
    grouped(const __grid_constant__ weir__grouped a, weir__code_context c)
{
    await_earlier();
    __shared__ real as[DEPTH][TILE + 4], bs[DEPTH][TILE + 4];
    const weir__gemm &g = a.gemm;
    int64_t down = (g.m + TILE - 1) / TILE, across = (g.n + TILE - 1) / TILE;
    int64_t tiles = V1 == WEIR__GROUPED_ROWS ? across : V1 == WEIR__GROUPED_COLUMNS ? down : down * across;
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    Walk walk = {0, 0, 0};
    Part p;

    check_ends(a, c);
    for (int64_t t = blockIdx.x; find_part(a, t, tiles, TILE, walk, p); t += gridDim.x) {
        int64_t row0 = 0, rows = g.m, col0 = 0, cols = g.n, from = 0, to = g.k, group = p.group;
        real sums[STEP][STEP] = {};

        if (V1 == WEIR__GROUPED_ROWS) {
            row0 = p.begin + p.tile / across * TILE;
            rows = p.end;
            col0 = p.tile % across * TILE;
        } else if (V1 == WEIR__GROUPED_COLUMNS) {
            col0 = p.begin + p.tile / down * TILE;
            cols = p.end;
            row0 = p.tile % down * TILE;
        } else {
            row0 = p.tile / across * TILE;
            col0 = p.tile % across * TILE;
            from = p.begin;
            to = p.end;
        }
        if (group == a.groups) /* zeros */
            to = group = 0;
        for (int64_t k = from; k < to; k += DEPTH) {
            for (int i = threadIdx.x; i < DEPTH * TILE; i += 256) {
                /* Neighbouring threads read neighbouring elements. */
                int ar = g.a_col == 1 ? i / DEPTH : i % TILE, ad = g.a_col == 1 ? i % DEPTH : i / TILE;
                int bc = g.b_row == 1 ? i / DEPTH : i % TILE, bd = g.b_row == 1 ? i % DEPTH : i / TILE;

                as[ad][ar] = row0 + ar < rows && k + ad < to
                                 ? load<V0>(g.a, group * a.a_group + (row0 + ar) * g.a_row +
                                                     (k + ad) * g.a_col)
                                 : (real)0;
                bs[bd][bc] = col0 + bc < cols && k + bd < to
                                 ? load<V0>(g.b, group * a.b_group + (k + bd) * g.b_row +
                                                     (col0 + bc) * g.b_col)
                                 : (real)0;
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < DEPTH; i++)
#pragma unroll
                for (int r = 0; r < STEP; r++)
#pragma unroll
                    for (int q = 0; q < STEP; q++)
                        sums[r][q] += as[i][y * STEP + r] * bs[i][x * STEP + q];
            __syncthreads();
        }
        for (int r = 0; r < STEP; r++)
            for (int q = 0; q < STEP; q++) {
                int64_t row = row0 + y * STEP + r, col = col0 + x * STEP + q;
                real sum = sums[r][q];

                if (row >= rows || col >= cols)
                    continue;
                if (g.bias && p.group < a.groups)
                    sum += load<V0>(g.bias, group * a.bias_group + col * g.bias_col);
                store<V0>(g.c, group * a.c_group + row * g.c_row + col * g.c_col, sum);
            }
    }
}
