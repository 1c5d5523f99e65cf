/* `weir run` on a device of real time: what a recorded run took. */
#include "run.h"

#include "commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/trace.h>

enum { REPEATS = 3 };

static int out_of_memory(void)
{
    fputs("weir run: out of memory\n", stderr);
    return EXIT_FAILED;
}

/* ---- running ---- */

/* Zeros for every input. */
static weir_status make_inputs(const weir_graph *g, weir_device *dev, weir_tensor **inputs)
{
    for (int i = 0; i < g->ninputs; i++) {
        const struct weir__view *v = &g->values[g->inputs[i]].view;
        weir_status st =
            weir_tensor_empty(weir_stream_default(dev), v->dtype, v->ndim, v->shape, &inputs[i]);

        if (st || (st = weir_fill(inputs[i], 0)))
            return st;
    }
    return WEIR_OK;
}

/* One run from an idle device to an idle device. */
static weir_status run_once(weir_plan *plan, weir_device *dev, const weir_graph *g,
                            weir_tensor *const *inputs, weir_tensor **outputs)
{
    weir_status st = weir_plan_run(plan, weir_stream_default(dev), inputs, (size_t)g->ninputs,
                                   outputs, (size_t)g->noutputs);

    return st ? st : weir_device_sync(dev);
}

static int64_t length(const weir_trace *trace)
{
    weir_trace_data d;
    int64_t from = INT64_MAX, to = 0;

    weir_trace_get(trace, &d);
    for (size_t i = 0; i < d.nops; i++) {
        from = d.ops[i].started_ns < from ? d.ops[i].started_ns : from;
        to = d.ops[i].ended_ns > to ? d.ops[i].ended_ns : to;
    }
    return d.nops ? to - from : 0;
}

/* The shortest of a few runs, recorded. */
static weir_status record(weir_graph *g, weir_device *dev, weir_tensor *const *inputs,
                          weir_tensor **outputs, size_t *memory, weir_trace **best)
{
    weir_compile_options as_issued = {.mode = "reduce-overhead"};
    weir_plan_stats stats;
    weir_plan *plan;
    weir_status st;

    *best = NULL;
    if ((st = weir_graph_compile(g, &as_issued, &plan)))
        return st;
    st = run_once(plan, dev, g, inputs, outputs); /* warms up */
    for (int i = 0; i < REPEATS && !st; i++) {
        weir_trace *trace = NULL;

        if ((st = weir_trace_start(NULL)))
            break;
        st = run_once(plan, dev, g, inputs, outputs);
        if (weir_trace_stop(&trace) && !st)
            st = WEIR_ENOMEM;
        if (!st && (!*best || length(trace) < length(*best))) {
            weir_trace_free(*best);
            *best = trace;
        } else {
            weir_trace_free(trace);
        }
    }
    weir_plan_get_stats(plan, &stats);
    *memory = stats.arena_bytes;
    weir_plan_destroy(plan);
    return st;
}

/* ---- reading the trace ---- */

/* The op before `i` on its stream, or -1. */
static long before_on_stream(const weir_trace_data *d, size_t i)
{
    return i && d->ops[i - 1].stream == d->ops[i].stream ? (long)i - 1 : -1;
}

static int by_start(const void *a, const void *b)
{
    const weir_trace_op *x = *(const weir_trace_op *const *)a;
    const weir_trace_op *y = *(const weir_trace_op *const *)b;

    return (x->started_ns > y->started_ns) - (x->started_ns < y->started_ns);
}

/* What op `i` waited for last: the one that ended last of those before it. */
static long awaited(const weir_trace_data *d, size_t i, enum weir__cause *cause)
{
    const weir_trace_op *op = &d->ops[i];
    long last = before_on_stream(d, i);

    *cause = last < 0 ? WEIR__CAUSE_NONE : WEIR__CAUSE_STREAM;
    for (uint32_t w = op->first_wait; w < op->first_wait + op->nwaits; w++) {
        uint32_t source = d->waits[w].source_op;

        if (source == WEIR_TRACE_NONE ||
            (last >= 0 && d->ops[source].ended_ns <= d->ops[last].ended_ns))
            continue;
        last = (long)source;
        *cause = WEIR__CAUSE_EVENT;
    }
    return last;
}

/* The longest chain of operators that had to follow each other, by what each took. */
static double longest_chain(const weir_trace_data *d, const weir_trace_op **sorted, double *chain)
{
    double longest = 0;

    for (size_t i = 0; i < d->nops; i++)
        sorted[i] = &d->ops[i];
    qsort(sorted, d->nops, sizeof *sorted, by_start);
    for (size_t k = 0; k < d->nops; k++) {
        size_t i = (size_t)(sorted[k] - d->ops);
        const weir_trace_op *op = sorted[k];
        long before = before_on_stream(d, i);
        double most = before >= 0 ? chain[before] : 0;

        for (uint32_t w = op->first_wait; w < op->first_wait + op->nwaits; w++)
            if (d->waits[w].source_op != WEIR_TRACE_NONE && chain[d->waits[w].source_op] > most)
                most = chain[d->waits[w].source_op];
        chain[i] = most + (double)(op->ended_ns - op->started_ns) / 1000;
        longest = chain[i] > longest ? chain[i] : longest;
    }
    return longest;
}

static void fill_path(const weir_trace_data *d, struct run_result *out)
{
    long at = -1;
    size_t n = 0;

    for (size_t i = 0; i < d->nops; i++)
        if (at < 0 || d->ops[i].ended_ns > d->ops[at].ended_ns)
            at = (long)i;
    while (at >= 0 && n < d->nops) {
        struct run_step *step = &out->path[n++];
        long cause;

        *step = (struct run_step){.span = (unsigned)at};
        cause = awaited(d, (size_t)at, &step->cause);
        step->cause_name = cause >= 0 ? out->spans[cause].name : NULL;
        at = cause;
    }
    out->npath = n;
    for (size_t i = 0; i < n / 2; i++) {
        struct run_step step = out->path[i];

        out->path[i] = out->path[n - 1 - i];
        out->path[n - 1 - i] = step;
    }
}

static void fill_spans(const weir_trace_data *d, struct run_result *out, int64_t from)
{
    for (size_t i = 0; i < d->nstreams; i++)
        out->streams[i] = (struct run_stream){.name = strdup(d->streams[i].name),
                                              .priority = d->streams[i].priority};
    out->nstreams = d->nstreams;
    for (size_t i = 0; i < d->nops; i++) {
        const weir_trace_op *op = &d->ops[i];
        struct run_stream *s = &out->streams[op->stream];
        struct run_span *span = &out->spans[i];

        *span = (struct run_span){
            .name = strdup(op->name),
            .stream = op->stream,
            .engine = op->engine,
            .blocks = op->blocks,
            .cores = op->cores,
            .ready = (double)(op->ready_ns - from) / 1000,
            .start = (double)(op->started_ns - from) / 1000,
            .end = (double)(op->ended_ns - from) / 1000,
        };
        if (!s->nodes++)
            s->start = span->start;
        s->end = span->end;
        s->busy += span->end - span->start;
        s->waiting += span->start > span->ready ? span->start - span->ready : 0;
    }
    out->nspans = d->nops;
}

static void fill_engines(const weir_trace_data *d, struct run_result *out)
{
    const weir_trace_device *dev = d->devices;
    double busy[2] = {0, 0};

    for (int e = 0; e < RUN_ENGINES; e++)
        out->utilisation[e] = NAN;
    for (size_t i = 0; i < d->nparts; i++) {
        const weir_trace_part *part = &d->parts[i];

        for (uint32_t c = 0; c < part->ncores; c++)
            busy[dev->split_cores && part->cores[c] >= dev->cores.cube] +=
                (double)(part->ended_ns - part->started_ns) / 1000;
    }
    if (out->makespan > 0)
        out->utilisation[WEIR__POOL_CUBE] = busy[0] / (dev->cores.cube * out->makespan);
    if (out->makespan > 0 && dev->split_cores)
        out->utilisation[WEIR__POOL_VECTOR] = busy[1] / (dev->cores.vector * out->makespan);
}

static int fill(const weir_trace *trace, const char *file, struct run_result *out)
{
    const weir_trace_op **sorted;
    weir_trace_data d;
    double *chain;
    int64_t from = INT64_MAX;

    weir_trace_get(trace, &d);
    out->streams = calloc(d.nstreams + 1, sizeof *out->streams);
    out->ranks = calloc(1, sizeof *out->ranks);
    out->spans = calloc(d.nops + 1, sizeof *out->spans);
    out->path = calloc(d.nops + 1, sizeof *out->path);
    sorted = calloc(d.nops + 1, sizeof *sorted);
    chain = calloc(d.nops + 1, sizeof *chain);
    if (out->streams && out->ranks && out->spans && out->path && sorted && chain) {
        for (size_t i = 0; i < d.nops; i++)
            from = d.ops[i].started_ns < from ? d.ops[i].started_ns : from;
        out->makespan = (double)length(trace) / 1000;
        out->critical = longest_chain(&d, sorted, chain);
        fill_spans(&d, out, from);
        fill_path(&d, out);
        fill_engines(&d, out);
        out->nranks = 1;
        out->ranks[0] =
            (struct run_rank){.file = file, .makespan = out->makespan, .compute = out->makespan};
    }
    free(sorted);
    free(chain);
    return out->nranks ? -1 : out_of_memory();
}

/* ---- the command ---- */

static weir_status run_both(weir_graph *g, weir_device *dev, struct run_result *out,
                            weir_trace **streams)
{
    weir_tensor **inputs = calloc((size_t)g->ninputs + 1, sizeof(weir_tensor *));
    weir_tensor **outputs = calloc((size_t)g->noutputs + 1, sizeof(weir_tensor *));
    weir_trace *single = NULL;
    size_t memory;
    weir_status st = WEIR_ENOMEM;

    *streams = NULL;
    if (inputs && outputs && !(st = make_inputs(g, dev, inputs)))
        st = record(g, dev, inputs, outputs, &out->memory, streams);
    for (int v = 0; v < g->nnodes; v++) /* everything on the caller's stream */
        g->nodes[v].marks.stream = 0;
    if (!st)
        st = record(g, dev, inputs, outputs, &memory, &single);
    if (!st)
        out->serial = (double)length(single) / 1000;
    weir_trace_free(single);
    for (int i = 0; inputs && i < g->ninputs; i++)
        if (inputs[i])
            weir_tensor_release(inputs[i]);
    for (int i = 0; outputs && i < g->noutputs; i++)
        if (outputs[i])
            weir_tensor_release(outputs[i]);
    free(inputs);
    free(outputs);
    return st;
}

int run_real(const struct cli_ranks *ranks, weir_device *dev, struct run_result *out)
{
    weir_graph *g = ranks->graphs[0];
    weir_trace *trace;
    weir_status st;
    int status;

    if (ranks->nranks > 1) {
        fprintf(stderr,
                "weir run: %s runs one rank; several run on a modelled device such as npu:a3\n",
                weir_device_name(dev));
        return EXIT_USAGE;
    }
    for (int i = 0; i < g->ninputs; i++)
        if (g->values[g->inputs[i]].dynamic) {
            fprintf(stderr, "weir run: input '%s' has a dynamic size: a run needs fixed ones\n",
                    g->values[g->inputs[i]].name);
            return EXIT_USAGE;
        }
    st = run_both(g, dev, out, &trace);
    status = st ? run_complain(st) : fill(trace, ranks->paths[ranks->file_of[0]], out);
    weir_trace_free(trace);
    return status;
}
