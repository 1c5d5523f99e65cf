/* Layer norm and rms norm, a block per row. V0: type; V1: centred; V2: chunks that a thread holds,
 * see row.cuh; V3: weight and bias, if given, can be read in whole chunks too */
#include "ops/host/math/norm.h"
#include "row.cuh"

static __device__ void any_row(const weir__norm &a, int64_t in, int64_t out, int turn)
{
    const weir__rows &rows = a.rows;
    double mean = 0, squares = 0;
    real factor;

    if (V1) {
        for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
            mean += (double)load<V0>(a.in, in + j * rows.in_step);
        mean = block_sum_at(1, mean) / (double)rows.n;
    }
    for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x) {
        real d = load<V0>(a.in, in + j * rows.in_step) - (real)mean;

        squares += (double)d * (double)d;
    }
    squares = block_sum_at(V1 ? 0 : turn, squares);
    factor = (real)(1 / sqrt(squares / (double)rows.n + a.eps));
    for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x) {
        real x = (load<V0>(a.in, in + j * rows.in_step) - (real)mean) * factor;

        if (a.weight)
            x *= load<V0>(a.weight, j * a.weight_step);
        if (a.bias)
            x += load<V0>(a.bias, j * a.bias_step);
        store<V0>(a.out, out + j * rows.out_step, x);
    }
}

/* Element k of chunk i of the weight or the bias. */
template <int held> struct Factors {
    real at[PACK];

    __device__ inline Factors(const char *p, int64_t step, int i)
    {
        int64_t chunk = i * blockDim.x + threadIdx.x;

        if constexpr (V3 != 0)
            Row<held>::unpack(p, chunk, at);
        else
#pragma unroll
            for (int k = 0; k < PACK; k++)
                at[k] = load<V0>(p, (chunk * PACK + k) * step);
    }
};

/* A chunk is summed in the compute type, the chunk sums in f64. */
template <int held>
static __device__ inline void held_row(const weir__norm &a, int64_t in, int64_t out, int turn)
{
    double mean = 0, squares = 0;
    Row<held> row;
    real factor;

    row.load(a.in, in, a.rows.n);
    if (V1) {
#pragma unroll
        for (int i = 0; i < held; i++) {
            real sum = 0;

#pragma unroll
            for (int k = 0; k < PACK; k++)
                sum += row.at[i][k];
            if (row.has(i, a.rows.n))
                mean += (double)sum;
        }
        mean = block_sum_at(1, mean) / (double)a.rows.n;
    }
#pragma unroll
    for (int i = 0; i < held; i++) {
        real sum = 0;

#pragma unroll
        for (int k = 0; k < PACK; k++) {
            row.at[i][k] -= (real)mean;
            sum += row.at[i][k] * row.at[i][k];
        }
        if (row.has(i, a.rows.n))
            squares += (double)sum;
    }
    squares = block_sum_at(V1 ? 0 : turn, squares);
    factor = (real)(1 / sqrt(squares / (double)a.rows.n + a.eps));
#pragma unroll
    for (int i = 0; i < held; i++)
        if (row.has(i, a.rows.n)) {
#pragma unroll
            for (int k = 0; k < PACK; k++)
                row.at[i][k] *= factor;
            if (a.weight) {
                Factors<held> weight(a.weight, a.weight_step, i);

#pragma unroll
                for (int k = 0; k < PACK; k++)
                    row.at[i][k] *= weight.at[k];
            }
            if (a.bias) {
                Factors<held> bias(a.bias, a.bias_step, i);

#pragma unroll
                for (int k = 0; k < PACK; k++)
                    row.at[i][k] += bias.at[k];
            }
        }
    row.store(a.out, out, a.rows.n);
}

extern "C" __global__ void __launch_bounds__(512) row_norm(const __grid_constant__ weir__norm a)
{
    await_earlier();
    int turn = 0;

    for (int64_t i = blockIdx.x; i < a.rows.count; i += gridDim.x, turn ^= 1) {
        int64_t in, out;

        weir__rows_at(&a.rows, i, &in, &out);
        if constexpr (V2 != 0)
            held_row<V2>(a, in, out, turn);
        else
            any_row(a, in, out, turn);
    }
}
