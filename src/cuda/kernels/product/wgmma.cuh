/* Hopper's products of a warpgroup: four warps of 16 rows, operands in shared memory as mma.cuh
 * lays them out. They run while the threads go on. Until a wait says that they are over, nobody may
 * touch their sums and operands. */
#pragma once

#include "mma.cuh"
#include "ptx_hopper.cuh"

/* What a product reads: `leading` bytes lie between panels of columns where rows are summed over,
 * `stride` bytes between groups of eight rows. */
static __device__ inline uint64_t tile_descriptor(uint32_t address, uint32_t leading)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}
