/* softmax(q k' scale + mask) v of f16 and bf16 on the tensor cores, without storing the matrix of
 * scores. A block has some query rows of one head and processes tiles of keys one after the other,
 * with a running maximum and sum for each row. This form uses one warp's matrix instructions, which
 * every supported GPU has. A block's threads fetch a tile of keys while they compute with the
 * previous tile. Variants: see attention_tiles.cuh. */
#include "attention_tiles.cuh"
#if V5
#include "attention_groups.cuh"
#else

/* Fetches rows of an operand, from `first` on, into a tile; zeros beyond `rows` and `columns`. */
template <int tile_rows, int panels>
static __device__ inline void fetch(uint32_t tile, const char *data, int64_t base, int64_t step,
                                    int64_t first, int64_t rows, int64_t columns)
{
    /* The number of threads for a row is a power of two, so some of them have nothing to fetch. */
    constexpr int chunks = panels == 3 ? 32 : panels * 8, at_once = WARPS * 32 / chunks;
    int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    const half_bits *from = (const half_bits *)data + base + (first + row) * step + chunk * 8;
    int64_t left = chunk * 8 < columns ? rows - first - row : 0;

    if (chunk >= panels * 8)
        return;
#pragma unroll 8
    for (int i = 0; i < tile_rows; i += at_once) {
        bool there = i < left;

        copy_chunk(tile + tile_offset(tile_rows, row + i, chunk),
                   there ? from + i * step : (const void *)data, there);
    }
}

/* Fetches keys and values of tile t. */
static __device__ inline void fetch_tile(const weir__attention &a, const Unit &u, uint32_t keys,
                                         uint32_t values, int t)
{
    fetch<KEYS, PANELS>(keys + t % STAGES * KEY_BYTES, a.k.data, u.at.k, a.k.row, (int64_t)t * KEYS,
                        a.lk, a.d);
    fetch<KEYS, V4>(values + t % STAGES * VALUE_BYTES, a.v.data, u.at.v, a.v.row, (int64_t)t * KEYS,
                    a.lk, a.dv);
    copies_commit();
}

static __device__ inline void add_scores(Scores &s, uint32_t queries, uint32_t keys)
{
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;

#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t a[4], b[4];

        load_blocks(a, queries + tile_offset(ROWS, row, i * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            load_blocks(b, keys + tile_offset(KEYS, j * 16 + lane / 16 * 8 + lane % 8,
                                              i * 2 + lane / 8 % 2));
            multiply<V0>(s[2 * j], a, b);
            multiply<V0>(s[2 * j + 1], a, b + 2);
        }
    }
}

static __device__ inline void add_sums(Sums &sums, const Weights &w, uint32_t values)
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            uint32_t b[4];

            load_blocks_turned(b, values + tile_offset(KEYS, i * 16 + lane % 16,
                                                       j * 2 + lane / 16));
            multiply<V0>(sums[2 * j], w[i], b);
            multiply<V0>(sums[2 * j + 1], w[i], b + 2);
        }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_tiles(const __grid_constant__ weir__attention a)
{
    await_earlier();
    extern __shared__ char memory[];
    uint32_t queries = (shared_address(memory) + 1023) & ~1023u, keys = queries + QUERY_BYTES;
    uint32_t values = keys + STAGES * KEY_BYTES;
    float scale = (float)(a.scale * 1.4426950408889634), factors[2];
    unsigned row_tiles = (unsigned)((a.lq + ROWS - 1) / ROWS);
    Unit u = make_unit(a, blockIdx.x / row_tiles, row_tiles - 1 - blockIdx.x % row_tiles);
    Row rows[2];
    Sums sums = {};

    make_rows(a, u, rows);
    if (u.tiles) {
        fetch<ROWS, PANELS>(queries, a.q.data, u.at.q, a.q.row, u.first_row, a.lq, a.d);
        fetch_tile(a, u, keys, values, 0);
    }
    for (int t = 0; t < u.tiles; t++) {
        Scores s;
        Weights w;
        Mask m;

        if (WIDE_MASK)
            load_mask(a, rows, t * KEYS, m);
        copies_wait<0>();
        __syncthreads(); /* the tile has arrived, and no thread reads the previous one any more */
        if (t + 1 < u.tiles)
            fetch_tile(a, u, keys, values, t + 1);
        add_scores(s, queries, keys + t % STAGES * KEY_BYTES);
        soften(a, s, rows, m, scale, t * KEYS, factors);
        pack(w, s);
        rescale(sums, factors);
        add_sums(sums, w, values + t % STAGES * VALUE_BYTES);
    }
    put_rows(a, u, rows, sums);
}

#endif
