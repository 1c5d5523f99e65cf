/* `weir run` on a modelled device. */
#include "run/run.h"

#include "commands.h"
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double us(uint64_t ps)
{
    return (double)ps / (double)WEIR__PS_PER_US;
}

static const struct weir__replay_program *program(const struct weir__prediction *p, uint32_t rank)
{
    return &p->graphs[p->graph_of[rank]].program;
}

static void fill_streams(const struct weir__prediction *p, struct run_result *out)
{
    for (uint32_t r = 0; r < p->nranks; r++)
        for (uint32_t s = 0; s < program(p, r)->nstreams; s++) {
            const struct weir__replay_stats *stats = &p->run.streams[r][s];
            const struct weir__replay_stream *stream = &program(p, r)->streams[s];

            if (!stream->nnodes)
                continue;
            out->streams[out->nstreams++] = (struct run_stream){
                .rank = r,
                .name = stream->name,
                .priority = stream->priority,
                .nodes = stream->nnodes,
                .busy = us(stats->busy_ps),
                .waiting = us(stats->waiting_ps),
                .start = us(stats->first),
                .end = us(stats->last),
            };
        }
}

static void fill_ranks(const struct cli_ranks *ranks, const struct weir__prediction *p,
                       struct run_result *out)
{
    const struct weir__profile *profile = &p->graphs[0].g->dev->model->profile;
    const double cores[RUN_ENGINES] = {profile->cube_cores, profile->vector_cores,
                                       profile->sdma_channels, profile->host_cores};
    double all = (double)p->makespan * p->nranks;

    for (uint32_t r = 0; r < p->nranks; r++) {
        const struct weir__sim_rank *rank = &p->run.ranks[r];
        uint64_t last = 0;

        for (uint32_t s = 0; s < program(p, r)->nstreams; s++)
            last = p->run.streams[r][s].last > last ? p->run.streams[r][s].last : last;
        out->ranks[r] = (struct run_rank){
            .file = ranks->paths[ranks->file_of[r]],
            .makespan = us(last),
            .compute = us(rank->compute_ps),
            .communication = us(rank->comm_ps),
            .exposed = us(rank->exposed_ps),
        };
        for (int e = 0; e < RUN_ENGINES && all > 0; e++) {
            out->utilisation[e] += (double)rank->busy[e] / (all * cores[e]);
            out->stalled[e] += (double)rank->idle_held[e] / (all * cores[e]);
        }
    }
}

/* Sets at[] to the index of each node's span, rank after rank. */
static void fill_spans(const struct weir__prediction *p, struct run_result *out, unsigned *at)
{
    unsigned stream = 0;

    for (uint32_t r = 0; r < p->nranks; at += program(p, r++)->nnodes)
        for (uint32_t s = 0;
             s<program(p, r)->nstreams; stream += program(p, r)->streams[s++].nnodes> 0)
            for (uint32_t i = 0; i < program(p, r)->streams[s].nnodes; i++) {
                uint32_t v = program(p, r)->streams[s].nodes[i];
                const struct weir__sim_span *span = &p->run.spans[r][v];

                if (span->end == UINT64_MAX)
                    continue;
                at[v] = (unsigned)out->nspans;
                out->spans[out->nspans++] = (struct run_span){
                    .name = program(p, r)->nodes[v].name,
                    .rank = r,
                    .stream = stream,
                    .engine = p->graphs[p->graph_of[r]].engine[v],
                    .blocks = program(p, r)->ops[program(p, r)->nodes[v].op].blocks,
                    .cores = program(p, r)->ops[program(p, r)->nodes[v].op].cores,
                    .ready = us(span->ready),
                    .start = us(span->start),
                    .end = us(span->end),
                };
            }
}

/* Follows the causes of waiting from the node that ended last back to the start. */
static void fill_path(const struct weir__prediction *p, struct run_result *out, const unsigned *at,
                      const size_t *first)
{
    uint32_t rank = 0, node = 0;
    uint64_t last = 0;
    size_t most = out->nspans, n = 0;

    for (uint32_t r = 0; r < p->nranks; r++)
        for (uint32_t v = 0; v < program(p, r)->nnodes; v++)
            if (p->run.spans[r][v].end != UINT64_MAX && p->run.spans[r][v].end > last) {
                last = p->run.spans[r][v].end;
                rank = r;
                node = v;
            }
    while (n < most && last) {
        const struct weir__sim_span *span = &p->run.spans[rank][node];
        struct run_step *step = &out->path[n++];

        *step = (struct run_step){.cause = (enum weir__cause)span->cause,
                                  .cause_rank = span->cause_rank,
                                  .span = at[first[rank] + node]};
        if (step->cause == WEIR__CAUSE_NONE)
            break;
        rank = span->cause_rank;
        node = span->cause_node;
        step->cause_name = program(p, rank)->nodes[node].name;
    }
    out->npath = n;
    for (size_t i = 0; i < n / 2; i++) {
        struct run_step step = out->path[i];

        out->path[i] = out->path[n - 1 - i];
        out->path[n - 1 - i] = step;
    }
}

static void fill(const struct cli_ranks *ranks, struct run_result *out, unsigned *at, size_t *first)
{
    const struct weir__prediction *p = &out->prediction;

    out->modelled = true;
    out->nranks = p->nranks;
    out->makespan = p->run.deadlock ? NAN : us(p->makespan);
    out->error = p->error;
    out->serial = us(p->serial);
    out->critical = us(p->critical);
    out->dispatch = us(p->dispatch);
    for (uint32_t i = 0; i < p->ngraphs; i++)
        if (p->graphs[i].memory_bytes > out->memory)
            out->memory = p->graphs[i].memory_bytes;
    for (uint32_t r = 1; r < p->nranks; r++)
        first[r] = first[r - 1] + program(p, r - 1)->nnodes;
    fill_streams(p, out);
    fill_ranks(ranks, p, out);
    fill_spans(p, out, at);
    fill_path(p, out, at, first);
}

int run_model(const struct cli_ranks *ranks, bool parts, struct run_result *out)
{
    struct weir__prediction *p = &out->prediction;
    struct progress progress = progress_begin();
    size_t nstreams = 0, nspans = 0, *first;
    unsigned *at;
    weir_status st;
    int status = -1;

    progress_listen(&progress);
    st = weir__predict(ranks->graphs, ranks->nranks,
                       &(struct weir__predict_options){.memory = true, .parts = parts}, p);
    progress_end(&progress);
    if (st)
        return run_complain(st);
    for (uint32_t r = 0; r < p->nranks; r++) {
        nstreams += program(p, r)->nstreams;
        nspans += program(p, r)->nnodes;
    }
    out->streams = calloc(nstreams + 1, sizeof *out->streams);
    out->ranks = calloc(p->nranks, sizeof *out->ranks);
    out->spans = calloc(nspans + 1, sizeof *out->spans);
    out->path = calloc(nspans + 1, sizeof *out->path);
    at = calloc(nspans + 1, sizeof *at);
    first = calloc(p->nranks, sizeof *first);
    if (out->streams && out->ranks && out->spans && out->path && at && first) {
        fill(ranks, out, at, first);
    } else {
        fputs("weir run: out of memory\n", stderr);
        status = EXIT_FAILED;
    }
    free(at);
    free(first);
    return status;
}
