/* Attention of many queries on Hopper. One warp only starts copies of whole tiles. Groups of four
 * warps compute 64 rows each. While a group computes the weights of a tile, its products of the
 * previous tile and the products of the other groups run. */
#pragma once

#include "attention_tiles.cuh"
#include "device/code.h"
#include "wgmma.cuh"

/* Addresses of tiles, and the barriers that guard them: one warp fills empty tiles, the others
 * compute with full tiles. Keys and values have one barrier for each stage. */
struct Memory {
    uint32_t queries, keys, values;
    uint32_t made; /* see end_sums */
    uint32_t queries_full, queries_empty, keys_full, keys_empty, values_full, values_empty;
};

static __device__ inline Memory lay_out(const char *memory)
{
    Memory m;
    uint32_t barriers = shared_address(memory);

    m.queries = (barriers + 128 + 1023) & ~1023u;
    m.keys = m.queries + QUERY_BYTES;
    m.values = m.keys + STAGES * KEY_BYTES;
    m.made = m.values + STAGES * VALUE_BYTES;
    m.queries_full = barriers;
    m.queries_empty = barriers + 8;
    m.keys_full = barriers + 16;
    m.keys_empty = m.keys_full + STAGES * 8;
    m.values_full = m.keys_empty + STAGES * 8;
    m.values_empty = m.values_full + STAGES * 8;
    return m;
}

static __device__ inline void init_barriers(const Memory &m)
{
    barrier_init(m.queries_full, 1);
    barrier_init(m.queries_empty, WARPS);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(m.keys_full + i * 8, 1);
        barrier_init(m.values_full + i * 8, 1);
        barrier_init(m.keys_empty + i * 8, WARPS);
        barrier_init(m.values_empty + i * 8, WARPS);
    }
    barriers_show();
}

/* Finds the n-th unit of this block; false if it has no more. Tiles of rows are assigned to the
 * blocks in turn. If later rows see more keys, a block takes two tiles at a time, one from the end
 * of a head and one from the start of the next, so that all pairs take equally long. */
static __device__ inline bool find_unit(const weir__attention &a, unsigned heads, unsigned n,
                                        Unit *u)
{
    unsigned row_tiles = (unsigned)((a.lq + ROWS - 1) / ROWS), tiles = heads * row_tiles;
    bool paired = CAUSAL && tiles > gridDim.x;
    unsigned i = blockIdx.x + (paired ? n / 2 : n) * gridDim.x, head = i / row_tiles;
    unsigned tile = row_tiles - 1 - i % row_tiles;

    if (paired) {
        if (head < heads / 2) {
            head = 2 * head + n % 2;
            tile = n % 2 ? i % row_tiles : tile;
        } else if (i - heads / 2 * row_tiles >= heads % 2 * row_tiles) {
            return false;
        } else { /* the last of an odd number of heads */
            head = heads - 1;
            if (n % 2) {
                *u = make_unit(a, head, row_tiles);
                u->tiles = 0;
                return true;
            }
        }
    } else if (i >= tiles) {
        return false;
    }
    *u = make_unit(a, head, tile);
    return true;
}

static __device__ inline unsigned count_heads(const weir__attention &a)
{
    unsigned n = (unsigned)a.heads;

    for (int d = 0; d < a.ndims; d++)
        n *= (unsigned)a.shape[d];
    return n;
}

/* ---- fetching ---- */

/* Tensor maps of the operands. The third coordinate is the offset of a matrix, in units of 16
 * bytes. */
struct Maps {
    TileMap q, k, v;
};

/* Waits until the tile that tile t will overwrite has been consumed. */
static __device__ inline void await_empty(uint32_t barriers, int t)
{
    if (t >= STAGES)
        barrier_wait(barriers + t % STAGES * 8, t / STAGES - 1 & 1);
}

static __device__ inline void await_full(uint32_t barriers, int t)
{
    barrier_wait(barriers + t % STAGES * 8, t / STAGES & 1);
}

template <int tile_rows, int panels>
static __device__ inline void fetch(const TileMap &map, uint32_t tile, uint32_t full, int64_t base,
                                    int row)
{
    barrier_expect(full, panels * tile_rows * 128);
#pragma unroll
    for (int i = 0; i < panels; i++)
        copy_tile(tile + i * tile_rows * 128, map, i * 64, row, (int)(base / 8), full);
}

static __device__ inline void fetch_all(const weir__attention &a, const Maps &maps, const Memory &m)
{
    unsigned heads = count_heads(a);
    int t = 0, used = 0; /* numbers of tiles, and of units that have tiles */
    Unit u;

    for (unsigned n = 0; find_unit(a, heads, n, &u); n++) {
        if (!u.tiles)
            continue;
        if (used)
            barrier_wait(m.queries_empty, used - 1 & 1);
        used++;
        fetch<ROWS, PANELS>(maps.q, m.queries, m.queries_full, u.at.q, u.first_row);
        for (int i = 0; i < u.tiles; i++, t++) {
            int stage = t % STAGES;

            await_empty(m.keys_empty, t);
            fetch<KEYS, PANELS>(maps.k, m.keys + stage * KEY_BYTES, m.keys_full + stage * 8, u.at.k,
                                i * KEYS);
            await_empty(m.values_empty, t);
            fetch<KEYS, V4>(maps.v, m.values + stage * VALUE_BYTES, m.values_full + stage * 8,
                            u.at.v, i * KEYS);
        }
    }
}

/* ---- computing ---- */

/* One thread of each warp arrives at the barrier when the warp has consumed the tile. */
static __device__ inline void leave(uint32_t barrier)
{
    if (threadIdx.x % 32 == 0)
        barrier_arrive(barrier);
}

static __device__ inline void begin_scores(Scores &s, const Memory &m, int t)
{
    uint32_t queries = m.queries + threadIdx.x / 128 * 64 * 128;
    uint32_t keys = m.keys + t % STAGES * KEY_BYTES;

    await_full(m.keys_full, t);
    products_begin();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        multiply_shared<V0, KEYS>(s, tile_descriptor(queries + i / 4 * ROWS * 128 + i % 4 * 32, 16),
                                  tile_descriptor(keys + i / 4 * KEYS * 128 + i % 4 * 32, 16),
                                  i > 0);
    products_commit();
}

static __device__ inline void begin_sums(Sums &sums, const Weights &w, const Memory &m, int t)
{
    uint32_t values = m.values + t % STAGES * VALUE_BYTES;

    await_full(m.values_full, t);
    products_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) {
        uint32_t rows = values + i * 2048;

#pragma unroll
        for (int j = 0; j < V4 / 2; j++) /* two panels at a time */
            multiply_held<V0, 128>(sums + j * 16, w[i],
                                   tile_descriptor(rows + 2 * j * KEYS * 128, KEYS * 128));
        if (V4 % 2)
            multiply_held<V0, 64>(sums + V4 / 2 * 16, w[i],
                                  tile_descriptor(rows + (V4 - 1) * KEYS * 128, KEYS * 128));
    }
    products_commit();
}

/* Waits for the scores of tile t; then its keys are not needed any more. */
template <int left> static __device__ inline void end_scores(Scores &s, const Memory &m, int t)
{
    products_wait<left>();
    products_hold<KEYS / 8>(s);
    leave(m.keys_empty + t % STAGES * 8);
}

/* The weights whose sum is `made` must be computed before the wait, while the products run. The
 * compiler would compute them after the wait, but a store of the sum forces it to do so before. For
 * short rows the compiler's order is faster. */
static __device__ inline void end_sums(Sums &sums, float made, const Memory &m, int t)
{
    if (V4 > 1)
        store_shared(m.made + (uint32_t)threadIdx.x * 4, made);
    products_wait<0>();
    products_hold<COLUMNS / 8>(sums);
    leave(m.values_empty + t % STAGES * 8);
}

/* The groups issue products in turn, so that one computes weights while the products of others
 * run. */
static __device__ inline void await_turn()
{
    group_sync<256>(1 + (int)threadIdx.x / 128);
}

static __device__ inline void pass_turn()
{
    group_arrive<256>(1 + ((int)threadIdx.x / 128 + 1) % V5);
}

/* Computes rows of a unit against all tiles of its keys. Tiles are numbered from `n` on. */
static __device__ inline void take_unit(const weir__attention &a, const Memory &m, int tiles, int n,
                                        float scale, Row *rows, Sums &sums)
{
    float factors[2];
    Scores s;
    Weights w;
    Mask mask;

    await_turn();
    begin_scores(s, m, n);
    pass_turn();
    if (WIDE_MASK)
        load_mask(a, rows, 0, mask);
    end_scores<0>(s, m, n);
    if (tiles == 1)
        leave(m.queries_empty);
    soften(a, s, rows, mask, scale, 0, factors);
    pack(w, s);
    for (int t = 1; t < tiles; t++) {
        await_turn();
        begin_scores(s, m, n + t);
        begin_sums(sums, w, m, n + t - 1);
        pass_turn();
        if (WIDE_MASK)
            load_mask(a, rows, t * KEYS, mask);
        end_scores<1>(s, m, n + t);
        if (t == tiles - 1)
            leave(m.queries_empty);
        soften(a, s, rows, mask, scale, t * KEYS, factors);
        end_sums(sums, rows[0].total + rows[1].total, m, n + t - 1);
        pack(w, s);
        rescale(sums, factors);
    }
    begin_sums(sums, w, m, n + tiles - 1);
    end_sums(sums, 0, m, n + tiles - 1);
}

static __device__ inline void compute(const weir__attention &a, const Memory &m)
{
    float scale = (float)(a.scale * 1.4426950408889634);
    unsigned heads = count_heads(a);
    int t = 0, used = 0;
    Unit u;

    if (threadIdx.x / 128 == V5 - 1)
        pass_turn(); /* the first group begins */
    for (unsigned n = 0; find_unit(a, heads, n, &u); n++) {
        Row rows[2];
        Sums sums;

        make_rows(a, u, rows);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
        if (u.tiles) {
            barrier_wait(m.queries_full, used++ & 1);
            take_unit(a, m, u.tiles, t, scale, rows, sums);
            t += u.tiles;
        }
        put_rows(a, u, rows, sums);
    }
    if (threadIdx.x / 128 == 0)
        await_turn(); /* the turn that the last group has passed on */
}

extern "C" __global__ void __launch_bounds__(WARPS * 32 + 128, 1)
    attention_tiles(const __grid_constant__ weir__attention a, const weir__code_context,
                    const __grid_constant__ Maps maps)
{
    await_earlier();
    extern __shared__ char memory[];
    Memory m = lay_out(memory);

    if (threadIdx.x == 0)
        init_barriers(m);
    __syncthreads();
    /* Move registers to the warps that compute. Only groups of four warps can release registers, so
     * there are three idle warps beside the warp that fetches. */
    if (threadIdx.x < WARPS * 32) {
        take_registers<V5 == 3 ? 160 : 240>();
        compute(a, m);
    } else {
        leave_registers<V5 == 3 ? 32 : 24>();
        if (threadIdx.x == WARPS * 32)
            fetch_all(a, maps, m);
    }
}
