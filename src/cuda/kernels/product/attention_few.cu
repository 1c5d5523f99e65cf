/* Attention of few query rows and many keys, f16 and bf16 on the tensor cores. A unit is the rows
 * of all heads that share a key head, 16 at a time, against a part of the keys. A warp processes
 * its own tiles of 16 keys. At the end a block's warps add up their sums. The sums of the parts are
 * added up by the cluster of the unit's blocks, by its last block to finish, or by phase 1, always
 * in the same order. Tiles that the mask hides completely are not read, except the first ones: most
 * of a cache with room for more text is hidden.
 * V0: type; V1: type of the mask, 255 without one; V2: causal; V3: d in steps of 16; V4: dv in
 * steps of 16; V5: 0 if the keys are one part; else 1: phase 1 combines the parts, 2: the last block
 * of a unit does, 1 + n: the n blocks of a cluster do; V6: warps; V7: tiles of a warp in flight */
#include "device/code.h"

#include "attention_parts.cuh"

enum {
    KEYS = 16,
    STAGES = V7,
    KEY_PITCH = 32 * V3 + 16, /* an odd number of chunks: eight rows use each bank once */
    VALUE_PITCH = 32 * V4 + 16,
    STAGE_BYTES = KEYS * (KEY_PITCH + VALUE_PITCH),
};

typedef float Sums[COLUMNS / 8][4];

struct Unit {
    Places at;
    unsigned key_head, heads;  /* heads of the queries that share it */
    unsigned first_row, rows;  /* of all those heads */
    unsigned part;
    int begin, end;            /* keys */
    int64_t out;               /* the first row of the key head in the output */
};

static __device__ inline Unit find_unit(const weir__attention &a, unsigned i)
{
    unsigned splits = V5 ? (unsigned)a.splits : 1, key_heads = (unsigned)a.key_heads;
    unsigned round = splits * WARPS * KEYS, keys = (unsigned)a.lk, tiles, length, begin;
    Unit u;

    u.heads = (unsigned)a.heads / key_heads;
    u.rows = u.heads * (unsigned)a.lq;
    tiles = (u.rows + ROWS - 1) / ROWS;
    u.part = i % splits;
    i /= splits;
    u.first_row = i % tiles * ROWS;
    i /= tiles; /* key heads, through the batches */
    u.out = (int64_t)i * u.rows;
    u.key_head = i % key_heads;
    u.at = find_batch(a, i / key_heads);
    u.at.k += u.key_head * a.k.head;
    u.at.v += u.key_head * a.v.head;
    length = (keys + round - 1) / round * (WARPS * KEYS);
    begin = u.part * length < keys ? u.part * length : keys;
    u.begin = (int)begin;
    u.end = (int)(length < keys - begin ? begin + length : keys);
    return u;
}

/* A warp loads a tile of keys or of values, from key `first` on. Only `left` keys exist; the rest
 * is filled with zeros. A lane loads one chunk of every few rows. */
template <int steps, int pitch>
static __device__ inline void fetch(uint32_t to, const char *data, int64_t base, int64_t step,
                                    int first, int left, int columns)
{
    constexpr int chunks = 2 * steps, at_once = 32 / chunks;
    int lane = threadIdx.x % 32, chunk = lane % chunks, row = lane / chunks;
    const half_bits *from = (const half_bits *)data + base + (first + row) * step + chunk * 8;

    to += row * pitch + chunk * 16;
    left = chunk * 8 < columns ? left - row : 0;
    if (row < at_once) /* 32 may not be a multiple of the number of chunks */
#pragma unroll
        for (int i = 0; i < KEYS; i += at_once)
            copy_chunk(to + i * pitch, i < left ? from + i * step : (const void *)data, i < left);
}

static __device__ inline void fetch_tile(const weir__attention &a, const Unit &u, uint32_t stage,
                                         int first)
{
    int left = u.end - first < KEYS ? u.end - first : KEYS;

    if (left > 0)
        fetch<V3, KEY_PITCH>(stage, a.k.data, u.at.k, a.k.row, first, left, (int)a.d);
    copies_commit();
    if (left > 0)
        fetch<V4, VALUE_PITCH>(stage + KEYS * KEY_PITCH, a.v.data, u.at.v, a.v.row, first, left,
                               (int)a.dv);
    copies_commit();
}

/* ---- the tiles of a warp that have a key that some row sees ---- */

struct Walk {
    int base;      /* the first key of 32 tiles */
    uint32_t left; /* a bit for each of them that is still to be processed */
};

/* True if one of the `left` keys from the mask's element `at` on is visible. All loads are issued
 * at once. */
static __device__ inline bool sees_some(const weir__attention &a, int64_t at, int left)
{
    const char *from = a.mask.data + at;
    bool seen = false;

    if constexpr (!ADDS)
        if (left >= KEYS && a.mask.col == 1 && !((uintptr_t)from & 15)) {
            uint4 all = *(const uint4 *)from;

            return (all.x | all.y | all.z | all.w) != 0;
        }
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        int64_t key = at + (i < left ? i : 0) * a.mask.col;

        if constexpr (ADDS)
            seen |= load<V0>(a.mask.data, key) != below();
        else
            seen |= a.mask.data[key] != 0;
    }
    return seen;
}

/* Returns which of the 32 tiles from `base` on have a visible key. Each lane checks one tile. */
static __device__ inline uint32_t seen_tiles(const weir__attention &a, const Unit &u, int base)
{
    int64_t mask = u.at.mask + u.key_head * u.heads * a.mask.head;
    int first = base + threadIdx.x % 32 * (WARPS * KEYS);

    if ((a.mask.head && u.heads > 1) || (a.mask.row && a.lq > 1))
        return ~0u; /* rows with masks of their own */
    return __ballot_sync(~0u, first < u.end && sees_some(a, mask + first * a.mask.col, u.end - first));
}

/* `certain`: the first tile is processed without checking the mask. */
static __device__ inline Walk start_walk(const weir__attention &a, const Unit &u, bool certain)
{
    int base = u.begin + threadIdx.x / 32 * KEYS;

    return {base, V1 == 255 ? 0 : seen_tiles(a, u, base) | certain};
}

/* Returns the first key of the next tile, or a key beyond the last one. */
static __device__ inline int next_tile(const weir__attention &a, const Unit &u, Walk &walk)
{
    int tile;

    if constexpr (V1 == 255) { /* all of them */
        tile = walk.base;
        walk.base += WARPS * KEYS;
        return tile;
    }
    while (!walk.left) {
        if (walk.base >= u.end)
            return u.end;
        walk.base += 32 * WARPS * KEYS;
        walk.left = seen_tiles(a, u, walk.base);
    }
    tile = __ffs((int)walk.left) - 1;
    walk.left &= walk.left - 1;
    return walk.base + tile * (WARPS * KEYS);
}

/* Loads two neighbouring elements of a query row; zeros beyond its end. */
static __device__ inline uint32_t query(const weir__attention &a, const Unit &u, unsigned row,
                                        int column)
{
    unsigned lq = (unsigned)a.lq, head = u.key_head * u.heads + row / lq;

    if (row >= u.rows || column >= a.d)
        return 0;
    return *(const uint32_t *)((const half_bits *)a.q.data + u.at.q + head * a.q.head +
                               row % lq * a.q.row + column);
}

static __device__ inline Row make_row(const weir__attention &a, const Unit &u, unsigned row)
{
    unsigned lq = (unsigned)a.lq, own = row < u.rows ? row : u.rows - 1, position = own % lq;
    unsigned head = u.key_head * u.heads + own / lq;
    Row r = {u.at.mask + head * a.mask.head + position * a.mask.row, u.end, below(), 0};
    int sees = (int)a.lk - (int)(lq - 1 - position);

    if (V2 && sees < r.limit)
        r.limit = sees;
    return r;
}

/* The mask for the thread's scores of a tile; its loads are issued before the tile has arrived. */
struct Hidden {
    float add[2][4];
};

static __device__ inline Hidden hidden(const weir__attention &a, const Row *rows, int first)
{
    int lane = threadIdx.x % 32;
    Hidden h;

    if constexpr (V1 != 255) {
        first += lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                h.add[j][i] = visible(a, rows[i / 2], 0, 0, first, j * 8 + i % 2);
    }
    return h;
}

/* Computes with the tile at `stage`, of the keys from `first` on. Waits for the tile's values only
 * when the scores are computed. */
static __device__ inline void take_tile(const uint32_t (*q)[4], uint32_t stage, int first,
                                        float scale, const Hidden &h, Row *rows, Sums &sums)
{
    int lane = threadIdx.x % 32;
    float s[2][4] = {}, within = ADDS ? 1 : scale, bias[2], factors[2];
    uint32_t b[4], w[4];

#pragma unroll
    for (int i = 0; i < V3; i++) {
        load_blocks(b, stage + (lane / 16 * 8 + lane % 8) * KEY_PITCH +
                           (i * 2 + lane / 8 % 2) * 16);
        multiply<V0>(s[0], q[i], b);
        multiply<V0>(s[1], q[i], b + 2);
    }
    if (V1 != 255 || first + KEYS > rows[0].limit || first + KEYS > rows[1].limit) {
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool beyond = first + lane % 4 * 2 + j * 8 + i % 2 >= rows[i / 2].limit;

                if constexpr (ADDS)
                    s[j][i] = beyond ? below() : s[j][i] * scale + h.add[j][i];
                else
                    s[j][i] = beyond || (V1 != 255 && h.add[j][i] != 0) ? below() : s[j][i];
            }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));

        factors[r] = raise(rows[r], quad_max(fmaxf(top, rows[r].top)), within, &bias[r]);
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[j][i] = exp2_fast(s[j][i] * within - bias[i / 2]);
            rows[i / 2].total += s[j][i];
        }
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = pack_two<V0>(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
    stage += KEYS * KEY_PITCH;
    copies_wait<2 * STAGES - 2>();
    __syncwarp(); /* the values have arrived */
#pragma unroll
    for (int j = 0; j < V4; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[2 * j][i] *= factors[i / 2];
            sums[2 * j + 1][i] *= factors[i / 2];
        }
        load_blocks_turned(b, stage + lane % 16 * VALUE_PITCH + (j * 2 + lane / 16) * 16);
        multiply<V0>(sums[2 * j], w, b);
        multiply<V0>(sums[2 * j + 1], w, b + 2);
    }
}

/* Writes the first `count` of a warp's rows to shared memory, where the block reads them. */
static __device__ inline void leave(Share *share, const Row *rows, const Sums &sums, unsigned count)
{
    unsigned lane = threadIdx.x % 32;

#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = quad_sum(rows[r].total);

        if (lane % 4 == 0) {
            share->top[lane / 4 + 8 * r] = rows[r].top;
            share->total[lane / 4 + 8 * r] = total;
        }
        if (lane / 4 + 8 * r >= count)
            continue;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            *(float2 *)&share->sums[lane / 4 + 8 * r][j * 8 + lane % 4 * 2] = {sums[j][2 * r],
                                                                               sums[j][2 * r + 1]};
    }
}

/* Writes four elements of the block's rows: to the output, or to the part's place in shared memory
 * or in scratch memory. */
static __device__ inline void put_together(const weir__attention &a, const Unit &u, char *memory,
                                           unsigned row, unsigned column, float within)
{
    const Share *shares = (const Share *)memory;
    float best = below(), total = 0, sum[4] = {};

#pragma unroll
    for (int i = 0; i < WARPS; i++)
        best = fmaxf(best, shares[i].top[row]);
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        float factor = worth(shares[i].top[row], best, within);
        float4 x = *(const float4 *)&shares[i].sums[row][column];

        total += shares[i].total[row] * factor;
        sum[0] += x.x * factor;
        sum[1] += x.y * factor;
        sum[2] += x.z * factor;
        sum[3] += x.w * factor;
    }
    if (CLUSTER > 1) {
        *(float4 *)&part_of(memory)->sums[row][column] = {sum[0], sum[1], sum[2], sum[3]};
        if (column == 0)
            part_of(memory)->ends[row] = {best, total};
        return;
    }
    row += u.first_row;
    if (V5) {
        int64_t part = (u.out + row) * a.splits + u.part;

        *(float4 *)(a.partial + part * a.dv + column) = {sum[0], sum[1], sum[2], sum[3]};
        if (column == 0)
            part_ends(a)[part] = {best, total};
    } else {
        put_four(a, out_of_row(a, u.out + row) + column, sum, total);
    }
}

static __device__ inline void run_unit(const weir__attention &a, const Unit &u, char *memory)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float scale = (float)(a.scale * 1.4426950408889634);
    uint32_t stages = shared_address(memory) + warp * STAGES * STAGE_BYTES;
    unsigned row = u.first_row + lane / 4, here;
    int first = u.begin + warp * KEYS, stage = 0;
    /* The first keys of a cache are normally visible, so they are fetched before the mask has
     * arrived. */
    bool certain = V1 == 255 || (u.part == 0 && first < u.end);
    uint32_t q[V3][4];
    Sums sums = {};
    Row rows[2];
    Walk fetched, taken;

    if (certain)
        fetch_tile(a, u, stages, first);
    rows[0] = make_row(a, u, row);
    rows[1] = make_row(a, u, row + 8);
#pragma unroll
    for (int i = 0; i < V3; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            q[i][j] = query(a, u, row + j % 2 * 8, i * 16 + j / 2 * 8 + lane % 4 * 2);
    fetched = taken = start_walk(a, u, certain);
    if (certain)
        next_tile(a, u, fetched);
    for (int i = certain; i < STAGES - 1; i++)
        fetch_tile(a, u, stages + i * STAGE_BYTES, next_tile(a, u, fetched));
    while ((first = next_tile(a, u, taken)) < u.end) {
        int next = stage == 0 ? STAGES - 1 : stage - 1;
        Hidden h = hidden(a, rows, first);

        copies_wait<2 * STAGES - 3>();
        __syncwarp(); /* the keys have arrived, and no lane reads the previous tile any more */
        fetch_tile(a, u, stages + next * STAGE_BYTES, next_tile(a, u, fetched));
        take_tile(q, stages + stage * STAGE_BYTES, first, scale, h, rows, sums);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    if (WARPS == 8) /* no other block fits on the core: none of the next kernel starts too early */
        let_next_begin();
    copies_wait<0>();
    here = u.rows - u.first_row < ROWS ? u.rows - u.first_row : ROWS;
    __syncthreads(); /* the memory of the tiles is now used for the shares */
    leave((Share *)memory + warp, rows, sums, here);
    __syncthreads();
    for (unsigned i = threadIdx.x * 4; i < here * COLUMNS; i += blockDim.x * 4)
        if (i % COLUMNS < a.dv)
            put_together(a, u, memory, i / COLUMNS, i % COLUMNS, ADDS ? 1 : scale);
    if (CLUSTER == 1)
        __syncthreads(); /* the part is written; the memory of the shares is used for tiles again */
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    attention_few(const __grid_constant__ weir__attention a, weir__code_context c)
{
    Unit u = find_unit(a, blockIdx.x); /* of the arguments alone */
    await_earlier();
    extern __shared__ __align__(16) char memory[];
    unsigned stacks = (unsigned)a.key_heads, rows, units;

    for (int d = 0; d < a.ndims; d++)
        stacks *= (unsigned)a.shape[d];
    rows = (unsigned)a.heads / (unsigned)a.key_heads * (unsigned)a.lq;
    float within = ADDS ? 1 : (float)(a.scale * 1.4426950408889634);

    if (V5 == 1 && c.phase == 1) {
        for (unsigned i = blockIdx.x; i < stacks * rows; i += gridDim.x)
            for (int j = threadIdx.x * 4; j < a.dv; j += blockDim.x * 4)
                combine_stored(a, i, j, within);
        return;
    }
    units = stacks * ((rows + ROWS - 1) / ROWS) * (V5 ? (unsigned)a.splits : 1);
    for (unsigned i = blockIdx.x; i < units; i += gridDim.x) {
        if (i != blockIdx.x)
            u = find_unit(a, i);
        unsigned here = u.first_row + ROWS < rows ? ROWS : rows - u.first_row;

        run_unit(a, u, memory);
        if (CLUSTER > 1) {
            combine_cluster(a, u.out + u.first_row, here, u.part, memory, within);
        } else if (V5 == 2 && is_last(c.counters + i / (unsigned)a.splits, (unsigned)a.splits)) {
            for (unsigned j = threadIdx.x * 4; j < here * COLUMNS; j += blockDim.x * 4)
                if (j % COLUMNS < a.dv)
                    combine_stored(a, u.out + u.first_row + j / COLUMNS, j % COLUMNS, within);
            if (threadIdx.x == 0)
                atomicExch(c.counters + i / (unsigned)a.splits, 0u);
        }
    }
}
