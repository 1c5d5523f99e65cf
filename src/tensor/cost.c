#include "sim/model.h"
#include "tensor/op.h"

void weir__kernel_set_cost(struct weir__kernel *k, const struct weir__call *call,
                           const struct weir__work *work)
{
    struct weir__cost cost = {0, 0};
    double ns;

    call->op->cost(call, &cost);
    ns = weir__cost_ns(&cost) / (work->blocks * work->phases);
    k->work_ns = ns < 4e9 ? (uint32_t)ns : UINT32_MAX - 1;
    if (call->model && call->nin && call->in[0])
        cost.flops *= weir__model_flop(call->model, work->engine, call->in[0]->dtype);
    k->flops = work->block_us > 0 ? 0 : (float)cost.flops;
    k->bytes = (float)cost.bytes;
    k->block_us = (float)work->block_us;
    k->together = work->together;
}
