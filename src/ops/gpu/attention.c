/* Attention on a GPU. One plain kernel handles every type and layout. The kernels on tensor cores
 * cut many query rows into tiles, and split the keys for few query rows. f32 has a kernel of its
 * own. */
#include "ops/gpu/attention_cut.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"

#define LONGEST 256 /* most columns that the kernels on tensor cores hold */
#define GROUP_ROWS \
    64 /* of attention_tiles.cu: rows of a group of four warps, with Hopper's matrix products */
#define FEW_ROWS 16 /* of attention_few.cu: rows of a unit */
#define FEW_MOST 64 /* most query rows of a key head for attention_few.cu */

static int64_t batches(const struct weir__attention *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndims; d++)
        n *= a->shape[d];
    return n;
}

/* The query rows of all heads that share a key head. */
static int64_t shared_rows(const struct weir__attention *a)
{
    return a->key_heads ? a->heads / a->key_heads * a->lq : 0;
}

/* Columns in steps of 16. The number is even, so that there are few variants to compile. */
static int64_t steps_of(int64_t columns)
{
    return 2 * weir__div_up(columns, 32);
}

/* The most shared memory a block may use. */
static int64_t most_shared(uint32_t arch)
{
    return (arch >= 90 && arch < 120 ? 227 : arch == 80 || arch == 87 ? 163 : 99) << 10;
}

/* ---- every type and layout ---- */

static void name_variant(const struct weir__attention *a, struct weir__code_launch *l)
{
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->mask.data ? (uint8_t)a->mask_dtype : 255;
    l->variant[2] = a->causal;
}

static void plain_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t columns = a->dtype == WEIR_F64 ? 64 : 128;

    (void)phase;
    name_variant(a, l);
    l->threads = 128;
    weir__gpu_spread(batches(a) * a->heads * weir__div_up(a->lq, 16) * weir__div_up(a->dv, columns),
                     cores, 8, l);
}

static const struct weir__code plain = {
    .text = "attention", .contract = true, .shape = plain_shape};

/* ---- many rows ---- */

/* Describes an operand's matrices as tiles that the GPU's copy unit fetches (TMA). False if their
 * rows are not reachable in steps of 16 bytes. */
static bool tile_operand(const struct weir__attention_operand *o, const struct weir__attention *a,
                         int64_t heads, int64_t rows, int64_t columns, struct weir__code_tiled *t)
{
    const int64_t most = (int64_t)INT32_MAX * 16;

    *t = (struct weir__code_tiled){.data = o->data,
                                   .row_bytes = rows > 1 ? o->row * 2 : 16,
                                   .reach = heads > 1 ? (heads - 1) * o->head * 2 : 0,
                                   .rows = rows,
                                   .columns = columns};
    for (int d = 0; d < a->ndims; d++)
        if (a->shape[d] > 1) {
            if (o->batch[d] < 0)
                return false;
            t->reach += (a->shape[d] - 1) * o->batch[d] * 2;
        }
    return t->row_bytes > 0 && t->row_bytes < most && t->reach >= 0 && t->reach < most;
}

static bool tile_operands(const struct weir__attention *a, struct weir__code_tiled *t)
{
    return tile_operand(&a->q, a, a->heads, a->lq, a->d, &t[0]) &&
           tile_operand(&a->k, a, a->key_heads, a->lk, a->d, &t[1]) &&
           tile_operand(&a->v, a, a->key_heads, a->lk, a->dv, &t[2]);
}

static int64_t row_tiles(const struct weir__attention *a, int64_t rows)
{
    return batches(a) * a->heads * weir__div_up(a->lq, rows);
}

/* With Hopper's matrix products: the number of groups of four warps in a block; else 0. Short rows
 * leave registers for a third group. It pays if it adds few padding rows and all cores have enough
 * work. */
static int64_t groups_of(const struct weir__attention *a, unsigned cores, uint32_t arch)
{
    struct weir__code_tiled t[WEIR__CODE_TILED];
    int64_t two = row_tiles(a, 2 * GROUP_ROWS), three = row_tiles(a, 3 * GROUP_ROWS);

    if (arch != 90 || !tile_operands(a, t))
        return 0;
    return a->d <= 64 && a->dv <= 64 && !a->causal && !a->mask.data && two > cores &&
                   three * 3 * 10 <= two * 2 * 11
               ? 3
               : 2;
}

/* Keys of a tile: as many as registers and shared memory allow for two tiles of keys and of
 * values. */
static int64_t tile_keys(const struct weir__attention *a, int64_t groups)
{
    if (groups)
        return a->d > 192 || a->dv > 128 ? 64 : 128;
    return a->d > 128 || a->dv > 128 ? 32 : 64;
}

/* Whether rows of the mask are packed, aligned to 16 bytes and multiples of 16 bytes long: then
 * they are loaded 16 bytes at a time. */
static bool has_wide_mask(const struct weir__attention *a)
{
    const int64_t n = a->mask_dtype == WEIR_BOOL ? 16 : 8;

    if (!a->mask.data || (uintptr_t)a->mask.data & 15 || a->mask.col != 1 || a->lk % n ||
        (a->mask.row % n && a->lq > 1) || (a->mask.head % n && a->heads > 1))
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (a->mask.batch[d] % n && a->shape[d] > 1)
            return false;
    return true;
}

static void tiles_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t panels = weir__div_up(a->d, 64), value_panels = weir__div_up(a->dv, 64);
    int64_t groups = groups_of(a, cores, l->arch), keys = tile_keys(a, groups);
    int64_t warps = groups ? 4 * groups : keys == 64 ? 8 : 4, rows = 16 * warps;

    (void)phase;
    name_variant(a, l);
    if (keys > 32 && has_wide_mask(a))
        l->variant[2] |= 2;
    l->variant[3] = (uint8_t)steps_of(a->d);
    l->variant[4] = (uint8_t)value_panels;
    l->variant[5] = (uint8_t)groups;
    l->variant[6] = (uint8_t)keys;
    l->variant[7] = (uint8_t)warps;
    l->shared = (uint32_t)(1280 + panels * rows * 128 + 2 * keys * 128 * (panels + value_panels));
    if (groups) {
        l->threads = (uint32_t)(groups * 128 + 128); /* the last group fetches */
        l->shared += 1024; /* a word for each other thread of two groups */
        weir__gpu_spread(row_tiles(a, rows), cores, 1, l);
    } else {
        /* Blocks differ in length: the GPU starts a block whenever a core is free. */
        l->threads = (uint32_t)(32 * warps);
        l->grid = (uint32_t)row_tiles(a, rows);
    }
}

static int tiles_tiled(const void *args, const struct weir__code_launch *l,
                       struct weir__code_tiled *tiled)
{
    if (!l->variant[5])
        return 0;
    (void)tile_operands(args, tiled);
    tiled[0].tile_rows = l->variant[5] * GROUP_ROWS;
    tiled[1].tile_rows = tiled[2].tile_rows = l->variant[6];
    return 3;
}

static const struct weir__code tiles = {
    .text = "attention_tiles", .contract = true, .shape = tiles_shape, .tiled = tiles_tiled};

/* ---- few rows ---- */

static bool has_few_rows(const struct weir__attention *a)
{
    return a->dtype != WEIR_F32 && a->dtype != WEIR_F64 && a->d <= LONGEST && a->dv <= LONGEST &&
           shared_rows(a) <= FEW_MOST;
}

static int64_t few_units(const struct weir__attention *a)
{
    return batches(a) * a->key_heads * weir__div_up(shared_rows(a), FEW_ROWS);
}

static struct weir__attention_cut few_cut(const struct weir__attention *a)
{
    return weir__attention_find_cut(few_units(a), a->lk, (a->d + a->dv) * 2);
}

static int64_t parts_of(const struct weir__attention *a)
{
    return has_few_rows(a) && few_units(a) ? few_cut(a).parts : 1;
}

size_t weir__gpu_attention_scratch(const struct weir__attention *a)
{
    int64_t parts = parts_of(a);

    return parts > 1 ? (size_t)(batches(a) * a->heads * a->lq * parts * (a->dv + 2)) * sizeof(float)
                     : 0;
}

/* Whether the parts of a unit can be the blocks of a cluster. A cluster's blocks run within a group
 * of 14 to 18 cores, so that larger clusters leave cores unused: they must all run at once. */
static bool fits_clusters(const struct weir__attention *a, unsigned cores, uint32_t most)
{
    return a->splits > 1 && a->splits <= most &&
           (a->splits == 2 || few_units(a) * a->splits <= cores * 3 / 4);
}

static void few_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t steps = steps_of(a->d), value_steps = steps_of(a->dv);
    int64_t tile = 16 * (32 * (steps + value_steps) + 32), warps = few_cut(a).warps;
    int64_t stages = warps == 4 ? 2 : 3; /* with fewer stages, two blocks fit on a core */
    /* The blocks of each unit combine the parts, as a cluster, or the last one of them does, or
     * else a second phase. */
    bool meets = fits_clusters(a, cores, l->clusters);
    bool counts = !meets && l->counters >= (uint64_t)few_units(a);

    while (warps * stages * tile + 16 > most_shared(l->arch)) {
        warps = stages == 2 ? warps / 2 : warps;
        stages = 2;
    }
    name_variant(a, l);
    l->variant[3] = (uint8_t)steps;
    l->variant[4] = (uint8_t)value_steps;
    l->variant[5] = (uint8_t)(meets ? a->splits + 1 : a->splits > 1 ? 1 + counts : 0);
    l->variant[6] = (uint8_t)warps;
    l->variant[7] = (uint8_t)stages;
    l->threads = (uint32_t)(32 * warps);
    if (phase == 0) {
        l->shared = (uint32_t)(warps * stages * tile);
        weir__gpu_spread(few_units(a) * a->splits, cores, 16, l);
        if (meets) {
            const int64_t row = 64 * value_steps; /* each warp leaves 16, and so does the block */

            l->cluster = (uint32_t)a->splits;
            l->grid = (uint32_t)(few_units(a) * a->splits);
            l->shared =
                (uint32_t)weir__max((int64_t)l->shared, 16 * (warps * (row + 40) + row + 8));
        }
    } else if (!counts && !meets) {
        weir__gpu_spread(batches(a) * a->heads * a->lq, cores, 16, l); /* one row each */
    }
}

static const struct weir__code few = {
    .text = "attention_few", .contract = true, .counts = true, .shape = few_shape};

/* ---- f32 ---- */

/* Whether the rows of all heads that share a key head form one problem: if a head has few rows. */
static bool joins_heads(const struct weir__attention *a)
{
    return a->lq < 64 && a->heads > a->key_heads;
}

static void wide_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t steps = steps_of(a->d), value_steps = steps_of(a->dv);
    int64_t pitches = 64 * (steps + value_steps) + 32;
    int64_t rows = joins_heads(a) ? shared_rows(a) : a->lq;
    int64_t groups = batches(a) * (joins_heads(a) ? a->key_heads : a->heads);
    int64_t row_warps = rows <= 16 ? 1 : rows <= 32 ? 2 : 4, key_warps = row_warps == 1 ? 4 : 2;
    int64_t keys = row_warps == 1 ? 16 : 32, stages = 2, shared, shares; /* keys of a warp */

    (void)phase;
    /* Long heads have room for one block on a core. With few blocks, smaller ones take 0.75 of the
     * time. The cores do not decide, because the bits depend on the warps. */
    if (weir__max(a->d, a->dv) > 128 && row_warps == 4 && groups * weir__div_up(rows, 64) <= 264) {
        row_warps = 2;
        key_warps = 4;
        keys = 16;
        stages = 1;
    }
    for (;;) {
        shared = 16 * row_warps * (64 * steps + 16) + stages * key_warps * keys * pitches;
        /* of the sums that the warps leave at the end */
        shares = key_warps > 1 ? row_warps * key_warps * 16 * (64 * value_steps + 40) : 0;
        shared = weir__max(shared, shares);
        if (shared <= most_shared(l->arch) || row_warps * key_warps * stages == 1)
            break;
        if (stages > 1)
            stages = 1;
        else if (key_warps > 1)
            key_warps /= 2;
        else
            row_warps /= 2;
    }
    name_variant(a, l);
    l->variant[3] = (uint8_t)steps;
    l->variant[4] = (uint8_t)value_steps;
    l->variant[5] = (uint8_t)row_warps;
    l->variant[6] = (uint8_t)key_warps;
    l->variant[7] = (uint8_t)(joins_heads(a) + 2 * (stages > 1) + 4 * (keys == 32));
    l->threads = (uint32_t)(32 * row_warps * key_warps);
    l->shared = (uint32_t)shared;
    weir__gpu_spread(groups * weir__div_up(rows, 16 * row_warps), cores, 16, l);
}

static const struct weir__code wide = {
    .text = "attention_wide", .contract = true, .shape = wide_shape};

/* ---- choice of the kernel ---- */

/* Whether rows of the operand are contiguous, begin at multiples of 16 bytes and are multiples of
 * 16 bytes long.
 */
static bool is_packed(const struct weir__attention_operand *o, const struct weir__attention *a,
                      int64_t heads, int64_t rows, int64_t columns)
{
    const int64_t n = 16 / (int64_t)weir_dtype_size(a->dtype);

    if ((uintptr_t)o->data & 15 || columns % n || (o->col != 1 && columns > 1) ||
        (o->row % n && rows > 1) || (o->head % n && heads > 1))
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (o->batch[d] % n && a->shape[d] > 1)
            return false;
    return true;
}

/* Whether 32-bit indices are enough for the kernels on tensor cores. */
static bool is_counted(const struct weir__attention *a)
{
    const int64_t most = INT32_MAX / 2;

    return a->lq <= most && a->lk <= most && batches(a) * a->heads <= most / weir__max(a->lq, 1);
}

const struct weir__code *weir__gpu_attention(struct weir__attention *a, void *scratch)
{
    /* With a negative scale, the largest product would not give the largest score. */
    if (a->dtype == WEIR_F64 || !a->d || !a->dv || !a->lk || !(a->scale > 0) || a->d > LONGEST ||
        a->dv > LONGEST || !is_counted(a) || (uintptr_t)a->out & 15 ||
        !is_packed(&a->q, a, a->heads, a->lq, a->d) ||
        !is_packed(&a->k, a, a->key_heads, a->lk, a->d) ||
        !is_packed(&a->v, a, a->key_heads, a->lk, a->dv))
        return &plain;
    if (a->dtype == WEIR_F32)
        return &wide;
    if (!has_few_rows(a))
        return &tiles;
    if (scratch && parts_of(a) > 1) {
        a->splits = parts_of(a);
        a->partial = scratch;
    }
    return &few;
}
