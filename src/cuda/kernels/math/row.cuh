/* Rows that a block holds in registers: each is read once, 16 bytes at a time, and written once.
 * V0: type; HELD: chunks of 16 bytes that a thread holds, 0 for other layouts of rows */
#pragma once

#include "kernel.cuh"

typedef Type<V0>::compute real;

enum { PACK = 16 / sizeof(Type<V0>::store) };

template <int held> struct Row {
    real at[held][PACK];

    /* True if this thread's chunk i is in a row of n elements. */
    static __device__ inline bool has(int i, int64_t n)
    {
        return (i * blockDim.x + threadIdx.x) * PACK < n;
    }

    static __device__ inline void unpack(const void *p, int64_t chunk, real *to)
    {
        union {
            uint4 bits;
            Type<V0>::store element[PACK];
        } u;

        u.bits = ((const uint4 *)p)[chunk];
#pragma unroll
        for (int k = 0; k < PACK; k++)
            to[k] = Type<V0>::load(u.element[k]);
    }

    __device__ inline void load(const void *p, int64_t first, int64_t n)
    {
#pragma unroll
        for (int i = 0; i < held; i++)
            if (has(i, n))
                unpack(p, first / PACK + i * blockDim.x + threadIdx.x, at[i]);
    }

    __device__ inline void store(void *p, int64_t first, int64_t n) const
    {
        union {
            uint4 bits;
            Type<V0>::store element[PACK];
        } u;

#pragma unroll
        for (int i = 0; i < held; i++)
            if (has(i, n)) {
#pragma unroll
                for (int k = 0; k < PACK; k++)
                    u.element[k] = Type<V0>::pack(at[i][k]);
                ((uint4 *)p)[first / PACK + i * blockDim.x + threadIdx.x] = u.bits;
            }
    }
};
