/* Two-dimensional convolution, a thread an output. V0: type */
#include "kernel.cuh"
#include "ops/host/conv.h"

typedef Type<V0>::compute real;

struct Args {
    weir__conv conv;
    int64_t images;
};

extern "C" __global__ void conv(const __grid_constant__ Args args)
{
    const weir__conv &c = args.conv;
    int64_t n = args.images * c.groups * c.outputs * c.oh * c.ow;

    for (int64_t i = thread_index(); i < n; i += thread_count()) {
        int64_t x0 = i % c.ow, y0 = i / c.ow % c.oh, o = i / c.ow / c.oh % c.outputs;
        int64_t group = i / c.ow / c.oh / c.outputs % c.groups;
        int64_t image = i / c.ow / c.oh / c.outputs / c.groups, out = group * c.outputs + o;
        real sum = 0;

        for (int64_t ch = 0; ch < c.channels; ch++)
            for (int64_t ky = 0; ky < c.kh; ky++) {
                int64_t y = y0 * c.stride[0] - c.padding[0] + ky * c.dilation[0];

                if (y < 0 || y >= c.h)
                    continue;
                for (int64_t kx = 0; kx < c.kw; kx++) {
                    int64_t x = x0 * c.stride[1] - c.padding[1] + kx * c.dilation[1];

                    if (x < 0 || x >= c.w)
                        continue;
                    sum += load<V0>(c.x, image * c.x_step[0] +
                                             (group * c.channels + ch) * c.x_step[1] +
                                             y * c.x_step[2] + x * c.x_step[3]) *
                           load<V0>(c.weight, out * c.weight_step[0] + ch * c.weight_step[1] +
                                                  ky * c.weight_step[2] + kx * c.weight_step[3]);
                }
            }
        if (c.bias)
            sum += load<V0>(c.bias, out * c.bias_step);
        store<V0>(c.out, i, sum);
    }
}
