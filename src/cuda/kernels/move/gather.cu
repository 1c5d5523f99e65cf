/* out[p] = in[p with the dim replaced by index[p]]. V0: bytes of an element; V1: index type */
#include "index.cuh"

typedef Word<V0>::type word;

extern "C" __global__ void gather(const __grid_constant__ weir__gather_args g, weir__code_context c)
{
    await_earlier();
    for (int64_t p = thread_index(); p < g.steps.count; p += thread_count()) {
        int64_t i = read_index<V1>(g.index, offset(g.steps, 1, p));

        if (!in_range(i, g.limit, c))
            return;
        ((word *)g.out)[offset(g.steps, 0, p)] =
            ((const word *)g.in)[offset(g.steps, 2, p) + i * g.in_row];
    }
}
