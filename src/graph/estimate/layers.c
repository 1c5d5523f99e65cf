/* A step of a model as Kernel nodes: what each part computes and moves on one die. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/layer.h"

const char *const weir__quant_names[4] = {"bf16", "w8a8", "w4a8", "fp8"};
const char *const weir__placement_names[3] = {"single", "shared", "microbatch"};

/* An exchanged token in 8 bits has a scale for every 128 values and its place behind it. */
#define TOKEN_EXTRA 512

/* Dies that share the experts. */
static double expert_dies(const struct weir__deploy *d)
{
    return d->ep ? d->ep : (double)d->ranks / d->pp;
}

/* What of the weights of `copies` first products fits half of the second level, and comes there
 * while a dispatch is under way: nobody would ask for more. */
static double fetched_bytes(const struct weir__layer_writer *w, double dim, double copies)
{
    double meanwhile = w->p->exchange_us * w->p->sdma_gb_s * 1e3;

    return fmin(fmin(w->p->l2_mib * 1024 * 1024 / 2, meanwhile),
                copies * w->m->hidden * 2 * dim * weir__layer_weight_bytes(w->d));
}

/* ---- parts of a layer ---- */

static void all_reduce(struct weir__layer_writer *w, const char *prefix, const char *part,
                       double rows, char *last)
{
    char name[WEIR__LAYER_NAME];

    if (w->d->tp < 2)
        return;
    weir__layer_name(name, prefix, part);
    weir__layer_emit(w, name,
                     &(struct weir__layer_node){.engine = "sdma",
                                                .collective = "all_reduce",
                                                .bytes = 2 * rows * w->m->hidden,
                                                .ranks = w->d->tp},
                     last, NULL);
    strcpy(last, name);
}

/* `fetched` is the node that brings the first weights to the second level, "" if none does. */
static void mlp_after(struct weir__layer_writer *w, const char *prefix, const char *part,
                      double rows, double dim, double copies, const char *fetched, char *last)
{
    char name[WEIR__LAYER_NAME], node[WEIR__LAYER_NAME];
    struct weir__layer_node n = weir__layer_product(w, rows, w->m->hidden, 2 * dim, copies);

    if (*fetched)
        n.bytes -= fetched_bytes(w, dim, copies);
    snprintf(name, sizeof name, "%s_up", part);
    weir__layer_name(node, prefix, name);
    weir__layer_emit(w, node, &n, last, fetched);
    strcpy(last, node);
    /* products of 8 bits leave sums of 32, which this scales, and quantises again */
    n = weir__layer_rowwise(rows, w->d->quant == WEIR__QUANT_BF16 ? 3 * dim : 4.5 * dim);
    snprintf(name, sizeof name, "%s_act", part);
    weir__layer_step(w, prefix, name, &n, last);
    n = weir__layer_product(w, rows, dim, w->m->hidden, copies);
    snprintf(name, sizeof name, "%s_down", part);
    weir__layer_step(w, prefix, name, &n, last);
}

static void mlp(struct weir__layer_writer *w, const char *prefix, const char *part, double rows,
                double dim, double copies, char *last)
{
    mlp_after(w, prefix, part, rows, dim, copies, "", last);
}

/* Experts with more dies than there are have the shared one among them, and copies of hot ones. */
static bool shared_is_remote(const struct weir__layer_writer *w)
{
    return w->m->shared_dim > 0 && expert_dies(w->d) > w->m->experts;
}

static double exchanged_bytes(const struct weir__layer_writer *w, bool there)
{
    bool eight = w->d->quant != WEIR__QUANT_BF16;

    return there && eight ? w->m->hidden + TOKEN_EXTRA : 2 * w->m->hidden;
}

/* Between the dies that share the experts. */
static void exchange(struct weir__layer_writer *w, const char *prefix, const char *kind,
                     double bytes, double dies, char *last)
{
    bool copies = w->prefill && w->d->placement == WEIR__PLACE_TWO;
    const char *stream = w->stream;

    if (dies <= 1)
        return;
    if (copies)
        w->stream = "exchange";
    weir__layer_step(w, prefix, kind,
                     &(struct weir__layer_node){.engine = copies ? "sdma" : "vector",
                                                .collective = kind,
                                                .bytes = bytes,
                                                .ranks = (unsigned)dies},
                     last);
    w->stream = stream;
}

static void experts(struct weir__layer_writer *w, const char *prefix, char *last)
{
    const struct weir__llm *m = w->m;
    const struct weir__deploy *d = w->d;
    double dies = expert_dies(d), spread = dies > 1 ? d->tp : 1, t = w->tokens / spread;
    bool remote = shared_is_remote(w), apart = d->placement == WEIR__PLACE_SHARED && !remote;
    double copies = m->top + (remote ? 1 : 0), local = fmax(1, m->experts / dies);
    /* experts of the die that some token of the group has */
    double hit = fmax(1, local * (1 - pow(1 - m->top / m->experts, t * dies)));
    double rows = t * copies * d->imbalance, dim = dies > 1 ? m->expert_dim : m->expert_dim / d->tp;
    char norm[WEIR__LAYER_NAME], shared[WEIR__LAYER_NAME] = "", name[WEIR__LAYER_NAME],
                                 fetched[WEIR__LAYER_NAME] = "";
    const char *stream = w->stream;
    struct weir__layer_node n = weir__layer_rowwise(w->tokens, 2 * m->hidden);

    weir__layer_step(w, prefix, "moe_norm", &n, last);
    strcpy(norm, last);
    n = (struct weir__layer_node){.engine = "cube",
                                  .dtype = "bf16",
                                  .flops = 2 * w->tokens * m->hidden * m->experts,
                                  .bytes = 2 * m->hidden * m->experts + 2 * w->tokens * m->hidden,
                                  .m = w->tokens,
                                  .n = m->experts,
                                  .k = m->hidden};
    weir__layer_step(w, prefix, "gate", &n, last);
    n = weir__layer_rowwise(w->tokens, 4 * m->experts);
    weir__layer_step(w, prefix, "top", &n, last);
    if (apart && m->shared_dim > 0) {
        strcpy(shared, norm);
        w->stream = "shared";
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / d->tp, 1, shared);
        w->stream = stream;
    }
    if (d->prefetch && !w->prefill && dies > 1) {
        strcpy(fetched, last);
        n = (struct weir__layer_node){.engine = "sdma", .bytes = fetched_bytes(w, dim, hit)};
        w->stream = "prefetch";
        weir__layer_step(w, prefix, "prefetch", &n, fetched);
        w->stream = stream;
    }
    exchange(w, prefix, "dispatch", t * copies * exchanged_bytes(w, true), dies, last);
    n = weir__layer_rowwise(rows, w->d->quant == WEIR__QUANT_BF16 ? 2 * m->hidden : m->hidden);
    weir__layer_step(w, prefix, "permute", &n, last);
    mlp_after(w, prefix, "expert", rows, dim, hit, fetched, last);
    exchange(w, prefix, "combine", t * copies * exchanged_bytes(w, false), dies, last);
    if (!apart && !remote && m->shared_dim > 0) {
        strcpy(shared, norm);
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / d->tp, 1, shared);
    }
    if (dies <= 1)
        all_reduce(w, prefix, "moe_reduce", w->tokens, last);
    n = weir__layer_rowwise(w->tokens, 3 * m->hidden);
    weir__layer_name(name, prefix, "sum");
    weir__layer_emit(w, name, &n, last, shared);
    strcpy(last, name);
}

/* One layer; `last` is what it comes after and becomes its last node. */
static void layer(struct weir__layer_writer *w, const char *prefix, int i,
                  const char *attention_stream, const char *expert_stream, char *last)
{
    const struct weir__llm *m = w->m;
    const struct weir__deploy *d = w->d;
    unsigned cube = d->cube ? d->cube : (unsigned)(w->p->cube_cores * 2 / 3);
    unsigned vector = d->vector ? d->vector : (unsigned)(w->p->vector_cores * 2 / 3);
    /* a prefill has copy engines exchange, and needs no cores apart for it */
    bool two = d->placement == WEIR__PLACE_TWO && !w->prefill;
    struct weir__layer_node n = weir__layer_rowwise(w->tokens, 2 * m->hidden);
    double context = w->context;

    w->stream = attention_stream;
    w->cube = two ? cube : 0;
    w->vector = two ? vector : 0;
    if (m->window > 0 && i % 2 == 0)
        context = fmin(context, m->window);
    weir__layer_step(w, prefix, "norm", &n, last);
    if (m->kv_rank > 0)
        weir__layer_latent_attention(w, prefix, last);
    else
        weir__layer_grouped_attention(w, prefix, context, last);
    all_reduce(w, prefix, "reduce", w->tokens, last);
    w->stream = expert_stream;
    w->cube = two ? (unsigned)w->p->cube_cores - cube : 0;
    w->vector = two ? (unsigned)w->p->vector_cores - vector : 0;
    if (i >= m->dense_layers) {
        experts(w, prefix, last);
        return;
    }
    n = weir__layer_rowwise(w->tokens, 2 * m->hidden);
    weir__layer_step(w, prefix, "mlp_norm", &n, last);
    mlp(w, prefix, "mlp", w->tokens, m->dense_dim / d->tp, 1, last);
    all_reduce(w, prefix, "mlp_reduce", w->tokens, last);
}

/* The embedding's rows come from memory; every token, or one of each sequence, meets the head. Up
 * to 16 dies share it and take each other's rows. */
static void head(struct weir__layer_writer *w, const char *prefix, char *last)
{
    double share = fmax(w->d->tp, fmin(16, (double)w->d->ranks / w->d->pp));
    double rows = (w->prefill ? w->sequences : w->asking) * share / w->d->tp;
    struct weir__layer_writer plain = *w;
    struct weir__deploy d = *w->d;
    struct weir__layer_node n;

    d.quant = WEIR__QUANT_BF16;
    plain.d = &d;
    plain.stream = NULL;
    plain.cube = plain.vector = 0;
    n = weir__layer_product(&plain, rows, w->m->hidden, w->m->vocab / share, 1);
    weir__layer_step(&plain, prefix, "lm_head", &n, last);
    if (share > 1)
        weir__layer_step(&plain, prefix, "gather",
                         &(struct weir__layer_node){.engine = "sdma",
                                                    .collective = "all_to_all",
                                                    .bytes = 2 * rows * w->m->vocab / share,
                                                    .ranks = (unsigned)share},
                         last);
    n = weir__layer_rowwise(rows / share, 2 * w->m->vocab);
    weir__layer_step(&plain, prefix, "sample", &n, last);
}

/* Two microbatches that decode have a stream for attention and one for experts; those of a
 * prefill one each. */
static const char *stream_of(const struct weir__layer_writer *w, int half, const char *part)
{
    if (w->d->placement != WEIR__PLACE_TWO)
        return NULL;
    return !w->prefill ? part : half ? "second" : NULL;
}

weir_status weir__estimate_graph(const struct weir__llm *m, const struct weir__deploy *d,
                                 const struct weir__model_step *what, const struct weir__profile *p,
                                 struct weir__text *out)
{
    bool two = d->placement == WEIR__PLACE_TWO;
    int layers = (int)(what->layers > 0 ? what->layers : ceil(m->layers / d->pp));
    double drafts = d->accept > 0 && m->mtp > 0 ? 1 : 0;
    double sequences = d->batch / d->pp / (two ? 2 : 1);
    struct weir__layer_writer w = {
        .m = m,
        .d = d,
        .p = p,
        .out = out,
        .prefill = what->prefill,
        .sequences = sequences,
        .tokens = what->prefill ? sequences * d->prompt : sequences * (1 + drafts),
        .context = !what->prefill         ? d->prompt + d->output / 2
                   : d->chunk_context > 0 ? d->chunk_context
                                          : (d->prompt + 1) / 2,
        .chunk = what->prefill ? 0 : d->chunk / (two ? 2 : 1),
        .chunk_context = d->chunk_context > 0 ? d->chunk_context : (d->prompt + 1) / 2,
    };
    char last[2][WEIR__LAYER_NAME] = {"", ""}, prefix[24];

    w.asking = w.tokens;
    w.tokens += w.chunk;
    for (int i = 0; i < layers; i++)
        for (int half = 0; half <= two; half++) {
            snprintf(prefix, sizeof prefix, two ? "L%d.%d" : "L%d", i, half);
            layer(&w, prefix, i, stream_of(&w, half, "attention"), stream_of(&w, half, "experts"),
                  last[half]);
        }
    for (int half = 0; half <= two; half++) {
        snprintf(prefix, sizeof prefix, two ? "E.%d" : "E", half);
        head(&w, prefix, last[half]);
        if (what->prefill || !drafts || what->layers > 0)
            continue;
        snprintf(prefix, sizeof prefix, two ? "M.%d" : "M", half);
        layer(&w, prefix, (int)m->layers, stream_of(&w, half, "attention"),
              stream_of(&w, half, "experts"), last[half]);
        head(&w, prefix, last[half]);
    }
    if (d->pp > 1) {
        w.stream = NULL;
        w.cube = 0;
        weir__layer_step(&w, "E", "send",
                         &(struct weir__layer_node){.engine = "sdma",
                                                    .collective = "send",
                                                    .bytes = 2 * w.tokens * m->hidden,
                                                    .ranks = 2},
                         last[0]);
    }
    return out->failed ? weir__fail_nomem("the graph of %d layers", layers) : WEIR_OK;
}
