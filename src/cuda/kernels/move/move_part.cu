/* A rank's part of a collective that moves bytes: it copies its bytes from its peers. */
#include "kernel.cuh"
#include "ops/host/part.h"

/* Several loads are issued before the first store. The compiler would not do so: the store may
 * alias. */
template <typename T>
static __device__ inline void copy(const weir__piece &p, int64_t begin, int64_t end)
{
    const int64_t n = end / (int64_t)sizeof(T), step = thread_count();
    const T *from = (const T *)p.from;
    T *to = (T *)p.to;
    int64_t i = begin / (int64_t)sizeof(T) + thread_index();

    for (; i + 3 * step < n; i += 4 * step) {
        T a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];

        to[i] = a;
        to[i + step] = b;
        to[i + 2 * step] = c;
        to[i + 3 * step] = d;
    }
    for (; i < n; i += step)
        to[i] = from[i];
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
