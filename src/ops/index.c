/* embedding, index_select, gather, scatter_add and scatter.
 *
 * Indices are i64 or i32 and count from 0; a negative one is out of range. */
#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/index.h"
#include "ops/host/row.h"
#include "ops/tile.h"

static weir_status check_index(const char *op, const struct weir__view *index)
{
    if (index->dtype == WEIR_I64 || index->dtype == WEIR_I32)
        return WEIR_OK;
    return weir__fail(WEIR_EDTYPE, "%s: the index is %s, it must be i64 or i32", op,
                      weir__view_text(index).text);
}

/* Dims from..to-1 of views that have one shape there, in the views' own order. */
static void init_steps(struct weir__steps *s, const struct weir__view *const *views,
                       const int *first_dims, int n, int ndim)
{
    struct weir__view parts[3], *list[] = {&parts[0], &parts[1], &parts[2]};

    for (int k = 0; k < n; k++) {
        parts[k].ndim = ndim;
        for (int d = 0; d < ndim; d++) {
            /* The first view's shape counts: the index of gather may be smaller than its x. */
            parts[k].shape[d] = views[0]->shape[first_dims[0] + d];
            parts[k].stride[d] = views[k]->stride[first_dims[k] + d];
        }
    }
    weir__view_collapse(list, n);
    memset(s, 0, sizeof *s);
    s->ndim = parts[0].ndim;
    s->count = weir__view_numel(&parts[0]);
    memcpy(s->shape, parts[0].shape, sizeof s->shape);
    for (int k = 0; k < n; k++)
        memcpy(s->stride[k], parts[k].stride, sizeof s->stride[k]);
}

/* ---- take: embedding and index_select ---- */

struct dim_params {
    int64_t dim;
};

static const struct weir__op_field dim_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct dim_params, dim), 1},
};

/* out's shape is x's shape with dim replaced by the index's dims. */
static weir_status infer_take(struct weir__call *call, int dim)
{
    const struct weir__view *x = call->in[0], *index = call->in[1];
    struct weir__view *out = &call->out[0];

    if (x->ndim - 1 + index->ndim > WEIR_MAX_DIMS)
        return weir__fail(WEIR_ESHAPE, "%s: %s indexed by %s has more than %d dims", call->op->name,
                          weir__view_text(x).text, weir__view_text(index).text, WEIR_MAX_DIMS);
    out->dtype = x->dtype;
    out->ndim = 0;
    for (int d = 0; d < dim; d++)
        out->shape[out->ndim++] = x->shape[d];
    for (int d = 0; d < index->ndim; d++)
        out->shape[out->ndim++] = index->shape[d];
    for (int d = dim + 1; d < x->ndim; d++)
        out->shape[out->ndim++] = x->shape[d];
    return check_index(call->op->name, index);
}

static weir_status prepare_take(const struct weir__call *call, int dim, struct weir__work *work)
{
    const struct weir__view *x = call->in[0], *index = call->in[1], *out = &call->out[0];
    struct weir__take *t = (void *)work->args;
    int after = x->ndim - dim - 1;
    int64_t bytes = 2 * weir__view_numel(out) * (int64_t)weir__elem_size(x->dtype);

    t->name = call->op->name;
    t->in = x->data;
    t->index = index->data;
    t->out = out->data;
    t->elem = weir__elem_size(x->dtype);
    t->index_type = index->dtype;
    t->limit = x->shape[dim];
    t->in_row = x->stride[dim];
    init_steps(&t->outer, (const struct weir__view *[]){x, out}, (int[]){0, 0}, 2, dim);
    init_steps(&t->place, (const struct weir__view *[]){index, out}, (int[]){0, dim}, 2,
               index->ndim);
    init_steps(&t->inner, (const struct weir__view *[]){x, out},
               (int[]){dim + 1, dim + index->ndim}, 2, after);
    work->fn = WEIR__ISA_PICK(weir__take_kernel);
    work->code = &weir__gpu_take;
    work->args_size = sizeof *t;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(bytes / WEIR__TILE_BYTES_PER_NS + t->outer.count * t->place.count * 10,
                          weir__max(t->outer.count * t->place.count, 1), call->cores);
    return WEIR_OK;
}

/* Reads as many bytes as it writes, plus the indices. */
static void cost_read(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *index = call->in[1], *out = &call->out[0];

    cost->flops = 0;
    cost->bytes = 2 * (double)weir__view_numel(out) * (double)weir_dtype_size(out->dtype) +
                  (double)weir__view_numel(index) * (double)weir_dtype_size(index->dtype);
}

static weir_status infer_embedding(struct weir__call *call)
{
    if (call->in[0]->ndim < 1)
        return weir__fail(WEIR_ESHAPE, "Embedding: the table %s has no rows",
                          weir__view_text(call->in[0]).text);
    return infer_take(call, 0);
}

static weir_status prepare_embedding(const struct weir__call *call, struct weir__work *work)
{
    return prepare_take(call, 0, work);
}

const struct weir__op weir__op_embedding = {
    .name = "Embedding",
    .summary = "rows of a table by index",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .infer = infer_embedding,
    .cost = cost_read,
    .prepare = prepare_embedding,
};

weir_status weir_embedding(weir_tensor *table, weir_tensor *indices, weir_tensor **out)
{
    weir_tensor *in[] = {table, indices};

    return weir__op_run(&weir__op_embedding, NULL, in, 2, out);
}

static weir_status infer_index_select(struct weir__call *call)
{
    const struct dim_params *p = call->params;
    weir_status st;
    int dim;

    if ((st = weir__check_dim("IndexSelect", p->dim, call->in[0], &dim)))
        return st;
    if (call->in[1]->ndim != 1)
        return weir__fail(WEIR_ESHAPE, "IndexSelect: the index is %s, it must have one dim",
                          weir__view_text(call->in[1]).text);
    return infer_take(call, dim);
}

static weir_status prepare_index_select(const struct weir__call *call, struct weir__work *work)
{
    const struct dim_params *p = call->params;

    return prepare_take(call, weir__dim_wrap((int)p->dim, call->in[0]->ndim), work);
}

const struct weir__op weir__op_index_select = {
    .name = "IndexSelect",
    .summary = "slices along a dim by index",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .params_size = sizeof(struct dim_params),
    .fields = dim_fields,
    .nfields = weir__countof(dim_fields),
    .infer = infer_index_select,
    .cost = cost_read,
    .prepare = prepare_index_select,
};

weir_status weir_index_select(weir_tensor *x, int dim, weir_tensor *index, weir_tensor **out)
{
    struct dim_params p = {dim};
    weir_tensor *in[] = {x, index};

    return weir__op_run(&weir__op_index_select, &p, in, 2, out);
}

/* ---- gather and scatter_add ---- */

/* Checks that index has x's rank and is no larger than x in the other dims. */
static weir_status check_along(const struct weir__call *call, int *dim)
{
    const struct dim_params *p = call->params;
    const struct weir__view *x = call->in[0], *index = call->in[1];
    weir_status st;
    bool fits = index->ndim == x->ndim;

    if ((st = weir__check_dim(call->op->name, p->dim, x, dim)) ||
        (st = check_index(call->op->name, index)))
        return st;
    for (int d = 0; fits && d < x->ndim; d++)
        fits = d == *dim || index->shape[d] <= x->shape[d];
    if (!fits)
        return weir__fail(
            WEIR_ESHAPE,
            "%s: the index %s must have as many dims as %s and be no larger, except in dim %d",
            call->op->name, weir__view_text(index).text, weir__view_text(x).text, *dim);
    return WEIR_OK;
}

static weir_status infer_gather(struct weir__call *call)
{
    const struct weir__view *index = call->in[1];
    int dim;

    call->out[0].dtype = call->in[0]->dtype;
    call->out[0].ndim = index->ndim;
    memcpy(call->out[0].shape, index->shape, sizeof index->shape);
    return check_along(call, &dim);
}

static weir_status prepare_gather(const struct weir__call *call, struct weir__work *work)
{
    const struct dim_params *p = call->params;
    const struct weir__view *index = call->in[1], *out = &call->out[0];
    struct weir__view x = *call->in[0];
    struct weir__gather_args *g = (void *)work->args;
    int dim = weir__dim_wrap((int)p->dim, x.ndim);

    g->in = x.data;
    g->index = index->data;
    g->out = out->data;
    g->elem = weir__elem_size(x.dtype);
    g->index_type = index->dtype;
    g->limit = x.shape[dim];
    g->in_row = x.stride[dim];
    x.stride[dim] = 0;
    init_steps(&g->steps, (const struct weir__view *[]){out, index, &x}, (int[]){0, 0, 0}, 3,
               x.ndim);
    work->fn = WEIR__ISA_PICK(weir__gather_kernel);
    work->code = &weir__gpu_gather;
    work->args_size = sizeof *g;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(2 * g->steps.count, weir__div_up(g->steps.count, 64), call->cores);
    return WEIR_OK;
}

const struct weir__op weir__op_gather = {
    .name = "Gather",
    .summary = "elements along a dim, each by its own index",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .params_size = sizeof(struct dim_params),
    .fields = dim_fields,
    .nfields = weir__countof(dim_fields),
    .infer = infer_gather,
    .cost = cost_read,
    .prepare = prepare_gather,
};

weir_status weir_gather(weir_tensor *x, int dim, weir_tensor *index, weir_tensor **out)
{
    struct dim_params p = {dim};
    weir_tensor *in[] = {x, index};

    return weir__op_run(&weir__op_gather, &p, in, 2, out);
}

static weir_status infer_scatter(struct weir__call *call, enum weir__types types)
{
    const struct weir__view *x = call->in[0], *index = call->in[1], *source = call->in[2];
    weir_status st;
    int dim;

    if ((st = weir__check_type(call->op->name, x, types)) ||
        (st = weir__check_same_type(call->op->name, x, source)) || (st = check_along(call, &dim)))
        return st;
    if (!weir__same_shape(source, index))
        return weir__fail(WEIR_ESHAPE, "%s: source %s and index %s must have one shape",
                          call->op->name, weir__view_text(source).text,
                          weir__view_text(index).text);
    return WEIR_OK;
}

static weir_status infer_scatter_add(struct weir__call *call)
{
    return infer_scatter(call, WEIR__TYPES_NUMBER);
}

static weir_status infer_scatter_any(struct weir__call *call)
{
    return infer_scatter(call, WEIR__TYPES_ALL);
}

static weir_status prepare_scatter(const struct weir__call *call, bool replaces,
                                   struct weir__work *work)
{
    const struct dim_params *p = call->params;
    const struct weir__view *x = call->in[0], *index = call->in[1], *source = call->in[2];
    struct weir__scatter *a = (void *)work->args;
    int dim = weir__dim_wrap((int)p->dim, x->ndim);
    int64_t across, ns = 2 * weir__view_numel(index);
    struct weir__view target = *x;

    /* x is stepped through only as far as the index reaches. */
    memcpy(target.shape, index->shape, sizeof target.shape);
    a->x = x->data;
    a->replaces = replaces;
    a->index = index->data;
    a->source = source->data;
    a->dtype = x->dtype;
    a->index_type = index->dtype;
    a->limit = x->shape[dim];
    a->n = index->shape[dim];
    a->x_row = x->stride[dim];
    a->index_row = index->stride[dim];
    a->source_row = source->stride[dim];
    init_steps(&a->outer, (const struct weir__view *[]){&target, index, source}, (int[]){0, 0, 0},
               3, dim);
    init_steps(&a->inner, (const struct weir__view *[]){&target, index, source},
               (int[]){dim + 1, dim + 1, dim + 1}, 3, x->ndim - dim - 1);
    across = a->outer.count * a->inner.count;
    /* If blocks share targets, each one reads every index: only done if the work cannot be split
     * otherwise. */
    a->by_target = across < 16 * (int64_t)call->cores;
    work->fn = WEIR__ISA_PICK(weir__scatter_kernel);
    work->code = &weir__gpu_scatter;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(a->by_target ? ns / 4 : ns,
                          weir__max(a->by_target ? a->limit / 16 : across / 16, 1), call->cores);
    return WEIR_OK;
}

static weir_status prepare_scatter_add(const struct weir__call *call, struct weir__work *work)
{
    return prepare_scatter(call, false, work);
}

static weir_status prepare_scatter_any(const struct weir__call *call, struct weir__work *work)
{
    return prepare_scatter(call, true, work);
}

static void cost_scatter(const struct weir__call *call, struct weir__cost *cost)
{
    double n = (double)weir__view_numel(call->in[1]);

    cost->flops = n;
    cost->bytes =
        n * (double)(3 * weir_dtype_size(call->in[0]->dtype) + weir_dtype_size(call->in[1]->dtype));
}

const struct weir__op weir__op_scatter_add = {
    .name = "ScatterAdd",
    .summary = "adds elements along a dim, each by its own index",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_IN_PLACE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 0,
    .params_size = sizeof(struct dim_params),
    .fields = dim_fields,
    .nfields = weir__countof(dim_fields),
    .infer = infer_scatter_add,
    .cost = cost_scatter,
    .prepare = prepare_scatter_add,
};

const struct weir__op weir__op_scatter = {
    .name = "Scatter",
    .summary = "writes elements along a dim, each by its own index",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_IN_PLACE | WEIR__OP_BESIDE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 0,
    .params_size = sizeof(struct dim_params),
    .fields = dim_fields,
    .nfields = weir__countof(dim_fields),
    .infer = infer_scatter_any,
    .cost = cost_scatter,
    .prepare = prepare_scatter_any,
};

weir_status weir_scatter_add(weir_tensor *x, int dim, weir_tensor *index, weir_tensor *source)
{
    struct dim_params p = {dim};
    weir_tensor *in[] = {x, index, source};

    return weir__op_run(&weir__op_scatter_add, &p, in, 3, NULL);
}

weir_status weir_scatter(weir_tensor *x, int dim, weir_tensor *index, weir_tensor *source)
{
    struct dim_params p = {dim};
    weir_tensor *in[] = {x, index, source};

    return weir__op_run(&weir__op_scatter, &p, in, 3, NULL);
}
