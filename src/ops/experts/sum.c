/* expert_sum: the weighted sum of the experts' results for each token. */
#include "ops/call/registry.h"
#include "ops/elementwise.h"
#include "ops/gpu/gpu.h"
#include "ops/host/move/experts.h"
#include "ops/host/row.h"
#include "ops/tile.h"

static weir_status check_weights(const struct weir__view *rows, const struct weir__view *places,
                                 const struct weir__view *weights)
{
    weir_status st;

    if (!weights)
        return WEIR_OK;
    if (weights->dtype != WEIR_F32 && (st = weir__check_same_type("ExpertSum", rows, weights)))
        return st;
    if (weir__same_shape(places, weights))
        return WEIR_OK;
    return weir__fail(WEIR_ESHAPE, "ExpertSum: weights %s and places %s must have one shape",
                      weir__view_text(weights).text, weir__view_text(places).text);
}

static weir_status infer_sum(struct weir__call *call)
{
    const struct weir__view *rows = call->in[0], *places = call->in[1];
    weir_status st;

    if ((st = weir__check_type("ExpertSum", rows, WEIR__TYPES_FLOAT)))
        return st;
    if (rows->ndim != 2)
        return weir__fail(WEIR_ESHAPE, "ExpertSum: rows are %s, they must be [rows, width]",
                          weir__view_text(rows).text);
    if (places->dtype != WEIR_I64 && places->dtype != WEIR_I32)
        return weir__fail(WEIR_EDTYPE, "ExpertSum: places are %s, they must be i64 or i32",
                          weir__view_text(places).text);
    if (places->ndim != 2)
        return weir__fail(WEIR_ESHAPE, "ExpertSum: places are %s, they must be [tokens, k]",
                          weir__view_text(places).text);
    call->out[0].dtype = rows->dtype;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = places->shape[0];
    call->out[0].shape[1] = rows->shape[1];
    return check_weights(rows, places, call->nin > 2 ? call->in[2] : NULL);
}

static weir_status prepare_sum(const struct weir__call *call, struct weir__work *work)
{
    struct weir__expert_sum *a = (void *)work->args;
    const struct weir__view *rows = call->in[0], *places = call->in[1], *out = &call->out[0];
    const struct weir__view *weights = call->nin > 2 ? call->in[2] : NULL;
    int64_t bytes, units;

    *a = (struct weir__expert_sum){
        .rows = rows->data,
        .places = places->data,
        .weights = weights ? weights->data : NULL,
        .out = out->data,
        .dtype = rows->dtype,
        .weight_type = weights ? weights->dtype : WEIR_F32,
        .index_type = places->dtype,
        .tokens = places->shape[0],
        .k = places->shape[1],
        .width = rows->shape[1],
        .limit = rows->shape[0],
        .rows_row = rows->stride[0],
        .rows_step = rows->stride[1],
        .places_row = places->stride[0],
        .places_step = places->stride[1],
        .weights_row = weights ? weights->stride[0] : 0,
        .weights_step = weights ? weights->stride[1] : 0,
        .out_row = out->stride[0],
        .out_step = out->stride[1],
    };
    bytes = a->tokens * a->width * (a->k + 1) * (int64_t)weir__elem_size(a->dtype);
    units = a->tokens * weir__div_up(a->width, WEIR__ROW_CHUNK);
    work->fn = WEIR__ISA_PICK(weir__expert_sum_kernel);
    work->code = &weir__gpu_expert_sum;
    work->args_size = sizeof *a;
    work->phases = 1;
    work->blocks = a->tokens && a->width ? weir__tile_blocks(bytes / WEIR__TILE_BYTES_PER_NS,
                                                             weir__max(units, 1), call->cores)
                                         : 0;
    return WEIR_OK;
}

static void cost_sum(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *rows = call->in[0], *places = call->in[1], *out = &call->out[0];
    const struct weir__view *weights = call->nin > 2 ? call->in[2] : NULL;
    double elem = (double)weir_dtype_size(rows->dtype), n = (double)weir__view_numel(out);
    double picks = (double)weir__view_numel(places);

    cost->flops = 2 * picks * (double)rows->shape[1];
    cost->bytes =
        n * elem + picks * ((double)rows->shape[1] * elem + (double)weir_dtype_size(places->dtype) +
                            (weights ? (double)weir_dtype_size(weights->dtype) : 0));
}

const struct weir__op weir__op_expert_sum = {
    .name = "ExpertSum",
    .summary = "the weighted sum of the experts' rows for each token",
    .engine = WEIR_ENGINE_VECTOR,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .infer = infer_sum,
    .cost = cost_sum,
    .prepare = prepare_sum,
};

weir_status weir_expert_sum(weir_tensor *rows, weir_tensor *places, weir_tensor *weights,
                            weir_tensor **out)
{
    weir_tensor *in[] = {rows, places, weights};

    return weir__op_run(&weir__op_expert_sum, NULL, in, 3, out);
}
