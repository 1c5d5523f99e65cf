/* Rotary position embeddings of two tensors, a layer's queries and keys; rotary.cuh has the variants. */
#include "rotary.cuh"

extern "C" __global__ void rotaries(const __grid_constant__ weir__rotaries a)
{
    await_earlier();
    int64_t first = turns(a.of[0]), all = first + (a.n > 1 ? turns(a.of[1]) : 0);

    for (int64_t e = thread_index(); e < all; e += thread_count())
        if (e < first)
            turn(a.of[0], e);
        else
            turn(a.of[1], e - first);
}
