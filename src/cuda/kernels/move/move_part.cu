/* A rank's part of a collective that moves bytes: what its peers have for it. */
#include "kernel.cuh"
#include "ops/host/part.h"

template <typename T>
static __device__ inline void copy(const weir__piece &p, int64_t begin, int64_t end)
{
    for (int64_t i = begin / (int64_t)sizeof(T) + thread_index(); i < end / (int64_t)sizeof(T);
         i += thread_count())
        ((T *)p.to)[i] = ((const T *)p.from)[i];
}

extern "C" __global__ void move_part(const __grid_constant__ weir__move_part m)
{
    await_earlier();
    for (int i = 0; i < m.n; i++) {
        const weir__piece &p = m.pieces[i];
        int64_t whole = ((uint64_t)p.from | (uint64_t)p.to) % 16 ? 0 : p.bytes / 16 * 16;

        if (p.from == p.to)
            continue;
        copy<uint4>(p, 0, whole);
        copy<uint8_t>(p, whole, p.bytes);
    }
}
