/* Two-dimensional convolution without tensor cores: tiles of 64 outputs by 128 positions, as a
 * product over all taps of all channels; or a thread per output if a group has few outputs.
 * V0: type; V1: in tiles */
#include "kernel.cuh"
#include "ops/host/conv/conv.h"

typedef Type<V0>::compute real;

struct Args {
    weir__conv conv;
    int64_t images;
};

enum { OUTPUTS = 64, PLACES = 128, DEPTH = 16, THREADS = 256 };

/* A row of the product: one tap of one channel. */
struct Tap {
    int64_t x, weight; /* offsets */
    int y, x_shift;
};

/* A column of the product: one position of one image. */
struct Place {
    int64_t image, y, x; /* y and x of the first tap, which may be outside */
};

static __device__ inline Tap make_tap(const weir__conv &c, int64_t channel, int64_t ky, int64_t kx)
{
    return {channel * c.x_step[1] + ky * c.dilation[0] * c.x_step[2] +
                kx * c.dilation[1] * c.x_step[3],
            channel * c.weight_step[1] + ky * c.weight_step[2] + kx * c.weight_step[3],
            (int)(ky * c.dilation[0]), (int)(kx * c.dilation[1])};
}

static __device__ inline Tap find_tap(const weir__conv &c, int64_t k)
{
    return make_tap(c, k / c.kw / c.kh, k / c.kw % c.kh, k % c.kw);
}

static __device__ inline Place find_place(const weir__conv &c, int64_t at)
{
    return {at / c.ow / c.oh, at / c.ow % c.oh * c.stride[0] - c.padding[0],
            at % c.ow * c.stride[1] - c.padding[1]};
}

static __device__ inline bool inside(const weir__conv &c, const Place &p, const Tap &tap)
{
    return p.y + tap.y >= 0 && p.y + tap.y < c.h && p.x + tap.x_shift >= 0 &&
           p.x + tap.x_shift < c.w;
}

enum { PLACES_EACH = DEPTH * PLACES / THREADS, WEIGHTS_EACH = DEPTH * OUTPUTS / THREADS };

/* What a thread loads for the next step while it computes the current one. */
struct Next {
    real places[PLACES_EACH], weights[WEIGHTS_EACH];
};

static __device__ void run_tile(const Args &args, int64_t group, int64_t o0, int64_t p0)
{
    __shared__ __align__(16) real weights[DEPTH][OUTPUTS], places[DEPTH][PLACES];
    __shared__ Tap taps[2][DEPTH];
    const weir__conv &c = args.conv;
    int64_t depth = c.channels * c.kh * c.kw, count = args.images * c.oh * c.ow;
    int64_t own = p0 + threadIdx.x % PLACES;
    Place place = find_place(c, own);
    int64_t x = place.image * c.x_step[0] + group * c.channels * c.x_step[1] +
                place.y * c.x_step[2] + place.x * c.x_step[3];
    int64_t weight = (group * c.outputs + o0) * c.weight_step[0];
    int row = threadIdx.x / 32 * 8, column = threadIdx.x % 32 * 4;
    real sums[8][4] = {};
    Next next;

    if (threadIdx.x < DEPTH)
        taps[0][threadIdx.x] = find_tap(c, threadIdx.x);
    for (int64_t k0 = -DEPTH; k0 < depth; k0 += DEPTH) {
        const Tap *ahead = taps[(k0 / DEPTH + 1) % 2];

        __syncthreads(); /* the tiles of step k0 and the taps of the next step are written */
#pragma unroll
        for (int i = 0; i < PLACES_EACH; i++) {
            int k = threadIdx.x / PLACES + i * (THREADS / PLACES);
            bool there = k0 + DEPTH + k < depth && own < count && inside(c, place, ahead[k]);

            next.places[i] = there ? load<V0>(c.x, x + ahead[k].x) : (real)0;
        }
#pragma unroll
        for (int i = 0; i < WEIGHTS_EACH; i++) {
            int k = threadIdx.x % DEPTH, o = threadIdx.x / DEPTH + i * (THREADS / DEPTH);

            next.weights[i] = k0 + DEPTH + k < depth && o0 + o < c.outputs
                                  ? load<V0>(c.weight, weight + o * c.weight_step[0] +
                                                           ahead[k].weight)
                                  : (real)0;
        }
        if (threadIdx.x < DEPTH)
            taps[k0 / DEPTH % 2 ? 1 : 0][threadIdx.x] = find_tap(c, k0 + 2 * DEPTH + threadIdx.x);
        if (k0 >= 0) {
#pragma unroll
            for (int k = 0; k < DEPTH; k++)
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        sums[i][j] += weights[k][row + i] * places[k][column + j];
        }
        __syncthreads(); /* all threads have read the tiles */
#pragma unroll
        for (int i = 0; i < PLACES_EACH; i++)
            places[threadIdx.x / PLACES + i * (THREADS / PLACES)][threadIdx.x % PLACES] =
                next.places[i];
#pragma unroll
        for (int i = 0; i < WEIGHTS_EACH; i++)
            weights[threadIdx.x % DEPTH][threadIdx.x / DEPTH + i * (THREADS / DEPTH)] =
                next.weights[i];
    }
    for (int i = 0; i < 8 && o0 + row + i < c.outputs; i++) {
        int64_t out = group * c.outputs + o0 + row + i;
        real bias = c.bias ? load<V0>(c.bias, out * c.bias_step) : (real)0;

        for (int j = 0; j < 4; j++) {
            int64_t at = p0 + column + j, size = c.oh * c.ow;

            if (at < count)
                store<V0>(c.out, (at / size * c.groups * c.outputs + out) * size + at % size,
                          sums[i][j] + bias);
        }
    }
}

static __device__ void run_output(const Args &args, int64_t i)
{
    const weir__conv &c = args.conv;
    int64_t size = c.oh * c.ow, out = i / size % (c.groups * c.outputs);
    Place place = find_place(c, i / size / (c.groups * c.outputs) * size + i % size);
    int64_t x = place.image * c.x_step[0] + out / c.outputs * c.channels * c.x_step[1] +
                place.y * c.x_step[2] + place.x * c.x_step[3];
    real sum = 0;

    for (int64_t channel = 0; channel < c.channels; channel++)
        for (int64_t ky = 0; ky < c.kh; ky++)
            for (int64_t kx = 0; kx < c.kw; kx++) {
                Tap tap = make_tap(c, channel, ky, kx);

                if (inside(c, place, tap))
                    sum += load<V0>(c.x, x + tap.x) *
                           load<V0>(c.weight, out * c.weight_step[0] + tap.weight);
            }
    if (c.bias)
        sum += load<V0>(c.bias, out * c.bias_step);
    store<V0>(c.out, i, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS) conv(const __grid_constant__ Args args)
{
    await_earlier();
    const weir__conv &c = args.conv;
    int64_t count = args.images * c.oh * c.ow;

    if constexpr (V1 != 0) {
        int64_t across = (count + PLACES - 1) / PLACES, down = (c.outputs + OUTPUTS - 1) / OUTPUTS;

        for (int64_t i = blockIdx.x; i < across * down * c.groups; i += gridDim.x)
            run_tile(args, i / across / down, i / across % down * OUTPUTS, i % across * PLACES);
    } else {
        for (int64_t i = thread_index(); i < count * c.groups * c.outputs; i += thread_count())
            run_output(args, i);
    }
}
