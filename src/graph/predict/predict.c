#include "graph/predict/predict_program.h"

#include <math.h>

static weir_status check_devices(weir_graph *const *graphs, uint32_t nranks)
{
    for (uint32_t i = 0; i < nranks; i++) {
        const weir_device *dev = graphs[i]->dev;

        if (!dev->model)
            return weir__fail(
                WEIR_EUNSUPPORTED,
                "%s runs in real time: a prediction needs a modelled device such as npu:a3",
                dev->props.name);
        if (graphs[i]->capturing)
            return weir__fail(WEIR_ESTATE,
                              "the graph is still being captured: call weir_graph_end first");
        if (strcmp(dev->props.name, graphs[0]->dev->props.name) != 0)
            return weir__fail(WEIR_EDEVICE, "rank 0 is on %s, rank %u on %s",
                              graphs[0]->dev->props.name, i, dev->props.name);
    }
    return WEIR_OK;
}

/* Counts the ranks that have each collective which only some ranks have. */
static weir_status count_ranks(weir_graph *const *graphs, uint32_t nranks,
                               struct weir__rendezvous_table *rendezvous)
{
    weir_status st = WEIR_OK;

    for (uint32_t r = 0; r < nranks && !st; r++) {
        uint32_t first = 0, copies = 0;

        while (graphs[first] != graphs[r])
            first++;
        for (uint32_t other = r; other < nranks; other++)
            copies += graphs[other] == graphs[r];
        if (first == r)
            st = weir__rendezvous_count(rendezvous, graphs[r], r, copies);
    }
    return st;
}

static weir_status translate(weir_graph *const *graphs, const struct weir__predict_options *options,
                             struct weir__prediction *p, struct weir__rendezvous_table *rendezvous)
{
    weir_status st = p->nranks > 1 ? count_ranks(graphs, p->nranks, rendezvous) : WEIR_OK;

    for (uint32_t r = 0; r < p->nranks && !st; r++) {
        struct weir__predict_place place = {.rank = r, .nranks = p->nranks};
        uint32_t known = 0;

        while (known < p->ngraphs && p->graphs[known].g != graphs[r])
            known++;
        p->graph_of[r] = known;
        if (known < p->ngraphs)
            continue;
        p->ngraphs++;
        place.index = known;
        for (uint32_t other = r + 1; other < p->nranks; other++)
            place.shared |= graphs[other] == graphs[r];
        st = weir__predict_graph_init(&p->graphs[known], graphs[r], options, &place, rendezvous);
        if (p->serial < p->graphs[known].serial)
            p->serial = p->graphs[known].serial;
    }
    return st;
}

/* Replays identical ranks as one, unless that one deadlocks: the report of a deadlock must name all
 * ranks.
 */
static weir_status replay_once(const struct weir__prediction *p,
                               const struct weir__sim_limits *limits,
                               const struct weir__replay_program *const *programs,
                               const struct weir__rendezvous_table *rendezvous,
                               const struct weir__replay_options *how,
                               struct weir__replay_result *out)
{
    weir_status st;

    if (weir__predict_is_alike(p, rendezvous, limits->seed)) {
        st = weir__predict_alike(limits, programs[0], p->nranks, rendezvous->count, how, out);
        if (st || !out->deadlock)
            return st;
        weir__replay_fini(out);
    }
    return weir__replay(limits, programs, p->nranks, rendezvous->sizes, rendezvous->count, how,
                        out);
}

static weir_status replay(struct weir__prediction *p, const struct weir__model *model,
                          const struct weir__predict_options *options,
                          const struct weir__rendezvous_table *rendezvous)
{
    const struct weir__replay_program **programs = weir__calloc(p->nranks, sizeof *programs);
    struct weir__replay_options how = {
        .record_ps = weir__model_overhead(model, model->profile.event_record_us),
        .wait_ps = weir__model_overhead(model, model->profile.event_wait_us),
        .spans = !options->makespan_only,
        .parts = options->parts,
    };
    struct weir__replay_result bound;
    struct weir__sim_limits limits;
    weir_status st;

    if (!programs) {
        st = weir__fail_nomem("predicting %u ranks", p->nranks);
        goto done;
    }
    for (uint32_t r = 0; r < p->nranks; r++)
        programs[r] = &p->graphs[p->graph_of[r]].program;
    weir__model_limits(model, &limits);
    if ((st = replay_once(p, &limits, programs, rendezvous, &how, &p->run)))
        goto done;
    p->makespan = p->run.makespan;
    if (options->makespan_only)
        goto done;
    limits.isolated = true;
    how.spans = how.parts = false;
    if (!(st = replay_once(p, &limits, programs, rendezvous, &how, &bound))) {
        p->critical = bound.makespan;
        weir__replay_fini(&bound);
    }
done:
    weir__free(programs);
    return st;
}

/* The host's cost of streams beyond the first before the run, for the rank with the most
 * streams. */
static uint64_t cost_of_streams(const struct weir__prediction *p, const struct weir__model *model)
{
    uint32_t streams = 1;

    for (uint32_t i = 0; i < p->ngraphs; i++)
        if (p->graphs[i].program.nstreams > streams)
            streams = p->graphs[i].program.nstreams;
    return weir__model_overhead(model, (streams - 1) * model->profile.graph_stream_us);
}

weir_status weir__predict(weir_graph *const *graphs, uint32_t nranks,
                          const struct weir__predict_options *options, struct weir__prediction *out)
{
    struct weir__rendezvous_table rendezvous = {0};
    const struct weir__model *model;
    weir_status st;

    *out = (struct weir__prediction){.nranks = nranks};
    if (!nranks)
        return weir__fail(WEIR_EINVAL, "a prediction needs at least one rank");
    if ((st = check_devices(graphs, nranks)))
        return st;
    model = graphs[0]->dev->model;
    out->graphs = weir__calloc(nranks, sizeof *out->graphs);
    out->graph_of = weir__calloc(nranks, sizeof *out->graph_of);
    if (!out->graphs || !out->graph_of)
        st = weir__fail_nomem("predicting %u ranks", nranks);
    else if (!(st = translate(graphs, options, out, &rendezvous)))
        st = replay(out, model, options, &rendezvous);
    for (uint32_t i = 0; i < out->ngraphs && !st; i++) {
        const struct weir__predict_graph *pg = &out->graphs[i];
        double share = pg->serial ? (double)pg->modelled / (double)pg->serial : 0;

        out->error = fmax(out->error, model->profile.error * share);
    }
    out->streams = cost_of_streams(out, model);
    out->dispatch = weir__model_overhead(model, model->profile.graph_dispatch_us) + out->streams;
    weir__rendezvous_table_fini(&rendezvous);
    if (st)
        weir__prediction_fini(out);
    return st;
}

void weir__prediction_fini(struct weir__prediction *p)
{
    for (uint32_t i = 0; i < p->ngraphs; i++)
        weir__predict_graph_fini(&p->graphs[i]);
    weir__free(p->graphs);
    weir__free(p->graph_of);
    weir__replay_fini(&p->run);
    *p = (struct weir__prediction){0};
}

/* ---- reports ---- */

static const struct weir__replay_program *program(const struct weir__prediction *p, uint32_t rank)
{
    return &p->graphs[p->graph_of[rank]].program;
}

const char *weir__predict_node_name(const struct weir__prediction *p, uint32_t rank, uint32_t node)
{
    return program(p, rank)->nodes[node].name;
}

const char *weir__predict_stream_name(const struct weir__prediction *p, uint32_t rank,
                                      uint32_t stream)
{
    return program(p, rank)->streams[stream].name;
}

void weir__prediction_holds(const struct weir__stuck *s, struct weir__text *text)
{
    const char *comma = "";

    for (int i = 0; i < WEIR__POOLS; i++)
        if (s->held[i]) {
            weir__text_add(text, "%s%u %s core%s", comma, s->held[i], weir__pool_names[i],
                           s->held[i] > 1 ? "s" : "");
            comma = " and ";
        }
    if (!*comma)
        weir__text_add(text, "no cores");
}

void weir__prediction_waits(const struct weir__prediction *p, const struct weir__stuck *s,
                            struct weir__text *text)
{
    const struct weir__replay_node *n = &program(p, s->rank)->nodes[s->node];
    const struct weir__stuck *next = &p->run.stuck[s->next];
    const char *comma = "";

    if (s->why == WEIR__STUCK_EVENT) {
        weir__text_add(text, "'%s' on stream '%s'",
                       weir__predict_node_name(p, s->of_rank, s->of_node),
                       weir__predict_stream_name(p, s->of_rank, s->of_stream));
        return;
    }
    if (s->why == WEIR__STUCK_PEERS) {
        weir__text_add(text, "collective '%s' on %u other rank%s", n->meets, s->nwaiting,
                       s->nwaiting > 1 ? "s" : "");
        if (s->of_node == UINT32_MAX)
            weir__text_add(text, ", which have no such node left");
        else
            weir__text_add(text, ": rank %u has '%s' on stream '%s'", s->of_rank,
                           weir__predict_node_name(p, s->of_rank, s->of_node),
                           weir__predict_stream_name(p, s->of_rank, s->of_stream));
        return;
    }
    for (int i = 0; i < WEIR__POOLS; i++)
        if (s->missing[i]) {
            weir__text_add(text, "%s%u more %s core%s", comma, s->missing[i], weir__pool_names[i],
                           s->missing[i] > 1 ? "s" : "");
            comma = " and ";
        }
    if (next == s)
        weir__text_add(text, " than the device has free, and no operator will release any");
    else
        weir__text_add(text, "; '%s' on stream '%s' holds some of them",
                       weir__predict_node_name(p, next->rank, next->node),
                       weir__predict_stream_name(p, next->rank, next->stream));
}

void weir__prediction_report(const struct weir__prediction *p, struct weir__text *text)
{
    const struct weir__replay_result *run = &p->run;
    const struct weir__stuck *at = NULL, *first;

    for (uint32_t i = 0; i < run->nstuck; i++) {
        const struct weir__stuck *s = &run->stuck[i];

        weir__text_add(text, "rank %u, stream '%s': '%s' holds ", s->rank,
                       weir__predict_stream_name(p, s->rank, s->stream),
                       weir__predict_node_name(p, s->rank, s->node));
        weir__prediction_holds(s, text);
        weir__text_add(text, " and waits for ");
        weir__prediction_waits(p, s, text);
        weir__text_add(text, "\n");
        if (!at && s->in_cycle)
            at = s;
    }
    if (!(first = at))
        return;
    weir__text_add(text, "cycle: ");
    do {
        weir__text_add(text, "'%s' on rank %u -> ", weir__predict_node_name(p, at->rank, at->node),
                       at->rank);
        at = &run->stuck[at->next];
    } while (at != first);
    weir__text_add(text, "'%s' on rank %u\n", weir__predict_node_name(p, at->rank, at->node),
                   at->rank);
}
