/* Mixture of experts: sends rows to the ranks of their experts, and back. */
#include "ops/collective/collective.h"

#include <string.h>

#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/moe.h"

static weir_status check_experts(const struct weir__call *call, const struct weir__view *experts)
{
    const struct weir__collective_params *p = call->params;
    const char *op = call->op->name;
    weir_status st = weir__collective_check(call);

    if (st)
        return st;
    if (p->experts < 1 || p->experts % p->ranks)
        return weir__fail(WEIR_ESHAPE, "%s: %lld experts are not shared evenly by %lld ranks", op,
                          (long long)p->experts, (long long)p->ranks);
    if (experts->dtype != WEIR_I32 && experts->dtype != WEIR_I64)
        return weir__fail(WEIR_EDTYPE, "%s: experts are i32 or i64, not %s", op,
                          weir__view_text(experts).text);
    if (experts->ndim != 2)
        return weir__fail(WEIR_ESHAPE, "%s: experts are [tokens, k], not %s", op,
                          weir__view_text(experts).text);
    return WEIR_OK;
}

static weir_status infer_dispatch(struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;
    const struct weir__view *x = call->in[0], *experts = call->in[1];
    weir_status st = check_experts(call, experts);

    if (st)
        return st;
    if (x->ndim != 2 || x->shape[0] != experts->shape[0])
        return weir__fail(WEIR_ESHAPE,
                          "%s: x must be [tokens, hidden]: it is %s, the experts are %s",
                          call->op->name, weir__view_text(x).text, weir__view_text(experts).text);
    if (p->capacity < 0 || p->capacity > INT32_MAX)
        return weir__fail(WEIR_ERANGE, "%s: a capacity of %lld rows is out of range: 0..%d",
                          call->op->name, (long long)p->capacity, INT32_MAX);
    call->out[0].dtype = x->dtype;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = p->capacity;
    call->out[0].shape[1] = x->shape[1];
    call->out[1].dtype = WEIR_I64;
    call->out[1].ndim = 1;
    call->out[1].shape[0] = p->experts / p->ranks;
    call->out[2].dtype = WEIR_I32;
    call->out[2].ndim = 2;
    memcpy(call->out[2].shape, experts->shape, sizeof call->out[2].shape);
    return WEIR_OK;
}

/* inputs: rows, experts, positions, weights */
static weir_status infer_combine(struct weir__call *call)
{
    const struct weir__view *rows = call->in[0], *experts = call->in[1], *at = call->in[2],
                            *weights = call->in[3];
    const char *op = call->op->name;
    weir_status st = check_experts(call, experts);

    if (st || (st = weir__check_type(op, rows, WEIR__TYPES_FLOAT)))
        return st;
    if (rows->ndim != 2)
        return weir__fail(WEIR_ESHAPE, "%s: rows are [capacity, hidden], not %s", op,
                          weir__view_text(rows).text);
    if (at->dtype != WEIR_I32 || !weir__same_shape(at, experts))
        return weir__fail(WEIR_ESHAPE, "%s: positions must be i32 of the experts' shape: %s and %s",
                          op, weir__view_text(at).text, weir__view_text(experts).text);
    if ((weights->dtype != WEIR_F32 && weights->dtype != rows->dtype) ||
        !weir__same_shape(weights, experts))
        return weir__fail(WEIR_ESHAPE,
                          "%s: weights must be f32 or %s, of the experts' shape: %s and %s", op,
                          weir_dtype_name(rows->dtype), weir__view_text(weights).text,
                          weir__view_text(experts).text);
    call->out[0].dtype = rows->dtype;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = experts->shape[0];
    call->out[0].shape[1] = rows->shape[1];
    return WEIR_OK;
}

static int64_t bytes_of(const struct weir__view *v)
{
    return weir__view_numel(v) * (int64_t)weir_dtype_size(v->dtype);
}

static void cost_moe(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *x = call->in[0], *experts = call->in[1];

    if (experts->ndim == 2) /* each slot moves a row */
        cost->bytes = 2.0 * (double)weir__view_numel(experts) * (double)x->shape[1] *
                          (double)weir_dtype_size(x->dtype) +
                      (double)bytes_of(experts);
}

static size_t scratch_dispatch(const struct weir__call *call)
{
    const struct weir__collective_params *p = call->params;

    return weir__moe_scratch(p->ranks, p->experts, p->capacity);
}

/* Ranks must agree on hidden, k and the number of experts, not on tokens. */
static struct weir__moe *begin_work(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__moe *a = (void *)work->args;

    memset(a, 0, sizeof *a);
    weir__collective_offer(call, &a->meet.offer);
    a->x = call->in[0]->data;
    a->experts = call->in[1]->data;
    a->wide_experts = call->in[1]->dtype == WEIR_I64;
    a->tokens = call->in[1]->shape[0];
    a->k = call->in[1]->shape[1];
    a->hidden = call->in[0]->shape[1];
    a->nexperts = p->experts;
    a->ranks = (int)p->ranks;
    a->dtype = (unsigned char)call->in[0]->dtype;
    a->out = call->out[0].data;
    a->meet.offer.ndim = 4;
    a->meet.offer.shape[0] = -1;
    a->meet.offer.shape[2] = a->k;
    a->meet.offer.shape[3] = a->nexperts;
    return a;
}

static weir_status prepare_dispatch(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__collective_params *p = call->params;
    struct weir__moe *a = begin_work(call, work);

    a->capacity = p->capacity;
    a->counts = (void *)call->out[1].data;
    a->positions = (void *)call->out[2].data;
    a->starts = call->scratch;
    a->routes = (void *)(a->starts + p->ranks * p->experts);
    work->code = &weir__gpu_moe_dispatch;
    weir__collective_work(call, work, WEIR__ISA_PICK(weir__moe_dispatch_kernel), sizeof *a,
                          2 * a->tokens * a->k * a->hidden * (int64_t)weir_dtype_size(a->dtype),
                          a->tokens * a->k);
    work->phases = 2;
    return WEIR_OK;
}

static weir_status prepare_combine(const struct weir__call *call, struct weir__work *work)
{
    struct weir__moe *a = begin_work(call, work);

    a->capacity = call->in[0]->shape[0];
    a->positions = (void *)call->in[2]->data;
    a->weights = call->in[3]->data;
    a->weight_type = (unsigned char)call->in[3]->dtype;
    work->code = &weir__gpu_moe_combine;
    weir__collective_work(call, work, WEIR__ISA_PICK(weir__moe_combine_kernel), sizeof *a,
                          2 * a->tokens * a->k * a->hidden * (int64_t)weir_dtype_size(a->dtype),
                          a->tokens);
    return WEIR_OK;
}

static const struct weir__op_field dispatch_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                        WEIR__COLLECTIVE_FIELD(experts, INT, 1),
                                                        WEIR__COLLECTIVE_FIELD(capacity, INT, 1)};
static const struct weir__op_field combine_fields[] = {WEIR__COLLECTIVE_FIELDS,
                                                       WEIR__COLLECTIVE_FIELD(experts, INT, 1)};

const struct weir__op weir__op_moe_dispatch = {
    .name = "MoeDispatch",
    .summary = "tokens' rows to the ranks of their experts",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_COLLECTIVE | WEIR__OP_ALWAYS_RUNS,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 3,
    .params_size = sizeof(struct weir__collective_params),
    .fields = dispatch_fields,
    .nfields = weir__countof(dispatch_fields),
    .member = weir__collective_member,
    .infer = infer_dispatch,
    .cost = cost_moe,
    .scratch = scratch_dispatch,
    .prepare = prepare_dispatch,
};

const struct weir__op weir__op_moe_combine = {
    .name = "MoeCombine",
    .summary = "experts' rows back to their tokens, weighted and added",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_COLLECTIVE | WEIR__OP_ALWAYS_RUNS,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 1,
    .params_size = sizeof(struct weir__collective_params),
    .fields = combine_fields,
    .nfields = weir__countof(combine_fields),
    .member = weir__collective_member,
    .infer = infer_combine,
    .cost = cost_moe,
    .prepare = prepare_combine,
};

weir_status weir_moe_dispatch(weir_rank *rank, weir_tensor *x, weir_tensor *experts,
                              int64_t nexperts, int64_t capacity, weir_tensor **rows,
                              weir_tensor **counts, weir_tensor **positions)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(x, "x");
    WEIR__NEED(experts, "experts");
    WEIR__NEED(rows, "rows");
    WEIR__NEED(counts, "counts");
    WEIR__NEED(positions, "positions");

    struct weir__collective_params p = weir__collective_make_params(rank);
    weir_tensor *out[3];
    weir_status st;

    p.experts = nexperts;
    p.capacity = capacity;
    st = weir__collective_run(&weir__op_moe_dispatch, &p, (weir_tensor *[]){x, experts}, 2, NULL,
                              out);
    *rows = out[0];
    *counts = out[1];
    *positions = out[2];
    return st;
}

weir_status weir_moe_combine(weir_rank *rank, weir_tensor *rows, weir_tensor *experts,
                             int64_t nexperts, weir_tensor *positions, weir_tensor *weights,
                             weir_tensor **out)
{
    WEIR__NEED(rank, "rank");
    WEIR__NEED(rows, "rows");
    WEIR__NEED(experts, "experts");
    WEIR__NEED(positions, "positions");
    WEIR__NEED(weights, "weights");
    WEIR__NEED(out, "out");

    struct weir__collective_params p = weir__collective_make_params(rank);

    p.experts = nexperts;
    return weir__collective_run(&weir__op_moe_combine, &p,
                                (weir_tensor *[]){rows, experts, positions, weights}, 4, NULL, out);
}
