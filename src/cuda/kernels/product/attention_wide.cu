/* Attention of f32 on the tensor cores, which keep 11 bits of a mantissa. Each operand is split
 * into the sum of two such numbers, and three of the four products are added up. The result has
 * about the precision of f32.
 *
 * A block has up to 16 V5 query rows of one head, or of all heads that share a key head, against
 * tiles of keys. Each of V5 x V6 warps has 16 rows and a share of the tile's keys; if V6 is above
 * 1, their sums are combined at the end.
 * V0: f32; V1: type of the mask, 255 without one; V2: causal; V3: d in steps of 16; V4: dv in steps
 * of 16; V5: warps along the rows; V6: warps along the keys; V7: 1 if the heads that share a key
 * head are rows of one problem */
#include "device/code.h"

#include "attention.cuh"

enum {
    ROW_WARPS = V5,
    KEY_WARPS = V6,
    WARPS = ROW_WARPS * KEY_WARPS,
    ROWS = 16 * ROW_WARPS,
    KEYS = ROW_WARPS > 1 ? 32 : 16, /* of a warp */
    TILE = KEYS * KEY_WARPS,
    DEPTH = 16 * V3,
    COLUMNS = 16 * V4,
    KEY_PITCH = 4 * DEPTH + 16, /* an odd number of chunks: eight rows use each bank once */
    VALUE_PITCH = 4 * COLUMNS + 16,
    STAGE_BYTES = TILE * (KEY_PITCH + VALUE_PITCH),
    STEPS = 4, /* products that the tensor cores add up; they do not round sums to nearest */
};

typedef float Sums[COLUMNS / 8][4];

/* Numbers split into sums of two that the tensor cores hold exactly. */
template <int n> struct Apart {
    uint32_t most[n], rest[n];

    __device__ inline void take(const uint32_t *x)
    {
#pragma unroll
        for (int i = 0; i < n; i++) {
            most[i] = (x[i] + 0x1000u) & ~0x1fffu; /* to nearest, so that the rest may have either sign */
            rest[i] = (__float_as_uint(__uint_as_float(x[i]) - __uint_as_float(most[i])) + 0x1000u) & ~0x1fffu;
        }
    }
};

/* c += a b, with b's two words from `at` on. The smallest products are added first. */
template <int n>
static __device__ inline void multiply_apart(float *c, const Apart<4> &a, const Apart<n> &b, int at)
{
    multiply_tf32(c, a.rest, b.most + at);
    multiply_tf32(c, a.most, b.rest + at);
    multiply_tf32(c, a.most, b.most + at);
}

/* A warp's rows, in shared memory. */
struct Share {
    float top[16], total[16], sums[16][COLUMNS];
};

struct Unit {
    Places at;
    unsigned head, heads;     /* the first of its query heads, and their number */
    unsigned first_row, rows; /* of all those heads */
    int end;                  /* keys that one of the rows may see */
    int64_t out;              /* its first row in the output, minus first_row */
};

static __device__ inline Unit find_unit(const weir__attention &a, unsigned i)
{
    unsigned share = (unsigned)(a.heads / a.key_heads), lq = (unsigned)a.lq, tiles, last;
    unsigned groups = (unsigned)(V7 ? a.key_heads : a.heads);
    Unit u;

    u.heads = V7 ? share : 1;
    u.rows = u.heads * lq;
    tiles = (u.rows + ROWS - 1) / ROWS;
    u.first_row = i % tiles * ROWS;
    i /= tiles; /* groups of heads, through the batches */
    u.out = (int64_t)i * u.rows;
    u.head = i % groups * u.heads;
    u.at = find_batch(a, i / groups);
    u.at.k += u.head / share * a.k.head;
    u.at.v += u.head / share * a.v.head;
    last = u.first_row + ROWS < u.rows ? u.first_row + ROWS - 1 : u.rows - 1;
    u.end = (int)a.lk;
    if (V2 && last / lq == u.first_row / lq)
        u.end -= (int)(lq - 1 - last % lq);
    return u;
}

/* All threads fetch rows of 16-byte chunks. Only `left` rows exist; the rest is filled with
 * zeros. */
template <int count, int columns, int pitch>
static __device__ inline void fetch(uint32_t to, const float *from, int64_t step, int left, int there)
{
    constexpr int chunks = columns / 4;

#pragma unroll 4
    for (int i = threadIdx.x; i < count * chunks; i += WARPS * 32) {
        int row = i / chunks, column = i % chunks * 4;
        bool is_there = row < left && column < there;

        copy_chunk(to + row * pitch + column * 4, is_there ? from + row * step + column : (const void *)from,
                   is_there);
    }
}

static __device__ inline void fetch_tile(const weir__attention &a, const Unit &u, uint32_t stage, int first)
{
    if (first < u.end) {
        int left = u.end - first < TILE ? u.end - first : TILE;

        fetch<TILE, DEPTH, KEY_PITCH>(stage, (const float *)a.k.data + u.at.k + first * a.k.row, a.k.row, left,
                                      (int)a.d);
        fetch<TILE, COLUMNS, VALUE_PITCH>(stage + TILE * KEY_PITCH,
                                          (const float *)a.v.data + u.at.v + first * a.v.row, a.v.row, left,
                                          (int)a.dv);
    }
    copies_commit();
}

static __device__ inline void fetch_queries(const weir__attention &a, const Unit &u, uint32_t to)
{
    constexpr int chunks = DEPTH / 4;
    unsigned lq = (unsigned)a.lq;

#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * chunks; i += WARPS * 32) {
        unsigned local = i / chunks, row = u.first_row + local, column = i % chunks * 4;
        bool is_there = row < u.rows && column < a.d;
        const float *from = (const float *)a.q.data + u.at.q + (u.head + row / lq) * a.q.head + row % lq * a.q.row;

        copy_chunk(to + local * KEY_PITCH + column * 4, is_there ? from + column : (const void *)a.q.data, is_there);
    }
}

static __device__ inline Row make_row(const weir__attention &a, const Unit &u, unsigned row)
{
    unsigned lq = (unsigned)a.lq, own = row < u.rows ? row : u.rows - 1, position = own % lq;
    Row r = {u.at.mask + (u.head + own / lq) * a.mask.head + position * a.mask.row, (int)a.lk, below(), 0};

    if (V2)
        r.limit -= (int)(lq - 1 - position);
    return r;
}

/* Adds to `s` the products of the warp's queries and of its share of a tile's keys. */
static __device__ inline void score_tile(uint32_t queries, uint32_t keys, float (&s)[KEYS / 8][4])
{
    for (int i = 0; i < DEPTH / 8; i += STEPS) {
        float part[KEYS / 8][4] = {};

#pragma unroll
        for (int k = i; k < i + STEPS; k++) {
            uint32_t b[4];
            Apart<4> q;

            load_blocks(b, queries + k * 32);
            q.take(b);
#pragma unroll
            for (int j = 0; j < KEYS / 8; j += 2) {
                Apart<4> key;

                load_blocks(b, keys + j * 8 * KEY_PITCH + k * 32);
                key.take(b);
                multiply_apart(part[j], q, key, 0);
                multiply_apart(part[j + 1], q, key, 2);
            }
        }
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                s[j][k] += part[j][k];
    }
}

/* Computes with the tile at `stage`, of the keys from `first` on. */
static __device__ inline void take_tile(const weir__attention &a, uint32_t queries, const char *stage, int first,
                                        float scale, Row *rows, Sums &sums)
{
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 / ROW_WARPS * KEYS;
    float s[KEYS / 8][4] = {}, within = ADDS ? 1 : scale, bias[2], factors[2];
    uint32_t keys =
        shared_address(stage) + (own + lane / 16 * 8 + lane % 8) * KEY_PITCH + lane / 8 % 2 * 16;
    const float *values =
        (const float *)(stage + TILE * KEY_PITCH + (own + lane % 4 * 2) * VALUE_PITCH) + lane / 4;

    score_tile(queries, keys, s);
    first += own + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[j][i] = visible(a, rows[i / 2], s[j][i], scale, first, j * 8 + i % 2);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = rows[r].top;

#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        factors[r] = raise(rows[r], quad_max(top), within, &bias[r]);
    }
    Apart<4> weights[KEYS / 8];
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
        uint32_t w[4];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[j][i] = exp2_fast(s[j][i] * within - bias[i / 2]);
            rows[i / 2].total += s[j][i];
        }
        /* Keys 2 q and 2 q + 1 of lane q are used in place of q and q + 4, for the values too. */
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = __float_as_uint(s[j][i % 2 * 2 + i / 2]);
        weights[j].take(w);
    }
#pragma unroll
    for (int c = 0; c < COLUMNS / 8; c++) {
        float part[4] = {};

#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            const float *from = values + j * 8 * (VALUE_PITCH / 4) + c * 8;
            uint32_t b[2] = {__float_as_uint(from[0]), __float_as_uint(from[VALUE_PITCH / 4])};
            Apart<2> v;

            v.take(b);
            multiply_apart(part, weights[j], v, 0);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[c][i] = sums[c][i] * factors[i / 2] + part[i];
    }
}

/* Writes a row's sums to the output, if the row exists. */
static __device__ inline void put(const weir__attention &a, const Unit &u, unsigned row, unsigned column,
                                  float sum, float total)
{
    if (row < u.rows && column < a.dv)
        ((float *)a.out)[out_of_row(a, u.out + row) + column] = total == 0 ? 0 : sum / total;
}

static __device__ inline void leave(Share *share, const Row *rows, const Sums &sums)
{
    unsigned lane = threadIdx.x % 32;

#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(rows[r].total);

        if (lane % 4 == 0) {
            share->top[lane / 4 + 8 * r] = rows[r].top;
            share->total[lane / 4 + 8 * r] = total;
        }
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            for (int i = 0; i < 2; i++)
                share->sums[lane / 4 + 8 * r][j * 8 + lane % 4 * 2 + i] = sums[j][2 * r + i];
    }
}

/* Combines the results of the warps that share rows, in a fixed order. */
static __device__ inline void put_together(const weir__attention &a, const Unit &u, const Share *shares,
                                           float within)
{
    for (unsigned i = threadIdx.x; i < ROWS * COLUMNS; i += WARPS * 32) {
        unsigned row = i / COLUMNS, column = i % COLUMNS;
        const Share *own = shares + row / 16;
        float best = below(), total = 0, sum = 0;

#pragma unroll
        for (int k = 0; k < KEY_WARPS; k++)
            best = fmaxf(best, own[k * ROW_WARPS].top[row % 16]);
#pragma unroll
        for (int k = 0; k < KEY_WARPS; k++) {
            const Share &from = own[k * ROW_WARPS];
            float factor = exp2_fast((from.top[row % 16] - (best == below() ? 0 : best)) * within);

            total += from.total[row % 16] * factor;
            sum += from.sums[row % 16][column] * factor;
        }
        put(a, u, u.first_row + row, column, sum, total);
    }
}

static __device__ inline void put_rows(const weir__attention &a, const Unit &u, unsigned row, const Row *rows,
                                       const Sums &sums)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(rows[r].total);

#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            for (int i = 0; i < 2; i++)
                put(a, u, row + 8 * r, j * 8 + threadIdx.x % 4 * 2 + i, sums[j][2 * r + i], total);
    }
}

static __device__ inline void run_unit(const weir__attention &a, const Unit &u, char *memory)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float scale = (float)(a.scale * 1.4426950408889634);
    uint32_t queries = shared_address(memory), stages = queries + ROWS * KEY_PITCH;
    const char *tiles = memory + ROWS * KEY_PITCH;
    unsigned local = warp % ROW_WARPS * 16, row = u.first_row + local + lane / 4;
    Row rows[2] = {make_row(a, u, row), make_row(a, u, row + 8)};
    Sums sums = {};
    int stage = 0;

    fetch_queries(a, u, queries);
    queries += (local + lane % 16) * KEY_PITCH + lane / 16 * 16;
    fetch_tile(a, u, stages, 0);
    for (int first = 0; first < u.end; first += TILE, stage ^= 1) {
        copies_wait<0>();
        __syncthreads(); /* the tile has arrived, and no thread reads the previous one any more */
        fetch_tile(a, u, stages + (stage ^ 1) * STAGE_BYTES, first + TILE);
        take_tile(a, queries, tiles + stage * STAGE_BYTES, first, scale, rows, sums);
    }
    copies_wait<0>();
    if (KEY_WARPS > 1) {
        __syncthreads(); /* the memory is now used for the shares */
        leave((Share *)memory + warp, rows, sums);
        __syncthreads();
        put_together(a, u, (const Share *)memory, ADDS ? 1 : scale);
    } else {
        put_rows(a, u, row, rows, sums);
    }
    __syncthreads(); /* the memory is used for the next queries */
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_wide(const __grid_constant__ weir__attention a)
{
    await_earlier();
    extern __shared__ __align__(16) char memory[];
    unsigned rows = (unsigned)(V7 ? a.heads / a.key_heads * a.lq : a.lq);
    unsigned units = (unsigned)(V7 ? a.key_heads : a.heads) * ((rows + ROWS - 1) / ROWS);

    for (int d = 0; d < a.ndims; d++)
        units *= (unsigned)a.shape[d];
    for (unsigned i = blockIdx.x; i < units; i += gridDim.x)
        run_unit(a, find_unit(a, i), memory);
}
