/* x[o, index[o, i, j], j] += (or =) source[o, i, j], i ascending, so that sums come out the same every
 * time. V0: type; V1: index type; V2: 0 a thread has all of (o, j), 1 one target of it,
 * 2 one source: whole numbers, whose order does not matter */
#include "index.cuh"

typedef Type<V0>::store Store;

static __device__ inline void add(Store *x, Store y)
{
    if constexpr (Type<V0>::real)
        *x = Type<V0>::pack(Type<V0>::load(*x) + Type<V0>::load(y));
    else if constexpr (V2 == 2 && sizeof(Store) == 8)
        atomicAdd((unsigned long long *)x, (unsigned long long)y);
    else if constexpr (V2 == 2 && sizeof(Store) == 4)
        atomicAdd((unsigned *)x, (unsigned)y);
    else
        *x = (Store)((uint64_t)*x + (uint64_t)y);
}

extern "C" __global__ void scatter(const __grid_constant__ weir__scatter a, weir__code_context c)
{
    await_earlier();
    int64_t across = a.outer.count * a.inner.count;
    int64_t share = V2 == 0 ? 1 : V2 == 1 ? a.limit : a.n;

    for (int64_t e = thread_index(); e < across * share; e += thread_count()) {
        int64_t p = e / share, mine = e % share;
        int64_t o = p / a.inner.count, j = p % a.inner.count;
        int64_t x = offset(a.outer, 0, o) + offset(a.inner, 0, j);
        int64_t index = offset(a.outer, 1, o) + offset(a.inner, 1, j);
        int64_t source = offset(a.outer, 2, o) + offset(a.inner, 2, j);
        int64_t first = V2 == 2 ? mine : 0, end = V2 == 2 ? mine + 1 : a.n;

        for (int64_t i = first; i < end; i++) {
            int64_t target = read_index<V1>(a.index, index + i * a.index_row);

            if (V2 == 1 && target != mine && target >= 0 && target < a.limit)
                continue;
            if (!in_range(target, a.limit, c))
                return;
            Store *to = (Store *)a.x + x + target * a.x_row;
            Store from = ((const Store *)a.source)[source + i * a.source_row];

            if (a.replaces)
                *to = from;
            else
                add(to, from);
        }
    }
}
