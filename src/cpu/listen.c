/* Trace records of workers. Called only while a trace is recorded. */
#include "cpu/cpu.h"

/* The n-th core of a gang's set. */
static uint16_t nth(const uint64_t *set, unsigned n)
{
    for (unsigned word = 0; word < WEIR__MAX_CORES / 64; word++) {
        unsigned here = (unsigned)__builtin_popcountll(set[word]);
        uint64_t bits = set[word];

        if (n >= here) {
            n -= here;
            continue;
        }
        for (; n; n--)
            bits &= bits - 1;
        return (uint16_t)(word * 64 + (unsigned)__builtin_ctzll(bits));
    }
    return 0;
}

/* Blocks of a gang are not assigned to cores while it runs, so the trace shows the i-th block on
 * the i-th core. */
static struct weir__trace_cores gang_cores(const struct weir__sched *sched,
                                           const struct weir__run *run, unsigned index)
{
    enum weir__core_kind kind = weir__sched_kind(sched, run->cmd->engine);
    unsigned i = index % run->cmd->cores, two = sched->vector.total < 2 ? 1 : 2;
    struct weir__trace_cores cores = WEIR__TRACE_NO_CORES;

    if (kind == WEIR__CORE_CUBE || kind == WEIR__CORE_MIX)
        cores.cube = nth(run->gang_cube, i);
    if (kind == WEIR__CORE_VECTOR)
        cores.vector[0] = nth(run->gang_vector, i);
    for (unsigned k = 0; kind == WEIR__CORE_MIX && k < two; k++)
        cores.vector[k] = nth(run->gang_vector, two * i + k);
    return cores;
}

static struct weir__trace_cores cores_of(const struct weir__worker *w,
                                         const struct weir__soft_stream *s,
                                         const struct weir__cmd *cmd, unsigned index)
{
    const struct weir__grant *g = &w->grant;
    struct weir__trace_cores cores = WEIR__TRACE_NO_CORES;

    if (cmd->gang)
        return gang_cores(&w->cpu->soft.sched, &s->run, index);
    if (g->ncube)
        cores.cube = g->cube;
    for (unsigned i = 0; i < g->nvector; i++)
        cores.vector[i] = g->vector[i];
    return cores;
}

void weir__worker_trace_part(const struct weir__worker *w, const struct weir__soft_stream *s,
                             const struct weir__cmd *cmd, unsigned index, uint64_t from)
{
    struct weir__trace_record r = {
        .kind = WEIR__TRACE_PART,
        .device = (uint32_t)s->base.dev->id,
        .slot = s->base.slot,
        .seq = s->over + 1,
        .from = from,
        .to = weir__trace_ticks(),
        .blocks = 1,
        .cores = cores_of(w, s, cmd, index),
    };

    weir__trace_put(&r);
}

void weir__worker_trace_op(struct weir__worker *w, const struct weir__soft_stream *s,
                           const struct weir__cmd *cmd, uint32_t behind, uint64_t from)
{
    struct weir__trace_ring *ring = weir__trace_get_ring();
    uint64_t to = weir__trace_ticks();

    w->ticks = to;
    if (!ring)
        return;
    *weir__trace_slot(ring) = (struct weir__trace_record){
        .kind = WEIR__TRACE_OP,
        .engine = cmd->engine,
        .failed = atomic_load_explicit(&s->run.failed, memory_order_relaxed),
        .whole = from != 0,
        .device = (uint32_t)s->base.dev->id,
        .slot = s->base.slot,
        .seq = s->over + 1 + behind,
        .from = from ? from : to,
        .to = to,
        .amount = (uint64_t)cmd->v.load.bytes,
        .u.op = {weir__trace_name(cmd->name), cmd->scope, (uint16_t)cmd->cores},
        .blocks = cmd->blocks * cmd->phases,
        .cores = from ? cores_of(w, s, cmd, 0) : WEIR__TRACE_NO_CORES,
    };
    weir__trace_written(ring);
}

void weir__worker_trace_callback(struct weir__worker *w, const struct weir__soft_stream *s,
                                 uint64_t from)
{
    struct weir__trace_record r = {
        .kind = WEIR__TRACE_OP,
        .engine = WEIR_ENGINE_HOST,
        .whole = true,
        .device = (uint32_t)s->base.dev->id,
        .slot = s->base.slot,
        .seq = s->over + 1,
        .from = from,
        .to = weir__trace_ticks(),
        .u.op = {weir__trace_name("callback"), 0, 1},
        .blocks = 1,
        .cores = WEIR__TRACE_NO_CORES,
    };

    weir__trace_put(&r);
    w->ticks = r.to;
}

void weir__worker_trace_wait(void *worker, struct weir__soft_stream *s,
                             const struct weir__soft_stream *source, uint64_t seq)
{
    struct weir__worker *w = worker;

    w->ticks = weir__trace_ticks();
    weir__trace_put_wait(s->base.dev->id, s->base.slot, s->over + 1, source->base.dev->id,
                         source->base.slot, seq, s->reached ? s->reached : w->ticks, w->ticks);
    s->reached = 0;
}
