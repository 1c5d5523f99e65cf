/* softmax(q k' scale + mask) v without the matrix of scores: keys go by in tiles of a warp's
 * width, with a running maximum and sum for each query row. A warp has ROWS query rows of one
 * head; a block's warps share the tiles. Long values are done a part of the columns at a time.
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
        int64_t c0 = u % column_tiles * COLUMNS, r0 = u / column_tiles % row_tiles * WARPS * ROWS;
        int64_t head = u / column_tiles / row_tiles % a.heads;
        int64_t batch = u / column_tiles / row_tiles / a.heads, rest = batch;
        int64_t q = head * a.q.head, k = head / (a.heads / a.key_heads) * a.k.head;
        int64_t v = head / (a.heads / a.key_heads) * a.v.head, mask = head * a.mask.head;
        int64_t last = a.lk;
        real sums[ROWS][PER_LANE] = {}, top[ROWS], total[ROWS] = {};

        for (int d = a.ndims - 1; d >= 0; d--) {
            int64_t at = rest % a.shape[d];

            rest /= a.shape[d];
            q += at * a.q.batch[d];
            k += at * a.k.batch[d];
            v += at * a.v.batch[d];
            mask += at * a.mask.batch[d];
        }
        for (int r = 0; r < ROWS; r++)
            top[r] = below();
        if (V2) {
            int64_t end = r0 + WARPS * ROWS < a.lq ? r0 + WARPS * ROWS : a.lq;

            last = end + a.lk - a.lq < last ? end + a.lk - a.lq : last;
        }
        for (int64_t k0 = 0; k0 < last; k0 += KEYS) {
            real score[ROWS] = {};

            for (int64_t d0 = 0; d0 < a.d; d0 += DEPTH) {
                for (int i = threadIdx.x; i < KEYS * DEPTH; i += blockDim.x) {
                    int64_t key = k0 + i / DEPTH, d = d0 + i % DEPTH;

                    tile[i / DEPTH][i % DEPTH] =
                        key < a.lk && d < a.d
                            ? load<V0>(a.k.data, k + key * a.k.row + d * a.k.col)
                            : (real)0;
                }
                for (int i = threadIdx.x; i < WARPS * ROWS * DEPTH; i += blockDim.x) {
                    int64_t row = r0 + i / DEPTH, d = d0 + i % DEPTH;

                    queries[i / DEPTH][i % DEPTH] =
                        row < a.lq && d < a.d
                            ? load<V0>(a.q.data, q + row * a.q.row + d * a.q.col)
                            : (real)0;
                }
                __syncthreads();
                for (int d = 0; d < DEPTH; d++)
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        score[r] += queries[warp * ROWS + r][d] * tile[lane][d];
                __syncthreads();
            }
            for (int i = threadIdx.x; i < KEYS * COLUMNS; i += blockDim.x) {
                int64_t key = k0 + i / COLUMNS, c = c0 + i % COLUMNS;

                values[i / COLUMNS][i % COLUMNS] =
                    key < a.lk && c < a.dv ? load<V0>(a.v.data, v + key * a.v.row + c * a.v.col)
                                           : (real)0;
            }
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int64_t row = r0 + warp * ROWS + r;
                real s = row < a.lq ? hidden(a, score[r] * (real)a.scale, mask, row, k0 + lane)
                                    : below();
                real best = s, factor, weight;

                for (int step = 16; step; step >>= 1)
                    best = larger(best, __shfl_xor_sync(~0u, best, step));
                best = larger(best, top[r]);
                if (best == below())
                    continue; /* nothing takes part yet */
                factor = exp(top[r] - best);
                weight = exp(s - best);
                total[r] = total[r] * factor + warp_sum(weight);
                top[r] = best;
                for (int c = 0; c < PER_LANE; c++)
                    sums[r][c] *= factor;
                for (int j = 0; j < KEYS; j++) {
                    real w = __shfl_sync(~0u, weight, j);

                    for (int c = 0; c < PER_LANE; c++)
                        sums[r][c] += w * values[j][c * 32 + lane];
                }
            }
            __syncthreads();
        }
        for (int r = 0; r < ROWS; r++) {
            int64_t row = r0 + warp * ROWS + r;
            real scale = total[r] == 0 ? (real)0 : (real)1 / total[r];

            for (int c = 0; c < PER_LANE; c++) {
                int64_t column = c0 + c * 32 + lane;

                if (row < a.lq && column < a.dv)
                    store<V0>(a.out, ((batch * a.heads + head) * a.lq + row) * a.dv + column,
                              sums[r][c] * scale);
            }
        }
    }
}
