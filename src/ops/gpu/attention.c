/* Attention on a GPU: by a plain kernel for every type and layout; on tensor cores, in tiles for
 * many query rows and split over the keys for few. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"

#define LONGEST 128   /* columns that the kernels on tensor cores hold */
#define TILE_ROWS 128 /* of attention_tiles.cu */
#define FEW_ROWS 16   /* of attention_few.cu, as the rest */
#define FEW_MOST 64   /* query rows of a key head that it is for */
#define FEW_WARPS 4
#define FEW_STAGES 3
#define FEW_UNITS 1024 /* that keep a GPU busy */
#define FEW_PART 256   /* keys that are worth a part of their own */
#define FEW_PARTS 64

static int64_t batches(const struct weir__attention *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndims; d++)
        n *= a->shape[d];
    return n;
}

/* Rows of all query heads that share a key head. */
static int64_t shared_rows(const struct weir__attention *a)
{
    return a->key_heads ? a->heads / a->key_heads * a->lq : 0;
}

/* Columns in steps of 16, as an even number so that there are few variants to compile. */
static int64_t steps_of(int64_t columns)
{
    return 2 * weir__div_up(columns, 32);
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

static void tiles_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t steps = steps_of(a->d), panels = weir__div_up(a->d, 64);
    int64_t value_panels = weir__div_up(a->dv, 64), key_panels = l->arch == 90 ? 2 : 1;

    (void)phase;
    (void)cores; /* blocks differ in length: the GPU hands them out as cores are free */
    name_variant(a, l);
    l->variant[3] = (uint8_t)steps;
    l->variant[4] = (uint8_t)value_panels;
    l->variant[5] = (uint8_t)key_panels;
    l->threads = l->arch == 90 ? 384 : 256; /* some only fetch */
    l->shared = (uint32_t)(1280 + panels * TILE_ROWS * 128 +
                           (1 + key_panels) * key_panels * 64 * 128 * (panels + value_panels));
    l->grid = (uint32_t)(batches(a) * a->heads * weir__div_up(a->lq, TILE_ROWS));
}

static const struct weir__code tiles = {
    .text = "attention_tiles", .contract = true, .shape = tiles_shape};

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

static int64_t parts_of(const struct weir__attention *a)
{
    int64_t units = few_units(a);

    if (!has_few_rows(a) || !units)
        return 1;
    return weir__max(1,
                     weir__min(weir__min(FEW_UNITS / units, a->lk / FEW_PART), (int64_t)FEW_PARTS));
}

size_t weir__gpu_attention_scratch(const struct weir__attention *a)
{
    int64_t parts = parts_of(a);

    return parts > 1 ? (size_t)(batches(a) * a->heads * a->lq * parts * (a->dv + 2)) * sizeof(float)
                     : 0;
}

static void few_shape(const void *args, unsigned phase, unsigned cores, struct weir__code_launch *l)
{
    const struct weir__attention *a = args;
    int64_t steps = steps_of(a->d), value_steps = steps_of(a->dv);

    name_variant(a, l);
    l->variant[3] = (uint8_t)steps;
    l->variant[4] = (uint8_t)value_steps;
    l->variant[5] = a->splits > 1;
    l->threads = FEW_WARPS * 32;
    if (phase == 0) {
        l->shared = (uint32_t)(FEW_WARPS * FEW_STAGES * 16 * (32 * (steps + value_steps) + 32));
        weir__gpu_spread(few_units(a) * a->splits, cores, 16, l);
    } else {
        weir__gpu_spread(weir__div_up(batches(a) * a->heads * a->lq * a->dv, l->threads), cores, 16,
                         l);
    }
}

static const struct weir__code few = {
    .text = "attention_few", .contract = true, .shape = few_shape};

/* ---- which one ---- */

/* Whether rows of the operand begin at multiples of 16 bytes and have no gaps. */
static bool is_packed(const struct weir__attention_operand *o, const struct weir__attention *a,
                      int64_t heads, int64_t rows, int64_t columns)
{
    if ((uintptr_t)o->data & 15 || columns % 8 || (o->col != 1 && columns > 1) ||
        (o->row % 8 && rows > 1) || (o->head % 8 && heads > 1))
        return false;
    for (int d = 0; d < a->ndims; d++)
        if (o->batch[d] % 8 && a->shape[d] > 1)
            return false;
    return true;
}

const struct weir__code *weir__gpu_attention(struct weir__attention *a, void *scratch)
{
    bool half = a->dtype == WEIR_F16 || a->dtype == WEIR_BF16;
    int64_t blocks = batches(a) * a->heads * weir__div_up(a->lq, TILE_ROWS);

    /* A scale below 0 would turn maxima around. */
    if (!half || !a->d || !a->dv || !a->lk || !(a->scale > 0) || a->d > LONGEST ||
        a->dv > LONGEST || blocks > INT32_MAX || (uintptr_t)a->out & 15 ||
        !is_packed(&a->q, a, a->heads, a->lq, a->d) ||
        !is_packed(&a->k, a, a->key_heads, a->lk, a->d) ||
        !is_packed(&a->v, a, a->key_heads, a->lk, a->dv))
        return &plain;
    if (!has_few_rows(a))
        return &tiles;
    if (scratch && parts_of(a) > 1) {
        a->splits = parts_of(a);
        a->partial = scratch;
    }
    return &few;
}
