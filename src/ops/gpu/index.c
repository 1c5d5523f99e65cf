/* Operators that read or produce indices, on a GPU. */
#include "ops/host/move/index.h"

#include "ops/gpu/gpu.h"
#include "ops/gpu/scatters.h"
#include "ops/gpu/spread.h"
#include "ops/host/move/nonzero.h"
#include "ops/host/row.h"

/* Whether all of the strides are multiples of n. */
static bool steps_by(const struct weir__steps *s, int which, int64_t n)
{
    for (int d = 0; d < s->ndim; d++)
        if (s->stride[which][d] % n && s->shape[d] > 1)
            return false;
    return true;
}

/* Elements that can be moved at once: 16 bytes if rows are packed. */
static int64_t take_at_once(const struct weir__take *t)
{
    int64_t n = 16 / (int64_t)t->elem;
    const struct weir__steps *inner = &t->inner;

    if (inner->ndim == 1 && inner->stride[0][0] == 1 && inner->stride[1][0] == 1 &&
        inner->count % n == 0 && t->in_row % n == 0 && steps_by(&t->outer, 0, n) &&
        steps_by(&t->outer, 1, n) && steps_by(&t->place, 1, n) &&
        !(((uintptr_t)t->in | (uintptr_t)t->out) & 15))
        return n;
    return 1;
}

static void take_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__take *t = args;
    int64_t n = take_at_once(t);

    (void)phase;
    l->variant[0] = (uint8_t)t->elem;
    l->variant[1] = (uint8_t)t->index_type;
    l->variant[2] = (uint8_t)n;
    weir__gpu_spread_threads(t->outer.count * t->place.count * t->inner.count / n, cores, l);
}

const struct weir__code weir__gpu_take = {.text = "take", .fails = true, .shape = take_shape};

static void gather_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__gather_args *g = args;

    (void)phase;
    l->variant[0] = (uint8_t)g->elem;
    l->variant[1] = (uint8_t)g->index_type;
    weir__gpu_spread_threads(g->steps.count, cores, l);
}

const struct weir__code weir__gpu_gather = {.text = "gather", .fails = true, .shape = gather_shape};

/* Whether a whole row goes to one destination. */
static bool scatters_rows(const struct weir__scatter *a)
{
    for (int d = 0; d < a->inner.ndim; d++)
        if (a->inner.stride[1][d] && a->inner.shape[d] > 1)
            return false;
    return a->inner.count >= 32 && a->n <= UINT32_MAX;
}

/* Elements of a row that can be moved at once. */
static int64_t scatter_at_once(const struct weir__scatter *a)
{
    int64_t n = 16 / (int64_t)weir__elem_size(a->dtype);
    const struct weir__steps *inner = &a->inner;

    if (inner->ndim == 1 && inner->stride[0][0] == 1 && inner->stride[2][0] == 1 &&
        inner->count % n == 0 && a->x_row % n == 0 && a->source_row % n == 0 &&
        steps_by(&a->outer, 0, n) && steps_by(&a->outer, 2, n) &&
        !(((uintptr_t)a->x | (uintptr_t)a->source) & 15))
        return n;
    return 1;
}

static void scatter_rows_shape(const struct weir__scatter *a, unsigned cores,
                               struct weir__code_launch *l)
{
    int64_t at_once = scatter_at_once(a), chunks;

    l->variant[2] = a->n == 1 ? 4 : 3;
    l->variant[3] = (uint8_t)at_once;
    if (a->n == 1) {
        weir__gpu_spread_threads(a->outer.count * (a->inner.count / at_once), cores, l);
        return;
    }
    l->threads = WEIR__GPU_THREADS;
    chunks = weir__div_up(a->inner.count, WEIR__GPU_THREADS * at_once);
    weir__gpu_spread(a->outer.count * weir__min(a->n, a->limit) * chunks, cores, 16, l);
}

static void scatter_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct weir__scatter *a = args;
    int64_t across = a->outer.count * a->inner.count;
    bool whole = a->dtype == WEIR_I32 || a->dtype == WEIR_I64;
    int mode = whole && !a->replaces ? 2 : across < 1024 && a->limit > 1 ? 1 : 0;

    (void)phase;
    l->variant[0] = (uint8_t)a->dtype;
    l->variant[1] = (uint8_t)a->index_type;
    if (scatters_rows(a)) {
        scatter_rows_shape(a, cores, l);
        return;
    }
    l->variant[2] = (uint8_t)mode;
    weir__gpu_spread_threads(a->n ? across * (mode == 2   ? a->n
                                              : mode == 1 ? a->limit
                                                          : 1)
                                  : 0,
                             cores, l);
    if (mode == 0)
        l->threads = 64; /* few threads with long loops: use small blocks, so that they run on many
                          * cores */
    if (mode == 0)
        weir__gpu_spread(a->n ? weir__div_up(across, 64) : 0, cores, 16, l);
}

const struct weir__code weir__gpu_scatter = {
    .text = "scatter",
    .fails = true,
    .shape = scatter_shape,
    .joined = &weir__gpu_scatters,
    .joined_size = sizeof(struct weir__scatters),
    .join = weir__scatters_join,
};

static void nonzero_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct weir__nonzero *a = args;

    (void)phase;
    (void)cores; /* ignored: both phases and the scratch memory must agree on the number of
                  * blocks */
    l->variant[0] = (uint8_t)a->dtype;
    l->grid =
        (uint32_t)weir__max(1, weir__min(weir__div_up(a->numel, 1024), WEIR__GPU_NONZERO_BLOCKS));
}

const struct weir__code weir__gpu_nonzero = {.text = "nonzero", .shape = nonzero_shape};
