/* What a step takes, what it needs of memory, and what follows for a system. */
#include "graph/estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/kernel_params.h"

const char *const weir__roof_names[WEIR__ROOFS] = {"memory", "cube", "vector",
                                                   "links",  "head", "cores"};

/* How far dies are apart, as standard deviations of the mean.
 * - EXPERT_SPREAD: of what one expert gets while decoding, with copies of those that get most;
 *   ATTENTION_JITTER: of what comes before a dispatch. Fitted to what dispatch and combine of arXiv
 *   2508.02520 wait on 288 dies: 234 us where 185 are the least, 312 where 165 are
 * - PROMPT_SPREAD: of what one expert gets of prompts, whose tokens are more alike. Fitted to the
 *   two rates of arXiv 2506.12708 for experts loaded evenly and as they were: 6688 / 5655 */
#define EXPERT_SPREAD 0.1725
#define PROMPT_SPREAD 0.56
#define ATTENTION_JITTER 0.0094

void weir__deploy_init(struct weir__deploy *d)
{
    *d = (struct weir__deploy){.ranks = 1,
                               .tp = 1,
                               .pp = 1,
                               .batch = 1,
                               .prompt = 1024,
                               .output = 256,
                               .quant = WEIR__QUANT_BF16,
                               .jitter = ATTENTION_JITTER};
}

double weir__last_of(double n)
{
    double p = (n - 0.375) / (n + 0.25), low = 0, high = 8; /* Blom */

    if (!(n > 1))
        return 0;
    for (int i = 0; i < 50; i++) {
        double z = (low + high) / 2;

        *(0.5 * erfc(-z / sqrt(2)) < p ? &low : &high) = z;
    }
    return low;
}

double weir__deploy_imbalance(const struct weir__llm *m, const struct weir__deploy *d, bool prefill)
{
    double dies = d->ep ? d->ep : (double)d->ranks / d->pp;
    double spread = prefill ? PROMPT_SPREAD : EXPERT_SPREAD;

    if (d->imbalance > 0)
        return d->imbalance;
    return 1 + spread * weir__last_of(dies) / sqrt(fmax(1, m->experts / dies));
}

void weir__deploy_share_cores(struct weir__deploy *d, const struct weir__profile *p, int share)
{
    static const double shares[WEIR__CORE_SHARES] = {1.0 / 2, 2.0 / 3, 5.0 / 6};

    d->cube = (uint32_t)fmax(1, round(p->cube_cores * shares[share]));
    d->vector = (uint32_t)fmax(1, round(p->vector_cores * shares[share]));
}

static weir_status divides(const char *part, double a, const char *whole, double b)
{
    return a >= 1 && fmod(b, a) == 0
               ? WEIR_OK
               : weir__fail(WEIR_EINVAL, "%s %g does not divide %s %g", part, a, whole, b);
}

weir_status weir__deploy_check(const struct weir__llm *m, const struct weir__deploy *d)
{
    weir_status st;

    if ((st = divides("tp x pp", (double)d->tp * d->pp, "the ranks", d->ranks)) ||
        (st = divides("tp", d->tp, "the heads", m->heads)) ||
        (st = d->ep ? divides("ep", d->ep, "the ranks of a stage", (double)d->ranks / d->pp)
                    : WEIR_OK))
        return st;
    if (d->pp > m->layers)
        return weir__fail(WEIR_EINVAL, "pp %u is more than the %g layers", d->pp, m->layers);
    if (!(d->batch > 0 && d->batch <= 1e6) || !(d->prompt >= 1 && d->prompt <= 1e7) ||
        !(d->output >= 0 && d->output <= 1e7))
        return weir__fail(WEIR_EINVAL,
                          "batch %g, prompt %g and output %g must be in 1..1e6, 1..1e7 and 0..1e7",
                          d->batch, d->prompt, d->output);
    if (d->imbalance != 0 && !(d->imbalance >= 1 && d->imbalance <= 100))
        return weir__fail(WEIR_EINVAL, "imbalance %g is out of range: 1..100", d->imbalance);
    if (!(d->jitter >= 0 && d->jitter <= 1))
        return weir__fail(WEIR_EINVAL, "jitter %g is out of range: 0..1", d->jitter);
    if (!(d->accept >= 0 && d->accept <= 1))
        return weir__fail(WEIR_EINVAL, "%g tokens that MTP adds are out of range: 0..1", d->accept);
    if (!(d->chunk >= 0 && d->chunk <= 1e6))
        return weir__fail(WEIR_EINVAL, "a chunk of %g tokens is out of range: 0..1e6", d->chunk);
    if (d->accept > 0 && !(m->mtp > 0))
        return weir__fail(WEIR_EINVAL, "%s has no layer that drafts: leave out --mtp", m->family);
    return WEIR_OK;
}

/* ---- memory ---- */

static double cache_bytes(const struct weir__llm *m, const struct weir__deploy *d)
{
    double token =
        m->kv_rank > 0 ? m->kv_rank + m->rope : 2 * fmax(1, m->kv_heads / d->tp) * m->head_dim;

    return 2 * token * (d->prompt + d->output) * ceil(m->layers / d->pp);
}

void weir__estimate_find_memory(const struct weir__llm *m, const struct weir__deploy *d,
                                const struct weir__profile *p, struct weir__estimate_memory *out)
{
    double per = d->quant == WEIR__QUANT_BF16 ? 2 : d->quant == WEIR__QUANT_W4A8 ? 0.5 : 1;
    double dies = d->ep ? d->ep : (double)d->ranks / d->pp;
    double expert = 3 * m->hidden * m->expert_dim;
    double local = dies > 1 ? ceil(fmax(m->experts, 1) / dies) : m->experts / d->tp;
    double moe_layers = m->layers - m->dense_layers;
    bool remote = m->shared_dim > 0 && dies > m->experts;
    double embedding = (m->tied ? 1 : 2) * m->vocab * m->hidden;
    double routed = moe_layers * m->experts * expert;
    double others = weir__llm_parameters(m, false) - routed - embedding;
    double free, tokens = d->batch / d->pp * d->prompt;

    if (remote)
        others -= moe_layers * 3 * m->hidden * m->shared_dim;
    out->weights =
        (others * per / d->tp + (m->experts > 0 ? moe_layers * local * expert * per : 0)) / d->pp +
        2 * embedding / d->tp;
    out->cache = d->batch * cache_bytes(m, d);
    /* a prefill holds a few rows of each token, in pieces of 16 Ki tokens */
    out->activations = fmin(tokens, 16384) *
                       (8 * m->hidden + 4 * fmax(m->dense_dim, m->top * m->expert_dim) / d->tp) * 2;
    out->most = p->hbm_gib * 1024 * 1024 * 1024;
    free = 0.95 * out->most - out->weights - out->activations;
    out->most_batch = free > 0 ? floor(free / cache_bytes(m, d)) : 0;
}

/* ---- one step ---- */

/* Of any operator: what its bytes take of the memory, and its engine. */
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

/* What is behind the layer in a node's name, and before a number at its end: "L3.norm" and
 * "norm_17" are norm. */
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
        return weir__fail_nomem("the parts of %u nodes", n);
    for (uint32_t s = 0; s < pg->program.nstreams; s++)
        for (uint32_t i = 0; i < pg->streams[s].nnodes; i++) {
            uint32_t v = pg->streams[s].nodes[i];
            const struct weir__sim_span *span = &p->run.spans[0][v];
            char name[32];
            double head =
                (double)weir__predict_op(pg, v)->launch_ps / 1e6; /* is over when it is ready */
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

/* Microseconds of the graph, without what the host takes. */
static weir_status predict(weir_device *dev, const struct weir__llm *m,
                           const struct weir__deploy *d, const struct weir__model_step *step,
                           struct weir__estimate_step *full, double *us, double *error)
{
    struct weir__text text = {0};
    struct weir__prediction p = {0};
    weir_graph *g = NULL;
    weir_status st;

    if (!(st = weir__estimate_graph(m, d, step, &dev->model->profile, &text)) &&
        !(st = weir_graph_load(dev, text.data, text.size, "estimate", &g)) &&
        !(st = weir__predict(&g, 1, &(struct weir__predict_options){.makespan_only = !full}, &p))) {
        *us = (double)p.makespan / 1e6;
        *error = p.error;
        if (full)
            st = fill_parts(&p, dev->model, full, (int)(ceil(m->layers / d->pp) / 2));
        weir__prediction_fini(&p);
    }
    weir_graph_destroy(g);
    weir__text_free(&text);
    return st;
}

/* All stages one after the other, each started by the host; a stage has all its layers, or is
 * put together from a few of them. */
static weir_status take_step(weir_device *dev, const struct weir__llm *m,
                             const struct weir__deploy *d, bool prefill, bool quick,
                             struct weir__estimate_step *out)
{
    double graphs = !prefill && d->accept > 0 ? 2 : 1, stage = 0;
    double layers = ceil(m->layers / d->pp),
           few = m->dense_layers < m->layers ? m->dense_layers : 0;
    weir_status st = WEIR_OK;

    if (quick && layers > few + 4) {
        double two, four;

        if ((st = predict(dev, m, d, &(struct weir__model_step){prefill, few + 2}, NULL, &two,
                          &out->error)) ||
            (st = predict(dev, m, d, &(struct weir__model_step){prefill, few + 4}, NULL, &four,
                          &out->error)))
            return st;
        stage = four + (four - two) / 2 * (layers - few - 4 + (!prefill && d->accept > 0 ? 1 : 0));
    } else {
        st = predict(dev, m, d, &(struct weir__model_step){.prefill = prefill}, quick ? NULL : out,
                     &stage, &out->error);
    }
    out->us = d->pp *
              (stage + graphs * (dev->model->overhead ? dev->model->profile.graph_dispatch_us : 0));
    return st;
}

weir_status weir__deploy_settle(weir_device *dev, const struct weir__llm *m, struct weir__deploy *d)
{
    const struct weir__profile *p = &dev->model->profile;
    struct weir__deploy best = *d;
    double least = INFINITY;
    weir_status st = WEIR_OK;

    if (d->cube && d->placement != WEIR__PLACE_TWO)
        return weir__fail(WEIR_EINVAL,
                          "%u+%u cores for attention: only two microbatches share them", d->cube,
                          d->vector);
    if (d->cube >= p->cube_cores || d->vector >= p->vector_cores)
        return weir__fail(WEIR_EINVAL,
                          "%u+%u cores for attention leave none for experts: %s has %.0f+%.0f",
                          d->cube, d->vector, dev->props.name, p->cube_cores, p->vector_cores);
    if (d->placement != WEIR__PLACE_TWO || d->cube)
        return WEIR_OK;
    for (int i = 0; i < WEIR__CORE_SHARES && !st; i++) {
        struct weir__estimate_step step = {0};
        struct weir__deploy with = *d;

        weir__deploy_share_cores(&with, p, i);
        st = take_step(dev, m, &with, false, true, &step);
        if (!st && step.us < least) {
            least = step.us;
            best = with;
        }
    }
    *d = best;
    return st;
}

static weir_status estimate(weir_device *dev, const struct weir__llm *m,
                            const struct weir__deploy *d, bool quick, struct weir__estimate *out)
{
    double replicas = (double)d->ranks / d->tp / d->pp;
    weir_status st;

    *out = (struct weir__estimate){0};
    if (!dev->model)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s runs in real time: only a modelled device such as npu:a3 estimates",
                          dev->props.name);
    if ((st = weir__deploy_check(m, d)))
        return st;
    out->d = *d;
    weir__estimate_find_memory(m, d, &dev->model->profile, &out->memory);
    if ((st = weir__deploy_settle(dev, m, &out->d)) ||
        (st = take_step(dev, m, &out->d, true, quick, &out->prefill)) ||
        (st = take_step(dev, m, &out->d, false, quick, &out->decode))) {
        weir__estimate_fini(out);
        return st;
    }
    out->ttft_ms = out->prefill.us / 1e3;
    out->tpot_ms = out->decode.us / 1e3 / (1 + d->accept);
    out->prefill_rate = replicas * d->batch * d->prompt / (out->prefill.us / 1e6);
    if (d->chunk > 0) { /* a prompt comes a chunk a step, beside those that decode */
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
    weir_status st = weir__deploy_check(m, d);

    if (!st && !prefill)
        st = weir__deploy_settle(dev, m, &with);
    if (!st)
        st = take_step(dev, m, &with, prefill, true, &step);
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
