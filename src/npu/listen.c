/* Trace records of the modelled NPU, in virtual time. Called only while a trace is recorded, about
 * the command at the head of `s`. */
#include "npu/npu.h"

static uint64_t ns_of(uint64_t ps)
{
    return ps / 1000;
}

/* The machine only counts cores, so records name any core of the kind. */
static struct weir__trace_cores cores_of(const struct weir__sim_op *op)
{
    struct weir__trace_cores cores = WEIR__TRACE_NO_CORES;

    if (op->per_block[WEIR__POOL_CUBE])
        cores.cube = WEIR__TRACE_ANY_CORE;
    for (unsigned i = 0; i < op->per_block[WEIR__POOL_VECTOR] && i < 2; i++)
        cores.vector[i] = WEIR__TRACE_ANY_CORE;
    return cores;
}

static struct weir__trace_record begin(const struct weir__npu_stream *s, enum weir__trace_kind kind)
{
    return (struct weir__trace_record){
        .kind = (uint8_t)kind,
        .device = (uint32_t)s->soft.base.dev->id,
        .slot = s->soft.base.slot,
        .seq = s->soft.over + 1,
    };
}

void weir__npu_trace_part(const struct weir__npu *npu, const struct weir__npu_stream *s,
                          uint32_t blocks, uint64_t from)
{
    struct weir__trace_record r = begin(s, WEIR__TRACE_PART);

    r.from = ns_of(from);
    r.to = ns_of(npu->sim.now);
    r.blocks = blocks;
    r.cores = cores_of(&s->op);
    weir__trace_put(&r);
}

void weir__npu_trace_op(const struct weir__npu *npu, const struct weir__npu_stream *s,
                        const struct weir__cmd *cmd)
{
    struct weir__trace_record r = begin(s, WEIR__TRACE_OP);

    r.engine = cmd->engine;
    r.failed = atomic_load_explicit(&s->soft.run.failed, memory_order_relaxed);
    r.from = ns_of(s->lane.started);
    r.to = ns_of(npu->sim.now);
    r.amount = (uint64_t)cmd->v.load.bytes;
    r.u.op.name = weir__trace_name(cmd->name);
    r.u.op.scope = cmd->scope;
    r.u.op.limit = (uint16_t)cmd->cores;
    r.blocks = cmd->blocks * cmd->phases;
    weir__trace_put(&r);
}

void weir__npu_trace_reached(const struct weir__npu *npu, struct weir__npu_stream *s)
{
    if (!s->soft.reached)
        s->soft.reached = 1 + ns_of(npu->sim.now); /* plus 1, because 0 means none */
}

void weir__npu_trace_wait(const struct weir__npu *npu, struct weir__npu_stream *s,
                          const struct weir__soft_stream *source, uint64_t seq)
{
    uint64_t now = ns_of(npu->sim.now);

    weir__trace_put_wait(s->soft.base.dev->id, s->soft.base.slot, s->soft.over + 1,
                         source->base.dev->id, source->base.slot, seq,
                         s->soft.reached ? s->soft.reached - 1 : now, now);
    s->soft.reached = 0;
}
