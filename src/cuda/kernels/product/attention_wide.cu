/* Attention of f32 on the tensor cores, which keep 11 bits of a mantissa. Each operand is split
 * into the sum of two such numbers, and three of the four products are added up. The result has
 * about the precision of f32.
 *
 * A block has up to 16 V5 query rows of one head, or of all heads that share a key head, against
 * tiles of keys. Each of V5 x V6 warps has 16 rows and a share of the tile's keys; if V6 is above
 * 1, their sums are combined at the end. Keys and values of a tile are fetched and waited for
 * separately.
 * V0: f32; V1: type of the mask, 255 without one; V2: causal; V3: d in steps of 16; V4: dv in steps
 * of 16; V5: warps along the rows; V6: warps along the keys; V7: 1 if the heads that share a key
 * head are rows of one problem; 2 if two tiles fit into shared memory, else one does; 4 if a warp
 * has 32 keys of a tile, else 16 */
#include "device/code.h"

#include "attention.cuh"

enum {
    ROW_WARPS = V5,
    KEY_WARPS = V6,
    WARPS = ROW_WARPS * KEY_WARPS,
    ROWS = 16 * ROW_WARPS,
    KEYS = V7 & 4 ? 32 : 16, /* of a warp */
    TILE = KEYS * KEY_WARPS,
    DEPTH = 16 * V3,
    COLUMNS = 16 * V4,
    KEY_PITCH = 4 * DEPTH + 16, /* an odd number of chunks: eight rows use each bank once */
    VALUE_PITCH = 4 * COLUMNS + 16,
    STAGE_BYTES = TILE * (KEY_PITCH + VALUE_PITCH),
    JOINED = V7 & 1,
    STAGES = V7 & 2 ? 2 : 1,
    HALVES = 2 * STAGES, /* keys of a tile, or values */
    STEPS = 4, /* products that the tensor cores add up; they do not round sums to nearest */
    AT_ONCE = 4, /* sums that take turns: a product waits for the one before it in the same sum */
    GROUPS = KEYS / 8,
    /* As many blocks of short rows as registers allow. */
    BLOCKS = COLUMNS <= 64 && WARPS == 8 ? 2 : 1,
};

typedef float Sums[COLUMNS / 8][4];

/* Numbers split into sums of two that the tensor cores hold. */
template <int n> struct Apart {
    uint32_t most[n], rest[n];

    /* The larger part is rounded to nearest, so that the rest may have either sign. The tensor
     * cores ignore the rest's last bits. */
    __device__ inline void take(const uint32_t *x)
    {
#pragma unroll
        for (int i = 0; i < n; i++) {
            most[i] = (x[i] + 0x1000u) & ~0x1fffu;
            rest[i] = __float_as_uint(__uint_as_float(x[i]) - __uint_as_float(most[i]));
        }
    }
};

/* c[i] += a b[i]. The smallest products are added first. */
template <int n>
static __device__ inline void multiply_apart(float (*c)[4], const Apart<4> &a, const Apart<2> *b)
{
#pragma unroll
    for (int i = 0; i < n; i++)
        multiply_tf32(c[i], a.rest, b[i].most);
#pragma unroll
    for (int i = 0; i < n; i++)
        multiply_tf32(c[i], a.most, b[i].rest);
#pragma unroll
    for (int i = 0; i < n; i++)
        multiply_tf32(c[i], a.most, b[i].most);
}

/* A warp's rows, in shared memory. The pitch lets eight rows be written at once. */
struct Share {
    float top[16], total[16], sums[16][COLUMNS + 8];
};

struct Unit {
    Places at;
    unsigned head, heads;     /* the first of its query heads, and their number */
    unsigned first_row, rows; /* of all those heads */
    int end;                  /* keys that one of the rows may see */
    int64_t out;              /* its first row in the output, minus first_row */
};

/* Problems: heads, or groups of them, through the batches. */
static __device__ inline unsigned count_problems(const weir__attention &a)
{
    unsigned n = (unsigned)(JOINED ? a.key_heads : a.heads);

    for (int d = 0; d < a.ndims; d++)
        n *= (unsigned)a.shape[d];
    return n;
}

static __device__ inline unsigned count_tiles(const weir__attention &a)
{
    return ((unsigned)((JOINED ? a.heads / a.key_heads : 1) * a.lq) + ROWS - 1) / ROWS;
}

static __device__ inline Unit find_unit(const weir__attention &a, unsigned i)
{
    unsigned share = (unsigned)(a.heads / a.key_heads), lq = (unsigned)a.lq, last;
    unsigned groups = (unsigned)(JOINED ? a.key_heads : a.heads), tiles = count_tiles(a);
    Unit u;

    u.heads = JOINED ? share : 1;
    u.rows = u.heads * lq;
    if (V2 && !JOINED) { /* the units that see most keys begin first */
        unsigned problems = count_problems(a);

        u.first_row = (tiles - 1 - i / problems) * ROWS;
        i %= problems;
    } else {
        u.first_row = i % tiles * ROWS;
        i /= tiles;
    }
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

/* All threads fetch rows of 16-byte chunks. Only `left` rows and `there` columns exist; the rest is
 * filled with zeros. */
template <int count, int columns, int pitch>
static __device__ inline void fetch(uint32_t to, const float *from, int64_t step, int left, int there)
{
    constexpr int chunks = columns / 4, threads = WARPS * 32;

    if constexpr (threads % chunks == 0) { /* a thread has a column */
        constexpr int at_once = threads / chunks;
        int row = threadIdx.x / chunks, column = threadIdx.x % chunks * 4;

        to += row * pitch + column * 4;
        from += row * step + column;
        left = column < there ? left - row : 0;
#pragma unroll
        for (int i = 0; i < count; i += at_once, from += at_once * step)
            if (i + at_once <= count || row + i < count)
                copy_chunk(to + i * pitch, from, i < left);
    } else {
#pragma unroll 4
        for (int i = threadIdx.x; i < count * chunks; i += threads) {
            int row = i / chunks, column = i % chunks * 4;

            copy_chunk(to + row * pitch + column * 4, from + row * step + column, row < left && column < there);
        }
    }
}

/* Where half a tile lies: half 2 t is tile t's keys, 2 t + 1 its values. */
static __device__ inline uint32_t offset_of(int half)
{
    return half / 2 % STAGES * STAGE_BYTES + half % 2 * (TILE * KEY_PITCH);
}

static __device__ inline void fetch_half(const weir__attention &a, const Unit &u, uint32_t stages, int half)
{
    int first = half / 2 * TILE, left = u.end - first < TILE ? u.end - first : TILE;
    uint32_t to = stages + offset_of(half);

    if (left > 0 && half % 2 == 0)
        fetch<TILE, DEPTH, KEY_PITCH>(to, (const float *)a.k.data + u.at.k + first * a.k.row, a.k.row, left,
                                      (int)a.d);
    else if (left > 0)
        fetch<TILE, COLUMNS, VALUE_PITCH>(to, (const float *)a.v.data + u.at.v + first * a.v.row, a.v.row, left,
                                          (int)a.dv);
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
static __device__ inline void score_tile(uint32_t queries, uint32_t keys, float (&s)[GROUPS][4])
{
    keys += (threadIdx.x % 32 / 16 * 8 + threadIdx.x % 8) * KEY_PITCH + threadIdx.x / 8 % 2 * 16;
#pragma unroll 1
    for (int i = 0; i < DEPTH / 8; i += STEPS) {
        float part[GROUPS][4] = {};

#pragma unroll
        for (int k = i; k < i + STEPS; k++) {
            uint32_t b[4];
            Apart<4> q;
            Apart<2> key[GROUPS];

            load_blocks(b, queries + k * 32);
            q.take(b);
#pragma unroll
            for (int j = 0; j < GROUPS; j += 2) {
                load_blocks(b, keys + j * 8 * KEY_PITCH + k * 32);
                key[j].take(b);
                key[j + 1].take(b + 2);
            }
            multiply_apart<GROUPS>(part, q, key);
        }
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                s[j][k] += part[j][k];
    }
}

/* Turns scores of the keys from `first` on into weights. Writes to `factors` the factors for the
 * sums so far. */
static __device__ inline void soften(const weir__attention &a, float (&s)[GROUPS][4], int first, float scale,
                                     Row *rows, float *factors, Apart<4> *weights)
{
    float within = ADDS ? 1 : scale, bias[2];

    first += threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < GROUPS; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[j][i] = visible(a, rows[i / 2], s[j][i], scale, first, j * 8 + i % 2);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = rows[r].top;

#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        factors[r] = raise(rows[r], quad_max(top), within, &bias[r]);
    }
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
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
}

/* Scales the sums by `factors` and adds the products of the weights and of the warp's values. */
static __device__ inline void sum_tile(const char *tile, const Apart<4> *weights, const float *factors, Sums &sums)
{
    const float *values = (const float *)(tile + threadIdx.x % 4 * 2 * VALUE_PITCH) + threadIdx.x % 32 / 4;

#pragma unroll
    for (int c = 0; c < COLUMNS / 8; c += AT_ONCE) {
        float part[AT_ONCE][4] = {};

#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            Apart<2> v[AT_ONCE];

#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const float *from = values + j * 8 * (VALUE_PITCH / 4) + (c + k) * 8;
                uint32_t b[2] = {__float_as_uint(from[0]), __float_as_uint(from[VALUE_PITCH / 4])};

                v[k].take(b);
            }
            multiply_apart<AT_ONCE>(part, weights[j], v);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[c + k][i] = sums[c + k][i] * factors[i / 2] + part[k][i];
    }
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
            *(float2 *)&share->sums[lane / 4 + 8 * r][j * 8 + lane % 4 * 2] = {sums[j][2 * r], sums[j][2 * r + 1]};
    }
}

/* Combines the results of the warps that share rows, in a fixed order. A warp has a row at a
 * time. */
static __device__ inline void put_together(const weir__attention &a, const Unit &u, const Share *shares,
                                           float within)
{
    for (unsigned row = threadIdx.x / 32; row < ROWS && u.first_row + row < u.rows; row += WARPS) {
        const Share *own = shares + row / 16;
        float *out = (float *)a.out + out_of_row(a, u.out + u.first_row + row);
        float best = below(), total = 0, factors[KEY_WARPS];

#pragma unroll
        for (int k = 0; k < KEY_WARPS; k++)
            best = fmaxf(best, own[k * ROW_WARPS].top[row % 16]);
#pragma unroll
        for (int k = 0; k < KEY_WARPS; k++) {
            factors[k] = exp2_fast((own[k * ROW_WARPS].top[row % 16] - (best == below() ? 0 : best)) * within);
            total += own[k * ROW_WARPS].total[row % 16] * factors[k];
        }
        for (unsigned column = threadIdx.x % 32 * 4; column < a.dv; column += 128) {
            float4 sum = {0, 0, 0, 0};

#pragma unroll
            for (int k = 0; k < KEY_WARPS; k++) {
                float4 x = *(const float4 *)&own[k * ROW_WARPS].sums[row % 16][column];

                sum.x += x.x * factors[k];
                sum.y += x.y * factors[k];
                sum.z += x.z * factors[k];
                sum.w += x.w * factors[k];
            }
            *(float4 *)(out + column) = total == 0 ? float4{0, 0, 0, 0}
                                                   : float4{sum.x / total, sum.y / total, sum.z / total, sum.w / total};
        }
    }
}

static __device__ inline void put_rows(const weir__attention &a, const Unit &u, unsigned row, const Row *rows,
                                       const Sums &sums)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(rows[r].total);
        float *out = (float *)a.out + out_of_row(a, u.out + row + 8 * r);

#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) {
            unsigned column = j * 8 + threadIdx.x % 4 * 2;
            float x = sums[j][2 * r], y = sums[j][2 * r + 1];

            if (row + 8 * r < u.rows && column < a.dv)
                *(float2 *)(out + column) = {total == 0 ? 0 : x / total, total == 0 ? 0 : y / total};
        }
    }
}

static __device__ inline void run_unit(const weir__attention &a, const Unit &u, char *memory)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = warp / ROW_WARPS * KEYS;
    float scale = (float)(a.scale * 1.4426950408889634), factors[2];
    uint32_t queries = shared_address(memory), stages = queries + ROWS * KEY_PITCH;
    const char *tiles = memory + ROWS * KEY_PITCH;
    unsigned local = warp % ROW_WARPS * 16, row = u.first_row + local + lane / 4;
    Row rows[2] = {make_row(a, u, row), make_row(a, u, row + 8)};
    int limit = max(rows[0].limit, rows[1].limit), half = 0;
    Sums sums = {};

#pragma unroll
    for (int step = 16; step; step /= 2) /* of all rows of the warp */
        limit = max(limit, __shfl_xor_sync(~0u, limit, step));
    fetch_queries(a, u, queries);
    queries += (local + lane % 16) * KEY_PITCH + lane / 16 * 16;
    for (int i = 0; i < HALVES - 1; i++)
        fetch_half(a, u, stages, i);
    for (int first = 0; first < u.end; first += TILE, half += 2) {
        Apart<4> weights[GROUPS];
        bool sees = first + own < limit; /* else its keys are hidden from all of its rows */

        copies_wait<HALVES - 2>();
        __syncthreads(); /* the keys have arrived, and no thread reads the half before any more */
        fetch_half(a, u, stages, half + HALVES - 1);
        if (sees) {
            float s[GROUPS][4] = {};

            score_tile(queries, stages + offset_of(half) + own * KEY_PITCH, s);
            soften(a, s, first + own, scale, rows, factors, weights);
        }
        copies_wait<HALVES - 2>();
        __syncthreads(); /* the values have arrived, and no thread reads the keys any more */
        fetch_half(a, u, stages, half + HALVES);
        if (sees)
            sum_tile(tiles + offset_of(half + 1) + own * VALUE_PITCH, weights, factors, sums);
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

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    attention_wide(const __grid_constant__ weir__attention a)
{
    await_earlier();
    extern __shared__ __align__(16) char memory[];
    unsigned units = count_problems(a) * count_tiles(a);

    for (unsigned i = blockIdx.x; i < units; i += gridDim.x)
        run_unit(a, find_unit(a, i), memory);
}
