/* softmax along a dim, and the gate of a mixture of experts. */
#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/host/math/norm.h"
#include "ops/rows.h"
#include "ops/tile.h"

struct softmax_params {
    int64_t dim;
};

static const struct weir__op_field softmax_fields[] = {
    {"dim", WEIR__FIELD_INT, offsetof(struct softmax_params, dim), 1},
};

static weir_status infer_softmax(struct weir__call *call)
{
    const struct softmax_params *p = call->params;
    weir_status st;
    int dim;

    if ((st = weir__check_type("Softmax", call->in[0], WEIR__TYPES_FLOAT)) ||
        (st = weir__check_dim("Softmax", p->dim, call->in[0], &dim)))
        return st;
    weir__infer_like(call);
    return WEIR_OK;
}

static unsigned softmax_blocks(const struct weir__call *call, int64_t rows)
{
    int64_t numel = weir__view_numel(call->in[0]);

    return weir__tile_blocks(call->in[0]->dtype == WEIR_F64 ? 10 * numel : numel,
                             weir__max(rows, 1), call->cores);
}

/* One row per block, if local memory cannot hold a row. */
static size_t scratch_softmax(const struct weir__call *call)
{
    const struct softmax_params *p = call->params;
    const struct weir__view *x = call->in[0];
    int64_t n = x->shape[weir__dim_wrap((int)p->dim, x->ndim)];
    size_t row = (size_t)n * weir__elem_size(weir__compute_type(x->dtype));

    if (row <= WEIR__SOFTMAX_LOCAL)
        return 0;
    return row * softmax_blocks(call, weir__view_numel(x) / n);
}

static weir_status prepare_softmax(const struct weir__call *call, struct weir__work *work)
{
    const struct softmax_params *p = call->params;
    struct weir__softmax *a = (void *)work->args;
    const struct weir__view *x = call->in[0];

    a->in = x->data;
    a->out = call->out[0].data;
    a->dtype = x->dtype;
    a->wide_rows = scratch_softmax(call) ? call->scratch : NULL;
    weir__rows_init(&a->rows, x, &call->out[0], weir__dim_wrap((int)p->dim, x->ndim));
    work->fn = WEIR__ISA_PICK(weir__softmax_kernel);
    work->code = &weir__gpu_softmax;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks = softmax_blocks(call, a->rows.count);
    return WEIR_OK;
}

static int64_t parts_softmax(const struct weir__call *call)
{
    const struct softmax_params *p = call->params;
    const struct weir__view *x = call->in[0];

    return scratch_softmax(call) ? 0 : weir__parts_before(x, weir__dim_wrap((int)p->dim, x->ndim));
}

static void place_softmax(void *args, int operand, char *data)
{
    struct weir__softmax *a = args;

    if (operand < 0)
        a->out = data;
    else
        a->in = data;
}

static void cost_softmax(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 16, cost);
    cost->rows = true;
}

const struct weir__op weir__op_softmax = {
    .name = "Softmax",
    .summary = "e^x over its sum along a dim",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .params_size = sizeof(struct softmax_params),
    .fields = softmax_fields,
    .nfields = weir__countof(softmax_fields),
    .infer = infer_softmax,
    .cost = cost_softmax,
    .scratch = scratch_softmax,
    .prepare = prepare_softmax,
    .place = place_softmax,
    .parts = parts_softmax,
    .by_parts = 1,
};

weir_status weir_softmax(weir_tensor *x, int dim, weir_tensor **out)
{
    struct softmax_params p = {dim};

    return weir__op_run(&weir__op_softmax, &p, &x, 1, out);
}

struct gating_params {
    int64_t k;
    bool renormalise;
};

static const struct weir__op_field gating_fields[] = {
    {"k", WEIR__FIELD_INT, offsetof(struct gating_params, k), 1},
    {"renormalise", WEIR__FIELD_BOOL, offsetof(struct gating_params, renormalise), 1},
};

static weir_status infer_gating(struct weir__call *call)
{
    const struct gating_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;

    if ((st = weir__check_type("MoeGating", x, WEIR__TYPES_FLOAT)))
        return st;
    if (x->ndim != 2 || x->shape[1] > WEIR__GATING_MAX)
        return weir__fail(WEIR_ESHAPE,
                          "MoeGating: logits are %s, they must be [tokens, experts] with at most "
                          "%lld experts",
                          weir__view_text(x).text, (long long)WEIR__GATING_MAX);
    if (p->k < 1 || p->k > x->shape[1])
        return weir__fail(WEIR_ERANGE,
                          "MoeGating: k %lld is out of range: there are 1..%lld experts",
                          (long long)p->k, (long long)x->shape[1]);
    call->out[0].dtype = x->dtype;
    call->out[1].dtype = WEIR_I32;
    for (int i = 0; i < 2; i++) {
        call->out[i].ndim = 2;
        call->out[i].shape[0] = x->shape[0];
        call->out[i].shape[1] = p->k;
    }
    return WEIR_OK;
}

static weir_status prepare_gating(const struct weir__call *call, struct weir__work *work)
{
    const struct gating_params *p = call->params;
    struct weir__gating *a = (void *)work->args;
    const struct weir__view *x = call->in[0];

    a->in = x->data;
    a->weights = call->out[0].data;
    a->experts = (void *)call->out[1].data;
    a->experts_row = call->out[1].stride[0];
    a->experts_step = call->out[1].stride[1];
    a->dtype = x->dtype;
    a->k = p->k;
    a->renormalise = p->renormalise;
    weir__rows_init(&a->rows, x, &call->out[0], 1);
    work->fn = WEIR__ISA_PICK(weir__gating_kernel);
    work->code = &weir__gpu_gating;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(2 * weir__view_numel(x), weir__max(x->shape[0], 1), call->cores);
    return WEIR_OK;
}

static void cost_gating(const struct weir__call *call, struct weir__cost *cost)
{
    double n = (double)weir__view_numel(call->in[0]);

    cost->flops = 20 * n;
    cost->rows = true;
    cost->bytes = n * (double)weir_dtype_size(call->in[0]->dtype) +
                  (double)weir__view_numel(&call->out[0]) *
                      (double)(weir_dtype_size(call->in[0]->dtype) + sizeof(int32_t));
}

const struct weir__op weir__op_moe_gating = {
    .name = "MoeGating",
    .summary = "the k experts of each token and their weights",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 2,
    .params_size = sizeof(struct gating_params),
    .fields = gating_fields,
    .nfields = weir__countof(gating_fields),
    .infer = infer_gating,
    .cost = cost_gating,
    .prepare = prepare_gating,
};

weir_status weir_moe_gating(weir_tensor *logits, int64_t k, bool renormalise, weir_tensor **weights,
                            weir_tensor **experts)
{
    WEIR__NEED(weights, "weights");
    WEIR__NEED(experts, "experts");

    struct gating_params p = {k, renormalise};
    weir_tensor *out[2] = {NULL, NULL};
    weir_status st = weir__op_run(&weir__op_moe_gating, &p, &logits, 1, out);

    *weights = out[0];
    *experts = out[1];
    return st;
}
