/* Two-dimensional convolution of f32 and f64 without tensor cores. Phase 0 arranges the weight in
 * rows of 64 filters, one row for each tap of each channel, and records the tap and channel of each
 * row. A block of phase 1 computes 64 filters at 128 positions (64 in f64), as a product over those
 * rows, 16 at a time, while the next 16 are fetched.
 * V0: type; V1: rows go through the channels of a tap in whole steps, not through all taps of a
 * channel */
#include "device/code.h"

#include "mma.cuh"
#include "ops/host/conv/conv.h"

typedef Type<V0>::compute real;

struct Args {
    weir__conv conv;
    int64_t images;
};

enum {
    THREADS = 128,
    FILTERS = 64,
    DEPTH = 16, /* rows of a step */
    STAGES = 2,
    VECTOR = 16 / sizeof(real), /* elements that are read at once */
    PLACES = 32 * VECTOR,
    OWN_FILTERS = 8,          /* of a thread */
    OWN_PLACES = 2 * VECTOR,
    TOGETHER = THREADS / PLACES, /* rows of places that the block fetches at once */
};

struct alignas(16) Stage {
    real weights[DEPTH][FILTERS], places[DEPTH][PLACES];
};

static __device__ inline int64_t filter_tiles(const weir__conv &c)
{
    return (c.outputs + FILTERS - 1) / FILTERS;
}

/* Steps of DEPTH rows. */
static __device__ inline int64_t steps_of(const weir__conv &c)
{
    return V1 ? c.kh * c.kw * ((c.channels + DEPTH - 1) / DEPTH)
              : (c.channels * c.kh * c.kw + DEPTH - 1) / DEPTH;
}

/* ---- phase 0 ---- */

/* A row: one tap of one channel, or padding. */
struct Tap {
    int64_t channel;
    int ky, kx;
    bool there;
};

static __device__ inline Tap find_tap(const weir__conv &c, int64_t row)
{
    int taps = (int)(c.kh * c.kw), kw = (int)c.kw, tap;
    int64_t channels = (c.channels + DEPTH - 1) / DEPTH * DEPTH;
    Tap t;

    t.channel = V1 ? row % channels : row / taps;
    tap = (int)(V1 ? row / channels : row % taps);
    t.ky = tap / kw;
    t.kx = tap % kw;
    t.there = t.channel < c.channels;
    return t;
}

/* packed: [group][tile of filters][row][filter], then the rows */
static __device__ inline weir__conv_row *rows_of(const weir__conv &c)
{
    return (weir__conv_row *)((real *)c.packed +
                              c.groups * filter_tiles(c) * steps_of(c) * DEPTH * FILTERS);
}

static __device__ void pack_weight(const weir__conv &c)
{
    int64_t rows = steps_of(c) * DEPTH, n = c.groups * filter_tiles(c) * rows * FILTERS;

    for (int64_t i = thread_index(); i < n; i += thread_count()) {
        int64_t tile = i / FILTERS / rows;
        int64_t filter = tile % filter_tiles(c) * FILTERS + i % FILTERS;
        Tap t = find_tap(c, i / FILTERS % rows);
        int64_t at = (tile / filter_tiles(c) * c.outputs + filter) * c.weight_step[0] +
                     t.channel * c.weight_step[1] + t.ky * c.weight_step[2] +
                     t.kx * c.weight_step[3];

        store<V0>(c.packed, i, t.there && filter < c.outputs ? load<V0>(c.weight, at) : (real)0);
    }
    for (int64_t i = thread_index(); i < rows; i += thread_count()) {
        Tap t = find_tap(c, i);
        int down = t.ky * (int)c.dilation[0], right = t.kx * (int)c.dilation[1];

        rows_of(c)[i] = {t.channel * c.x_step[1] + down * c.x_step[2] + right * c.x_step[3], down,
                         right, t.there ? (int)min((int64_t)DEPTH, c.channels - t.channel) : 0};
    }
}

/* ---- phase 1 ---- */

struct Tile {
    int64_t group, filter, place; /* the first filter, within the group, and the first place */
    const real *weight;
    /* This thread fetches one position of every few rows. */
    const real *x; /* the address of its first tap, which may be outside the image */
    int y, x_at;
    bool there;
};

static __device__ inline Tile find_tile(const Args &args, int64_t i)
{
    const weir__conv &c = args.conv;
    int64_t size = c.oh * c.ow, count = args.images * size, across = (count + PLACES - 1) / PLACES;
    int64_t place, image;
    int at, ow = (int)c.ow;
    Tile t;

    t.place = i % across * PLACES;
    i /= across;
    t.filter = i % filter_tiles(c) * FILTERS;
    t.group = i / filter_tiles(c);
    t.weight = (const real *)c.packed + i * steps_of(c) * DEPTH * FILTERS;
    place = t.place + threadIdx.x % PLACES;
    t.there = place < count;
    image = place / size;
    at = (int)(place % size);
    t.y = at / ow * (int)c.stride[0] - (int)c.padding[0];
    t.x_at = at % ow * (int)c.stride[1] - (int)c.padding[1];
    t.x = (const real *)c.x + image * c.x_step[0] + t.group * c.channels * c.x_step[1] +
          t.y * c.x_step[2] + t.x_at * c.x_step[3];
    return t;
}

/* Starts an asynchronous copy of an element from global to shared memory; zero unless `there`. */
static __device__ inline void copy_element(real *to, const real *from, bool there)
{
    copy_bytes<sizeof(real)>(shared_address(to), from, there);
}

/* True if the position of a row's tap is inside the image. */
static __device__ inline bool inside(const weir__conv &c, const Tile &t, const weir__conv_row &row)
{
    return t.there && (unsigned)(t.y + row.down) < (unsigned)c.h &&
           (unsigned)(t.x_at + row.right) < (unsigned)c.w;
}

/* `row` is the step's first; with V1 the others are the same tap of the next channels. */
static __device__ inline void fetch_places(const weir__conv &c, const Tile &t,
                                           const weir__conv_row *row, Stage *s)
{
    int first = threadIdx.x / PLACES, column = threadIdx.x % PLACES;
    const real *none = (const real *)c.x;

    if (V1) {
        const real *from = t.x + row->x + first * c.x_step[1];
        int left = inside(c, t, *row) ? row->left - first : 0;

#pragma unroll
        for (int i = 0; i < DEPTH; i += TOGETHER) {
            copy_element(&s->places[first + i][column], i < left ? from : none, i < left);
            from += TOGETHER * c.x_step[1];
        }
    } else {
#pragma unroll
        for (int i = 0; i < DEPTH; i += TOGETHER) {
            weir__conv_row own = row[first + i];
            bool there = own.left && inside(c, t, own);

            copy_element(&s->places[first + i][column], there ? t.x + own.x : none, there);
        }
    }
}

static __device__ inline void fetch_step(const weir__conv &c, const Tile &t,
                                         const weir__conv_row *rows, int step, int steps, Stage *s)
{
    if (step < steps) {
        constexpr int chunks = sizeof s->weights / 16;
        const char *weight = (const char *)(t.weight + (int64_t)step * DEPTH * FILTERS);

#pragma unroll
        for (int i = threadIdx.x; i < chunks; i += THREADS)
            copy_chunk(shared_address(s->weights) + i * 16, weight + i * 16, true);
        fetch_places(c, t, rows + (int64_t)step * DEPTH, s);
    }
    copies_commit();
}

/* A thread has vectors of filters and of places. The distance between two vectors of a thread is
 * the length of all threads' vectors together. A warp's threads are 4 by 8, the warps 2 by 2. */
static __device__ inline int own_row()
{
    return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8;
}

static __device__ inline int own_column()
{
    return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8;
}

static __device__ inline int filter_of(int i)
{
    return i / VECTOR * 8 * VECTOR + own_row() * VECTOR + i % VECTOR;
}

static __device__ inline int place_of(int j)
{
    return j / VECTOR * 16 * VECTOR + own_column() * VECTOR + j % VECTOR;
}

struct alignas(16) Vector {
    real at[VECTOR];
};

typedef real Sums[OWN_FILTERS][OWN_PLACES];

static __device__ inline void add_step(Sums &sums, const Stage &s)
{
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        Vector a[OWN_FILTERS / VECTOR], b[OWN_PLACES / VECTOR];

#pragma unroll
        for (int i = 0; i < OWN_FILTERS / VECTOR; i++)
            a[i] = *(const Vector *)&s.weights[k][filter_of(i * VECTOR)];
#pragma unroll
        for (int j = 0; j < OWN_PLACES / VECTOR; j++)
            b[j] = *(const Vector *)&s.places[k][place_of(j * VECTOR)];
#pragma unroll
        for (int i = 0; i < OWN_FILTERS; i++)
#pragma unroll
            for (int j = 0; j < OWN_PLACES; j++)
                sums[i][j] += a[i / VECTOR].at[i % VECTOR] * b[j / VECTOR].at[j % VECTOR];
    }
}

static __device__ inline void put_tile(const Args &args, const Tile &t, const Sums &sums)
{
    const weir__conv &c = args.conv;
    int64_t size = c.oh * c.ow, count = args.images * size, outputs = c.groups * c.outputs;
    bool whole = size % VECTOR == 0; /* no vector lies in two images */

#pragma unroll
    for (int j = 0; j < OWN_PLACES; j += VECTOR) {
        int64_t place = t.place + place_of(j);
        real *out = (real *)c.out + place / size * outputs * size + place % size;

#pragma unroll
        for (int i = 0; i < OWN_FILTERS; i++) {
            int64_t filter = t.group * c.outputs + t.filter + filter_of(i);
            Vector v;

            if (t.filter + filter_of(i) >= c.outputs || place >= count)
                continue;
#pragma unroll
            for (int n = 0; n < VECTOR; n++)
                v.at[n] = sums[i][j + n] + (c.bias ? load<V0>(c.bias, filter * c.bias_step) : 0);
            if (whole) {
                *(Vector *)(out + filter * size) = v;
                continue;
            }
#pragma unroll
            for (int n = 0; n < VECTOR; n++)
                if (place + n < count)
                    ((real *)c.out)[((place + n) / size * outputs + filter) * size +
                                    (place + n) % size] = v.at[n];
        }
    }
}

static __device__ void run_tile(const Args &args, const Tile &t)
{
    __shared__ Stage stages[STAGES];
    const weir__conv_row *rows = rows_of(args.conv);
    int n = (int)steps_of(args.conv), at = 0;
    Sums sums = {};

    for (int i = 0; i < STAGES - 1; i++)
        fetch_step(args.conv, t, rows, i, n, &stages[i]);
    for (int step = 0; step < n; step++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); /* the step has arrived, and no thread reads the previous one any more */
        fetch_step(args.conv, t, rows, step + STAGES - 1, n,
                   &stages[at == 0 ? STAGES - 1 : at - 1]);
        add_step(sums, stages[at]);
        at = at == STAGES - 1 ? 0 : at + 1;
    }
    put_tile(args, t, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    conv_real(const __grid_constant__ Args args, weir__code_context context)
{
    await_earlier();
    if (context.phase == 0)
        pack_weight(args.conv);
    else
        run_tile(args, find_tile(args, blockIdx.x));
}
