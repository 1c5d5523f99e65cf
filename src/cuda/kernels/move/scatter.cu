/* x[o, index[o, i, j], j] += (or =) source[o, i, j]. i is ascending, so that sums are the same in
 * every run.
 * V0: type; V1: index type; V2: a thread computes 0: all of one (o, j), 1: one target of it, 2: one
 * source (integers only, because their order does not matter); 3: a block computes a row of x, with
 * the same index for all j; 4: as 3 with a single source, such as a token that is added to a cache;
 * V3: for 3 and 4, the elements that a thread moves at once */
#include "index.cuh"

typedef Type<V0>::store Store;

static __device__ inline Store sum_of(Store x, Store y)
{
    if constexpr (Type<V0>::real)
        return Type<V0>::pack(Type<V0>::load(x) + Type<V0>::load(y));
    else
        return (Store)((uint64_t)x + (uint64_t)y);
}

static __device__ inline void add(Store *x, Store y)
{
    if constexpr (V2 == 2 && sizeof(Store) == 8)
        atomicAdd((unsigned long long *)x, (unsigned long long)y);
    else if constexpr (V2 == 2 && sizeof(Store) == 4)
        atomicAdd((unsigned *)x, (unsigned)y);
    else
        *x = sum_of(*x, y);
}

static __device__ inline void one_by_one(const weir__scatter &a, const weir__code_context &c)
{
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

/* ---- rows ---- */

enum { THREADS = 256, WARPS = THREADS / 32, EACH = 4, TILE = THREADS * EACH, AT_ONCE = V3 ? V3 : 1 };

struct alignas(sizeof(Store) * AT_ONCE) Pack {
    Store v[AT_ONCE];
};

/* Writes to `found`, in order, the numbers of the sources in first .. first + TILE - 1 that go to
 * `target`. Returns how many there are. All threads must call it, and must have read `found` before
 * they call it again. */
static __device__ inline unsigned find_sources(const weir__scatter &a, int64_t index, int64_t first,
                                               int64_t target, uint32_t *found,
                                               const weir__code_context &c)
{
    __shared__ unsigned counts[EACH * WARPS];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, masks[EACH], all = 0;
    int64_t seen = target; /* some index that is out of range, if there is one */

#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int64_t i = first + k * THREADS + threadIdx.x;
        int64_t own = i < a.n ? read_index<V1>(a.index, index + i * a.index_row) : target;

        masks[k] = __ballot_sync(~0u, i < a.n && own == target);
        if (own < 0 || own >= a.limit)
            seen = own;
        if (lane == 0)
            counts[k * WARPS + warp] = __popc(masks[k]);
    }
    in_range(seen, a.limit, c);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        unsigned before = all;

        for (unsigned w = 0; w < WARPS; w++) {
            before += w < warp ? counts[k * WARPS + w] : 0;
            all += counts[k * WARPS + w];
        }
        if (masks[k] >> lane & 1)
            found[before + __popc(masks[k] & ((1u << lane) - 1))] =
                (uint32_t)(first + k * THREADS + threadIdx.x);
    }
    __syncthreads();
    return all;
}

/* Computes columns of one row of x. `source` is the number of a source that goes to this row, or
 * -1. Only the block of the row's first source computes the row. */
static __device__ inline void take_row(const weir__scatter &a, const weir__code_context &c, int64_t o,
                                       int64_t target, int64_t source, int64_t j)
{
    __shared__ uint32_t found[TILE];
    int64_t index = offset(a.outer, 1, o), from = offset(a.outer, 2, o);
    bool has = j < a.inner.count, any = false;
    Pack sum, *to = NULL;

    if (has) {
        from += offset(a.inner, 2, j);
        to = (Pack *)((Store *)a.x + offset(a.outer, 0, o) + offset(a.inner, 0, j) + target * a.x_row);
    }
    for (int64_t first = 0; first < a.n; first += TILE) {
        unsigned n = find_sources(a, index, first, target, found, c);

        if (n && !any) {
            if (source >= 0 && found[0] != source)
                return;
            if (has && !a.replaces)
                sum = *to;
            any = true;
        }
        if (!has)
            continue;
        for (unsigned m = n && a.replaces ? n - 1 : 0; m < n; m++) {
            Pack y = *(const Pack *)((const Store *)a.source + from + found[m] * a.source_row);

#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                sum.v[k] = a.replaces ? y.v[k] : sum_of(sum.v[k], y.v[k]);
        }
    }
    if (has && any)
        *to = sum;
}

/* Blocks loop over the rows of x, or over the sources if there are fewer of them. */
static __device__ inline void by_rows(const weir__scatter &a, const weir__code_context &c)
{
    bool by_source = a.n < a.limit;
    int64_t owners = by_source ? a.n : a.limit;
    int64_t chunks = (a.inner.count + THREADS * AT_ONCE - 1) / (THREADS * AT_ONCE);

    for (int64_t u = blockIdx.x; u < a.outer.count * owners * chunks; u += gridDim.x) {
        int64_t owner = u / chunks % owners, o = u / chunks / owners, target = owner;

        if (by_source)
            target = read_index<V1>(a.index, offset(a.outer, 1, o) + owner * a.index_row);
        if (target < 0 || target >= a.limit) {
            in_range(target, a.limit, c);
            continue;
        }
        take_row(a, c, o, target, by_source ? owner : -1,
                 (u % chunks * THREADS + threadIdx.x) * AT_ONCE);
    }
}

/* ---- one source ---- */

static __device__ inline void move_one(const weir__scatter &a, const weir__code_context &c)
{
    int64_t packs = a.inner.count / AT_ONCE;

    for (int64_t e = thread_index(); e < a.outer.count * packs; e += thread_count()) {
        int64_t j, o = quotient(e, packs, &j), at[3], within[3];

        offsets(a.outer, o, at);
        offsets(a.inner, j * AT_ONCE, within);
        Pack y = *(const Pack *)((const Store *)a.source + at[2] + within[2]);
        int64_t target = read_index<V1>(a.index, at[1]);

        if (!in_range(target, a.limit, c))
            return;
        Pack *to = (Pack *)((Store *)a.x + at[0] + within[0] + target * a.x_row);

        if (!a.replaces) {
            Pack x = *to;

#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                y.v[k] = sum_of(x.v[k], y.v[k]);
        }
        *to = y;
    }
}

extern "C" __global__ void scatter(const __grid_constant__ weir__scatter a, weir__code_context c)
{
    await_earlier();
    if constexpr (V2 == 3)
        by_rows(a, c);
    else if constexpr (V2 == 4)
        move_one(a, c);
    else
        one_by_one(a, c);
}
