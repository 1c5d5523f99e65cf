/* expert_choice: selects the experts of each token and their weights. */
#include "ops/host/math/choice.h"
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/row.h"
#include "ops/tile.h"

struct choice_params {
    int64_t k, groups, group_k;
    bool sigmoid, best_two, renormalise;
    double outside, eps, scale;
};

#define FIELD(kind, name)                                                  \
    {                                                                      \
#name, WEIR__FIELD_##kind, offsetof(struct choice_params, name), 1 \
    }
static const struct weir__op_field choice_fields[] = {
    FIELD(INT, k),         FIELD(INT, groups),    FIELD(INT, group_k),
    FIELD(BOOL, sigmoid),  FIELD(BOOL, best_two), FIELD(BOOL, renormalise),
    FIELD(FLOAT, outside), FIELD(FLOAT, eps),     FIELD(FLOAT, scale),
};

static weir_status check_bias(const struct weir__view *x, const struct weir__view *bias)
{
    weir_status st;

    if (!bias)
        return WEIR_OK;
    if ((st = weir__check_type("ExpertChoice", bias, WEIR__TYPES_FLOAT)))
        return st;
    if (bias->ndim == 1 && bias->shape[0] == x->shape[1])
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "ExpertChoice: the bias is %s, logits %s need [%lld]",
                      weir__view_text(bias).text, weir__view_text(x).text, (long long)x->shape[1]);
}

static weir_status check_groups(const struct choice_params *p, int64_t n)
{
    if (p->groups < 1 || p->groups > n || n % p->groups)
        return weir__fail(WEIR_ERANGE, "ExpertChoice: %lld experts are no %lld groups of one size",
                          (long long)n, (long long)p->groups);
    if (p->group_k < 1 || p->group_k > p->groups)
        return weir__fail(WEIR_ERANGE,
                          "ExpertChoice: %lld groups are out of range: there are 1..%lld",
                          (long long)p->group_k, (long long)p->groups);
    if (p->best_two && p->group_k < p->groups && n / p->groups < 2)
        return weir__fail(WEIR_ERANGE,
                          "ExpertChoice: groups of one expert have no best two: %lld groups of "
                          "%lld experts",
                          (long long)p->groups, (long long)n);
    return WEIR_OK;
}

static weir_status infer_choice(struct weir__call *call)
{
    const struct choice_params *p = call->params;
    const struct weir__view *x = call->in[0];
    weir_status st;

    if ((st = weir__check_type("ExpertChoice", x, WEIR__TYPES_FLOAT)))
        return st;
    if (x->ndim != 2 || x->shape[1] > WEIR__CHOICE_MAX)
        return weir__fail(
            WEIR_ESHAPE,
            "ExpertChoice: logits are %s, they must be [tokens, experts] with at most "
            "%d experts",
            weir__view_text(x).text, WEIR__CHOICE_MAX);
    if (p->k < 1 || p->k > x->shape[1])
        return weir__fail(WEIR_ERANGE,
                          "ExpertChoice: k %lld is out of range: there are 1..%lld experts",
                          (long long)p->k, (long long)x->shape[1]);
    if ((st = check_groups(p, x->shape[1])) ||
        (st = check_bias(x, call->nin > 1 ? call->in[1] : NULL)))
        return st;
    call->out[0].dtype = x->dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32;
    call->out[1].dtype = WEIR_I64;
    for (int i = 0; i < 2; i++) {
        call->out[i].ndim = 2;
        call->out[i].shape[0] = x->shape[0];
        call->out[i].shape[1] = p->k;
    }
    return WEIR_OK;
}

static weir_status prepare_choice(const struct weir__call *call, struct weir__work *work)
{
    const struct choice_params *p = call->params;
    struct weir__choice *a = (void *)work->args;
    const struct weir__view *x = call->in[0], *out = call->out;
    const struct weir__view *bias = call->nin > 1 ? call->in[1] : NULL;

    *a = (struct weir__choice){
        .in = x->data,
        .bias = bias ? bias->data : NULL,
        .weights = out[0].data,
        .experts = (void *)out[1].data,
        .dtype = x->dtype,
        .bias_type = bias ? bias->dtype : WEIR_F32,
        .tokens = x->shape[0],
        .n = x->shape[1],
        .k = p->k,
        .groups = p->groups,
        .group_k = p->group_k,
        .sigmoid = p->sigmoid,
        .best_two = p->best_two,
        .renormalise = p->renormalise,
        .outside = p->outside,
        .eps = p->eps,
        .scale = p->scale,
        .in_row = x->stride[0],
        .in_step = x->stride[1],
        .bias_step = bias ? bias->stride[0] : 0,
        .weights_row = out[0].stride[0],
        .weights_step = out[0].stride[1],
        .experts_row = out[1].stride[0],
        .experts_step = out[1].stride[1],
    };
    work->fn = WEIR__ISA_PICK(weir__choice_kernel);
    work->code = &weir__gpu_choice;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(3 * weir__view_numel(x), weir__max(x->shape[0], 1), call->cores);
    return WEIR_OK;
}

static void cost_choice(const struct weir__call *call, struct weir__cost *cost)
{
    double n = (double)weir__view_numel(call->in[0]), m = (double)weir__view_numel(&call->out[0]);

    cost->flops = 24 * n;
    cost->rows = true;
    cost->bytes = n * (double)weir_dtype_size(call->in[0]->dtype) +
                  m * (double)(weir_dtype_size(call->out[0].dtype) + sizeof(int64_t));
}

const struct weir__op weir__op_expert_choice = {
    .name = "ExpertChoice",
    .summary = "the k experts of each token by score and group, and their weights",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 1,
    .nin_max = 2,
    .nout = 2,
    .params_size = sizeof(struct choice_params),
    .fields = choice_fields,
    .nfields = weir__countof(choice_fields),
    .infer = infer_choice,
    .cost = cost_choice,
    .prepare = prepare_choice,
};

weir_status weir_expert_choice(weir_tensor *logits, weir_tensor *bias,
                               const weir_expert_choice_options *options, weir_tensor **weights,
                               weir_tensor **experts)
{
    WEIR__NEED(options, "options");
    WEIR__NEED(weights, "weights");
    WEIR__NEED(experts, "experts");

    int64_t groups = options->groups ? options->groups : 1;
    struct choice_params p = {
        .k = options->k,
        .groups = groups,
        .group_k = options->group_k ? options->group_k : groups,
        .sigmoid = options->sigmoid,
        .best_two = options->best_two,
        .renormalise = options->renormalise,
        .outside = options->outside,
        .eps = options->eps,
        .scale = options->scale == 0 ? 1 : options->scale,
    };
    weir_tensor *in[] = {logits, bias}, *out[2] = {NULL, NULL};
    weir_status st = weir__op_run(&weir__op_expert_choice, &p, in, 2, out);

    *weights = out[0];
    *experts = out[1];
    return st;
}
