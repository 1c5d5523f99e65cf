/* `weir run` on devices of real time: measures a recorded run. */
#include "run/run.h"

#include "commands.h"
#include "run/run_ranks.h"

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

static int64_t length(const weir_trace *trace)
{
    weir_trace_data d;
    int64_t from = INT64_MAX, to = 0;

    weir_trace_get(trace, &d, sizeof d);
    for (size_t i = 0; i < d.nops; i++) {
        from = d.ops[i].started_ns < from ? d.ops[i].started_ns : from;
        to = d.ops[i].ended_ns > to ? d.ops[i].ended_ns : to;
    }
    return d.nops ? to - from : 0;
}

/* Returns the time of the run on the slowest rank, in nanoseconds. */
static weir_status longest_of(const struct run_job *job, const weir_trace *trace, double *out)
{
    double all[WEIR_MAX_RANKS];
    weir_status st = run_job_gather(job, (double)length(trace), all);

    *out = 0;
    for (int r = 0; r < (job->world ? job->n : 1) && !st; r++)
        *out = all[r] > *out ? all[r] : *out;
    return st;
}

/* Records a few runs and keeps the shortest; all ranks keep the same run. */
static weir_status record(struct run_members *members, size_t *memory, weir_trace **best)
{
    double took, least = INFINITY;
    weir_plan_stats stats;
    weir_status st;

    *best = NULL;
    *memory = 0;
    if ((st = run_members_compile(members)))
        return st;
    st = run_members_run(members); /* warms up */
    for (int i = 0; i < REPEATS && !st; i++) {
        weir_trace *trace = NULL;

        if ((st = run_job_meet(members->job)) || (st = weir_trace_start(NULL)))
            break;
        st = run_members_run(members);
        if (weir_trace_stop(&trace) && !st)
            st = WEIR_ENOMEM;
        if (!st && !(st = longest_of(members->job, trace, &took)) && took < least) {
            weir_trace_free(*best);
            *best = trace;
            least = took;
        } else {
            weir_trace_free(trace);
        }
    }
    for (unsigned r = 0; r < members->n; r++) {
        weir_plan_get_stats(members->at[r].plan, &stats, sizeof stats);
        *memory = stats.arena_bytes > *memory ? stats.arena_bytes : *memory;
    }
    return st;
}

/* ---- reading the trace ---- */

/* Returns the operator before `i` on its stream, or -1. */
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

/* Returns the predecessor of operator `i` that ended last. */
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

/* Returns the length of the longest chain of dependent operators. */
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
        step->cause_rank = cause >= 0 ? out->spans[cause].rank : 0;
        at = cause;
    }
    out->npath = n;
    for (size_t i = 0; i < n / 2; i++) {
        struct run_step step = out->path[i];

        out->path[i] = out->path[n - 1 - i];
        out->path[n - 1 - i] = step;
    }
}

/* Returns the rank that used the device. */
static unsigned rank_of(const weir_trace_data *d, uint32_t device)
{
    return (unsigned)d->devices[device].rank;
}

static void fill_spans(const weir_trace_data *d, struct run_result *out, int64_t from)
{
    for (size_t i = 0; i < d->nstreams; i++)
        out->streams[i] = (struct run_stream){.rank = rank_of(d, d->streams[i].device),
                                              .name = strdup(d->streams[i].name),
                                              .priority = d->streams[i].priority};
    out->nstreams = d->nstreams;
    for (size_t i = 0; i < d->nops; i++) {
        const weir_trace_op *op = &d->ops[i];
        struct run_stream *s = &out->streams[op->stream];
        struct run_span *span = &out->spans[i];

        *span = (struct run_span){
            .name = strdup(op->name),
            .rank = rank_of(d, op->device),
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

/* Precondition: all ranks' devices are of one kind. */
static void fill_engines(const weir_trace_data *d, struct run_result *out)
{
    const weir_trace_device *dev = d->devices;
    double busy[2] = {0, 0}, whole = out->makespan * (double)d->ndevices;

    for (int e = 0; e < RUN_ENGINES; e++)
        out->utilisation[e] = NAN;
    for (size_t i = 0; i < d->nparts; i++) {
        const weir_trace_part *part = &d->parts[i];

        for (uint32_t c = 0; c < part->ncores; c++)
            busy[dev->split_cores && part->cores[c] >= dev->cores.cube] +=
                (double)(part->ended_ns - part->started_ns) / 1000;
    }
    if (whole > 0)
        out->utilisation[WEIR__POOL_CUBE] = busy[0] / (dev->cores.cube * whole);
    if (whole > 0 && dev->split_cores)
        out->utilisation[WEIR__POOL_VECTOR] = busy[1] / (dev->cores.vector * whole);
}

static void fill_ranks(const struct cli_ranks *ranks, struct run_result *out)
{
    for (unsigned r = 0; r < ranks->nranks; r++)
        out->ranks[r].file = ranks->paths[ranks->file_of[r]];
    for (size_t i = 0; i < out->nspans; i++) {
        struct run_rank *rank = &out->ranks[out->spans[i].rank];

        if (rank->makespan < out->spans[i].end)
            rank->makespan = rank->compute = out->spans[i].end;
    }
}

static int fill(const weir_trace *trace, const struct cli_ranks *ranks, struct run_result *out)
{
    const weir_trace_op **sorted;
    weir_trace_data d;
    double *chain;
    int64_t from = INT64_MAX;

    weir_trace_get(trace, &d, sizeof d);
    out->streams = calloc(d.nstreams + 1, sizeof *out->streams);
    out->ranks = calloc(ranks->nranks, sizeof *out->ranks);
    out->spans = calloc(d.nops + 1, sizeof *out->spans);
    out->path = calloc(d.nops + 1, sizeof *out->path);
    sorted = calloc(d.nops + 1, sizeof *sorted);
    chain = calloc(d.nops + 1, sizeof *chain);
    if (out->streams && out->ranks && out->spans && out->path && sorted && chain) {
        for (size_t i = 0; i < d.nops; i++)
            from = d.ops[i].started_ns < from ? d.ops[i].started_ns : from;
        out->makespan = (double)length(trace) / 1000;
        out->critical = longest_chain(&d, sorted, chain);
        out->nranks = ranks->nranks;
        fill_spans(&d, out, from);
        fill_path(&d, out);
        fill_engines(&d, out);
        fill_ranks(ranks, out);
    }
    free(sorted);
    free(chain);
    return out->nranks ? -1 : out_of_memory();
}

/* ---- the command ---- */

/* Checks that the ranks' collectives meet: otherwise the run would only end by a timeout. Does not
 * check cores, as in real time a collective takes its cores only when all ranks have arrived.
 * WEIR_ECONFLICT, with the reason, if they do not meet. */
static weir_status check_rendezvous(const struct run_members *members)
{
    const weir_check_options quick = {.policies = WEIR_POLICY_BATCH, .max_states = 1};
    weir_check_report *report = NULL;
    weir_status st = WEIR_OK;

    if (members->nranks > 1)
        st = weir_check_graphs(members->graphs, members->nranks, &quick, &report);
    for (size_t i = 0; report && i < report->nerrors && !st; i++)
        if (report->findings[i].kind == WEIR_FINDING_COLLECTIVE_ORDER ||
            report->findings[i].kind == WEIR_FINDING_EVENT_CYCLE)
            st = weir__fail(WEIR_ECONFLICT, "%s", report->findings[i].text);
    weir_check_free(report);
    return st;
}

static weir_status run_both(struct run_members *members, struct run_result *out,
                            weir_trace **streams)
{
    weir_trace *single = NULL;
    weir_status st = check_rendezvous(members);
    size_t memory;

    if (st || (st = record(members, &out->memory, streams)))
        return st;
    for (unsigned r = 0; r < members->nranks; r++) /* everything on the caller's stream */
        for (int v = 0; v < members->graphs[r]->nnodes; v++)
            members->graphs[r]->nodes[v].marks.stream = 0;
    out->serial = NAN;
    if ((st = check_rendezvous(members)) == WEIR_ECONFLICT)
        return WEIR_OK;
    if (!st && !(st = record(members, &memory, &single)) &&
        !(st = longest_of(members->job, single, &out->serial)))
        out->serial /= 1000;
    weir_trace_free(single);
    return st;
}

/* Returns -1, or the exit status after printing an error. */
static int check_ranks(const struct cli_ranks *ranks)
{
    if (ranks->nranks > WEIR_MAX_RANKS) {
        fprintf(stderr, "weir run: %u ranks: at most %d run in real time\n", ranks->nranks,
                WEIR_MAX_RANKS);
        return EXIT_USAGE;
    }
    for (unsigned r = 0; r < ranks->nranks; r++)
        for (int i = 0; i < ranks->graphs[r]->ninputs; i++) {
            const struct weir__value *v = &ranks->graphs[r]->values[ranks->graphs[r]->inputs[i]];

            if (!v->dynamic)
                continue;
            fprintf(stderr, "weir run: input '%s' has a dynamic size: a run needs fixed ones\n",
                    v->name);
            return EXIT_USAGE;
        }
    return -1;
}

int run_real(const struct cli_ranks *ranks, weir_device *dev, const char *spec,
             const struct run_job *job, struct run_result *out)
{
    struct run_members members;
    weir_trace *trace = NULL;
    weir_status st;
    int status = check_ranks(ranks);

    if (status >= 0)
        return status;
    if (!(st = run_members_open(&members, ranks, dev, spec, job)))
        st = run_both(&members, out, &trace);
    if (!st)
        st = run_job_merge(job, &trace);
    status = st ? run_complain(st) : fill(trace, ranks, out);
    weir_trace_free(trace);
    run_members_close(&members);
    return status;
}
