/* Writes rows of several tensors to the places that indices name. Each tensor has the same number
 * of blocks.
 * V0: bytes of an element; V1: index type; V2: bytes that a thread moves at once */
#include "index.cuh"
#include "ops/gpu/scatters.h"

typedef Word<V2>::type word;

static __device__ inline uint32_t quotient(uint32_t i, const weir__divisor &d)
{
    return (__umulhi(i, d.magic) + i) >> d.shift;
}

static __device__ inline void put(const weir__scatters &a, const weir__scatters_part &p,
                                  uint32_t row, uint32_t column, const weir__code_context &c)
{
    int64_t x = column, from = column, index = 0, target;

#pragma unroll
    for (int d = WEIR__SCATTERS_DIMS - 1; d >= 0; d--)
        if (d < p.ndim) {
            uint32_t next = d ? quotient(row, p.dim[d].divisor) : 0;
            uint32_t here = row - next * p.dim[d].size;

            x += here * p.dim[d].x;
            index += here * p.dim[d].index;
            from += here * p.dim[d].source;
            row = next;
        }
    word moved = *(const word *)(p.source + from * V0);

    target = read_index<V1>(a.index, index);
    if (in_range(target, a.limit, c))
        *(word *)(p.x + (x + target * p.x_row) * V0) = moved;
}

extern "C" __global__ void __launch_bounds__(128)
    scatters(const __grid_constant__ weir__scatters a, weir__code_context c)
{
    await_earlier();
    uint32_t blocks = gridDim.x / a.n, which = blockIdx.x / blocks;
    const weir__scatters_part &p = a.of[which];
    uint32_t words = p.columns / (V2 / V0), first = blockIdx.x - which * blocks;

    for (uint32_t i = first * blockDim.x + threadIdx.x; i < p.rows * words; i += blocks * blockDim.x) {
        uint32_t row = i / words;

        put(a, p, row, (i - row * words) * (V2 / V0), c);
    }
}
