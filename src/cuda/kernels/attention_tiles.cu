/* softmax(q k' scale + mask) v of f16 and bf16 on the tensor cores, without the matrix of scores:
 * a block has 128 query rows of one head and walks over tiles of keys, with a running maximum and
 * sum for each row. While a tile's weights are made, the products of the tile before run.
 * V0: type; V1: type of the mask, 255 without one; V2: causal; V3: d in steps of 16; V4: dv in
 * panels of 64; V5: keys of a tile in panels of 64 */
#include "attention.cuh"
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "wgmma.cuh"
#endif

enum {
    WARPS = 8,
    ROWS = 16 * WARPS,
    KEYS = 64 * V5,
    STEPS = V3,
    PANELS = (V3 + 3) / 4,
    COLUMNS = 64 * V4,
    QUERY_BYTES = PANELS * ROWS * 128,
    KEY_BYTES = PANELS * KEYS * 128,
    VALUE_BYTES = V4 * KEYS * 128,
};

typedef float Scores[KEYS / 8][4];
typedef float Sums[COLUMNS / 8][4];
typedef uint32_t Weights[KEYS / 16][4];

/* Rows first .. first + ROWS - 1 of an operand into a tile, zeros beyond `rows` and `columns`. */
template <int tile_rows, int panels>
static __device__ inline void fetch(uint32_t tile, const char *data, int64_t base, int64_t step,
                                    int64_t first, int64_t rows, int64_t columns)
{
    constexpr int chunks = panels * 8, at_once = WARPS * 32 / chunks;
    int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    uint32_t to = tile + tile_offset(tile_rows, row, chunk);
    const half_bits *from = (const half_bits *)data + base + (first + row) * step + chunk * 8;
    bool in_row = chunk * 8 < columns;

#pragma unroll
    for (int i = 0; i < tile_rows / at_once; i++) {
        bool there = in_row && first + row + i * at_once < rows;

        copy_chunk(to + i * at_once * 128, there ? from + i * at_once * step : (const void *)data,
                   there);
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
static __device__ inline void begin_scores(Scores &s, uint32_t queries, uint32_t keys)
{
    queries += threadIdx.x / 128 * 64 * 128;
    products_begin();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        multiply_shared<V0>(s, tile_descriptor(queries + i / 4 * ROWS * 128 + i % 4 * 32, 16),
                            tile_descriptor(keys + i / 4 * KEYS * 128 + i % 4 * 32, 16), i > 0);
    products_commit();
}

static __device__ inline void begin_sums(Sums &sums, const Weights &w, uint32_t values)
{
    products_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        multiply_held<V0, COLUMNS>(sums, w[i], tile_descriptor(values + i * 2048, KEYS * 128));
    products_commit();
}

/* All that was begun is over but the last `left`. */
template <int left> static __device__ inline void finish(Scores &s, Sums &sums)
{
    products_wait<left>();
    products_hold<KEYS / 8>(s);
    if (left == 0)
        products_hold<COLUMNS / 8>(sums);
}
#else
static __device__ inline void products_see_copies() {}

static __device__ inline void begin_scores(Scores &s, uint32_t queries, uint32_t keys)
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

static __device__ inline void begin_sums(Sums &sums, const Weights &w, uint32_t values)
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            uint32_t b[4];

            load_blocks_turned(b, values + tile_offset(KEYS, i * 16 + lane % 16, j * 2 + lane / 16));
            multiply<V0>(sums[2 * j], w[i], b);
            multiply<V0>(sums[2 * j + 1], w[i], b + 2);
        }
}

template <int left> static __device__ inline void finish(Scores &, Sums &) {}
#endif

/* Scores of the keys from `first` on become weights; returns what the sums so far are worth. */
static __device__ inline void soften(const weir__attention &a, Scores &s, Row *rows, float scale,
                                     int64_t first, float *factors)
{
    float within = ADDS ? 1 : scale, bias[2];

    if (V1 != 255 || first + KEYS > rows[0].limit || first + KEYS > rows[1].limit) {
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[j][i] = visible(a, rows[i / 2], s[j][i], scale,
                                  first + j * 8 + threadIdx.x % 4 * 2 + i % 2);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = rows[r].top;

#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        factors[r] = raise(rows[r], quad_max(top), within, &bias[r]);
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[j][i] = power(s[j][i] * within - bias[i / 2]);
            rows[i / 2].total += s[j][i];
        }
}

static __device__ inline void pack(Weights &w, const Scores &s)
{
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            w[i][j] = pack_two<V0>(s[2 * i + j / 2][j % 2 * 2], s[2 * i + j / 2][j % 2 * 2 + 1]);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_tiles(const __grid_constant__ weir__attention a)
{
    extern __shared__ char memory[];
    uint32_t queries = (shared_address(memory) + 1023) & ~1023u, keys = queries + QUERY_BYTES;
    uint32_t values = keys + 2 * KEY_BYTES;
    int64_t row_tiles = (a.lq + ROWS - 1) / ROWS, unit = blockIdx.x / row_tiles;
    int64_t first_row = (row_tiles - 1 - blockIdx.x % row_tiles) * ROWS; /* long rows first */
    int64_t head = unit % a.heads, key_head = head / (a.heads / a.key_heads);
    int64_t row = first_row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, last = a.lk;
    Places at = find_batch(a, unit / a.heads);
    float scale = (float)(a.scale * 1.4426950408889634), factors[2];
    Row rows[2];
    Scores s;
    Sums sums;
    Weights w;
    int tiles;

    at.q += head * a.q.head;
    at.k += key_head * a.k.head;
    at.v += key_head * a.v.head;
    at.mask += head * a.mask.head;
    if (V2) {
        int64_t end = (first_row + ROWS < a.lq ? first_row + ROWS : a.lq) + a.lk - a.lq;

        last = end < last ? end : last;
    }
    tiles = last > 0 ? (int)((last + KEYS - 1) / KEYS) : 0;
    for (int r = 0; r < 2; r++) {
        int64_t own = row + 8 * r < a.lq ? row + 8 * r : a.lq - 1;

        rows[r] = {at.mask + own * a.mask.row, a.lk, below(), 0};
        if (V2 && own + a.lk - a.lq + 1 < a.lk)
            rows[r].limit = own + a.lk - a.lq + 1;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
        sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;

    if (tiles) {
        fetch<ROWS, PANELS>(queries, a.q.data, at.q, a.q.row, first_row, a.lq, a.d);
        fetch<KEYS, PANELS>(keys, a.k.data, at.k, a.k.row, 0, a.lk, a.d);
        copies_commit();
        fetch<KEYS, V4>(values, a.v.data, at.v, a.v.row, 0, a.lk, a.dv);
        if (tiles > 1)
            fetch<KEYS, PANELS>(keys + KEY_BYTES, a.k.data, at.k, a.k.row, KEYS, a.lk, a.d);
        copies_commit();
        copies_wait<1>();
        products_see_copies();
        __syncthreads();
        begin_scores(s, queries, keys);
        finish<0>(s, sums);
        soften(a, s, rows, scale, 0, factors);
        pack(w, s);
    }
    for (int t = 1; t < tiles; t++) {
        copies_wait<0>();
        products_see_copies();
        __syncthreads(); /* tile t's keys and tile t - 1's values are there for all */
        fetch<KEYS, V4>(values + t % 2 * VALUE_BYTES, a.v.data, at.v, a.v.row, (int64_t)t * KEYS,
                        a.lk, a.dv);
        if (t + 1 < tiles)
            fetch<KEYS, PANELS>(keys + (t + 1) % 2 * KEY_BYTES, a.k.data, at.k, a.k.row,
                                (int64_t)(t + 1) * KEYS, a.lk, a.d);
        copies_commit();
        begin_scores(s, queries, keys + t % 2 * KEY_BYTES);
        begin_sums(sums, w, values + (t - 1) % 2 * VALUE_BYTES);
        finish<1>(s, sums);
        soften(a, s, rows, scale, (int64_t)t * KEYS, factors);
        finish<0>(s, sums);
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[j][i] *= factors[i / 2];
        pack(w, s);
    }
    if (tiles) {
        copies_wait<0>();
        products_see_copies();
        __syncthreads();
        begin_sums(sums, w, values + (tiles - 1) % 2 * VALUE_BYTES);
        finish<0>(s, sums);
    }
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(rows[r].total), share = total == 0 ? 0 : 1 / total;
        uint32_t *out = (uint32_t *)a.out + (unit * a.lq + row + 8 * r) * (a.dv / 2);

        if (row + 8 * r >= a.lq)
            continue;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            if (j * 8 < a.dv)
                out[j * 4 + threadIdx.x % 4] =
                    pack_two<V0>(sums[j][2 * r] * share, sums[j][2 * r + 1] * share);
    }
}
