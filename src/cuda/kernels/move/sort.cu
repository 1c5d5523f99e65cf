/* Rows sorted by keys: unsigned numbers in the order of the values, NaN last, -0 as 0. Short rows
 * by a block each in shared memory; longer ones by many blocks, digit by digit in scratch memory:
 * blocks count the digits of their tiles, a block a row adds the counts up, and blocks move their
 * tiles' elements to where those of the same digit go, in order.
 * V0: type; V1: descending; V2: log2 of the places in shared memory, 0 for scratch memory */
#include "device/code.h"

#include "kernel.cuh"
#include "ops/host/move/sort.h"

typedef Type<V0>::store Store;
typedef Type<V0>::compute real;

enum {
    KEY_BYTES = sizeof(Store), /* bool's are all of its byte, too */
    WARPS = 8,
    THREADS = WARPS * 32,
    TILE = WEIR__SORT_TILE(KEY_BYTES),
    ITEMS = TILE / THREADS, /* elements of a thread */
};

typedef Word < KEY_BYTES<4 ? 4 : KEY_BYTES>::type Key;

/* In the low KEY_BYTES bytes. */
static __device__ inline Key key_of(Store raw)
{
    constexpr Key all = (Key)(~0ull >> (64 - 8 * KEY_BYTES)), high = (Key)(all / 2 + 1);
    Key key;

    if constexpr (V0 == WEIR_BOOL) {
        key = raw != 0;
    } else if constexpr (!Type<V0>::real) {
        key = ((Key)raw & all) ^ ((Store)-1 < 0 ? high : 0);
    } else {
        union {
            Store raw;
            typename Word<KEY_BYTES>::type bits;
        } u = {raw};
        real x = Type<V0>::load(raw);

        key = x != x ? all : x == 0 ? high : u.bits & high ? ~(Key)u.bits & all : u.bits | high;
    }
    return V1 ? ~key & all : key;
}

static __device__ inline void put(const weir__sort &a, int64_t in, int64_t out, int64_t k,
                                  uint32_t place)
{
    int64_t to = out + k * a.rows.out_step;

    ((Store *)a.values)[to] = ((const Store *)a.in)[in + place * a.rows.in_step];
    a.indices[to] = place;
}

/* Exchanges across ever smaller distances; places break ties, so the order is stable. */
static __device__ void sort_shared(const weir__sort &a, int64_t in, int64_t out)
{
    constexpr int size = 1 << (V2 ? V2 : 1);
    __shared__ Key keys[size];
    __shared__ uint32_t places[size];

    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        keys[i] = i < a.rows.n ? key_of(((const Store *)a.in)[in + i * a.rows.in_step]) : ~(Key)0;
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
                    Key key = keys[low];
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

/* ---- many blocks a row ---- */

/* The rows that are sorted at once, and their memory: keys and places before and after a digit,
 * and for each row and tile 256 counts. */
struct Batch {
    int64_t first, rows, tiles;
    int digit, step; /* 0: count, 1: add up, 2: move */
    Key *keys, *keys2;
    uint32_t *places, *places2, *counts;
};

static __device__ inline Batch find_batch(const weir__sort &a, uint32_t phase)
{
    int64_t n = a.rows.n, room = weir__sort_rows_at_once(&a.rows) * n;
    Batch b;

    b.first = phase / (3 * KEY_BYTES) * weir__sort_rows_at_once(&a.rows);
    b.rows = a.rows.count - b.first < room / n ? a.rows.count - b.first : room / n;
    b.tiles = (n + TILE - 1) / TILE;
    b.digit = (int)(phase / 3 % KEY_BYTES);
    b.step = (int)(phase % 3);
    b.keys = (Key *)a.wide_rows + (b.digit % 2 ? room : 0);
    b.keys2 = (Key *)a.wide_rows + (b.digit % 2 ? 0 : room);
    b.counts = (uint32_t *)((Key *)a.wide_rows + 2 * room) + 2 * room;
    b.places = b.counts - (b.digit % 2 ? room : 2 * room);
    b.places2 = b.counts - (b.digit % 2 ? 2 * room : room);
    return b;
}

/* The lanes of a warp that have the same digit; those of no element have 256. */
static __device__ inline uint32_t peers_of(uint32_t digit)
{
    return __match_any_sync(~0u, digit);
}

/* The sum of what the threads before this one have. */
static __device__ inline uint32_t sum_before(uint32_t own)
{
    __shared__ uint32_t sums[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t sum = own;

    for (int step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, sum, step);

        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        sum += sums[w];
    __syncthreads();
    return sum - own;
}

/* A tile of a row; a warp has a stretch of it, of which thread and number j name an element. */
struct Tile {
    const Batch &b;
    const weir__sort &a;
    int64_t row, first, in, out;

    __device__ inline Tile(const weir__sort &sort, const Batch &batch, int64_t i)
        : b(batch), a(sort), row(i / batch.tiles), first(i % batch.tiles * TILE)
    {
        weir__rows_at(&a.rows, b.first + row, &in, &out);
    }

    __device__ inline int place(int j) const
    {
        return threadIdx.x / 32 * (ITEMS * 32) + j * 32 + threadIdx.x % 32;
    }

    /* The key of element i, which is in the row. */
    __device__ inline Key key(int i) const
    {
        return b.digit ? b.keys[row * a.rows.n + first + i]
                       : key_of(((const Store *)a.in)[in + (first + i) * a.rows.in_step]);
    }

    __device__ inline uint32_t origin(int i) const
    {
        return b.digit ? b.places[row * a.rows.n + first + i] : (uint32_t)(first + i);
    }

    __device__ inline uint32_t digit(Key key) const
    {
        return (uint32_t)(key >> (8 * b.digit)) & 255;
    }
};

static __device__ void count_tile(const Tile &t, int64_t at)
{
    __shared__ uint32_t counts[256];

    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int j = 0; j < ITEMS; j++) {
        int i = t.place(j);
        uint32_t digit = t.first + i < t.a.rows.n ? t.digit(t.key(i)) : 256, peers;

        peers = peers_of(digit);
        if (digit < 256 && !(peers & ((1u << threadIdx.x % 32) - 1)))
            atomicAdd(&counts[digit], __popc(peers));
    }
    __syncthreads();
    t.b.counts[at * 256 + threadIdx.x] = counts[threadIdx.x];
    __syncthreads();
}

/* Counts become the places where the elements of each digit and tile begin. */
static __device__ void add_up(const Batch &b, int64_t row)
{
    uint32_t *counts = b.counts + row * b.tiles * 256 + threadIdx.x, sum = 0, before;

#pragma unroll 16
    for (int64_t i = 0; i < b.tiles; i++)
        sum += counts[i * 256];
    before = sum_before(sum);
#pragma unroll 16
    for (int64_t i = 0; i < b.tiles; i++) {
        uint32_t count = counts[i * 256];

        counts[i * 256] = before;
        before += count;
    }
}

static __device__ void move_tile(const Tile &t, int64_t at)
{
    __shared__ Key keys[TILE];
    __shared__ uint32_t places[TILE];
    __shared__ uint32_t next[WARPS][256]; /* of each warp's elements of a digit, within the tile */
    __shared__ uint32_t begin[256];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int n = (int)(t.a.rows.n - t.first < TILE ? t.a.rows.n - t.first : TILE);
    uint32_t rank[ITEMS], total = 0, base;
    Key key[ITEMS];

    for (int w = 0; w < WARPS; w++)
        next[w][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = t.place(j);
        uint32_t digit, peers, before;

        key[j] = i < n ? t.key(i) : 0;
        digit = i < n ? t.digit(key[j]) : 256;
        peers = peers_of(digit);
        before = peers & ((1u << lane) - 1);
        rank[j] = digit < 256 ? next[warp][digit] + __popc(before) : 0;
        __syncwarp();
        if (digit < 256 && !before)
            next[warp][digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    /* A thread a digit: where each warp's elements of it begin. */
    for (int w = 0; w < WARPS; w++)
        total += next[w][threadIdx.x];
    base = sum_before(total);
    begin[threadIdx.x] = t.b.counts[at * 256 + threadIdx.x] - base;
    for (int w = 0; w < WARPS; w++) {
        uint32_t count = next[w][threadIdx.x];

        next[w][threadIdx.x] = base;
        base += count;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = t.place(j);

        if (i < n) {
            uint32_t to = next[warp][t.digit(key[j])] + rank[j];

            keys[to] = key[j];
            places[to] = t.origin(i);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
        int64_t to = (uint32_t)(begin[t.digit(keys[i])] + i);

        if (t.b.digit < KEY_BYTES - 1) {
            t.b.keys2[t.row * t.a.rows.n + to] = keys[i];
            t.b.places2[t.row * t.a.rows.n + to] = places[i];
        } else if (to < t.a.k) {
            put(t.a, t.in, t.out, to, places[i]);
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(V2 ? 512 : THREADS)
    sort(const __grid_constant__ weir__sort a, weir__code_context c)
{
    await_earlier();
    if constexpr (V2 != 0) {
        for (int64_t i = blockIdx.x; i < a.rows.count; i += gridDim.x) {
            int64_t in, out;

            weir__rows_at(&a.rows, i, &in, &out);
            sort_shared(a, in, out);
        }
    } else {
        Batch b = find_batch(a, c.phase);

        for (int64_t i = blockIdx.x; i < (b.step == 1 ? b.rows : b.rows * b.tiles); i += gridDim.x)
            if (b.step == 0)
                count_tile(Tile(a, b, i), i);
            else if (b.step == 1)
                add_up(b, i);
            else
                move_tile(Tile(a, b, i), i);
    }
}
