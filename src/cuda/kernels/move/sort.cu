/* Sorts rows by keys: unsigned numbers in the order of the values, with NaN last and -0 as 0. A row
 * of a few elements is sorted by a warp. Other rows that fit into shared memory are sorted by one
 * block each. Longer rows are sorted by many blocks, digit by digit in scratch memory: the blocks
 * count the digits of their tiles, one block per row adds up the counts, and the blocks move the
 * elements of their tiles, in order, to the positions of their digits.
 * V0: type; V1: descending; V2: log2 of a row's elements, rounded up, 0 for scratch memory */
#include "device/code.h"

#include "kernel.cuh"
#include "ops/host/move/sort.h"

typedef Type<V0>::store Store;
typedef Type<V0>::compute real;

enum {
    KEY_BYTES = sizeof(Store), /* for bool the whole byte counts */
    WARPS = 8,
    THREADS = WARPS * 32,
    TILE = WEIR__SORT_TILE(KEY_BYTES),
    ITEMS = TILE / THREADS, /* elements of a thread */
};

typedef Word < KEY_BYTES<4 ? 4 : KEY_BYTES>::type Key;

/* Returns the key in the low KEY_BYTES bytes. */
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

/* ---- a warp a row ---- */

/* Each element computes its rank by comparing with all others. Of equal elements the first ranks
 * lower. */
static __device__ void sort_by_warp(const weir__sort &a, int64_t in, int64_t out)
{
    constexpr int items = V2 > 5 ? 1 << (V2 - 5) : 1;
    int lane = threadIdx.x % 32, n = (int)a.rows.n, rank[items] = {};
    Key key[items];

#pragma unroll
    for (int j = 0; j < items; j++)
        key[j] = j * 32 + lane < n
                     ? key_of(((const Store *)a.in)[in + (j * 32 + lane) * a.rows.in_step])
                     : 0;
#pragma unroll
    for (int other = 0; other < items; other++)
        for (int from = 0; from < 32 && other * 32 + from < n; from++) {
            Key than = __shfl_sync(~0u, key[other], from);

#pragma unroll
            for (int j = 0; j < items; j++)
                rank[j] += than < key[j] || (than == key[j] && other * 32 + from < j * 32 + lane);
        }
#pragma unroll
    for (int j = 0; j < items; j++)
        if (j * 32 + lane < n && rank[j] < a.k)
            put(a, in, out, rank[j], (uint32_t)(j * 32 + lane));
}

/* ---- elements of a block in the order of a digit ---- */

/* The lanes of a warp that have the same digit. Lanes without an element pass 256. */
static __device__ inline uint32_t peers_of(uint32_t digit)
{
    return __match_any_sync(~0u, digit);
}

/* The sum of the values of the threads before this one. */
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

/* The index of element number j of this thread. A warp has a contiguous part of its block's
 * elements. */
template <int items> static __device__ inline int place_of(int j)
{
    return threadIdx.x / 32 * (items * 32) + j * 32 + threadIdx.x % 32;
}

static __device__ inline uint32_t digit_of(Key key, int shift)
{
    return (uint32_t)(key >> shift) & 255;
}

/* Keys and their original positions, in shared memory. */
template <int items> struct Arranged {
    Key keys[items * THREADS];
    uint32_t places[items * THREADS];
    uint32_t next[WARPS][256]; /* by warp and digit: the count, then the next position */
};

/* Writes the block's n elements to `to` in the order of a digit; elements of the same digit keep
 * their order. Returns the start of the elements whose digit is the thread's number. */
template <int items>
static __device__ inline uint32_t arrange(Arranged<items> &to, const Key *key,
                                          const uint32_t *place, int n, int shift)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t rank[items], total = 0, first, base;

    for (int w = 0; w < WARPS; w++)
        to.next[w][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; j++) {
        uint32_t digit = place_of<items>(j) < n ? digit_of(key[j], shift) : 256;
        uint32_t peers = peers_of(digit), before = peers & ((1u << lane) - 1);

        rank[j] = digit < 256 ? to.next[warp][digit] + __popc(before) : 0;
        __syncwarp();
        if (digit < 256 && !before)
            to.next[warp][digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    /* Each thread takes one digit, and finds where each warp's elements of that digit begin. */
    for (int w = 0; w < WARPS; w++)
        total += to.next[w][threadIdx.x];
    first = base = sum_before(total);
    for (int w = 0; w < WARPS; w++) {
        uint32_t count = to.next[w][threadIdx.x];

        to.next[w][threadIdx.x] = base;
        base += count;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; j++)
        if (place_of<items>(j) < n) {
            uint32_t at = to.next[warp][digit_of(key[j], shift)] + rank[j];

            to.keys[at] = key[j];
            to.places[at] = place[j];
        }
    __syncthreads();
    return first;
}

/* ---- a block a row ---- */

/* The bits in which some keys of the block differ from others. */
template <int items> static __device__ inline Key differing_bits(const Key *key, int n)
{
    __shared__ Key one, bits[WARPS];
    Key own = 0;

    if (!threadIdx.x)
        one = key[0];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < items; j++)
        own |= place_of<items>(j) < n ? key[j] ^ one : 0;
    for (int step = 16; step; step /= 2)
        own |= __shfl_xor_sync(~0u, own, step);
    if (!(threadIdx.x % 32))
        bits[threadIdx.x / 32] = own;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        own |= bits[w];
    __syncthreads();
    return own;
}

/* Digit by digit. Digits that are equal in all keys are skipped: the numbers of a few experts need
 * one pass. */
static __device__ void sort_by_block(const weir__sort &a, int64_t in, int64_t out)
{
    constexpr int items = V2 > 8 ? 1 << (V2 - 8) : 1;
    __shared__ Arranged<items> sorted;
    int n = (int)a.rows.n;
    uint32_t place[items];
    Key key[items], differing;

#pragma unroll
    for (int j = 0; j < items; j++) {
        int i = place_of<items>(j);

        place[j] = i;
        key[j] = i < n ? key_of(((const Store *)a.in)[in + i * a.rows.in_step]) : 0;
    }
    differing = differing_bits<items>(key, n);
    for (int shift = 0; shift < 8 * KEY_BYTES; shift += 8)
        if (digit_of(differing, shift)) {
            arrange<items>(sorted, key, place, n, shift);
#pragma unroll
            for (int j = 0; j < items; j++)
                if (place_of<items>(j) < n) {
                    key[j] = sorted.keys[place_of<items>(j)];
                    place[j] = sorted.places[place_of<items>(j)];
                }
            __syncthreads();
        }
#pragma unroll
    for (int j = 0; j < items; j++)
        if (place_of<items>(j) < n && place_of<items>(j) < a.k)
            put(a, in, out, place_of<items>(j), place[j]);
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

/* A tile of a row. */
struct Tile {
    const Batch &b;
    const weir__sort &a;
    int64_t row, first, in, out;

    __device__ inline Tile(const weir__sort &sort, const Batch &batch, int64_t i)
        : b(batch), a(sort), row(i / batch.tiles), first(i % batch.tiles * TILE)
    {
        weir__rows_at(&a.rows, b.first + row, &in, &out);
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
};

static __device__ void count_tile(const Tile &t, int64_t at)
{
    __shared__ uint32_t counts[256];

    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int j = 0; j < ITEMS; j++) {
        int i = place_of<ITEMS>(j);
        uint32_t digit = t.first + i < t.a.rows.n ? digit_of(t.key(i), 8 * t.b.digit) : 256;
        uint32_t peers = peers_of(digit);

        if (digit < 256 && !(peers & ((1u << threadIdx.x % 32) - 1)))
            atomicAdd(&counts[digit], __popc(peers));
    }
    __syncthreads();
    t.b.counts[at * 256 + threadIdx.x] = counts[threadIdx.x];
    __syncthreads();
}

/* Turns the counts into the start offsets of each digit and tile. */
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
    __shared__ Arranged<ITEMS> sorted;
    __shared__ uint32_t begin[256]; /* of each digit: its start in the row minus its start in the tile */
    int n = (int)(t.a.rows.n - t.first < TILE ? t.a.rows.n - t.first : TILE);
    uint32_t place[ITEMS], first;
    Key key[ITEMS];

#pragma unroll
    for (int j = 0; j < ITEMS; j++) {
        int i = place_of<ITEMS>(j);

        key[j] = i < n ? t.key(i) : 0;
        place[j] = i < n ? t.origin(i) : 0;
    }
    first = arrange<ITEMS>(sorted, key, place, n, 8 * t.b.digit);
    begin[threadIdx.x] = t.b.counts[at * 256 + threadIdx.x] - first;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += THREADS) {
        int64_t to = (uint32_t)(begin[digit_of(sorted.keys[i], 8 * t.b.digit)] + i);

        if (t.b.digit < KEY_BYTES - 1) {
            t.b.keys2[t.row * t.a.rows.n + to] = sorted.keys[i];
            t.b.places2[t.row * t.a.rows.n + to] = sorted.places[i];
        } else if (to < t.a.k) {
            put(t.a, t.in, t.out, to, sorted.places[i]);
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sort(const __grid_constant__ weir__sort a, weir__code_context c)
{
    await_earlier();
    if constexpr (V2 != 0) {
        /* By the warp or by the block. */
        constexpr int rows = V2 <= WEIR__GPU_SORT_WARP ? WARPS : 1;

        for (int64_t i = blockIdx.x * (int64_t)rows; i < a.rows.count;
             i += gridDim.x * (int64_t)rows) {
            int64_t row = i + (rows > 1 ? threadIdx.x / 32 : 0), in, out;

            if (row >= a.rows.count)
                break;
            weir__rows_at(&a.rows, row, &in, &out);
            if constexpr (rows > 1)
                sort_by_warp(a, in, out);
            else
                sort_by_block(a, in, out);
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
