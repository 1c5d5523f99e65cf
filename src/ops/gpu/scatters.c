/* Joins scatters. Only strides and sizes decide whether they can be one launch, because addresses
 * are not known yet then. */
#include "ops/gpu/scatters.h"

#include "base/base.h"
#include "ops/gpu/gpu.h"

#define THREADS 128

_Static_assert(sizeof(struct weir__scatters) <= WEIR_ARGS_MAX, "a launch's arguments hold them");

/* Whether there is one source per destination, and each goes to one packed row. */
static bool puts_rows(const struct weir__scatter *a)
{
    const struct weir__steps *inner = &a->inner;

    return a->replaces && a->n == 1 && inner->ndim == 1 &&
           (inner->count == 1 ||
            (inner->stride[0][0] == 1 && inner->stride[1][0] == 0 && inner->stride[2][0] == 1)) &&
           a->outer.ndim <= WEIR__SCATTERS_DIMS && a->outer.count <= INT32_MAX &&
           inner->count <= INT32_MAX / weir__max(a->outer.count, 1);
}

bool weir__scatters_join(void *joined, const void *scatter, bool keep)
{
    struct weir__scatters *s = joined;
    const struct weir__scatter *a = scatter;
    struct weir__scatters_part p = {.x = a->x,
                                    .source = a->source,
                                    .x_row = a->x_row,
                                    .rows = (uint32_t)a->outer.count,
                                    .columns = (uint32_t)a->inner.count,
                                    .ndim = a->outer.count ? (uint32_t)a->outer.ndim : 0};

    if (!keep || !puts_rows(a) || s->n == WEIR__SCATTERS ||
        (s->n && (s->index != a->index || s->limit != a->limit ||
                  s->index_type != (uint8_t)a->index_type || s->elem != weir__elem_size(a->dtype))))
        return false;
    for (uint32_t d = 0; d < p.ndim; d++) {
        p.dim[d].size = (uint32_t)a->outer.shape[d];
        p.dim[d].divisor = weir__divisor_of(a->outer.shape[d]);
        p.dim[d].x = a->outer.stride[0][d];
        p.dim[d].index = a->outer.stride[1][d];
        p.dim[d].source = a->outer.stride[2][d];
    }
    s->index = a->index;
    s->limit = a->limit;
    s->index_type = (uint8_t)a->index_type;
    s->elem = (uint8_t)weir__elem_size(a->dtype);
    s->of[s->n++] = p;
    return true;
}

/* The widest accesses, in bytes, that all addresses and steps allow. */
static unsigned widest(const struct weir__scatters *s)
{
    uint64_t bits = 16;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct weir__scatters_part *p = &s->of[i];

        bits |= (uintptr_t)p->x | (uintptr_t)p->source;
        bits |= ((uint64_t)p->x_row | p->columns) * s->elem;
        for (uint32_t d = 0; d < p->ndim; d++)
            if (p->dim[d].size > 1)
                bits |= (uint64_t)(p->dim[d].x | p->dim[d].source) * s->elem;
    }
    return (unsigned)weir__max(bits & -bits, (uint64_t)s->elem); /* the lowest bit set */
}

static void scatters_shape(const void *args, unsigned phase, unsigned cores,
                           struct weir__code_launch *l)
{
    const struct weir__scatters *s = args;
    unsigned wide = widest(s);
    int64_t words = 1;

    (void)phase;
    for (uint32_t i = 0; i < s->n; i++)
        words = weir__max(words, (int64_t)s->of[i].rows * s->of[i].columns * s->elem / wide);
    l->variant[0] = s->elem;
    l->variant[1] = s->index_type;
    l->variant[2] = (uint8_t)wide;
    l->threads = THREADS;
    l->grid = s->n * (uint32_t)weir__max(
                         1, weir__min(weir__div_up(words, THREADS), (int64_t)cores * 8 / s->n));
}

const struct weir__code weir__gpu_scatters = {
    .text = "scatters", .fails = true, .shape = scatters_shape};
