#include "sim/model.h"
#include "tensor/op.h"

void weir__cost_scale(struct weir__cost *cost, const struct weir__model *model, weir_engine engine,
                      const struct weir__view *first)
{
    struct weir__flops flops = {
        .count = cost->flops,
        .type = cost->type ? cost->type
                : first    ? weir_dtype_name(first->dtype)
                           : NULL,
        .m = cost->m,
        .n = cost->n,
        .k = cost->k,
    };

    cost->flops = weir__model_flops(model, engine, &flops);
}

void weir__kernel_set_cost(struct weir__kernel *k, const struct weir__call *call,
                           const struct weir__work *work)
{
    struct weir__cost cost = {0};
    double ns;

    call->op->cost(call, &cost);
    ns = weir__cost_ns(&cost) / (work->blocks * work->phases);
    k->work_ns = ns < 4e9 ? (uint32_t)ns : UINT32_MAX - 1;
    if (call->model)
        weir__cost_scale(&cost, call->model, work->engine, call->nin ? call->in[0] : NULL);
    k->flops = work->block_us > 0 ? 0 : (float)cost.flops;
    k->bytes = (float)cost.bytes;
    k->block_us = (float)work->block_us;
    k->together = work->together;
}
