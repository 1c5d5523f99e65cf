/* softmax(q k' scale + mask) v of f16 and bf16 on the tensor cores, without the matrix of scores:
 * a block has 128 query rows of one head and walks over tiles of keys, with a running maximum and
 * sum for each row. On Hopper warps of their own fetch the tiles, and while a tile's weights are
 * made, the products of the tile before run.
 * V0: type; V1: type of the mask, 255 without one; V2: causal; V3: d in steps of 16; V4: dv in
 * panels of 64; V5: keys of a tile in panels of 64 */
#include "attention.cuh"
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "wgmma.cuh"
#endif

enum {
    WARPS = 8, /* that compute */
    FETCHERS = 128,
    ROWS = 16 * WARPS,
    KEYS = 64 * V5,
    STAGES = 1 + V5, /* tiles of keys, and of values, that there is room for */
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

/* A block's share: rows from first_row on of one head. */
struct Unit {
    Places at;
    int64_t head, first_row; /* head counts through the batches */
    int tiles;               /* of keys that some row sees */
};

static __device__ inline Unit find_unit(const weir__attention &a)
{
    int64_t row_tiles = (a.lq + ROWS - 1) / ROWS, last = a.lk;
    int64_t head = blockIdx.x / row_tiles % a.heads, key_head = head / (a.heads / a.key_heads);
    Unit u;

    u.head = blockIdx.x / row_tiles;
    u.first_row = (row_tiles - 1 - blockIdx.x % row_tiles) * ROWS; /* long rows first */
    u.at = find_batch(a, u.head / a.heads);
    u.at.q += head * a.q.head;
    u.at.k += key_head * a.k.head;
    u.at.v += key_head * a.v.head;
    u.at.mask += head * a.mask.head;
    if (V2) {
        int64_t end = (u.first_row + ROWS < a.lq ? u.first_row + ROWS : a.lq) + a.lk - a.lq;

        last = end < last ? end : last;
    }
    u.tiles = last > 0 ? (int)((last + KEYS - 1) / KEYS) : 0;
    return u;
}

/* Rows `first` and after of an operand into a tile, by `threads` threads of which this is number
 * `thread`; zeros beyond `rows` and `columns`. */
template <int tile_rows, int panels, int threads>
static __device__ inline void fetch(int thread, uint32_t tile, const char *data, int64_t base,
                                    int64_t step, int64_t first, int64_t rows, int64_t columns)
{
    constexpr int chunks = panels * 8, at_once = threads / chunks;
    int chunk = thread % chunks, row = thread / chunks;
    const half_bits *from = (const half_bits *)data + base + (first + row) * step + chunk * 8;
    int64_t left = chunk * 8 < columns ? rows - first - row : 0;

#pragma unroll 8
    for (int i = 0; i < tile_rows; i += at_once) {
        bool there = i < left;

        copy_chunk(tile + tile_offset(tile_rows, row + i, chunk),
                   there ? from + i * step : (const void *)data, there);
    }
}

/* Keys and values of tile t. */
template <int threads>
static __device__ inline void fetch_keys(const weir__attention &a, const Unit &u, int thread,
                                         uint32_t keys, int t)
{
    fetch<KEYS, PANELS, threads>(thread, keys + t % STAGES * KEY_BYTES, a.k.data, u.at.k, a.k.row,
                                 (int64_t)t * KEYS, a.lk, a.d);
}

template <int threads>
static __device__ inline void fetch_values(const weir__attention &a, const Unit &u, int thread,
                                           uint32_t values, int t)
{
    fetch<KEYS, V4, threads>(thread, values + t % STAGES * VALUE_BYTES, a.v.data, u.at.v, a.v.row,
                             (int64_t)t * KEYS, a.lk, a.dv);
}

/* Scores of the keys from `first` on become weights; `factors` are what the sums so far are
 * worth. */
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

static __device__ inline void rescale(Sums &sums, const float *factors)
{
    if (!__any_sync(~0u, factors[0] != 1 || factors[1] != 1))
        return; /* most tiles have no new maximum */
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[j][i] *= factors[i / 2];
}

/* The two rows of this thread. */
static __device__ inline void make_rows(const weir__attention &a, const Unit &u, Row *rows)
{
    for (int r = 0; r < 2; r++) {
        int64_t row = u.first_row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r;

        row = row < a.lq ? row : a.lq - 1;
        rows[r] = {u.at.mask + row * a.mask.row, a.lk, below(), 0};
        if (V2 && row + a.lk - a.lq + 1 < a.lk)
            rows[r].limit = row + a.lk - a.lq + 1;
    }
}

static __device__ inline void put_rows(const weir__attention &a, const Unit &u, const Row *rows,
                                       const Sums &sums)
{
    for (int r = 0; r < 2; r++) {
        int64_t row = u.first_row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r;
        float total = quad_sum(rows[r].total), share = total == 0 ? 0 : 1 / total;
        uint32_t *out = (uint32_t *)a.out + (u.head * a.lq + row) * (a.dv / 2);

        if (row >= a.lq)
            continue;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            if (j * 8 < a.dv)
                out[j * 4 + threadIdx.x % 4] =
                    pack_two<V0>(sums[j][2 * r] * share, sums[j][2 * r + 1] * share);
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Where tiles are, and who has them: those that fetch fill what is empty, the others empty
 * what is full. */
struct Memory {
    uint32_t queries, keys, values;
    uint32_t keys_full, values_full, keys_empty, values_empty; /* barriers, one for each tile */
};

/* Waits for the tile that lies where tile t will to be used up. */
static __device__ inline void await_empty(uint32_t barriers, int t)
{
    if (t >= STAGES)
        barrier_wait(barriers + t % STAGES * 8, t / STAGES - 1 & 1);
}

static __device__ inline void await_full(uint32_t barriers, int t)
{
    barrier_wait(barriers + t % STAGES * 8, t / STAGES & 1);
    products_see_copies();
}

static __device__ inline void fetch_all(const weir__attention &a, const Unit &u, const Memory &m)
{
    int thread = threadIdx.x % FETCHERS;

    fetch<ROWS, PANELS, FETCHERS>(thread, m.queries, a.q.data, u.at.q, a.q.row, u.first_row, a.lq,
                                  a.d);
    for (int t = 0; t < u.tiles; t++) {
        await_empty(m.keys_empty, t);
        fetch_keys<FETCHERS>(a, u, thread, m.keys, t);
        barrier_arrive_after_copies(m.keys_full + t % STAGES * 8); /* the first: queries, too */
        await_empty(m.values_empty, t);
        fetch_values<FETCHERS>(a, u, thread, m.values, t);
        barrier_arrive_after_copies(m.values_full + t % STAGES * 8);
    }
    copies_wait<0>(); /* nobody leaves before what was asked for has come */
}

static __device__ inline void begin_scores(Scores &s, const Memory &m, int t)
{
    uint32_t queries = m.queries + threadIdx.x / 128 * 64 * 128, keys;

    keys = m.keys + t % STAGES * KEY_BYTES;
    await_full(m.keys_full, t);
    products_begin();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        multiply_shared<V0>(s, tile_descriptor(queries + i / 4 * ROWS * 128 + i % 4 * 32, 16),
                            tile_descriptor(keys + i / 4 * KEYS * 128 + i % 4 * 32, 16), i > 0);
    products_commit();
}

static __device__ inline void begin_sums(Sums &sums, const Weights &w, const Memory &m, int t)
{
    uint32_t values = m.values + t % STAGES * VALUE_BYTES;

    await_full(m.values_full, t);
    products_begin();
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
        multiply_held<V0, COLUMNS>(sums, w[i], tile_descriptor(values + i * 2048, KEYS * 128));
    products_commit();
}

/* The scores of tile t are there, and its keys are not needed any more. */
template <int left> static __device__ inline void end_scores(Scores &s, const Memory &m, int t)
{
    products_wait<left>();
    products_hold<KEYS / 8>(s);
    if (threadIdx.x % 32 == 0)
        barrier_arrive(m.keys_empty + t % STAGES * 8);
}

static __device__ inline void end_sums(Sums &sums, const Memory &m, int t)
{
    products_wait<0>();
    products_hold<COLUMNS / 8>(sums);
    if (threadIdx.x % 32 == 0)
        barrier_arrive(m.values_empty + t % STAGES * 8);
}

/* The two groups of four warps take turns at handing in products, so that one makes weights
 * while the other's run. */
static __device__ inline void await_turn()
{
    asm volatile("bar.sync %0, 256;" ::"r"(1 + (int)threadIdx.x / 128) : "memory");
}

static __device__ inline void pass_turn()
{
    asm volatile("bar.arrive %0, 256;" ::"r"(2 - (int)threadIdx.x / 128) : "memory");
}

static __device__ inline void compute(const weir__attention &a, const Unit &u, const Memory &m)
{
    float scale = (float)(a.scale * 1.4426950408889634), factors[2];
    Row rows[2];
    Scores s;
    Sums sums;
    Weights w;

    make_rows(a, u, rows);
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
        sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
    if (threadIdx.x >= 128)
        pass_turn(); /* the first group begins */
    await_turn();
    begin_scores(s, m, 0);
    pass_turn();
    end_scores<0>(s, m, 0);
    soften(a, s, rows, scale, 0, factors);
    pack(w, s);
    for (int t = 1; t < u.tiles; t++) {
        await_turn();
        begin_scores(s, m, t);
        begin_sums(sums, w, m, t - 1);
        pass_turn();
        end_scores<1>(s, m, t);
        soften(a, s, rows, scale, (int64_t)t * KEYS, factors);
        end_sums(sums, m, t - 1);
        rescale(sums, factors);
        pack(w, s);
    }
    begin_sums(sums, w, m, u.tiles - 1);
    end_sums(sums, m, u.tiles - 1);
    put_rows(a, u, rows, sums);
    if (threadIdx.x < 128)
        await_turn(); /* what the other group passed last */
}

extern "C" __global__ void __launch_bounds__(WARPS * 32 + FETCHERS)
    attention_tiles(const __grid_constant__ weir__attention a)
{
    extern __shared__ char memory[];
    uint32_t barriers;
    Unit u = find_unit(a);
    Memory m;

    m.queries = (shared_address(memory) + 128 + 1023) & ~1023u;
    barriers = m.queries - 128;
    m.keys = m.queries + QUERY_BYTES;
    m.values = m.keys + STAGES * KEY_BYTES;
    m.keys_full = barriers;
    m.values_full = barriers + 32;
    m.keys_empty = barriers + 64;
    m.values_empty = barriers + 96;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(m.keys_full + i * 8, FETCHERS);
            barrier_init(m.values_full + i * 8, FETCHERS);
            barrier_init(m.keys_empty + i * 8, WARPS);
            barrier_init(m.values_empty + i * 8, WARPS);
        }
    }
    __syncthreads();
    if (u.tiles == 0) {
        Row rows[2];
        Sums none = {};

        make_rows(a, u, rows);
        if (threadIdx.x < WARPS * 32)
            put_rows(a, u, rows, none);
    } else if (threadIdx.x < WARPS * 32) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        compute(a, u, m);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); /* for those that compute */
        fetch_all(a, u, m);
    }
}

#else

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
    constexpr int threads = WARPS * 32;
    extern __shared__ char memory[];
    uint32_t queries = (shared_address(memory) + 1023) & ~1023u, keys = queries + QUERY_BYTES;
    uint32_t values = keys + STAGES * KEY_BYTES;
    float scale = (float)(a.scale * 1.4426950408889634), factors[2];
    Unit u = find_unit(a);
    Row rows[2];
    Sums sums = {};

    make_rows(a, u, rows);
    if (u.tiles) {
        fetch<ROWS, PANELS, threads>(threadIdx.x, queries, a.q.data, u.at.q, a.q.row, u.first_row,
                                     a.lq, a.d);
        fetch_keys<threads>(a, u, threadIdx.x, keys, 0);
        fetch_values<threads>(a, u, threadIdx.x, values, 0);
        copies_commit();
    }
    for (int t = 0; t < u.tiles; t++) {
        Scores s;
        Weights w;

        copies_wait<0>();
        __syncthreads(); /* the tile is there, and nobody reads the one before */
        if (t + 1 < u.tiles) {
            fetch_keys<threads>(a, u, threadIdx.x, keys, t + 1);
            fetch_values<threads>(a, u, threadIdx.x, values, t + 1);
            copies_commit();
        }
        add_scores(s, queries, keys + t % STAGES * KEY_BYTES);
        soften(a, s, rows, scale, (int64_t)t * KEYS, factors);
        pack(w, s);
        rescale(sums, factors);
        add_sums(sums, w, values + t % STAGES * VALUE_BYTES);
    }
    put_rows(a, u, rows, sums);
}

#endif
