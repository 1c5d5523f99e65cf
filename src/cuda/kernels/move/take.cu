/* out[o, i, j] = in[o, index[i], j]. V0: bytes of an element; V1: index type;
 * V2: elements moved at once */
#include "index.cuh"

typedef Word<V0 * V2>::type word;

extern "C" __global__ void take(const __grid_constant__ weir__take t, weir__code_context c)
{
    await_earlier();
    int64_t inner = t.inner.count / V2, n = t.outer.count * t.place.count * inner;

    for (int64_t e = thread_index(); e < n; e += thread_count()) {
        int64_t j, p, o = quotient(quotient(e, inner, &j), t.place.count, &p), from, to;
        int64_t i = read_index<V1>(t.index, offset(t.place, 0, p));

        j *= V2;

        if (!in_range(i, t.limit, c))
            return;
        from = offset(t.outer, 0, o) + i * t.in_row + offset(t.inner, 0, j);
        to = offset(t.outer, 1, o) + offset(t.place, 1, p) + offset(t.inner, 1, j);
        *(word *)(t.out + to * V0) = *(const word *)(t.in + from * V0);
    }
}
