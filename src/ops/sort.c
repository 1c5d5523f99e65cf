/* sort, argsort and topk: stable; NaN counts as larger than any number. */
#include "ops/host/move/sort.h"

#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/rows.h"
#include "ops/tile.h"

static weir_status infer(struct weir__call *call, int64_t dim_wish, int *dim)
{
    const struct weir__view *x = call->in[0];
    weir_status st;

    if ((st = weir__check_dim(call->op->name, dim_wish, x, dim)))
        return st;
    if (x->shape[*dim] > WEIR__SORT_MAX)
        return weir__fail(WEIR_ERANGE, "%s: dim %d of %s is longer than %lld", call->op->name, *dim,
                          weir__view_text(x).text, (long long)WEIR__SORT_MAX);
    weir__infer_like(call);
    call->out[1] = call->out[0];
    call->out[1].dtype = WEIR_I64;
    return WEIR_OK;
}

static unsigned blocks_of(const struct weir__call *call, int dim)
{
    const struct weir__view *x = call->in[0];
    int64_t numel = weir__view_numel(x);

    return weir__tile_blocks(numel * 8, weir__max(numel / weir__max(x->shape[dim], 1), 1),
                             call->cores);
}

/* Memory to sort one row per block, if local memory is too small. */
static size_t scratch(const struct weir__call *call, int dim, int64_t k)
{
    int64_t n = call->in[0]->shape[dim];

    if (call->for_gpu) {
        struct weir__rows rows;

        weir__rows_init(&rows, call->in[0], &call->out[0], dim);
        return weir__gpu_sort_scratch(call->in[0]->dtype, &rows);
    }
    if (WEIR__SORT_BYTES(n) <= WEIR__SORT_LOCAL || (k < n && k <= WEIR__SORT_SELECT))
        return 0;
    return WEIR__SORT_BYTES(n) * blocks_of(call, dim);
}

static weir_status prepare(const struct weir__call *call, int dim, int64_t k, bool descending,
                           struct weir__work *work)
{
    struct weir__sort *a = (void *)work->args;
    const struct weir__view *values = &call->out[0], *indices = &call->out[1];

    if (memcmp(values->stride, indices->stride, (size_t)values->ndim * sizeof *values->stride) != 0)
        return weir__fail(WEIR_EUNSUPPORTED, "%s: its two outputs must have the same strides",
                          call->op->name);
    a->in = call->in[0]->data;
    a->values = values->data;
    a->indices = (void *)indices->data;
    a->dtype = call->in[0]->dtype;
    a->descending = descending;
    a->k = k;
    a->wide_rows = scratch(call, dim, k) ? call->scratch : NULL;
    weir__rows_init(&a->rows, call->in[0], values, dim);
    work->fn = WEIR__ISA_PICK(weir__sort_kernel);
    work->code = &weir__gpu_sort;
    work->args_size = sizeof *a;
    work->phases = call->for_gpu ? weir__gpu_sort_phases(a->dtype, &a->rows) : 1;
    work->blocks = blocks_of(call, dim);
    return WEIR_OK;
}

static void cost(const struct weir__call *call, struct weir__cost *c)
{
    double n = (double)weir__view_numel(call->in[0]), m = (double)weir__view_numel(&call->out[0]);
    double elem = (double)weir_dtype_size(call->in[0]->dtype);

    c->flops = 32 * n;
    c->bytes = n * elem + m * (elem + 8);
}

struct sort_params {
    int64_t dim;
    bool descending;
};

static const struct weir__op_field sort_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct sort_params, dim), 1},
    {"descending", WEIR__FIELD_BOOL, offsetof(struct sort_params, descending), 1},
};

static weir_status infer_sort(struct weir__call *call)
{
    const struct sort_params *p = call->params;
    int dim;

    return infer(call, p->dim, &dim);
}

static size_t scratch_sort(const struct weir__call *call)
{
    const struct sort_params *p = call->params;
    int dim = weir__dim_wrap((int)p->dim, call->in[0]->ndim);

    return scratch(call, dim, call->in[0]->shape[dim]);
}

static weir_status prepare_sort(const struct weir__call *call, struct weir__work *work)
{
    const struct sort_params *p = call->params;
    int dim = weir__dim_wrap((int)p->dim, call->in[0]->ndim);

    return prepare(call, dim, call->in[0]->shape[dim], p->descending, work);
}

const struct weir__op weir__op_sort = {
    .name = "Sort",
    .summary = "values sorted along a dim, and their indices",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 2,
    .params_size = sizeof(struct sort_params),
    .fields = sort_fields,
    .nfields = weir__countof(sort_fields),
    .infer = infer_sort,
    .cost = cost,
    .scratch = scratch_sort,
    .prepare = prepare_sort,
};

weir_status weir_sort(weir_tensor *x, int dim, bool descending, weir_tensor **values,
                      weir_tensor **indices)
{
    struct sort_params p = {dim, descending};

    return weir__rows_run_two(&weir__op_sort, &p, x, values, indices);
}

weir_status weir_argsort(weir_tensor *x, int dim, bool descending, weir_tensor **indices)
{
    WEIR__NEED(indices, "indices");
    return weir_sort(x, dim, descending, NULL, indices);
}

struct topk_params {
    int64_t k, dim;
    bool largest;
};

static const struct weir__op_field topk_fields[] = {
    {"k", WEIR__FIELD_INT, offsetof(struct topk_params, k), 1},
    {"dim", WEIR__FIELD_INT, offsetof(struct topk_params, dim), 1},
    {"largest", WEIR__FIELD_BOOL, offsetof(struct topk_params, largest), 1},
};

static weir_status infer_topk(struct weir__call *call)
{
    const struct topk_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;
    int dim;

    if ((st = infer(call, p->dim, &dim)))
        return st;
    if (p->k < 0 || p->k > x->shape[dim])
        return weir__fail(WEIR_ERANGE, "TopK: k %lld is out of range: dim %d of %s has 0..%lld",
                          (long long)p->k, dim, weir__view_text(x).text, (long long)x->shape[dim]);
    call->out[0].shape[dim] = call->out[1].shape[dim] = p->k;
    return WEIR_OK;
}

static size_t scratch_topk(const struct weir__call *call)
{
    const struct topk_params *p = call->params;

    return scratch(call, weir__dim_wrap((int)p->dim, call->in[0]->ndim), p->k);
}

static weir_status prepare_topk(const struct weir__call *call, struct weir__work *work)
{
    const struct topk_params *p = call->params;

    return prepare(call, weir__dim_wrap((int)p->dim, call->in[0]->ndim), p->k, p->largest, work);
}

const struct weir__op weir__op_topk = {
    .name = "TopK",
    .summary = "the k largest or smallest along a dim, and their indices",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 2,
    .params_size = sizeof(struct topk_params),
    .fields = topk_fields,
    .nfields = weir__countof(topk_fields),
    .infer = infer_topk,
    .cost = cost,
    .scratch = scratch_topk,
    .prepare = prepare_topk,
};

weir_status weir_topk(weir_tensor *x, int64_t k, int dim, bool largest, weir_tensor **values,
                      weir_tensor **indices)
{
    struct topk_params p = {k, dim, largest};

    return weir__rows_run_two(&weir__op_topk, &p, x, values, indices);
}
