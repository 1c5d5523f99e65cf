/* Tensor cores: 16-bit operands from shared memory, sums in f32.
 *
 * Tiles lie in panels of 64 columns: rows of 128 bytes whose eight chunks of 16 are exchanged by
 * row number, so that eight rows are read at once without conflicts. A panel begins at a multiple
 * of 1024 bytes. Hopper's products read the same layout.
 *
 * Of a warp's sums of 16 rows by 8 columns each lane has four: row lane / 4, columns 2 (lane % 4)
 * and the next; then the same columns of row + 8. */
#pragma once

#include "ptx_mma.cuh"

static __device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Where chunk `chunk` of row `row` lies in a tile of `rows` rows. */
static __device__ inline uint32_t tile_offset(int rows, int row, int chunk)
{
    return (uint32_t)(chunk / 8 * rows * 128 + row * 128 + (chunk % 8 ^ row % 8) * 16);
}
