/* Tensor cores: 16-bit operands from shared memory, sums in f32.
 *
 * Tiles are stored in panels of 64 columns: rows of 128 bytes whose eight 16-byte chunks are
 * swizzled by row number, so that eight rows are read at once without bank conflicts. A panel
 * begins at a multiple of 1024 bytes. Hopper's products read the same layout.
 *
 * Of a warp's sums of 16 rows by 8 columns each lane has four: row lane / 4, columns 2 (lane % 4)
 * and 2 (lane % 4) + 1; then the same columns of row lane / 4 + 8. */
#pragma once

#include "ptx_mma.cuh"

static __device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Returns the offset of a chunk of a row in a tile of `rows` rows. */
static __device__ inline uint32_t tile_offset(int rows, int row, int chunk)
{
    return (uint32_t)(chunk / 8 * rows * 128 + row * 128 + (chunk % 8 ^ row % 8) * 16);
}
