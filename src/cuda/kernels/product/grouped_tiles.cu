/* Products of groups of f16 and bf16 on the tensor cores. A block has a tile of some rows and
 * columns and processes k in steps of 64, which are fetched some steps ahead. This form uses one
 * warp's matrix instructions, which every supported GPU has.
 * V0: type; V1: the groups cut rows or depth; V2: type of the ends; V3: rows of a tile / 16; V4: b
 * is stored in rows along k; V5: steps that fit into shared memory; V6: columns of a tile / 64; V7:
 * Hopper's products, with tiles fetched by the hardware */
#include "grouped.cuh"
#include "mma.cuh"

enum {
    ROWS = 16 * V3,
    COLUMNS = 64 * V6,
    DEPTH = 64,
    STAGES = V5,
    A_BYTES = ROWS * DEPTH * 2,
    STAGE_BYTES = A_BYTES + COLUMNS * DEPTH * 2,
};

typedef uint16_t half_bits;

/* A tile: its first row and column, and the offsets of its operands, in elements. */
struct Tile {
    int64_t a, b, c, bias;
    int rows, columns, depth; /* the parts of the tile that exist */
    bool empty;
};

static __device__ inline Tile make_tile(const weir__grouped &a, const Part &p)
{
    const weir__gemm &g = a.gemm;
    int64_t length = V1 == WEIR__GROUPED_ROWS ? p.end - p.begin : g.m;
    int64_t down = (length + ROWS - 1) / ROWS; /* rows first: their tiles share columns of b */
    int64_t row = p.tile % down * ROWS, column = p.tile / down * COLUMNS;
    Tile t;

    t.rows = (int)(length - row < ROWS ? length - row : ROWS);
    t.columns = (int)(g.n - column < COLUMNS ? g.n - column : COLUMNS);
    t.depth = (int)(V1 == WEIR__GROUPED_ROWS ? g.k : p.end - p.begin);
    t.empty = p.group == a.groups;
    t.b = column * g.b_col;
    t.c = column;
    t.bias = p.group * a.bias_group + column * g.bias_col;
    if (V1 == WEIR__GROUPED_ROWS) {
        t.a = (p.begin + row) * g.a_row;
        t.c += (p.begin + row) * g.c_row;
        t.b += p.group * a.b_group;
    } else {
        t.a = row + p.begin * g.a_col;
        t.b += p.begin * g.b_row;
        t.c += p.group * a.c_group + row * g.c_row;
    }
    return t;
}

/* Stores sums of the rows `row` and `row` + 8, two columns of every eight from `column` on. */
template <int n>
static __device__ inline void put_sums(const weir__gemm &g, const Tile &t, const float (*sums)[4],
                                       int row, int column)
{
    half_bits *out = (half_bits *)g.c + t.c;
    bool biased = g.bias && !t.empty;

#pragma unroll
    for (int j = 0; j < n; j++) {
        int at = column + j * 8;
        float bias[2] = {0, 0};

        if (at >= t.columns) /* they are a multiple of eight */
            continue;
        if (biased) {
            bias[0] = load<V0>(g.bias, t.bias + at * g.bias_col);
            bias[1] = load<V0>(g.bias, t.bias + (at + 1) * g.bias_col);
        }
#pragma unroll
        for (int r = 0; r < 2; r++)
            if (row + r * 8 < t.rows)
                *(uint32_t *)(out + (row + r * 8) * g.c_row + at) =
                    pack_two<V0>(sums[j][2 * r] + bias[0], sums[j][2 * r + 1] + bias[1]);
    }
}

#if V7
#include "grouped_fetched.cuh"
#else

enum {
    WARPS = 8,
    TURNED = V1 == WEIR__GROUPED_DEPTH, /* a is stored in rows along m */
    DOWN = V3 > 1 ? 2 : 1,              /* warps along the rows */
    ACROSS = WARPS / DOWN,              /* warps along the columns */
    OWN_ROWS = ROWS / DOWN,
    OWN_COLUMNS = COLUMNS / ACROSS,
};

typedef float Sums[OWN_ROWS / 16][OWN_COLUMNS / 8][4];

/* Fetches rows of 16-byte chunks into a tile of shared memory; zeros beyond `rows` and
 * `columns`. */
template <int tile_rows, int tile_columns>
static __device__ inline void fetch(uint32_t to, const char *data, int64_t base, int64_t step,
                                    int rows, int columns)
{
    constexpr int chunks = tile_columns / 8, at_once = WARPS * 32 / chunks;
    int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    const half_bits *from = (const half_bits *)data + base + row * step + chunk * 8;

    rows = chunk * 8 < columns ? rows : 0;
#pragma unroll
    for (int i = 0; i < tile_rows; i += at_once) {
        bool there = row + i < rows;

        if (tile_rows >= at_once || row < tile_rows)
            copy_chunk(to + tile_offset(tile_rows, row + i, chunk),
                       there ? from + i * step : (const void *)data, there);
    }
}

/* Fetches step i of the tile's depth. */
static __device__ inline void fetch_step(const weir__gemm &g, const Tile &t, uint32_t stage, int i)
{
    int64_t k = (int64_t)i * DEPTH;
    int left = t.depth - i * DEPTH;

    if constexpr (TURNED)
        fetch<DEPTH, ROWS>(stage, g.a, t.a + k * g.a_col, g.a_col, left, t.rows);
    else
        fetch<ROWS, DEPTH>(stage, g.a, t.a + k, g.a_row, t.rows, left);
    if constexpr (V4)
        fetch<COLUMNS, DEPTH>(stage + A_BYTES, g.b, t.b + k, g.b_col, t.columns, left);
    else
        fetch<DEPTH, COLUMNS>(stage + A_BYTES, g.b, t.b + k * g.b_row, g.b_row, left, t.columns);
}

static __device__ inline void add_step(Sums &sums, uint32_t stage)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp / ACROSS * OWN_ROWS, column = warp % ACROSS * OWN_COLUMNS;

#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++) {
        uint32_t a[OWN_ROWS / 16][4], b[4];

#pragma unroll
        for (int i = 0; i < OWN_ROWS / 16; i++)
            if constexpr (TURNED)
                load_blocks_turned(a[i], stage + tile_offset(DEPTH, k * 16 + lane / 16 * 8 + lane % 8,
                                                             row / 8 + i * 2 + lane / 8 % 2));
            else
                load_blocks(a[i], stage + tile_offset(ROWS, row + i * 16 + lane % 16,
                                                      k * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < OWN_COLUMNS / 16; j++) {
            if constexpr (V4)
                load_blocks(b, stage + A_BYTES +
                                   tile_offset(COLUMNS, column + j * 16 + lane / 16 * 8 + lane % 8,
                                               k * 2 + lane / 8 % 2));
            else
                load_blocks_turned(b, stage + A_BYTES +
                                          tile_offset(DEPTH, k * 16 + lane % 16,
                                                      column / 8 + j * 2 + lane / 16));
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 16; i++) {
                multiply<V0>(sums[i][2 * j], a[i], b);
                multiply<V0>(sums[i][2 * j + 1], a[i], b + 2);
            }
        }
    }
}

static __device__ inline void put_tile(const weir__gemm &g, const Tile &t, const Sums &sums)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < OWN_ROWS / 16; i++)
        put_sums<OWN_COLUMNS / 8>(g, t, sums[i], warp / ACROSS * OWN_ROWS + i * 16 + lane / 4,
                                  warp % ACROSS * OWN_COLUMNS + lane % 4 * 2);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 2)
    grouped_tiles(const __grid_constant__ weir__grouped a, weir__code_context c)
{
    await_earlier();
    extern __shared__ char memory[];
    const weir__gemm &g = a.gemm;
    uint32_t stages = (shared_address(memory) + 1023) & ~1023u;
    int64_t across = (g.n + COLUMNS - 1) / COLUMNS;
    Walk walk = {0, 0, 0};
    Part p;

    if (V1 == WEIR__GROUPED_DEPTH)
        across *= (g.m + ROWS - 1) / ROWS;
    check_ends(a, c);
    for (int64_t n = blockIdx.x; find_part(a, n, across, ROWS, walk, p); n += gridDim.x) {
        Tile t = make_tile(a, p);
        int steps = t.empty ? 0 : (t.depth + DEPTH - 1) / DEPTH;
        Sums sums = {};

        for (int i = 0; i < STAGES - 1; i++) {
            if (i < steps)
                fetch_step(g, t, stages + i * STAGE_BYTES, i);
            copies_commit();
        }
        for (int i = 0; i < steps; i++) {
            copies_wait<STAGES - 2>();
            __syncthreads(); /* the step has arrived, and no thread reads the previous one any more */
            if (i + STAGES - 1 < steps)
                fetch_step(g, t, stages + (i + STAGES - 1) % STAGES * STAGE_BYTES, i + STAGES - 1);
            copies_commit();
            add_step(sums, stages + i % STAGES * STAGE_BYTES);
        }
        put_tile(g, t, sums);
        __syncthreads(); /* the next tile overwrites the shared memory */
    }
}

#endif
