/* Inclusive scans along rows. V0: type; V1: the result's type; V2: enum weir__scan_kind; V3: a
 * thread per row, else a block per row */
#include "kernel.cuh"
#include "ops/host/math/scan.h"

constexpr bool extreme = V2 == WEIR__SCAN_MAX || V2 == WEIR__SCAN_MIN;
constexpr bool is_real = Type<V0>::real, is_narrow = sizeof(Type<V0>::store) == 2;

/* The type of sums, and the type of comparisons. */
template <bool real, bool narrow> struct Total { typedef uint64_t type; };
template <> struct Total<true, false> { typedef double type; };
template <> struct Total<true, true> { typedef float type; };

typedef Type<V0>::compute Value;
typedef Total<is_real, is_narrow>::type Sum;

/* The combination of some elements. An empty one is neutral. */
template <bool with_place> struct Run {
    Sum value;

    static __device__ inline Run empty()
    {
        return {V2 == WEIR__SCAN_PRODUCT ? (Sum)1 : (Sum)0};
    }
    static __device__ inline Run of(Value x, int64_t place) { return {(Sum)x}; }
    /* Combines `earlier` with this, in that order. */
    __device__ inline Run after(const Run &earlier) const
    {
        return {V2 == WEIR__SCAN_PRODUCT ? earlier.value * value : earlier.value + value};
    }
    __device__ inline Run before(unsigned lanes) const
    {
        return {__shfl_up_sync(~0u, value, lanes)};
    }
};

template <> struct Run<true> {
    Value value;
    int64_t place; /* -1: there is none */

    static __device__ inline Run empty() { return {(Value)0, -1}; }
    static __device__ inline Run of(Value x, int64_t place) { return {x, place}; }
    __device__ inline Run after(const Run &earlier) const
    {
        bool wins = value != value ||
                    (earlier.value == earlier.value &&
                     (V2 == WEIR__SCAN_MAX ? value >= earlier.value : value <= earlier.value));

        return earlier.place < 0 || (place >= 0 && wins) ? *this : earlier;
    }
    __device__ inline Run before(unsigned lanes) const
    {
        return {(Value)__shfl_up_sync(~0u, value, lanes), __shfl_up_sync(~0u, place, lanes)};
    }
};

typedef Run<extreme> Item;

static __device__ inline Item element(const weir__scan &a, int64_t in, int64_t j)
{
    auto raw = ((const Type<V0>::store *)a.in)[in + j * a.rows.in_step];
    Value x = Type<V0>::load(raw);

    return Item::of(V0 == WEIR_BOOL ? (Value)(x != 0) : x, j);
}

/* A template, because runs of sums have no member `place`. */
template <typename R>
static __device__ inline void put(const weir__scan &a, int64_t out, int64_t j, const R &item)
{
    int64_t at = out + j * a.rows.out_step;

    store<V1>(a.out, at, (Type<V1>::compute)item.value);
    if constexpr (extreme)
        a.places[at] = item.place;
}

/* An inclusive scan over the warp's lanes. */
static __device__ inline Item warp_scan(Item x)
{
    for (unsigned step = 1; step < 32; step *= 2) {
        Item earlier = x.before(step);

        if (threadIdx.x % 32 >= step)
            x = x.after(earlier);
    }
    return x;
}

enum { EACH = 4 }; /* elements that a thread combines before it exchanges results */

/* Scans a row tile by tile; `all` is the combination of the tiles before. */
static __device__ void by_block(const weir__scan &a, int64_t in, int64_t out)
{
    __shared__ Item totals[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    Item all = Item::empty();

    for (int64_t first = 0; first < a.rows.n; first += EACH * blockDim.x) {
        int64_t j = first + EACH * threadIdx.x;
        Item own[EACH], through, earlier;

#pragma unroll
        for (int k = 0; k < EACH; k++) {
            own[k] = j + k < a.rows.n ? element(a, in, j + k) : Item::empty();
            if (k)
                own[k] = own[k].after(own[k - 1]);
        }
        through = warp_scan(own[EACH - 1]);
        if (lane == 31)
            totals[warp] = through;
        earlier = through.before(1);
        if (!lane)
            earlier = Item::empty();
        __syncthreads();
        for (int i = 0; i < warps; i++) {
            if (i == warp)
                earlier = earlier.after(all);
            all = totals[i].after(all);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (j + k < a.rows.n)
                put(a, out, j + k, own[k].after(earlier));
        __syncthreads();
    }
}

static __device__ void by_thread(const weir__scan &a, int64_t in, int64_t out)
{
    Item all = Item::empty();

    for (int64_t j = 0; j < a.rows.n; j++) {
        all = element(a, in, j).after(all);
        put(a, out, j, all);
    }
}

extern "C" __global__ void __launch_bounds__(512) scan(const __grid_constant__ weir__scan a)
{
    await_earlier();
    int64_t step = V3 ? thread_count() : gridDim.x;

    for (int64_t i = V3 ? thread_index() : blockIdx.x; i < a.rows.count; i += step) {
        int64_t in, out;

        weir__rows_at(&a.rows, i, &in, &out);
        if constexpr (V3 != 0)
            by_thread(a, in, out);
        else
            by_block(a, in, out);
    }
}
