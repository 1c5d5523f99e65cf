/* A stand-in: every block keeps its core busy for so many nanoseconds. */
#include "kernel.cuh"

struct Args {
    double ns;
    int64_t blocks;
};

static __device__ inline uint64_t now()
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void busy(const __grid_constant__ Args a)
{
    await_earlier();
    uint64_t began;

    if (a.ns <= 0)
        return;
    began = now();
    while ((double)(now() - began) < a.ns)
        ;
}
