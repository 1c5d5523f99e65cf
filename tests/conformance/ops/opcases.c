/* Random calls of operators. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

static const struct op_case *const tables[] = {
    opcases_elementwise, opcases_move,    opcases_matrix,  opcases_reduce,
    opcases_index,       opcases_grouped, opcases_experts,
};

const struct op_case *op_case_find(const char *name)
{
    for (size_t i = 0; i < countof(tables); i++)
        for (const struct op_case *op = tables[i]; op->name; op++)
            if (!strcmp(op->name, name))
                return op;
    FAIL("no row for %s", name);
}

void call_make(struct call *c, const struct op_case *op, weir_dtype dtype, uint64_t salt,
               int64_t budget)
{
    *c = (struct call){.op = op,
                       .rng = rng_make(op->name, salt * 16 + dtype),
                       .budget = budget,
                       .nout = 1,
                       .terms = 1};
    op->make(c, dtype);
}

void call_free(struct call *c)
{
    for (int i = 0; i < c->nin; i++)
        array_free(&c->in[i]);
    for (int i = 0; i < c->nout; i++)
        array_free(&c->out[i]);
}

void call_upload(const struct call *c, weir_stream *stream, weir_tensor **in)
{
    struct rng rng = c->rng;

    for (int i = 0; i < c->nin; i++) {
        enum layout layout = (enum layout)rng_int(&rng, 0, LAYOUT_COUNT - 1);

        if (c->op->flags & OP_IN_PLACE && i == 0 && layout == LAYOUT_EXPANDED)
            layout = LAYOUT_BOTH;
        in[i] = c->in[i].at ? upload(stream, &c->in[i], layout, &rng) : NULL;
    }
}

void call_release(int n, weir_tensor **tensors)
{
    for (int i = 0; i < n; i++) {
        weir_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

int random_shape(struct call *c, int low_ndim, int high_ndim, int64_t *shape)
{
    static const int64_t sizes[] = {2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 127, 257};
    int ndim = (int)rng_int(&c->rng, low_ndim, high_ndim);
    int64_t left = c->budget;

    for (int d = 0; d < ndim; d++) {
        int64_t most = d == ndim - 1 ? left : (int64_t)pow((double)left, 1.0 / (ndim - d) + 0.2);
        int64_t size;

        if (most > 300 && rng_chance(&c->rng, 70))
            size = rng_int(&c->rng, most / 2, most);
        else
            size = sizes[rng_int(&c->rng, 0, countof(sizes) - 1)];
        size = size > most ? most : size;
        if (rng_chance(&c->rng, 8))
            size = 1;
        if (c->budget < 10000 && rng_chance(&c->rng, 1))
            size = 0;
        shape[d] = size;
        left = size ? left / size : left;
        left = left ? left : 1;
    }
    return ndim;
}

static double random_value(struct call *c, weir_dtype dtype, double low, double high)
{
    static const double special[] = {0,     -0.0, INFINITY, -INFINITY, NAN, 1,   -1,
                                     1e-40, 1e30, -1e30,    3e38,      100, -88, -104};

    switch (dtype) {
    case WEIR_BOOL:
        return (double)rng_int(&c->rng, 0, 1);
    case WEIR_U8:
        return (double)rng_int(&c->rng, 0, 255);
    case WEIR_I8:
        return (double)rng_int(&c->rng, -128, 127);
    case WEIR_I32:
    case WEIR_I64:
        return (double)rng_int(&c->rng, -50000, 50000);
    default:
        if (c->op->flags & OP_SPECIAL && rng_chance(&c->rng, 3))
            return round_to(dtype, special[rng_int(&c->rng, 0, countof(special) - 1)]);
        return round_to(dtype, rng_real(&c->rng, low, high));
    }
}

void add_input(struct call *c, weir_dtype dtype, int ndim, const int64_t *shape)
{
    struct array *a = &c->in[c->nin++];
    double low = c->op->low, high = c->op->high;
    int64_t n, index[WEIR_MAX_DIMS] = {0};
    /* Some inputs repeat along a dim, so that they may be expanded views. */
    int repeat = ndim && rng_chance(&c->rng, 20) ? (int)rng_int(&c->rng, 0, ndim - 1) : -1;

    if (low == 0 && high == 0) {
        low = -4;
        high = 4;
    }
    array_init(a, dtype, ndim, shape);
    n = array_numel(a);
    for (int64_t i = 0; i < n; i++, step_index(ndim, a->shape, index)) {
        int64_t first[WEIR_MAX_DIMS];

        memcpy(first, index, sizeof first);
        if (repeat >= 0)
            first[repeat] = 0;
        if (repeat >= 0 && index[repeat])
            a->at[i] = a->at[array_place(a, ndim, first)];
        else
            a->at[i] = random_value(c, dtype, low, high);
    }
}

void add_indices(struct call *c, int ndim, const int64_t *shape, int64_t limit)
{
    struct array *a = &c->in[c->nin++];

    array_init(a, rng_chance(&c->rng, 50) ? WEIR_I64 : WEIR_I32, ndim, shape);
    for (int64_t i = 0; i < array_numel(a); i++)
        a->at[i] = (double)rng_int(&c->rng, 0, limit - 1);
}

void add_reach(struct array *a)
{
    CHECK((a->reach = calloc((size_t)array_numel(a) + 1, sizeof *a->reach)));
}
