/* expert_order: sorts entries by expert, and gives the position of each entry and the end of each
 * expert. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/experts.h"

struct order_params {
    int64_t n, k;
};

static const struct weir__op_field order_fields[] = {
    {"n", WEIR__FIELD_INT, offsetof(struct order_params, n), 1},
    {"k", WEIR__FIELD_INT, offsetof(struct order_params, k), 1},
};

static weir_status infer_order(struct weir__call *call)
{
    const struct order_params *p = call->params;
    const struct weir__view *x = call->in[0];

    if (x->dtype != WEIR_I64 && x->dtype != WEIR_I32)
        return weir__fail(WEIR_EDTYPE, "ExpertOrder: experts are %s, they must be i64 or i32",
                          weir__view_text(x).text);
    if (x->ndim != 1 || x->shape[0] > INT32_MAX)
        return weir__fail(WEIR_ESHAPE,
                          "ExpertOrder: experts are %s, they must have one dim of at most %d",
                          weir__view_text(x).text, INT32_MAX);
    if (p->n < 1 || p->n > WEIR__EXPERTS_MAX)
        return weir__fail(WEIR_ERANGE, "ExpertOrder: %lld experts are out of range: 1..%lld",
                          (long long)p->n, (long long)WEIR__EXPERTS_MAX);
    if (p->k < 1 || p->k > INT32_MAX)
        return weir__fail(WEIR_ERANGE, "ExpertOrder: k %lld is out of range: 1..%d",
                          (long long)p->k, INT32_MAX);
    for (int i = 0; i < 3; i++) {
        call->out[i].dtype = i < 2 ? WEIR_I64 : WEIR_I32;
        call->out[i].ndim = 1;
        call->out[i].shape[0] = i < 2 ? x->shape[0] : p->n;
    }
    return WEIR_OK;
}

static weir_status prepare_order(const struct weir__call *call, struct weir__work *work)
{
    const struct order_params *p = call->params;
    struct weir__expert_order *a = (void *)work->args;
    const struct weir__view *x = call->in[0], *out = call->out;

    a->experts = x->data;
    a->order = (void *)out[0].data;
    a->places = (void *)out[1].data;
    a->ends = (void *)out[2].data;
    a->index_type = x->dtype;
    a->m = x->shape[0];
    a->n = p->n;
    a->k = p->k;
    a->experts_step = x->stride[0];
    a->order_step = out[0].stride[0];
    a->places_step = out[1].stride[0];
    a->ends_step = out[2].stride[0];
    work->fn = WEIR__ISA_PICK(weir__expert_order_kernel);
    work->code = &weir__gpu_expert_order;
    work->args_size = sizeof *a;
    work->phases = work->blocks = 1;
    return WEIR_OK;
}

static void cost_order(const struct weir__call *call, struct weir__cost *cost)
{
    double m = (double)call->in[0]->shape[0];

    cost->flops = 4 * m;
    cost->bytes =
        m * (16 + (double)weir_dtype_size(call->in[0]->dtype)) + 4 * (double)call->out[2].shape[0];
}

const struct weir__op weir__op_expert_order = {
    .name = "ExpertOrder",
    .summary = "entries sorted by expert, and the position of each",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 3,
    .params_size = sizeof(struct order_params),
    .fields = order_fields,
    .nfields = weir__countof(order_fields),
    .infer = infer_order,
    .cost = cost_order,
    .prepare = prepare_order,
};

weir_status weir_expert_order(weir_tensor *experts, int64_t n, int64_t k, weir_tensor **order,
                              weir_tensor **places, weir_tensor **ends)
{
    WEIR__NEED(order, "order");
    WEIR__NEED(places, "places");
    WEIR__NEED(ends, "ends");

    struct order_params p = {n, k};
    weir_tensor *out[3] = {NULL, NULL, NULL};
    weir_status st = weir__op_run(&weir__op_expert_order, &p, &experts, 1, out);

    *order = out[0];
    *places = out[1];
    *ends = out[2];
    return st;
}
