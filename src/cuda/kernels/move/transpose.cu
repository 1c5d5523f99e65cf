/* Copies between views whose fastest dims differ, tile by tile. V0: output type; V1: input */
#include "kernel.cuh"
#include "ops/host/move/transpose.h"

enum { TILE = 32, ROWS = 8 };

extern "C" __global__ void transpose(const __grid_constant__ weir__transpose t)
{
    await_earlier();
    __shared__ typename Type<V0>::store tile[TILE][TILE + 1];
    int64_t across = (t.cols + TILE - 1) / TILE, down = (t.rows + TILE - 1) / TILE;
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;

    for (int64_t i = blockIdx.x; i < t.outer * across * down; i += gridDim.x) {
        int64_t c0 = i % across * TILE, r0 = i / across % down * TILE, rest = i / across / down;
        const Type<V1>::store *in = (const Type<V1>::store *)t.in;
        Type<V0>::store *out = (Type<V0>::store *)t.out;

        for (int d = t.nouter - 1; d >= 0; d--) {
            in += rest % t.shape[d] * t.in_stride[d];
            out += rest % t.shape[d] * t.out_stride[d];
            rest /= t.shape[d];
        }
        for (int k = y; k < TILE; k += ROWS) /* neighbours along rows are together in `in` */
            if (c0 + k < t.cols && r0 + x < t.rows)
                tile[k][x] = convert<V0, V1>(in[(c0 + k) * t.in_col + r0 + x]);
        __syncthreads();
        for (int k = y; k < TILE; k += ROWS)
            if (r0 + k < t.rows && c0 + x < t.cols)
                out[(r0 + k) * t.out_row + c0 + x] = tile[x][k];
        __syncthreads();
    }
}
