/* Hopper's products of a warpgroup: four warps of 16 rows, operands in shared memory in the layout
 * of mma.cuh. They run asynchronously. Until a wait has returned, no thread may access their sums
 * and operands. */
#pragma once

#include "mma.cuh"
#include "ptx_hopper.cuh"

/* Describes an operand in shared memory: `leading` is the distance in bytes between panels of
 * columns if the sum is over rows, `stride` between groups of eight rows. */
static __device__ inline uint64_t tile_descriptor(uint32_t address, uint32_t leading)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}
