/* A stand-in for another kernel: every block keeps its core busy for the given nanoseconds. */
#include "kernel.cuh"

struct Args {
    double ns;
    int64_t blocks;
};

extern "C" __global__ void busy(const __grid_constant__ Args a)
{
    await_earlier();
    uint64_t began;

    if (a.ns <= 0)
        return;
    began = clock_ns();
    while ((double)(clock_ns() - began) < a.ns)
        ;
}
