/* Merges the traces of a job's ranks into one, on the clock of rank 0. */
#include <stdatomic.h>
#include <string.h>

#include "trace/record/store.h"

/* ---- this process's rank ---- */

static _Atomic int own_rank = -1;
static _Atomic int64_t own_offset_ns;

void weir__trace_set_rank(int rank, int64_t offset_ns)
{
    atomic_store(&own_offset_ns, offset_ns);
    atomic_store(&own_rank, rank);
}

struct weir__trace_process weir__trace_own_process(uint64_t start_ns)
{
    int rank = atomic_load(&own_rank);

    return (struct weir__trace_process){.known = rank >= 0,
                                        .rank = rank,
                                        .start_ns = start_ns,
                                        .offset_ns = atomic_load(&own_offset_ns)};
}

/* ---- merging ---- */

static int64_t began_at(const weir_trace *t)
{
    return (int64_t)t->process.start_ns + t->process.offset_ns;
}

static uint32_t moved(uint32_t index, int by)
{
    return index == WEIR_TRACE_NONE ? index : index + (uint32_t)by;
}

static bool make_room(weir_trace *all, const weir_trace *const *traces, size_t n)
{
    size_t devices = 1, streams = 1, ops = 1, parts = 1, waits = 1, memory = 1;

    for (size_t i = 0; i < n; i++) {
        devices += (size_t)traces[i]->ndevices;
        streams += (size_t)traces[i]->nstreams;
        ops += (size_t)traces[i]->nops;
        parts += (size_t)traces[i]->nparts;
        waits += (size_t)traces[i]->nwaits;
        memory += (size_t)traces[i]->nmemory;
    }
    all->devices = weir__malloc(devices * sizeof *all->devices);
    all->streams = weir__malloc(streams * sizeof *all->streams);
    all->ops = weir__malloc(ops * sizeof *all->ops);
    all->parts = weir__malloc(parts * sizeof *all->parts);
    all->waits = weir__malloc(waits * sizeof *all->waits);
    all->memory = weir__malloc(memory * sizeof *all->memory);
    return all->devices && all->streams && all->ops && all->parts && all->waits && all->memory;
}

/* Appends a trace and shifts its times by `later_ns`, except those of devices with their own
 * clock. */
static void add(weir_trace *all, const weir_trace *t, int64_t later_ns)
{
    const weir_trace base = *all;

    for (int i = 0; i < t->ndevices; i++) {
        all->devices[all->ndevices] = t->devices[i];
        all->devices[all->ndevices++].rank = t->process.rank;
    }
    for (int i = 0; i < t->nstreams; i++) {
        all->streams[all->nstreams] = t->streams[i];
        all->streams[all->nstreams++].device += (uint32_t)base.ndevices;
    }
    for (int i = 0; i < t->nops; i++) {
        weir_trace_op *op = &all->ops[all->nops++];
        int64_t by = t->devices[t->ops[i].device].real_time ? later_ns : 0;

        *op = t->ops[i];
        op->device += (uint32_t)base.ndevices;
        op->stream += (uint32_t)base.nstreams;
        op->first_part += (uint32_t)base.nparts;
        op->first_wait += (uint32_t)base.nwaits;
        op->queued_ns += by;
        op->ready_ns += by;
        op->started_ns += by;
        op->ended_ns += by;
    }
    for (int i = 0; i < t->nparts; i++) {
        weir_trace_part *part = &all->parts[all->nparts++];
        int64_t by = t->devices[t->ops[t->parts[i].op].device].real_time ? later_ns : 0;

        *part = t->parts[i];
        part->op += (uint32_t)base.nops;
        part->started_ns += by;
        part->ended_ns += by;
    }
    for (int i = 0; i < t->nwaits; i++) {
        weir_trace_wait *wait = &all->waits[all->nwaits++];
        int64_t by = t->devices[t->streams[t->waits[i].stream].device].real_time ? later_ns : 0;

        *wait = t->waits[i];
        wait->stream += (uint32_t)base.nstreams;
        wait->source_stream = moved(wait->source_stream, base.nstreams);
        wait->op = moved(wait->op, base.nops);
        wait->source_op = moved(wait->source_op, base.nops);
        wait->reached_ns += by;
        wait->passed_ns += by;
    }
    for (int i = 0; i < t->nmemory; i++) {
        weir_trace_memory *m = &all->memory[all->nmemory++];

        *m = t->memory[i];
        m->time_ns += t->devices[t->memory[i].device].real_time ? later_ns : 0;
        m->device += (uint32_t)base.ndevices;
    }
    all->dropped += t->dropped;
}

static weir_status check(const weir_trace *const *traces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!traces[i])
            return weir__fail(WEIR_EINVAL, "trace %zu of %zu is NULL", i, n);
        if (!traces[i]->process.known)
            return weir__fail(WEIR_EINVAL,
                              "trace %zu of %zu does not say when it began on a common clock: it "
                              "was not recorded by a rank of a group of processes",
                              i + 1, n);
        for (size_t k = 0; k < i; k++)
            if (traces[k]->process.rank == traces[i]->process.rank)
                return weir__fail(WEIR_EINVAL, "traces %zu and %zu are both of rank %d", k + 1,
                                  i + 1, traces[i]->process.rank);
    }
    return WEIR_OK;
}

weir_status weir_trace_merge(const weir_trace *const *traces, size_t n, weir_trace **out)
{
    weir_trace all = {0};
    weir_trace_data data;
    int64_t first = INT64_MAX;
    weir_status st;

    WEIR__NEED(traces, "traces");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (!n)
        return weir__fail(WEIR_EINVAL, "no traces to merge");
    if ((st = check(traces, n)))
        return st;
    for (size_t i = 0; i < n; i++)
        first = weir__min(first, began_at(traces[i]));
    if (make_room(&all, traces, n)) {
        for (size_t i = 0; i < n; i++)
            add(&all, traces[i], began_at(traces[i]) - first);
        weir_trace_get(&all, &data, sizeof data);
        st = weir_trace_make(&data, out);
    } else {
        st = weir__fail_nomem("merging %zu traces", n);
    }
    weir__free(all.devices);
    weir__free(all.streams);
    weir__free(all.ops);
    weir__free(all.parts);
    weir__free(all.waits);
    weir__free(all.memory);
    return st;
}
