/* The time of a step, and the rates of a system that follow from it. */
#include "graph/estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/overlap.h"
#include "tensor/kernel_params.h"

const char *const weir__roof_names[WEIR__ROOFS] = {"memory", "cube", "vector",
                                                   "links",  "head", "cores"};

/* ---- one step ---- */

/* What limits any operator: the memory bandwidth for its bytes, or its engine. */
static enum weir__roof limit_of_operator(const struct weir__sim_op *op,
                                         const struct weir__sim_limits *limits, double alone)
{
    double bytes = (double)op->draws[WEIR__FLOW_HBM] * op->blocks * (double)op->block_ps / 1e12;
    double memory = 1e6 * bytes / (double)limits->flow[WEIR__FLOW_HBM];

    if (op->comm)
        return WEIR__ROOF_LINK;
    if (memory >= alone / 2)
        return WEIR__ROOF_MEMORY;
    return op->per_block[WEIR__POOL_CUBE] ? WEIR__ROOF_CUBE : WEIR__ROOF_VECTOR;
}

static enum weir__roof limit_of(const struct weir__model *model, const struct weir__node *node,
                                const struct weir__sim_op *op, double head, double alone)
{
    const struct weir__profile *f = &model->profile;
    const struct weir__kernel_params *p = (const void *)node->params;
    struct weir__sim_limits limits;
    double memory, cores, flops, compute;
    bool vector;

    if (head >= alone / 2 && !op->comm)
        return WEIR__ROOF_HEAD;
    weir__model_limits(model, &limits);
    if (strcmp(node->op->name, "Kernel") != 0 || p->us > 0 || p->us_per_block > 0)
        return limit_of_operator(op, &limits, alone);
    if (p->collective[0])
        return WEIR__ROOF_LINK;
    vector = !strcmp(p->engine, "vector");
    memory = (double)p->bytes / (f->hbm_gb_s * f->hbm_efficiency * 1e3);
    cores = vector ? f->vector_cores * f->vector_flop_per_cycle * f->vector_efficiency
                   : f->cube_cores * f->cube_flop_per_cycle *
                         (strcmp(p->engine, "mix") ? f->cube_efficiency : f->mix_efficiency);
    flops = weir__model_flops(
        model, vector ? WEIR_ENGINE_VECTOR : WEIR_ENGINE_CUBE,
        &(struct weir__flops){p->flops, p->dtype, (double)p->m, (double)p->n, (double)p->k});
    compute = flops / (cores * f->clock_mhz);
    if (fmax(memory, compute) < alone / 2)
        return WEIR__ROOF_CORES;
    return memory >= compute ? WEIR__ROOF_MEMORY : vector ? WEIR__ROOF_VECTOR : WEIR__ROOF_CUBE;
}

/* The part of a node's name that names its kind: behind the layer, and before a number at the end.
 * "L3.norm" and "norm_17" give "norm". */
static void part_name(const char *node, char name[32])
{
    const char *dot = strrchr(node, '.');
    size_t n;

    snprintf(name, 32, "%.31s", dot && dot[1] ? dot + 1 : node);
    n = strlen(name);
    while (n > 1 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n > 1 && n < strlen(name) && name[n - 1] == '_')
        n--;
    name[n] = 0;
}

static weir_status fill_parts(const struct weir__prediction *p, const struct weir__model *model,
                              struct weir__estimate_step *out, int middle)
{
    const struct weir__predict_graph *pg = &p->graphs[0];
    struct weir__sim_limits limits;
    char prefix[16];
    uint32_t n = pg->program.nnodes;

    weir__model_limits(model, &limits);
    snprintf(prefix, sizeof prefix, "L%d.", middle);
    out->parts = weir__calloc(n + 1, sizeof *out->parts);
    out->bars = weir__calloc(n + 1, sizeof *out->bars);
    if (!out->parts || !out->bars)
        return weir__fail_nomem("allocating the parts of %u nodes", n);
    for (uint32_t s = 0; s < pg->program.nstreams; s++)
        for (uint32_t i = 0; i < pg->streams[s].nnodes; i++) {
            uint32_t v = pg->streams[s].nodes[i];
            const struct weir__sim_span *span = &p->run.spans[0][v];
            char name[32];
            double head = (double)weir__predict_op(pg, v)->launch_ps / 1e6; /* ends when the node
                                                                             * becomes ready */
            double us = head + (double)(span->end - span->ready) / 1e6;
            double alone = head + (double)weir__sim_alone(&limits, weir__predict_op(pg, v)) / 1e6;
            struct weir__estimate_part *part = out->parts;

            part_name(pg->nodes[v].name, name);
            while (part < out->parts + out->nparts && strcmp(part->name, name) != 0)
                part++;
            if (part == out->parts + out->nparts) {
                out->nparts++;
                snprintf(part->name, sizeof part->name, "%.31s", name);
                snprintf(part->stream, sizeof part->stream, "%.15s", pg->streams[s].name);
                part->limit =
                    limit_of(model, &pg->g->nodes[v], weir__predict_op(pg, v), head, alone);
            }
            part->us += us;
            part->alone += alone;
            part->count++;
            if (strncmp(pg->nodes[v].name, prefix, strlen(prefix)) != 0)
                continue;
            snprintf(out->bars[out->nbars].name, sizeof out->bars->name, "%.31s",
                     pg->nodes[v].name + strlen(prefix));
            snprintf(out->bars[out->nbars].stream, sizeof out->bars->stream, "%.15s",
                     pg->streams[s].name);
            out->bars[out->nbars].start = (double)span->start / 1e6;
            out->bars[out->nbars++].end = (double)span->end / 1e6;
        }
    for (size_t i = 0; i < out->nparts; i++) {
        out->parts[i].us /= out->parts[i].count;
        out->parts[i].alone /= out->parts[i].count;
    }
    out->exposed_us = (double)p->run.ranks[0].exposed_ps / 1e6;
    return WEIR_OK;
}

/* Predicts the time of the graph, without host time. */
static weir_status predict(weir_device *dev, const struct weir__llm *m,
                           const struct weir__deploy *d, const struct weir__model_step *step,
                           struct weir__estimate_step *full, bool replays,
                           struct weir__stage_time *time, double *error)
{
    struct weir__text text = {0};
    struct weir__prediction p = {0};
    weir_graph *g = NULL;
    weir_status st;

    if (!(st = weir__estimate_graph(m, d, step, &dev->model->profile, &text)) &&
        !(st = weir_graph_load(dev, text.data, text.size, "estimate", &g)) &&
        !(st = weir__predict(&g, 1, &(struct weir__predict_options){.makespan_only = !full}, &p))) {
        st = weir__stage_time_read(&p, dev->model, replays, time);
        *error = p.error;
        if (full && !st)
            st = fill_parts(&p, dev->model, full, (int)(ceil(m->layers / d->pp) / 2));
        weir__prediction_fini(&p);
    }
    weir_graph_destroy(g);
    weir__text_free(&text);
    return st;
}

/* Times a stage: from all its layers, or (quick) extrapolated from a few. `replays`: see
 * weir__stage_time_read. */
static weir_status time_stage(weir_device *dev, const struct weir__llm *m,
                              const struct weir__deploy *d, bool prefill, bool quick, bool replays,
                              struct weir__estimate_step *out, struct weir__stage_time *time)
{
    double layers = ceil(m->layers / d->pp), dense = weir__deploy_dense_layers(m, d);
    double few = dense < layers ? dense : 0, more;
    struct weir__stage_time two, four;
    weir_status st;

    if (!quick || layers <= few + 4)
        return predict(dev, m, d, &(struct weir__model_step){.prefill = prefill},
                       quick ? NULL : out, replays, time, &out->error);
    if ((st = predict(dev, m, d, &(struct weir__model_step){prefill, few + 2}, NULL, replays, &two,
                      &out->error)) ||
        (st = predict(dev, m, d, &(struct weir__model_step){prefill, few + 4}, NULL, replays, &four,
                      &out->error)))
        return st;
    more = layers - few - 4 + (!prefill && d->accept > 0 ? 1 : 0);
    weir__stage_time_extend(&two, &four, more / 2, time);
    return WEIR_OK;
}

/* Times all stages, one after the other, each started by the host. `ref` is the machine that says
 * how well streams overlap; NULL: dev. */
static weir_status take_step(weir_device *dev, weir_device *ref, const struct weir__llm *m,
                             const struct weir__deploy *d, bool prefill, bool quick,
                             struct weir__estimate_step *out)
{
    double graphs = !prefill && d->accept > 0 ? 2 : 1;
    struct weir__estimate_step unused = {0};
    struct weir__stage_time time = {0}, known;
    struct weir__deploy with = *d;
    weir_status st = time_stage(dev, m, d, prefill, quick, false, out, &time);

    if (!st && ref && time.nstreams > 1) {
        weir__overlap_cores(&with, &ref->model->profile);
        if (!(st = time_stage(ref, m, &with, prefill, true, true, &unused, &known)))
            time.us = weir__overlap(&time, &known);
    }
    out->us = d->pp * (time.us +
                       graphs * (dev->model->overhead ? dev->model->profile.graph_dispatch_us : 0));
    return st;
}

static weir_status complete(weir_device *dev, weir_device *ref, const struct weir__llm *m,
                            struct weir__deploy *d)
{
    weir_device *judge = ref ? ref : dev;
    const struct weir__profile *p = &dev->model->profile;
    double least = INFINITY;
    int best = 0;
    weir_status st = WEIR_OK;

    if (d->cube && d->placement != WEIR__PLACE_TWO)
        return weir__fail(WEIR_EINVAL,
                          "%u+%u cores for attention: only two microbatches share them", d->cube,
                          d->vector);
    if (d->cube >= p->cube_cores || d->vector >= p->vector_cores)
        return weir__fail(WEIR_EINVAL,
                          "%u+%u cores for attention leave none for experts: %s has %.0f+%.0f",
                          d->cube, d->vector, dev->props.name, p->cube_cores, p->vector_cores);
    if (d->placement == WEIR__PLACE_TWO && !weir__deploy_has_two(d)) {
        d->placement = WEIR__PLACE_SINGLE;
        d->cube = d->vector = 0;
    }
    if (d->placement != WEIR__PLACE_TWO || d->cube)
        return WEIR_OK;
    for (int i = 0; i < WEIR__CORE_SHARES && !st; i++) {
        struct weir__estimate_step step = {0};
        struct weir__deploy with = *d;

        weir__deploy_share_cores(&with, &judge->model->profile, i);
        st = take_step(judge, NULL, m, &with, false, true, &step);
        if (!st && step.us < least) {
            least = step.us;
            best = i;
        }
    }
    if (!st)
        weir__deploy_share_cores(d, p, best);
    return st;
}

weir_status weir__deploy_complete(weir_device *dev, const struct weir__llm *m,
                                  struct weir__deploy *d)
{
    weir_device *ref;
    weir_status st = weir__overlap_open(dev, &ref);

    if (!st)
        st = complete(dev, ref, m, d);
    weir__overlap_close(ref);
    return st;
}

static weir_status estimate(weir_device *dev, const struct weir__llm *m,
                            const struct weir__deploy *d, bool quick, struct weir__estimate *out)
{
    double replicas = (double)d->ranks / d->tp / d->pp;
    weir_device *ref;
    weir_status st;

    *out = (struct weir__estimate){0};
    if (!dev->model)
        return weir__fail(
            WEIR_EUNSUPPORTED,
            "%s runs in real time: an estimate needs a modelled device such as npu:a3",
            dev->props.name);
    if ((st = weir__deploy_check(m, d)))
        return st;
    out->d = *d;
    weir__estimate_find_memory(m, d, &dev->model->profile, &out->memory);
    if (!(st = weir__overlap_open(dev, &ref)) && !(st = complete(dev, ref, m, &out->d)) &&
        !(st = take_step(dev, ref, m, &out->d, true, quick, &out->prefill)))
        st = take_step(dev, ref, m, &out->d, false, quick, &out->decode);
    weir__overlap_close(ref);
    if (st) {
        weir__estimate_fini(out);
        return st;
    }
    out->ttft_ms = weir__deploy_first_us(d, out->prefill.us) / 1e3;
    out->tpot_ms = out->decode.us / 1e3 / (1 + d->accept);
    out->prefill_rate = replicas * d->batch * d->prompt / (out->prefill.us / 1e6);
    if (d->chunk > 0) { /* besides decoding, each step takes a chunk of a prompt */
        out->ttft_ms = ceil(d->prompt / d->chunk) * out->decode.us / 1e3;
        out->prefill_rate = replicas * d->chunk / (out->decode.us / 1e6);
    }
    out->decode_rate = replicas * d->batch / (out->tpot_ms / 1e3);
    out->cards = fmax(1, d->ranks / dev->model->profile.pair_dies);
    out->error = fmax(out->prefill.error, out->decode.error);
    return WEIR_OK;
}

weir_status weir__estimate_time_step(weir_device *dev, const struct weir__llm *m,
                                     const struct weir__deploy *d, bool prefill, double *us)
{
    struct weir__estimate_step step = {0};
    struct weir__deploy with = *d;
    weir_device *ref = NULL;
    weir_status st = weir__deploy_check(m, d);

    if (!st && !(st = weir__overlap_open(dev, &ref)) && !prefill)
        st = complete(dev, ref, m, &with);
    if (!st)
        st = take_step(dev, ref, m, &with, prefill, true, &step);
    weir__overlap_close(ref);
    *us = step.us;
    return st;
}

weir_status weir__estimate_file(weir_device *dev, const char *path, struct weir__estimate_step *out,
                                double *bytes)
{
    struct weir__prediction p = {0};
    weir_graph *g = NULL;
    weir_status st;

    *out = (struct weir__estimate_step){0};
    if (!(st = weir_graph_load_file(dev, path, &g)) &&
        !(st = weir__predict(&g, 1, &(struct weir__predict_options){.memory = true}, &p))) {
        out->us = (double)(p.makespan + p.dispatch) / 1e6;
        out->error = p.error;
        *bytes = (double)p.graphs[0].memory_bytes;
        if (p.run.deadlock)
            st = weir__fail(WEIR_EDEADLOCK, "%s deadlocks: see weir check", path);
        else
            st = fill_parts(&p, dev->model, out, 0);
        weir__prediction_fini(&p);
    }
    weir_graph_destroy(g);
    return st;
}

weir_status weir__estimate_model(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out)
{
    return estimate(dev, m, d, false, out);
}

weir_status weir__estimate_quick(weir_device *dev, const struct weir__llm *m,
                                 const struct weir__deploy *d, struct weir__estimate *out)
{
    return estimate(dev, m, d, true, out);
}

void weir__estimate_fini(struct weir__estimate *e)
{
    weir__free(e->prefill.parts);
    weir__free(e->prefill.bars);
    weir__free(e->decode.parts);
    weir__free(e->decode.bars);
    *e = (struct weir__estimate){0};
}
