/* layer_norm and rms_norm over the last dim. */
#include "ops/host/math/norm.h"
#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/rows.h"
#include "ops/tile.h"

struct norm_params {
    double eps;
};

static const struct weir__op_field norm_fields[] = {
    {"eps", WEIR__FIELD_FLOAT, offsetof(struct norm_params, eps), 1},
};

static const struct weir__view *optional(const struct weir__call *call, int i)
{
    return i < call->nin ? call->in[i] : NULL;
}

static weir_status infer(struct weir__call *call)
{
    const struct weir__view *x = call->in[0];
    const char *name = call->op->name;
    weir_status st;

    if ((st = weir__check_type(name, x, WEIR__TYPES_FLOAT)))
        return st;
    if (x->ndim < 1)
        return weir__fail(WEIR_ESHAPE, "%s: %s has no last dim", name, weir__view_text(x).text);
    for (int i = 1; i < call->nin; i++) {
        const struct weir__view *w = call->in[i];

        if (!w)
            continue;
        if ((st = weir__check_same_type(name, x, w)))
            return st;
        if (w->ndim != 1 || w->shape[0] != x->shape[x->ndim - 1])
            return weir__fail(WEIR_ESHAPE, "%s: %s is %s, but the last dim of %s is %lld", name,
                              i == 1 ? "weight" : "bias", weir__view_text(w).text,
                              weir__view_text(x).text, (long long)x->shape[x->ndim - 1]);
    }
    weir__infer_like(call);
    return WEIR_OK;
}

static weir_status prepare(const struct weir__call *call, bool centred, struct weir__work *work)
{
    const struct norm_params *p = call->params;
    const struct weir__view *x = call->in[0], *weight = optional(call, 1),
                            *bias = optional(call, 2);
    struct weir__norm *a = (void *)work->args;
    int64_t numel = weir__view_numel(x);

    a->in = x->data;
    a->out = call->out[0].data;
    a->weight = weight ? weight->data : NULL;
    a->bias = bias ? bias->data : NULL;
    a->weight_step = weight ? weight->stride[0] : 0;
    a->bias_step = bias ? bias->stride[0] : 0;
    a->dtype = x->dtype;
    a->centred = centred;
    a->eps = p->eps;
    weir__rows_init(&a->rows, x, &call->out[0], x->ndim - 1);
    work->fn = WEIR__ISA_PICK(weir__norm_kernel);
    work->code = &weir__gpu_norm;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks =
        weir__tile_blocks(numel / 2 + a->rows.count * 50, weir__max(a->rows.count, 1), call->cores);
    return WEIR_OK;
}

static weir_status prepare_layer_norm(const struct weir__call *call, struct weir__work *work)
{
    return prepare(call, true, work);
}

static weir_status prepare_rms_norm(const struct weir__call *call, struct weir__work *work)
{
    return prepare(call, false, work);
}

static int64_t parts(const struct weir__call *call)
{
    return weir__parts_before(call->in[0], call->in[0]->ndim - 1);
}

static void place(void *args, int operand, char *data)
{
    struct weir__norm *a = args;

    if (operand < 0)
        a->out = data;
    else
        a->in = data;
}

static void cost(const struct weir__call *call, struct weir__cost *c)
{
    weir__ew_cost(call, 8, c);
    c->rows = true;
}

const struct weir__op weir__op_layer_norm = {
    .name = "LayerNorm",
    .summary = "mean 0 and variance 1 along the last dim, then weight and bias",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_ENDS_CHAIN,
    .nin_min = 1,
    .nin_max = 3,
    .nout = 1,
    .params_size = sizeof(struct norm_params),
    .fields = norm_fields,
    .nfields = weir__countof(norm_fields),
    .infer = infer,
    .cost = cost,
    .prepare = prepare_layer_norm,
    .place = place,
    .parts = parts,
    .by_parts = 1,
};

const struct weir__op weir__op_rms_norm = {
    .name = "RmsNorm",
    .summary = "root mean square 1 along the last dim, then weight",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_ENDS_CHAIN,
    .nin_min = 1,
    .nin_max = 2,
    .nout = 1,
    .params_size = sizeof(struct norm_params),
    .fields = norm_fields,
    .nfields = weir__countof(norm_fields),
    .infer = infer,
    .cost = cost,
    .prepare = prepare_rms_norm,
    .place = place,
    .parts = parts,
    .by_parts = 1,
};

weir_status weir_layer_norm(weir_tensor *x, weir_tensor *weight, weir_tensor *bias, double eps,
                            weir_tensor **out)
{
    struct norm_params p = {eps};
    weir_tensor *in[] = {x, weight, bias};

    return weir__op_run(&weir__op_layer_norm, &p, in, 3, out);
}

weir_status weir_rms_norm(weir_tensor *x, weir_tensor *weight, double eps, weir_tensor **out)
{
    struct norm_params p = {eps};
    weir_tensor *in[] = {x, weight};

    return weir__op_run(&weir__op_rms_norm, &p, in, 2, out);
}
