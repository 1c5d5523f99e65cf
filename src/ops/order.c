/* Operators without computation that mark a point in the order of a graph. */
#include "ops/op.h"

static weir_status infer_token(struct weir__call *call)
{
    call->out[0].dtype = WEIR_U8;
    call->out[0].ndim = 1;
    call->out[0].shape[0] = 0;
    return WEIR_OK;
}

static weir_status infer_nothing(struct weir__call *call)
{
    (void)call;
    return WEIR_OK;
}

static void cost_nothing(const struct weir__call *call, struct weir__cost *cost)
{
    (void)call;
    (void)cost;
}

static weir_status prepare_nothing(const struct weir__call *call, struct weir__work *work)
{
    (void)call;
    work->blocks = 0;
    return WEIR_OK;
}

const struct weir__op weir__op_record = {
    .name = "Record",
    .summary = "a token for the work of its stream so far",
    .engine = WEIR_ENGINE_HOST,
    .nout = 1,
    .infer = infer_token,
    .cost = cost_nothing,
    .prepare = prepare_nothing,
};

const struct weir__op weir__op_wait = {
    .name = "Wait",
    .summary = "orders its stream after the tokens",
    .engine = WEIR_ENGINE_HOST,
    .flags = WEIR__OP_ALWAYS_RUNS,
    .nin_min = 1,
    .nin_max = WEIR__OP_MAX_IN,
    .infer = infer_nothing,
    .cost = cost_nothing,
    .prepare = prepare_nothing,
};
