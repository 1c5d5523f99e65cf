/* e^x over its sum along a row, a block a row. V0: type */
#include "kernel.cuh"
#include "ops/host/norm.h"

typedef Type<V0>::compute real;

extern "C" __global__ void softmax(const __grid_constant__ weir__softmax a)
{
    const weir__rows &rows = a.rows;

    for (int64_t i = blockIdx.x; i < rows.count; i += gridDim.x) {
        real top = -(real)__int_as_float(0x7f800000), sum = 0;
        int64_t in, out;

        weir__rows_at(&rows, i, &in, &out);
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
}
