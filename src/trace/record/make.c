/* Builds a trace from arrays of the caller. */
#include <string.h>

#include "trace/record/store.h"

static weir_status bad(const char *what, size_t index)
{
    return weir__fail(WEIR_EINVAL, "%s %zu of the trace refers to an index that is out of range",
                      what, index);
}

static bool is_index(uint32_t index, size_t n)
{
    return index == WEIR_TRACE_NONE || index < n;
}

static weir_status check_ops(const weir_trace_data *d)
{
    for (size_t i = 0; i < d->nops; i++) {
        const weir_trace_op *op = &d->ops[i];

        if (op->stream >= d->nstreams || op->device != d->streams[op->stream].device ||
            op->engine >= WEIR_ENGINE_COUNT || !op->name ||
            (size_t)op->first_part + op->nparts > d->nparts ||
            (size_t)op->first_wait + op->nwaits > d->nwaits)
            return bad("operator", i);
        if (op->ended_ns < op->started_ns || (i && op->stream < op[-1].stream))
            return weir__fail(WEIR_EINVAL,
                              "operator %zu of the trace ends before it starts, or is not in the "
                              "order of streams",
                              i);
    }
    return WEIR_OK;
}

static weir_status check(const weir_trace_data *d)
{
    for (size_t i = 0; i < d->nstreams; i++)
        if (d->streams[i].device >= d->ndevices)
            return bad("stream", i);
    for (size_t i = 0; i < d->nparts; i++)
        if (d->parts[i].op >= d->nops || d->parts[i].ncores > 3)
            return bad("part", i);
    for (size_t i = 0; i < d->nwaits; i++)
        if (d->waits[i].stream >= d->nstreams ||
            !is_index(d->waits[i].source_stream, d->nstreams) ||
            !is_index(d->waits[i].op, d->nops) || !is_index(d->waits[i].source_op, d->nops))
            return bad("wait", i);
    for (size_t i = 0; i < d->nmemory; i++)
        if (d->memory[i].device >= d->ndevices)
            return bad("memory record", i);
    return check_ops(d);
}

/* Copies the array and stores its count; false when out of memory. */
static bool copy(void *to, int *count, const void *from, size_t n, size_t size)
{
    void *fresh;

    if (!n)
        return true;
    if (n > INT32_MAX || !(fresh = weir__malloc(n * size)))
        return false;
    memcpy(fresh, from, n * size);
    memcpy(to, &fresh, sizeof fresh);
    *count = (int)n;
    return true;
}

static bool keep(weir_trace *t, const char **text)
{
    return (*text = weir__trace_keep(&t->texts, *text ? *text : "", *text ? strlen(*text) : 0));
}

static bool keep_texts(weir_trace *t)
{
    bool ok = true;

    for (int i = 0; i < t->ndevices && ok; i++)
        ok = keep(t, &t->devices[i].name) && keep(t, &t->devices[i].model);
    for (int i = 0; i < t->nstreams && ok; i++)
        ok = keep(t, &t->streams[i].name);
    for (int i = 0; i < t->nops && ok; i++)
        ok = keep(t, &t->ops[i].name) && keep(t, &t->ops[i].scope) && keep(t, &t->ops[i].source);
    return ok;
}

weir_status weir_trace_make(const weir_trace_data *d, weir_trace **out)
{
    WEIR__NEED(d, "data");
    WEIR__NEED(out, "out");

    weir_trace *t;
    weir_status st = check(d);

    *out = NULL;
    if (st)
        return st;
    if (!(t = weir__calloc(1, sizeof *t)))
        return weir__fail_nomem("making a trace");
    weir__allocator_hold(1);
    t->dropped = d->dropped;
    if (copy(&t->devices, &t->ndevices, d->devices, d->ndevices, sizeof *t->devices) &&
        copy(&t->streams, &t->nstreams, d->streams, d->nstreams, sizeof *t->streams) &&
        copy(&t->ops, &t->nops, d->ops, d->nops, sizeof *t->ops) &&
        copy(&t->parts, &t->nparts, d->parts, d->nparts, sizeof *t->parts) &&
        copy(&t->waits, &t->nwaits, d->waits, d->nwaits, sizeof *t->waits) &&
        copy(&t->memory, &t->nmemory, d->memory, d->nmemory, sizeof *t->memory) && keep_texts(t)) {
        *out = t;
        return WEIR_OK;
    }
    weir_trace_free(t);
    return weir__fail_nomem("allocating a trace of %zu operators", d->nops);
}
