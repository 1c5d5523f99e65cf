/* softmax(q k' scale + mask) v without storing the matrix of scores: tiles of 32 keys are read one
 * after the other, with a running maximum and sum for each query row. A warp has ROWS query rows of
 * one head; a block's warps share the tiles. If rows of values are long, a part of the columns is
 * computed at a time.
 * V0: type; V1: type of the mask, 255 without one; V2: causal */
#include "kernel.cuh"
#include "ops/host/product/attention.h"

typedef Type<V0>::compute real;

enum { WARPS = 4, ROWS = 4, KEYS = 32, DEPTH = 64, COLUMNS = sizeof(real) == 8 ? 64 : 128,
       PER_LANE = COLUMNS / 32 };

static __device__ inline real below()
{
    return -(real)__int_as_float(0x7f800000);
}

static __device__ inline real hidden(const weir__attention &a, real score, int64_t mask,
                                     int64_t row, int64_t key)
{
    int64_t at = mask + row * a.mask.row + key * a.mask.col;

    if (key >= a.lk || (V2 && key > row + a.lk - a.lq))
        return below();
    if constexpr (V1 == WEIR_BOOL)
        return a.mask.data[at] ? score : below();
    else if constexpr (V1 != 255)
        return score + load<V0>(a.mask.data, at);
    else
        return score;
}

/* The rows, columns, head and batch that a block computes at a time, and offsets of their
 * operands. */
struct Unit {
    int64_t row, column, head, batch;
    int64_t q, k, v, mask;
    int64_t keys; /* number of keys that at least one of the rows may see */
};

static __device__ inline Unit find_unit(const weir__attention &a, int64_t u, int64_t row_tiles,
                                        int64_t column_tiles)
{
    int64_t head = u / column_tiles / row_tiles % a.heads, key_head = head / (a.heads / a.key_heads);
    int64_t batch = u / column_tiles / row_tiles / a.heads, rest = batch;
    Unit unit = {u / column_tiles % row_tiles * WARPS * ROWS, u % column_tiles * COLUMNS, head, batch,
                 head * a.q.head, key_head * a.k.head, key_head * a.v.head, head * a.mask.head,
                 a.lk};

    for (int d = a.ndims - 1; d >= 0; d--) {
        int64_t at = rest % a.shape[d];

        rest /= a.shape[d];
        unit.q += at * a.q.batch[d];
        unit.k += at * a.k.batch[d];
        unit.v += at * a.v.batch[d];
        unit.mask += at * a.mask.batch[d];
    }
    if (V2) {
        int64_t end = unit.row + WARPS * ROWS < a.lq ? unit.row + WARPS * ROWS : a.lq;

        unit.keys = end + a.lk - a.lq < a.lk ? end + a.lk - a.lq : a.lk;
    }
    return unit;
}

/* Loads columns d0 to d0 + DEPTH of a tile of keys and of the block's query rows; 0 beyond the
 * ends. */
static __device__ inline void load_tiles(const weir__attention &a, const Unit &unit, int64_t k0,
                                         int64_t d0, real (&tile)[KEYS][DEPTH + 1],
                                         real (&queries)[WARPS * ROWS][DEPTH + 1])
{
    for (int i = threadIdx.x; i < KEYS * DEPTH; i += blockDim.x) {
        int64_t key = k0 + i / DEPTH, d = d0 + i % DEPTH;

        tile[i / DEPTH][i % DEPTH] =
            key < a.lk && d < a.d ? load<V0>(a.k.data, unit.k + key * a.k.row + d * a.k.col)
                                  : (real)0;
    }
    for (int i = threadIdx.x; i < WARPS * ROWS * DEPTH; i += blockDim.x) {
        int64_t row = unit.row + i / DEPTH, d = d0 + i % DEPTH;

        queries[i / DEPTH][i % DEPTH] =
            row < a.lq && d < a.d ? load<V0>(a.q.data, unit.q + row * a.q.row + d * a.q.col)
                                  : (real)0;
    }
}

static __device__ inline void load_values(const weir__attention &a, const Unit &unit, int64_t k0,
                                          real (&values)[KEYS][COLUMNS])
{
    for (int i = threadIdx.x; i < KEYS * COLUMNS; i += blockDim.x) {
        int64_t key = k0 + i / COLUMNS, c = unit.column + i % COLUMNS;

        values[i / COLUMNS][i % COLUMNS] =
            key < a.lk && c < a.dv ? load<V0>(a.v.data, unit.v + key * a.v.row + c * a.v.col)
                                   : (real)0;
    }
}

/* The running sums of one query row, distributed over a warp: a lane has every 32nd column. */
struct Row {
    real sums[PER_LANE], top, total;
};

/* Adds the tile's values by their weights; `s` is the score of this lane's key. */
static __device__ inline void add_values(Row &r, real s, const real (&values)[KEYS][COLUMNS])
{
    int lane = threadIdx.x % 32;
    real best = s, factor, weight;

    for (int step = 16; step; step >>= 1)
        best = larger(best, __shfl_xor_sync(~0u, best, step));
    best = larger(best, r.top);
    if (best == below())
        return; /* all keys so far are hidden */
    factor = exp(r.top - best);
    weight = exp(s - best);
    r.total = r.total * factor + warp_sum(weight);
    r.top = best;
    for (int c = 0; c < PER_LANE; c++)
        r.sums[c] *= factor;
    for (int j = 0; j < KEYS; j++) {
        real w = __shfl_sync(~0u, weight, j);

        for (int c = 0; c < PER_LANE; c++)
            r.sums[c] += w * values[j][c * 32 + lane];
    }
}

static __device__ inline void store_row(const weir__attention &a, const Unit &unit, int64_t row,
                                        const Row &r)
{
    real scale = r.total == 0 ? (real)0 : (real)1 / r.total;
    int64_t to = a.rows_first ? (unit.batch * a.lq + row) * a.heads + unit.head
                              : (unit.batch * a.heads + unit.head) * a.lq + row;

    for (int c = 0; c < PER_LANE; c++) {
        int64_t column = unit.column + c * 32 + threadIdx.x % 32;

        if (row < a.lq && column < a.dv)
            store<V0>(a.out, to * a.dv + column, r.sums[c] * scale);
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention(const __grid_constant__ weir__attention a)
{
    await_earlier();
    __shared__ real tile[KEYS][DEPTH + 1];
    __shared__ real queries[WARPS * ROWS][DEPTH + 1];
    __shared__ real values[KEYS][COLUMNS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int64_t row_tiles = (a.lq + WARPS * ROWS - 1) / (WARPS * ROWS);
    int64_t column_tiles = (a.dv + COLUMNS - 1) / COLUMNS, units = row_tiles * column_tiles * a.heads;

    for (int d = 0; d < a.ndims; d++)
        units *= a.shape[d];
    for (int64_t u = blockIdx.x; u < units; u += gridDim.x) {
        Unit unit = find_unit(a, u, row_tiles, column_tiles);
        int64_t first = unit.row + warp * ROWS;
        Row rows[ROWS] = {};

#pragma unroll
        for (int r = 0; r < ROWS; r++)
            rows[r].top = below();
        for (int64_t k0 = 0; k0 < unit.keys; k0 += KEYS) {
            real score[ROWS] = {};

            for (int64_t d0 = 0; d0 < a.d; d0 += DEPTH) {
                load_tiles(a, unit, k0, d0, tile, queries);
                __syncthreads();
                for (int d = 0; d < DEPTH; d++)
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        score[r] += queries[warp * ROWS + r][d] * tile[lane][d];
                __syncthreads();
            }
            load_values(a, unit, k0, values);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_values(rows[r],
                           first + r < a.lq ? hidden(a, score[r] * (real)a.scale, unit.mask,
                                                     first + r, k0 + lane)
                                            : below(),
                           values);
            __syncthreads();
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            store_row(a, unit, first + r, rows[r]);
    }
}
