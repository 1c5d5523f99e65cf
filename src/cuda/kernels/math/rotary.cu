/* Rotary position embedding; rotary.cuh has the variants. */
#include "rotary.cuh"

extern "C" __global__ void rotary(const __grid_constant__ weir__rotary a)
{
    await_earlier();
    for (int64_t e = thread_index(); e < turns(a); e += thread_count())
        turn(a, e);
}
