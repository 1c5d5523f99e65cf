/* Rows sorted by keys: unsigned numbers in the order of the values, NaN last, -0 as 0. A block
 * a row; short rows in shared memory, longer ones digit by digit in scratch memory.
 * V0: type; V1: descending; V2: log2 of the places in shared memory, 0 for scratch memory */
#include "kernel.cuh"
#include "ops/host/sort.h"

typedef Type<V0>::compute real;

enum { KEY_BYTES = Type<V0>::real ? sizeof(real) : 8 };

static __device__ inline uint64_t key_of(real x)
{
    uint64_t key;

    if constexpr (!Type<V0>::real) {
        key = (uint64_t)(V0 == WEIR_BOOL ? (int64_t)(x != 0) : (int64_t)x) ^ 1ull << 63;
    } else if constexpr (sizeof(real) == 4) {
        uint32_t bits = __float_as_uint(x + 0.0f);

        key = x != x ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
        return V1 ? key ^ 0xffffffffu : key;
    } else {
        uint64_t bits = (uint64_t)__double_as_longlong(x + 0.0);

        key = x != x ? ~0ull : bits >> 63 ? ~bits : bits | 1ull << 63;
    }
    return V1 ? ~key : key;
}

static __device__ inline void put(const weir__sort &a, int64_t in, int64_t out, int64_t k,
                                  uint32_t place)
{
    int64_t to = out + k * a.rows.out_step;

    ((Type<V0>::store *)a.values)[to] =
        ((const Type<V0>::store *)a.in)[in + place * a.rows.in_step];
    a.indices[to] = place;
}

/* Exchanges across ever smaller distances; places break ties, so the order is stable. */
static __device__ void sort_shared(const weir__sort &a, int64_t in, int64_t out)
{
    constexpr int size = 1 << (V2 ? V2 : 1);
    __shared__ uint64_t keys[size];
    __shared__ uint32_t places[size];

    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        keys[i] = i < a.rows.n ? key_of(load<V0>(a.in, in + i * a.rows.in_step)) : ~0ull;
        places[i] = i;
    }
    __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step; step /= 2) {
            for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
                int low = i / step * step * 2 + i % step, high = low + step;
                bool up = !(low & run) || run == size;
                bool after = keys[low] > keys[high] ||
                             (keys[low] == keys[high] && places[low] > places[high]);

                if (after == up) {
                    uint64_t key = keys[low];
                    uint32_t place = places[low];

                    keys[low] = keys[high];
                    places[low] = places[high];
                    keys[high] = key;
                    places[high] = place;
                }
            }
            __syncthreads();
        }
    for (int k = threadIdx.x; k < a.k; k += blockDim.x)
        put(a, in, out, k, places[k]);
    __syncthreads();
}

/* One digit: counts, then every element to its place, tile by tile in order. */
static __device__ void sort_digit(const uint64_t *keys, const uint32_t *places, uint64_t *keys2,
                                  uint32_t *places2, int64_t n, int shift)
{
    __shared__ uint32_t next[256];
    __shared__ uint32_t counts[32][256];
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;

    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        next[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(&next[keys[i] >> shift & 255], 1u);
    __syncthreads();
    if (threadIdx.x == 0)
        for (uint32_t i = 0, sum = 0; i < 256; i++) {
            uint32_t count = next[i];

            next[i] = sum;
            sum += count;
        }
    for (int64_t tile = 0; tile < n; tile += blockDim.x) {
        int64_t i = tile + threadIdx.x;
        bool real_one = i < n;
        uint64_t key = real_one ? keys[i] : 0;
        uint32_t digit = real_one ? (uint32_t)(key >> shift & 255) : 256, same, rank = 0;

        __syncthreads();
        for (int k = threadIdx.x; k < warps * 256; k += blockDim.x)
            counts[k / 256][k % 256] = 0;
        __syncthreads();
        same = __match_any_sync(~0u, digit);
        rank = __popc(same & ((1u << threadIdx.x % 32) - 1));
        if (real_one && rank == 0)
            counts[warp][digit] = __popc(same);
        __syncthreads();
        for (int d = threadIdx.x; d < 256; d += blockDim.x)
            for (int w = 0; w < warps; w++) {
                uint32_t count = counts[w][d];

                counts[w][d] = next[d];
                next[d] += count;
            }
        __syncthreads();
        if (real_one) {
            keys2[counts[warp][digit] + rank] = key;
            places2[counts[warp][digit] + rank] = places[i];
        }
    }
    __syncthreads();
}

static __device__ void sort_scratch(const weir__sort &a, int64_t in, int64_t out)
{
    int64_t n = a.rows.n;
    uint64_t *keys = (uint64_t *)(a.wide_rows + blockIdx.x * (size_t)n * 24), *keys2 = keys + n;
    uint32_t *places = (uint32_t *)(keys2 + n), *places2 = places + n;

    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        keys[i] = key_of(load<V0>(a.in, in + i * a.rows.in_step));
        places[i] = (uint32_t)i;
    }
    __syncthreads();
    for (int digit = 0; digit < KEY_BYTES; digit++) {
        uint64_t *k = keys;
        uint32_t *p = places;

        sort_digit(keys, places, keys2, places2, n, digit * 8);
        keys = keys2;
        places = places2;
        keys2 = k;
        places2 = p;
    }
    for (int64_t k = threadIdx.x; k < a.k; k += blockDim.x)
        put(a, in, out, k, places[k]);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(1024) sort(const __grid_constant__ weir__sort a)
{
    for (int64_t i = blockIdx.x; i < a.rows.count; i += gridDim.x) {
        int64_t in, out;

        weir__rows_at(&a.rows, i, &in, &out);
        if constexpr (V2 != 0)
            sort_shared(a, in, out);
        else
            sort_scratch(a, in, out);
    }
}
