/* Shared by both forms of attention of many queries: the softmax of a tile of scores, and the rows
 * of a thread. A warp has 16 rows, of which a thread has two: lane / 4 and lane / 4 + 8.
 * V0: type; V1: type of the mask, 255 without one; V2: causal, plus 2 for a mask whose rows are
 * packed and aligned to 16 bytes; V3: d in steps of 16; V4: dv in panels of 64; V5: the number of
 * groups of four warps for Hopper's products, else 0; V6: keys of a tile; V7: warps that compute */
#pragma once

#include "attention.cuh"

enum {
    WARPS = V7,
    ROWS = 16 * WARPS,
    KEYS = V6,
    STAGES = 2, /* tiles of keys, and of values, that fit into shared memory */
    STEPS = V3,
    PANELS = (V3 + 3) / 4,
    COLUMNS = 64 * V4,
    QUERY_BYTES = PANELS * ROWS * 128,
    KEY_BYTES = PANELS * KEYS * 128,
    VALUE_BYTES = V4 * KEYS * 128,
};

enum {
    CAUSAL = V2 & 1,
    WIDE_MASK = V2 >> 1,
    /* Words of a wide mask's row that a thread loads: pairs of numbers, or four bools each. */
    MASK_WORDS = !WIDE_MASK ? 1 : ADDS ? KEYS / 8 : KEYS / 16,
    MASK_BYTES = ADDS ? 2 : 1,
};

typedef float Scores[KEYS / 8][4];
typedef uint32_t Mask[2][MASK_WORDS];
typedef float Sums[COLUMNS / 8][4];
typedef uint32_t Weights[KEYS / 16][4];

/* A block's share at one time: the rows from first_row on of one head. */
struct Unit {
    Places at;
    unsigned head; /* numbered through all batches */
    int first_row;
    int tiles; /* tiles with keys that at least one row sees */
};

static __device__ inline Unit make_unit(const weir__attention &a, unsigned head, unsigned row_tile)
{
    unsigned heads = (unsigned)a.heads, own = head % heads;
    unsigned key_head = own / (heads / (unsigned)a.key_heads);
    int lq = (int)a.lq, last = (int)a.lk;
    Unit u;

    u.head = head;
    u.first_row = (int)(row_tile * ROWS);
    u.at = find_batch(a, head / heads);
    u.at.q += own * a.q.head;
    u.at.k += key_head * a.k.head;
    u.at.v += key_head * a.v.head;
    u.at.mask += own * a.mask.head;
    if (CAUSAL) {
        int end = (u.first_row + ROWS < lq ? u.first_row + ROWS : lq) + last - lq;

        last = end < last ? end : last;
    }
    u.tiles = last > 0 ? (last + KEYS - 1) / KEYS : 0;
    return u;
}

/* Returns the row number of the thread's row r, 0 or 1. */
static __device__ inline int row_of(const Unit &u, int r)
{
    return u.first_row + (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 + 8 * r;
}

static __device__ inline void make_rows(const weir__attention &a, const Unit &u, Row *rows)
{
    int lq = (int)a.lq, lk = (int)a.lk;

    for (int r = 0; r < 2; r++) {
        int row = row_of(u, r);

        row = row < lq ? row : lq - 1;
        rows[r] = {u.at.mask + row * a.mask.row, lk, below(), 0};
        if (CAUSAL && row + 1 < lq)
            rows[r].limit = lk - (lq - 1 - row);
    }
}

/* Transposes four words of four lanes: lane i gets x[i] of each lane, in the order of the lanes.
 * Two exchanges of halves do it. */
static __device__ inline void turn_quad(uint32_t *x)
{
    int lane = threadIdx.x % 4;

#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        bool upper = lane & step;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int low = i * (3 - step), high = low + step; /* 0, 1 and 2, 3; then 0, 2 and 1, 3 */
            uint32_t other = __shfl_xor_sync(~0u, upper ? x[low] : x[high], step);

            if (upper)
                x[low] = other;
            else
                x[high] = other;
        }
    }
}

/* Issues the loads of a wide mask's rows for the keys from `first` on: 16 bytes per lane, four
 * neighbouring lanes per row; zeros beyond the keys. A lane does not use the elements that it
 * loads: apply_mask moves them to the lanes that do. */
static __device__ inline void load_mask(const weir__attention &a, const Row *rows, int first,
                                        Mask &m)
{
    int lane = threadIdx.x % 4;

#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint4 *from = (const uint4 *)(a.mask.data + (rows[r].mask + first) * MASK_BYTES);

#pragma unroll
        for (int i = 0; i < MASK_WORDS / 4; i++) {
            int at = ADDS ? i * 4 + lane : lane * (MASK_WORDS / 4) + i;
            uint4 x = make_uint4(0, 0, 0, 0);

            if (first + at * (16 / MASK_BYTES) < a.lk)
                x = from[at];
            m[r][4 * i] = x.x;
            m[r][4 * i + 1] = x.y;
            m[r][4 * i + 2] = x.z;
            m[r][4 * i + 3] = x.w;
        }
    }
}

/* A bit for each byte that is not 0. */
static __device__ inline uint32_t bits_of(uint32_t bytes)
{
    bytes |= bytes >> 4;
    bytes |= bytes >> 2;
    bytes |= bytes >> 1;
    return (bytes & 0x01010101u) * 0x01020408u >> 24 & 15;
}

/* Adds the mask to the scores; scores of keys that it hides become -infinity. */
static __device__ inline void apply_mask(Scores &s, Mask &m, float scale)
{
    int lane = threadIdx.x % 4;

#pragma unroll
    for (int r = 0; r < 2; r++)
        if constexpr (ADDS) {
#pragma unroll
            for (int t = 0; t < KEYS / 32; t++) {
                turn_quad(m[r] + 4 * t);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float &x = s[4 * t + i / 2][2 * r + i % 2];
                    uint16_t half = (uint16_t)(m[r][4 * t + i / 2] >> i % 2 * 16);

                    x = x * scale + Type<V0>::load(half) * 1.4426950408889634f;
                }
            }
        } else {
            uint32_t own = 0, all[4];

#pragma unroll
            for (int i = 0; i < MASK_WORDS; i++)
                own |= bits_of(m[r][i]) << 4 * i;
#pragma unroll
            for (int i = 0; i < 4; i++) /* a lane has the bits of KEYS / 4 keys */
                all[i] = __shfl_sync(~0u, own, i, 4) >> lane * 2;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (!(all[j * 8 / (KEYS / 4)] >> (j * 8 % (KEYS / 4) + i) & 1))
                        s[j][2 * r + i] = below();
        }
}

/* Turns scores of the keys from `first` on into weights. Writes to `factors` the factors for the
 * sums so far. */
static __device__ inline void soften(const weir__attention &a, Scores &s, Row *rows, Mask &m,
                                     float scale, int first, float *factors)
{
    float within = ADDS ? 1 : scale, bias[2];

    if (WIDE_MASK)
        apply_mask(s, m, scale);
    if ((V1 != 255 && !WIDE_MASK) || first + KEYS > rows[0].limit ||
        first + KEYS > rows[1].limit) {
        int own = first + (int)threadIdx.x % 4 * 2;

#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (WIDE_MASK)
                    s[j][i] = own + j * 8 + i % 2 < rows[i / 2].limit ? s[j][i] : below();
                else
                    s[j][i] = visible(a, rows[i / 2], s[j][i], scale, own, j * 8 + i % 2);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = rows[r].top;

#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        factors[r] = raise(rows[r], quad_max(top), within, &bias[r]);
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[j][i] = exp2_fast(s[j][i] * within - bias[i / 2]);
            rows[i / 2].total += s[j][i];
        }
}

static __device__ inline void pack(Weights &w, const Scores &s)
{
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            w[i][j] = pack_two<V0>(s[2 * i + j / 2][j % 2 * 2], s[2 * i + j / 2][j % 2 * 2 + 1]);
}

static __device__ inline void rescale(Sums &sums, const float *factors)
{
    /* Most tiles have no new maximum; on Hopper the test costs more than it saves. */
    if (!V5 && !__any_sync(~0u, factors[0] != 1 || factors[1] != 1))
        return;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[j][i] *= factors[i / 2];
}

static __device__ inline void put_rows(const weir__attention &a, const Unit &u, const Row *rows,
                                       const Sums &sums)
{
    int lane = threadIdx.x % 4;

    for (int r = 0; r < 2; r++) {
        int row = row_of(u, r);
        float total = quad_sum(rows[r].total), share = total == 0 ? 0 : 1 / total;
        uint4 *out = (uint4 *)((half_bits *)a.out + out_of(a, (unsigned)u.head, (unsigned)row));

#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j += 4) {
            uint32_t x[4];

#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = pack_two<V0>(sums[j + i][2 * r] * share, sums[j + i][2 * r + 1] * share);
            turn_quad(x); /* eight columns in a row, 16 bytes */
            if (row < a.lq && (j + lane) * 8 < a.dv)
                out[j + lane] = make_uint4(x[0], x[1], x[2], x[3]);
        }
    }
}
