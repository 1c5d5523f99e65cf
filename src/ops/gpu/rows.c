/* Reductions, and operators that work on rows, on a GPU. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/norm.h"
#include "ops/host/reduce.h"
#include "ops/host/rotary.h"
#include "ops/host/sort.h"

/* A block a row, with threads for about eight elements each. */
static void spread_rows(const struct weir__rows *rows, unsigned cores, struct weir__code_launch *l)
{
    int64_t threads = weir__div_up(weir__div_up(rows->n, 8), 32) * 32;

    l->threads = (uint32_t)(threads < 64 ? 64 : threads > 512 ? 512 : threads);
    weir__gpu_spread(rows->count, cores, 2048 / l->threads, l);
}

static void reduce_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__reduce *r = args;
    bool small = !r->columns && !r->partial && r->reduced <= 1024;
    int64_t items = r->partial && phase == 0 ? r->units * r->chunks : r->units;

    l->variant[0] = (uint8_t)r->code;
    l->variant[1] = (uint8_t)r->in_type;
    l->variant[2] = (uint8_t)r->out_type;
    l->variant[3] = r->columns ? 1 : small ? 2 : 0;
    l->variant[4] = r->partial != NULL;
    l->threads = r->columns ? (uint32_t)(weir__div_up(r->width, 32) * 32) : 256;
    weir__gpu_spread(small ? weir__div_up(items, 8) : items, cores, 8, l);
}

const struct weir__code weir__gpu_reduce = {.text = "reduce", .shape = reduce_shape};

static void softmax_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct weir__softmax *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    spread_rows(&a->rows, cores, l);
}

const struct weir__code weir__gpu_softmax = {.text = "softmax", .shape = softmax_shape};

static void norm_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__norm *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->centred;
    spread_rows(&a->rows, cores, l);
}

const struct weir__code weir__gpu_norm = {.text = "row_norm", .shape = norm_shape};

static void gating_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__gating *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->renormalise;
    if (a->rows.n > 256) {
        spread_rows(&a->rows, cores, l);
        return;
    }
    while (32 * l->variant[2] < a->rows.n)
        l->variant[2] = (uint8_t)(l->variant[2] ? 2 * l->variant[2] : 1);
    l->threads = 32;
    weir__gpu_spread(a->rows.count, cores, 32, l);
}

const struct weir__code weir__gpu_gating = {.text = "gating", .shape = gating_shape};

static void rotary_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__rotary *a = args;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = (uint8_t)a->angle_type;
    l->variant[2] = a->interleaved;
    weir__gpu_spread_threads(a->rows.count * (a->rows.n / 2), cores, l);
}

const struct weir__code weir__gpu_rotary = {.text = "rotary", .shape = rotary_shape};

static void sort_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__sort *a = args;
    unsigned log2 = 5;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = a->descending;
    if (!a->k)
        return;
    if (a->rows.n > WEIR__GPU_SORT_SHARED) {
        l->threads = 1024;
        l->grid = (uint32_t)weir__min(a->rows.count, WEIR__GPU_SORT_ROWS);
        return;
    }
    while ((int64_t)1 << log2 < a->rows.n)
        log2++;
    l->variant[2] = (uint8_t)log2;
    l->threads = log2 > 9 ? 512 : log2 < 6 ? 32 : 1u << (log2 - 1);
    weir__gpu_spread(a->rows.count, cores, 4, l);
}

const struct weir__code weir__gpu_sort = {.text = "sort", .shape = sort_shape};
