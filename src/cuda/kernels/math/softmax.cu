/* Softmax along rows, a block per row. V0: type; V1: chunks that a thread holds, see row.cuh */
#include "ops/host/math/norm.h"
#include "row.cuh"

static __device__ inline real below()
{
    return -(real)__int_as_float(0x7f800000);
}

static __device__ void any_row(const weir__softmax &a, int64_t in, int64_t out)
{
    const weir__rows &rows = a.rows;
    real top = below(), sum = 0;

    for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
        top = larger(top, load<V0>(a.in, in + j * rows.in_step));
    top = block_max(top);
    for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
        sum += exp(load<V0>(a.in, in + j * rows.in_step) - top);
    sum = (real)1 / block_sum(sum);
    for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
        store<V0>(a.out, out + j * rows.out_step,
                  exp(load<V0>(a.in, in + j * rows.in_step) - top) * sum);
}

template <int held>
static __device__ inline void held_row(const weir__softmax &a, int64_t in, int64_t out)
{
    real top = below(), sum = 0;
    Row<held> row;

    row.load(a.in, in, a.rows.n);
#pragma unroll
    for (int i = 0; i < held; i++)
        if (row.has(i, a.rows.n))
#pragma unroll
            for (int k = 0; k < PACK; k++)
                top = larger(top, row.at[i][k]);
    top = block_max(top);
#pragma unroll
    for (int i = 0; i < held; i++)
        if (row.has(i, a.rows.n))
#pragma unroll
            for (int k = 0; k < PACK; k++)
                sum += row.at[i][k] = exp(row.at[i][k] - top);
    sum = (real)1 / block_sum(sum);
#pragma unroll
    for (int i = 0; i < held; i++)
#pragma unroll
        for (int k = 0; k < PACK; k++)
            row.at[i][k] *= sum;
    row.store(a.out, out, a.rows.n);
}

extern "C" __global__ void __launch_bounds__(512) softmax(const __grid_constant__ weir__softmax a)
{
    await_earlier();
    for (int64_t i = blockIdx.x; i < a.rows.count; i += gridDim.x) {
        int64_t in, out;

        weir__rows_at(&a.rows, i, &in, &out);
        if constexpr (V1 != 0)
            held_row<V1>(a, in, out);
        else
            any_row(a, in, out);
    }
}
