/* Layer norm and rms norm, a block a row. V0: type; V1: centred */
#include "kernel.cuh"
#include "ops/host/norm.h"

typedef Type<V0>::compute real;

extern "C" __global__ void row_norm(const __grid_constant__ weir__norm a)
{
    const weir__rows &rows = a.rows;

    for (int64_t i = blockIdx.x; i < rows.count; i += gridDim.x) {
        double mean = 0, squares = 0;
        int64_t in, out;
        real factor;

        weir__rows_at(&rows, i, &in, &out);
        if (V1) {
            for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x)
                mean += (double)load<V0>(a.in, in + j * rows.in_step);
            mean = block_sum(mean) / (double)rows.n;
        }
        for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x) {
            real d = load<V0>(a.in, in + j * rows.in_step) - (real)mean;

            squares += (double)d * (double)d;
        }
        factor = (real)(1 / sqrt(block_sum(squares) / (double)rows.n + a.eps));
        for (int64_t j = threadIdx.x; j < rows.n; j += blockDim.x) {
            real x = (load<V0>(a.in, in + j * rows.in_step) - (real)mean) * factor;

            if (a.weight)
                x *= load<V0>(a.weight, j * a.weight_step);
            if (a.bias)
                x += load<V0>(a.bias, j * a.bias_step);
            store<V0>(a.out, out + j * rows.out_step, x);
        }
    }
}
