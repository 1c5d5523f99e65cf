/* Converts the results of `weir run` to a trace. */
#include "commands.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/record/store.h"

struct tables {
    weir_trace_device *devices;
    weir_trace_stream *streams;
    weir_trace_op *ops;
    weir_trace_wait *waits;
    weir_trace_part *parts;
    uint32_t nwaits, nparts;
    char model[192]; /* of the devices, with the error of predictions */
    uint32_t *at;    /* index of each node, rank after rank, in a modelled run; else per span */
};

static int64_t ns_of(double us)
{
    return (int64_t)llround(us * 1000);
}

static void add_wait(struct tables *t, uint32_t op, uint32_t source)
{
    const weir_trace_op *from = &t->ops[source];
    weir_trace_op *to = &t->ops[op];

    if (!to->nwaits++)
        to->first_wait = t->nwaits;
    t->waits[t->nwaits++] = (weir_trace_wait){
        .stream = to->stream,
        .source_stream = from->stream,
        .op = op,
        .source_op = source,
        .reached_ns = from->ended_ns < to->queued_ns ? from->ended_ns : to->queued_ns,
        .passed_ns = from->ended_ns,
    };
}

/* Adds the waits of a measured run, of which only those on the path are known. */
static void fill_path_waits(struct tables *t, const struct run_result *r, uint32_t *source)
{
    for (size_t i = 0; i < r->nspans; i++)
        source[i] = WEIR_TRACE_NONE;
    for (size_t i = 1; i < r->npath; i++)
        if (r->path[i].cause == WEIR__CAUSE_EVENT)
            source[r->path[i].span] = r->path[i - 1].span;
    for (uint32_t i = 0; i < r->nspans; i++)
        if (source[i] != WEIR_TRACE_NONE)
            add_wait(t, i, source[i]);
}

/* Adds all waits of one rank of a modelled run. Its spans begin at `span`; `at` has room for its
 * nodes. returns  the first span of the next rank. */
static uint32_t fill_rank_waits(struct tables *t, const struct weir__prediction *p, uint32_t rank,
                                uint32_t span, uint32_t *at)
{
    const struct weir__replay_program *program = &p->graphs[p->graph_of[rank]].program;
    const struct weir__sim_span *spans = p->run.spans[rank];

    for (int round = 0; round < 2; round++) { /* first the nodes' indices, then their waits */
        uint32_t op = span;

        for (uint32_t s = 0; s < program->nstreams; s++)
            for (uint32_t i = 0; i < program->streams[s].nnodes; i++) {
                uint32_t v = program->streams[s].nodes[i];
                const struct weir__replay_node *node = &program->nodes[v];

                if (spans[v].end == UINT64_MAX)
                    continue;
                at[v] = op++;
                for (uint32_t k = 0; round && k < node->nwaits; k++) {
                    const struct weir__replay_wait *w = &program->waits[node->waits + k];

                    add_wait(t, at[v], at[program->streams[w->stream].nodes[w->position]]);
                }
            }
        if (round)
            span = op;
    }
    return span;
}

static uint32_t nnodes_of(const struct weir__prediction *p, uint32_t rank)
{
    return p->graphs[p->graph_of[rank]].program.nnodes;
}

static size_t count_nodes(const struct run_result *r)
{
    size_t n = r->nspans;

    for (uint32_t rank = 0; r->modelled && rank < r->prediction.nranks; rank++)
        n += nnodes_of(&r->prediction, rank);
    return n;
}

static size_t count_waits(const struct run_result *r)
{
    const struct weir__prediction *p = &r->prediction;
    size_t n = r->nspans;

    for (uint32_t rank = 0; r->modelled && rank < p->nranks; rank++) {
        const struct weir__replay_program *program = &p->graphs[p->graph_of[rank]].program;

        for (uint32_t v = 0; v < program->nnodes; v++)
            n += program->nodes[v].nwaits;
    }
    return n;
}

static void fill_waits(struct tables *t, const struct run_result *r)
{
    uint32_t span = 0, *at = t->at;

    if (!r->modelled) {
        fill_path_waits(t, r, at);
        return;
    }
    for (uint32_t rank = 0; rank < r->prediction.nranks; rank++) {
        span = fill_rank_waits(t, &r->prediction, rank, span, at);
        at += nnodes_of(&r->prediction, rank);
    }
}

/* ---- the cores of blocks ---- */

/* Calls `each` with every part of a finished node, and the cores of one of its blocks. */
static void each_part(struct tables *t, const struct weir__prediction *p, const uint32_t *first,
                      void (*each)(struct tables *t, const struct weir__replay_part *part,
                                   uint32_t op, uint32_t cores))
{
    for (int i = 0; i < p->run.nparts; i++) {
        const struct weir__replay_part *part = &p->run.parts[i];
        const struct weir__predict_graph *g = &p->graphs[p->graph_of[part->rank]];
        const struct weir__sim_op *op = &g->ops[g->nodes[part->node].op];
        uint32_t cores = op->per_block[WEIR__POOL_CUBE] + op->per_block[WEIR__POOL_VECTOR];

        if (cores && p->run.spans[part->rank][part->node].end != UINT64_MAX)
            each(t, part, t->at[first[part->rank] + part->node], cores);
    }
}

static void count_part(struct tables *t, const struct weir__replay_part *part, uint32_t op,
                       uint32_t cores)
{
    (void)cores;
    t->ops[op].nparts += part->blocks;
    t->nparts += part->blocks;
}

/* Adds a part without core numbers: the model only counts cores. They are assigned at the end. */
static void place_part(struct tables *t, const struct weir__replay_part *part, uint32_t op,
                       uint32_t cores)
{
    for (uint32_t b = 0; b < part->blocks; b++)
        t->parts[t->ops[op].first_part + t->ops[op].nparts++] = (weir_trace_part){
            .op = op,
            .blocks = 1,
            .ncores = cores,
            .cores = {WEIR__TRACE_ANY_CORE, WEIR__TRACE_ANY_CORE, WEIR__TRACE_ANY_CORE},
            .started_ns = (int64_t)(part->from / 1000),
            .ended_ns = (int64_t)(part->to / 1000),
        };
}

static bool fill_parts(struct tables *t, const struct run_result *r)
{
    const struct weir__prediction *p = &r->prediction;
    uint32_t *first = calloc(r->nranks + 1, sizeof *first), at = 0;
    bool ok;

    for (uint32_t rank = 0; first && rank < p->nranks; rank++)
        first[rank + 1] = first[rank] + nnodes_of(p, rank);
    if (first)
        each_part(t, p, first, count_part);
    t->parts = calloc((size_t)t->nparts + 1, sizeof *t->parts);
    for (size_t i = 0; i < r->nspans; i++) {
        t->ops[i].first_part = at;
        at += t->ops[i].nparts;
        t->ops[i].nparts = 0;
    }
    if (first && t->parts)
        each_part(t, p, first, place_part);
    ok = first && t->parts;
    free(first);
    return ok;
}

/* An operator counts as queued when the operator before it on its stream has ended. */
static void fill_ops(struct tables *t, const struct run_result *r)
{
    for (size_t i = 0; i < r->nspans; i++) {
        const struct run_span *s = &r->spans[i];
        bool first = !i || r->spans[i - 1].stream != s->stream;

        t->ops[i] = (weir_trace_op){
            .name = s->name,
            .scope = "",
            .device = s->rank,
            .stream = s->stream,
            .seq = first ? 1 : t->ops[i - 1].seq + 1,
            .engine = s->engine,
            .blocks = s->blocks,
            .cores = s->cores,
            .queued_ns = first ? 0 : t->ops[i - 1].ended_ns,
            .ready_ns = ns_of(s->ready),
            .started_ns = ns_of(s->start),
            .ended_ns = ns_of(s->end),
        };
    }
}

static bool make_tables(struct tables *t, const struct run_result *r)
{
    t->devices = calloc(r->nranks + 1, sizeof *t->devices);
    t->streams = calloc(r->nstreams + 1, sizeof *t->streams);
    t->ops = calloc(r->nspans + 1, sizeof *t->ops);
    t->waits = calloc(count_waits(r) + 1, sizeof *t->waits);
    t->at = calloc(count_nodes(r) + 1, sizeof *t->at);
    return t->devices && t->streams && t->ops && t->waits && t->at;
}

static weir_status make_trace(const struct run_result *r, const weir_device_props *props,
                              struct tables *t, weir_trace **out)
{
    weir_trace_data d = {.devices = t->devices,
                         .streams = t->streams,
                         .ops = t->ops,
                         .waits = t->waits,
                         .ndevices = r->nranks,
                         .nstreams = r->nstreams,
                         .nops = r->nspans};
    weir_status st;

    snprintf(t->model, sizeof t->model, r->error > 0 ? "%s, ± %.0f %%" : "%s", r->model,
             100 * r->error);
    for (size_t i = 0; i < r->nranks; i++)
        t->devices[i] =
            (weir_trace_device){.name = r->device,
                                .model = t->model,
                                .cores = props->cores,
                                .split_cores = props->features & WEIR_FEATURE_SPLIT_CORES,
                                .real_time = !r->modelled,
                                .rank = (int)i};
    for (size_t i = 0; i < r->nstreams; i++)
        t->streams[i] =
            (weir_trace_stream){r->streams[i].name, r->streams[i].rank, r->streams[i].priority};
    fill_ops(t, r);
    fill_waits(t, r);
    d.nwaits = t->nwaits;
    if (r->modelled && !fill_parts(t, r))
        return WEIR_ENOMEM;
    d.parts = t->parts;
    d.nparts = t->nparts;
    if ((st = weir_trace_make(&d, out)))
        return st;
    return weir__trace_name_cores(*out) ? WEIR_OK : WEIR_ENOMEM;
}

/* Writes one file: the page or the Chrome trace. */
static int write_file(const char *wanted, const char *what, const weir_trace *trace,
                      const char *title)
{
    struct cli_output out;
    int status = cli_output_open("run", wanted, &out);
    weir_status st;

    if (status >= 0)
        return status;
    st = title ? weir_trace_write_html((const weir_trace *[]){trace}, &title, 1, out.path)
               : weir_trace_write_chrome(trace, out.path);
    status = cli_output_close("run", &out, st ? cli_complain("run", st) : EXIT_FINE);
    if (!status && !cli_is_standard(wanted))
        fprintf(stderr, "the %s is %s\n", what, wanted);
    return status;
}

int run_write(const struct run_result *r, const weir_device_props *props, const char *html,
              const char *chrome)
{
    struct tables t = {0};
    weir_trace *trace = NULL;
    weir_status st = WEIR_ENOMEM;
    int status;

    if (make_tables(&t, r))
        st = make_trace(r, props, &t, &trace);
    status = st ? cli_complain("run", st) : EXIT_FINE;
    if (!status && html)
        status = write_file(html, "page", trace, r->device);
    if (!status && chrome)
        status = write_file(chrome, "trace", trace, NULL);
    weir_trace_free(trace);
    free(t.devices);
    free(t.streams);
    free(t.ops);
    free(t.waits);
    free(t.parts);
    free(t.at);
    return status;
}
