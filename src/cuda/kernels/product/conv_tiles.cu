/* Two-dimensional convolution of f16 and bf16 on the tensor cores. Phase 0 arranges the weight in
 * the tiles that phase 1 reads: each has 64 filters, one tap and some channels. A block of phase 1
 * has 64 filters at up to 256 positions of an image. It holds the part of the image that those
 * need, a few channels at a time. Channels are adjacent in a row, so every tap reads the same
 * memory at other rows.
 * V0: type; V1: channels at a time, in steps of 16: 1, 2 or 4 */
#include "device/code.h"

#include "mma.cuh"
#include "ops/host/conv/conv.h"

typedef Type<V0>::compute real;
typedef uint16_t half_bits;

struct Args {
    weir__conv conv;
    int64_t images;
};

enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    FILTERS = 64,
    PLACES = WEIR__CONV_TILE,
    CHANNELS = 16 * V1,
    CHUNKS = CHANNELS / 8,
    ROW_BYTES = CHANNELS * 2,
    TAP_BYTES = FILTERS * ROW_BYTES,
    OUT_PITCH = PLACES + 8,
};

/* Returns the offset of a chunk of a row: eight successive rows use each bank once. */
static __device__ inline uint32_t row_offset(int row, int chunk)
{
    return (uint32_t)(row * ROW_BYTES + (chunk ^ row / (128 / ROW_BYTES) % CHUNKS) * 16);
}

static __device__ inline int64_t steps_of(const weir__conv &c)
{
    return (c.channels + CHANNELS - 1) / CHANNELS;
}

static __device__ inline int64_t filter_tiles(const weir__conv &c)
{
    return (c.outputs + FILTERS - 1) / FILTERS;
}

/* ---- phase 0 ---- */

/* packed: [group][tile of filters][step of channels][tap][filter][channel] */
static __device__ void pack_weight(const weir__conv &c)
{
    int64_t taps = c.kh * c.kw;
    int64_t n = c.groups * filter_tiles(c) * steps_of(c) * taps * FILTERS * CHANNELS;

    for (int64_t i = thread_index(); i < n; i += thread_count()) {
        int64_t rest = i / CHANNELS / FILTERS, tap = rest % taps, step = rest / taps % steps_of(c);
        int64_t tile = rest / taps / steps_of(c);
        int64_t filter = tile % filter_tiles(c) * FILTERS + i / CHANNELS % FILTERS;
        int64_t channel = step * CHANNELS + i % CHANNELS;
        int64_t at = (tile / filter_tiles(c) * c.outputs + filter) * c.weight_step[0] +
                     channel * c.weight_step[1] + tap / c.kw * c.weight_step[2] +
                     tap % c.kw * c.weight_step[3];

        ((half_bits *)c.packed)[i] = filter < c.outputs && channel < c.channels
                                         ? ((const half_bits *)c.weight)[at]
                                         : (half_bits)0;
    }
}

/* ---- phase 1 ---- */

struct Tile {
    int64_t image, group, filter; /* the first filter, within the group */
    int64_t y, x;                 /* the first place */
    int rows, columns;            /* places, */
    int patch_rows, patch_columns;
    const char *weight;
};

static __device__ inline Tile find_tile(const weir__conv &c, int64_t i)
{
    Tile t;
    int64_t across, down;

    t.rows = (int)weir__conv_tile_rows(&c);
    t.columns = (int)weir__conv_tile_columns(&c);
    t.patch_rows = (int)weir__conv_patch_rows(&c);
    t.patch_columns = (int)weir__conv_patch_columns(&c);
    across = (c.ow + t.columns - 1) / t.columns;
    down = (c.oh + t.rows - 1) / t.rows;
    t.x = i % across * t.columns;
    t.y = i / across % down * t.rows;
    i /= across * down;
    t.filter = i % filter_tiles(c) * FILTERS;
    i /= filter_tiles(c);
    t.group = i % c.groups;
    t.image = i / c.groups;
    t.weight = c.packed + (t.group * filter_tiles(c) + t.filter / FILTERS) * steps_of(c) * c.kh *
                              c.kw * TAP_BYTES;
    return t;
}

/* Loads the channels from `first` on of the part of the image; zeros outside the image. */
static __device__ inline void load_patch(const weir__conv &c, const Tile &t, int64_t first,
                                         char *patch)
{
    const half_bits *x = (const half_bits *)c.x + t.image * c.x_step[0] +
                         (t.group * c.channels + first) * c.x_step[1];
    int size = t.patch_rows * t.patch_columns;

    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (int i = threadIdx.x; i < size; i += THREADS) {
            int row = i / t.patch_columns, column = i % t.patch_columns;
            int64_t y = t.y * c.stride[0] - c.padding[0] + row;
            int64_t at = t.x * c.stride[1] - c.padding[1] + column;
            int64_t left = y >= 0 && y < c.h && at >= 0 && at < c.w
                               ? c.channels - first - chunk * 8
                               : 0;
            const half_bits *from =
                x + y * c.x_step[2] + at * c.x_step[3] + chunk * 8 * c.x_step[1];
            uint32_t eight[8];

#pragma unroll
            for (int k = 0; k < 8; k++)
                eight[k] = k < left ? from[k * c.x_step[1]] : 0;
            *(uint4 *)(patch + row_offset(i, chunk)) =
                make_uint4(eight[0] | eight[1] << 16, eight[2] | eight[3] << 16,
                           eight[4] | eight[5] << 16, eight[6] | eight[7] << 16);
        }
}

/* Fetches one tap's weight for 64 filters. */
static __device__ inline void fetch_tap(uint32_t to, const char *from)
{
    for (int i = threadIdx.x; i < FILTERS * CHUNKS; i += THREADS)
        copy_chunk(to + row_offset(i / CHUNKS, i % CHUNKS), from + i * 16, true);
    copies_commit();
}

/* A warp's sums: 32 filters by 64 positions. */
typedef float Sums[2][8][4];

static __device__ inline void add_tap(Sums &sums, uint32_t weight, uint32_t patch, const int *rows,
                                      int shift)
{
    int lane = threadIdx.x % 32, half = threadIdx.x / 32 % 2 * 32;

#pragma unroll
    for (int k = 0; k < V1; k++) {
        uint32_t a[2][4], b[4];

#pragma unroll
        for (int i = 0; i < 2; i++)
            load_blocks(a[i], weight + row_offset(half + i * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < 4; j++) {
            load_blocks(b, patch + row_offset(rows[j] + shift, k * 2 + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                multiply<V0>(sums[i][2 * j], a[i], b);
                multiply<V0>(sums[i][2 * j + 1], a[i], b + 2);
            }
        }
    }
}

/* Goes through shared memory, so that adjacent threads write adjacent elements. */
static __device__ inline void put_tile(const weir__conv &c, const Tile &t, const Sums &sums,
                                       half_bits *stage)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = warp % 2 * 32 + i * 16 + r * 8 + lane / 4;
            int64_t filter = t.group * c.outputs + t.filter + row;
            float bias = c.bias && t.filter + row < c.outputs
                             ? load<V0>(c.bias, filter * c.bias_step)
                             : 0;

#pragma unroll
            for (int j = 0; j < 8; j++)
                *(uint32_t *)&stage[row * OUT_PITCH + warp / 2 * 64 + j * 8 + lane % 4 * 2] =
                    pack_two<V0>(sums[i][j][2 * r] + bias, sums[i][j][2 * r + 1] + bias);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < t.rows * t.columns; i += THREADS) {
        int64_t y = t.y + i / t.columns, x = t.x + i % t.columns;
        half_bits *out = (half_bits *)c.out + (t.image * c.groups + t.group) * c.outputs * c.oh *
                                                  c.ow +
                         y * c.ow + x;

        if (y < c.oh && x < c.ow)
            for (int row = 0; row < FILTERS && t.filter + row < c.outputs; row++)
                out[(t.filter + row) * c.oh * c.ow] = stage[row * OUT_PITCH + i];
    }
}

static __device__ inline void run_tile(const weir__conv &c, const Tile &t, char *memory)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, taps = (int)(c.kh * c.kw), rows[4];
    char *patch = memory + 2 * TAP_BYTES;
    uint32_t weight = shared_address(memory);
    int64_t n = steps_of(c) * taps;
    Sums sums = {};

#pragma unroll
    for (int j = 0; j < 4; j++) {
        int at = warp / 2 * 64 + j * 16 + lane / 16 * 8 + lane % 8;

        at = at < t.rows * t.columns ? at : 0;
        rows[j] = (int)(at / t.columns * c.stride[0] * t.patch_columns +
                        at % t.columns * c.stride[1]);
    }
    fetch_tap(weight, t.weight);
    for (int64_t k = 0; k < n; k++) {
        int tap = (int)(k % taps);

        if (tap == 0) {
            __syncthreads(); /* no thread reads the previous part any more */
            load_patch(c, t, k / taps * CHANNELS, patch);
        }
        copies_wait<0>();
        __syncthreads();
        if (k + 1 < n)
            fetch_tap(weight + (k + 1) % 2 * TAP_BYTES, t.weight + (k + 1) * TAP_BYTES);
        add_tap(sums, weight + k % 2 * TAP_BYTES, shared_address(patch), rows,
                (int)(tap / c.kw * c.dilation[0] * t.patch_columns + tap % c.kw * c.dilation[1]));
    }
    __syncthreads();
    put_tile(c, t, sums, (half_bits *)memory);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv_tiles(const __grid_constant__ Args args, weir__code_context context)
{
    await_earlier();
    extern __shared__ __align__(128) char memory[];

    if (context.phase == 0)
        pack_weight(args.conv);
    else
        run_tile(args.conv, find_tile(args.conv, blockIdx.x), memory);
}
