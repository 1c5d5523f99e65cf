/* Invariants of every trace. */
#include "helpers.h"

static void check_op(const weir_trace_data *d, size_t i)
{
    const weir_trace_op *op = &d->ops[i], *before = i ? op - 1 : NULL;

    test_note("operator %zu '%s'", i, op->name);
    CHECK_LT(op->device, d->ndevices);
    CHECK_LT(op->stream, d->nstreams);
    CHECK_EQ(d->streams[op->stream].device, op->device);
    CHECK_LE(op->queued_ns, op->ready_ns);
    CHECK_LE(op->ready_ns, op->started_ns);
    CHECK_LE(op->started_ns, op->ended_ns);
    CHECK_LE(op->first_part + op->nparts, d->nparts);
    CHECK_LE(op->first_wait + op->nwaits, d->nwaits);
    if (before && before->stream == op->stream) {
        CHECK_LT(before->seq, op->seq);
        CHECK_LE(before->ended_ns, op->ready_ns);
    }
    for (uint32_t k = 0; k < op->nparts; k++) {
        const weir_trace_part *p = &d->parts[op->first_part + k];
        int cores = d->devices[op->device].cores.cube +
                    (d->devices[op->device].split_cores ? d->devices[op->device].cores.vector : 0);

        CHECK_EQ(p->op, i);
        CHECK_LE(op->started_ns, p->started_ns);
        CHECK_LE(p->started_ns, p->ended_ns);
        CHECK_LE(p->ended_ns, op->ended_ns);
        CHECK_LE(p->ncores, 3);
        for (uint32_t c = 0; c < p->ncores; c++)
            CHECK_LT(p->cores[c], cores);
    }
    for (uint32_t k = 0; k < op->nwaits; k++) {
        const weir_trace_wait *w = &d->waits[op->first_wait + k];

        CHECK_EQ(w->op, i);
        CHECK_EQ(w->stream, op->stream);
        CHECK_LE(w->reached_ns, w->passed_ns);
        CHECK_LE(w->passed_ns, op->ready_ns);
        if (w->source_op != WEIR_TRACE_NONE) {
            CHECK_EQ(d->ops[w->source_op].stream, w->source_stream);
            CHECK_LE(d->ops[w->source_op].ended_ns, w->passed_ns);
        }
    }
}

void check_trace(const weir_trace_data *d)
{
    for (size_t i = 0; i < d->nops; i++)
        check_op(d, i);
    for (size_t i = 1; i < d->nmemory; i++)
        if (d->memory[i].device == d->memory[i - 1].device)
            CHECK_LE(d->memory[i - 1].time_ns, d->memory[i].time_ns);
    test_note("%s", "");
}
