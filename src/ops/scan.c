/* cumsum, cumprod, cummax and cummin: each result combines the elements along a dim up to its own
 * place.
 *
 * Sums and products of f32 run in f64, of f16 and bf16 in f32; of integers and bool they are i64
 * and wrap. Of equal values the index is the last one's. After a NaN all values are NaN. */
#include "ops/host/math/scan.h"

#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/rows.h"
#include "ops/tile.h"

struct scan_params {
    int64_t dim;
};

static const struct weir__op_field scan_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct scan_params, dim), 1},
};

static weir_status infer_total(struct weir__call *call)
{
    const struct scan_params *p = call->params;
    weir_status st;
    int dim;

    if ((st = weir__check_dim(call->op->name, p->dim, call->in[0], &dim)))
        return st;
    weir__infer_like(call);
    if (!weir_dtype_is_float(call->in[0]->dtype))
        call->out[0].dtype = WEIR_I64;
    return WEIR_OK;
}

static weir_status infer_extreme(struct weir__call *call)
{
    weir_dtype dtype = call->in[0]->dtype;
    weir_status st = infer_total(call);

    if (st)
        return st;
    call->out[1] = call->out[0];
    call->out[0].dtype = dtype;
    call->out[1].dtype = WEIR_I64;
    return WEIR_OK;
}

static weir_status prepare(const struct weir__call *call, enum weir__scan_kind kind,
                           struct weir__work *work)
{
    const struct scan_params *p = call->params;
    struct weir__scan *a = (void *)work->args;
    const struct weir__view *x = call->in[0], *out = &call->out[0];
    const struct weir__view *places = call->op->nout > 1 ? &call->out[1] : NULL;

    if (places && memcmp(out->stride, places->stride, (size_t)out->ndim * sizeof *out->stride) != 0)
        return weir__fail(WEIR_EUNSUPPORTED, "%s: its two outputs must have the same strides",
                          call->op->name);
    a->in = x->data;
    a->out = out->data;
    a->places = places ? (void *)places->data : NULL;
    a->dtype = x->dtype;
    a->out_type = out->dtype;
    a->kind = kind;
    weir__rows_init(&a->rows, x, out, weir__dim_wrap((int)p->dim, x->ndim));
    work->fn = WEIR__ISA_PICK(weir__scan_kernel);
    work->code = &weir__gpu_scan;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(2 * weir__view_numel(x), weir__max(a->rows.count, 1), call->cores);
    return WEIR_OK;
}

static void cost_scan(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 2, cost);
    if (call->nout > 1)
        cost->bytes += (double)weir__view_numel(&call->out[1]) * sizeof(int64_t);
    cost->rows = true;
}

/* name, row name, kind, infer, results, summary */
#define SCAN_ROWS(X)                                                                      \
    X(cumsum, "CumSum", SUM, total, 1, "sums along a dim up to each element")             \
    X(cumprod, "CumProd", PRODUCT, total, 1, "products along a dim up to each element")   \
    X(cummax, "CumMax", MAX, extreme, 2, "the largest up to each element, and its index") \
    X(cummin, "CumMin", MIN, extreme, 2, "the smallest up to each element, and its index")

#define DEFINE_SCAN(fn_name, row_name, KIND, kind, results, text)                                \
    static weir_status prepare_##fn_name(const struct weir__call *call, struct weir__work *work) \
    {                                                                                            \
        return prepare(call, WEIR__SCAN_##KIND, work);                                           \
    }                                                                                            \
    const struct weir__op weir__op_##fn_name = {                                                 \
        .name = row_name,                                                                        \
        .summary = text,                                                                         \
        .engine = WEIR_ENGINE_VECTOR,                                                            \
        .nin_min = 1,                                                                            \
        .nin_max = 1,                                                                            \
        .nout = results,                                                                         \
        .params_size = sizeof(struct scan_params),                                               \
        .fields = scan_fields,                                                                   \
        .nfields = weir__countof(scan_fields),                                                   \
        .infer = infer_##kind,                                                                   \
        .cost = cost_scan,                                                                       \
        .prepare = prepare_##fn_name,                                                            \
    };
SCAN_ROWS(DEFINE_SCAN)

weir_status weir_cumsum(weir_tensor *x, int dim, weir_tensor **out)
{
    struct scan_params p = {dim};

    return weir__op_run(&weir__op_cumsum, &p, &x, 1, out);
}

weir_status weir_cumprod(weir_tensor *x, int dim, weir_tensor **out)
{
    struct scan_params p = {dim};

    return weir__op_run(&weir__op_cumprod, &p, &x, 1, out);
}

weir_status weir_cummax(weir_tensor *x, int dim, weir_tensor **values, weir_tensor **indices)
{
    struct scan_params p = {dim};

    return weir__rows_run_two(&weir__op_cummax, &p, x, values, indices);
}

weir_status weir_cummin(weir_tensor *x, int dim, weir_tensor **values, weir_tensor **indices)
{
    struct scan_params p = {dim};

    return weir__rows_run_two(&weir__op_cummin, &p, x, values, indices);
}
