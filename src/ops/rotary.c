/* rotary: rotates x [..., length, heads, d] by cosines and sines [length, d/2], which have x's type
 * or f32. */
#include "ops/host/math/rotary.h"
#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/rows.h"
#include "ops/tile.h"

struct rotary_params {
    bool interleaved;
};

static const struct weir__op_field rotary_fields[] = {
    {"interleaved", WEIR__FIELD_BOOL, offsetof(struct rotary_params, interleaved), 1},
};

static weir_status infer_rotary(struct weir__call *call)
{
    const struct weir__view *x = call->in[0];
    weir_status st;

    if ((st = weir__check_type("Rotary", x, WEIR__TYPES_FLOAT)) ||
        (st = weir__check_same_type("Rotary", call->in[1], call->in[2])))
        return st;
    if (x->ndim < 3 || x->shape[x->ndim - 1] % 2 || x->shape[x->ndim - 1] > WEIR__ROTARY_MAX)
        return weir__fail(WEIR_ESHAPE,
                          "Rotary: x is %s, it must be [..., length, heads, d] with d even and at "
                          "most %lld",
                          weir__view_text(x).text, (long long)WEIR__ROTARY_MAX);
    for (int i = 1; i <= 2; i++) {
        const struct weir__view *angle = call->in[i];

        if (angle->dtype != WEIR_F32 && (st = weir__check_same_type("Rotary", x, angle)))
            return st;
        if (angle->ndim != 2 || angle->shape[0] != x->shape[x->ndim - 3] ||
            angle->shape[1] != x->shape[x->ndim - 1] / 2)
            return weir__fail(WEIR_ESHAPE, "Rotary: %s are %s, x %s needs [%lld, %lld]",
                              i == 1 ? "cosines" : "sines", weir__view_text(angle).text,
                              weir__view_text(x).text, (long long)x->shape[x->ndim - 3],
                              (long long)x->shape[x->ndim - 1] / 2);
    }
    weir__infer_like(call);
    return WEIR_OK;
}

static weir_status prepare_rotary(const struct weir__call *call, struct weir__work *work)
{
    const struct rotary_params *p = call->params;
    const struct weir__view *x = call->in[0], *cosines = call->in[1], *sines = call->in[2];
    struct weir__rotary *a = (void *)work->args;

    a->in = x->data;
    a->cosines = cosines->data;
    a->sines = sines->data;
    a->out = call->out[0].data;
    a->dtype = x->dtype;
    a->angle_type = cosines->dtype;
    a->interleaved = p->interleaved;
    a->heads = x->shape[x->ndim - 2];
    a->length = x->shape[x->ndim - 3];
    a->cos_row = cosines->stride[0];
    a->cos_step = cosines->stride[1];
    a->sin_row = sines->stride[0];
    a->sin_step = sines->stride[1];
    weir__rows_init(&a->rows, x, &call->out[0], x->ndim - 1);
    work->fn = WEIR__ISA_PICK(weir__rotary_kernel);
    work->code = &weir__gpu_rotary;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks = weir__tile_blocks(weir__view_numel(x) / 2 + a->rows.count * 20,
                                     weir__max(a->rows.count, 1), call->cores);
    return WEIR_OK;
}

static int64_t parts_rotary(const struct weir__call *call)
{
    return weir__parts_before(call->in[0], call->in[0]->ndim - 1);
}

static void place_rotary(void *args, int operand, char *data)
{
    struct weir__rotary *a = args;

    if (operand < 0)
        a->out = data;
    else
        a->in = data;
}

static void cost_rotary(const struct weir__call *call, struct weir__cost *cost)
{
    weir__ew_cost(call, 3, cost);
}

const struct weir__op weir__op_rotary = {
    .name = "Rotary",
    .summary = "rotary position embedding",
    .engine = WEIR_ENGINE_VECTOR,
    .flags = WEIR__OP_BESIDE,
    .nin_min = 3,
    .nin_max = 3,
    .nout = 1,
    .params_size = sizeof(struct rotary_params),
    .fields = rotary_fields,
    .nfields = weir__countof(rotary_fields),
    .infer = infer_rotary,
    .cost = cost_rotary,
    .prepare = prepare_rotary,
    .place = place_rotary,
    .parts = parts_rotary,
    .by_parts = 1,
};

weir_status weir_rotary(weir_tensor *x, weir_tensor *cosines, weir_tensor *sines, bool interleaved,
                        weir_tensor **out)
{
    struct rotary_params p = {interleaved};
    weir_tensor *in[] = {x, cosines, sines};

    return weir__op_run(&weir__op_rotary, &p, in, 3, out);
}
