/* Writes a step of a model as Kernel nodes: flops and bytes of each part on one die. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/layer.h"

const char *const weir__quant_names[4] = {"bf16", "w8a8", "w4a8", "fp8"};
const char *const weir__placement_names[3] = {"single", "shared", "microbatch"};

/* An exchanged token in 8 bits is followed by a scale for every 128 values and by its place. */
#define TOKEN_EXTRA 512

/* Weight bytes of `copies` first products that a prefetch brings to the second-level cache during
 * dispatch: at most half of that cache. A profile that inherits another has that one's prefetch:
 * faster copies do not take on more. */
static double fetched_bytes(const struct weir__layer_writer *w, double dim, double copies)
{
    const struct weir__profile *p = w->p;
    bool own = !p->base.name[0];
    double cache = own ? p->l2_mib : p->base.l2_mib;
    double meanwhile =
        own ? p->exchange_us * p->sdma_gb_s * 1e3 : p->base.exchange_us * p->base.sdma_gb_s * 1e3;

    return fmin(fmin(cache * 1024 * 1024 / 2, meanwhile),
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

/* `fetched` is the node that prefetches the first weights, "" if none does. */
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
    /* products of 8 bits give sums of 32 bits, which this node scales and quantises again */
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

/* Whether the shared expert is on dies of its own: if there are more dies than experts, the extra
 * dies hold the shared expert and copies of hot ones. */
static bool shared_is_remote(const struct weir__layer_writer *w)
{
    return w->m->shared_dim > 0 && weir__deploy_expert_dies(w->d) > w->m->experts;
}

static double exchanged_bytes(const struct weir__layer_writer *w, bool there)
{
    bool eight = w->d->quant != WEIR__QUANT_BF16;

    return there && eight ? w->m->hidden + TOKEN_EXTRA : 2 * w->m->hidden;
}

/* The last of the dies that share the experts finishes its attention later than the mean die, which
 * is the one written here. A node on a stream of its own stands for the difference, so that other
 * streams go on meanwhile. */
static void wait_for_peers(struct weir__layer_writer *w, const char *prefix, const char *last)
{
    double us = w->since_us * w->d->jitter * weir__last_of(weir__deploy_expert_dies(w->d));
    const char *stream = w->stream;

    strcpy(w->late, us > 0 ? last : "");
    if (!(us > 0))
        return;
    w->stream = "peers";
    weir__layer_step(w, prefix, "peers", &(struct weir__layer_node){.engine = "sdma", .us = us},
                     w->late);
    w->stream = stream;
}

/* The share of other super nodes on which a token has an expert. */
static double nodes_hit(const struct weir__llm *m, double nodes)
{
    double here = m->groups / nodes, none = 1;

    if (!(here >= 1) || m->top_groups < 1)
        return 1 - pow(1 - 1 / nodes, m->top);
    for (double i = 0; i < m->top_groups; i++) /* probability that none of its groups is on that
                                                * super node */
        none *= fmax(0, m->groups - here - i) / (m->groups - i);
    return 1 - none;
}

/* Bytes that one die sends to other super nodes in a prefill's exchange: each token goes once to
 * each super node and is forwarded to its experts there. 0 while decoding, where forwarding would
 * take longer. */
static double net_bytes(const struct weir__layer_writer *w, double bytes, double dies)
{
    double nodes = dies / w->p->super_dies;

    if (!w->prefill || nodes <= 1)
        return 0;
    return bytes / w->m->top * (nodes - 1) * nodes_hit(w->m, nodes);
}

/* An exchange between the dies that share the experts. */
static void exchange(struct weir__layer_writer *w, const char *prefix, const char *kind,
                     double bytes, double dies, char *last)
{
    bool copies = w->prefill && w->d->placement == WEIR__PLACE_TWO;
    unsigned cores = (unsigned)w->p->exchange_cores;
    const char *stream = w->stream;
    char name[WEIR__LAYER_NAME];

    if (dies <= 1)
        return;
    if (copies)
        w->stream = "exchange";
    weir__layer_name(name, prefix, kind);
    weir__layer_emit(
        w, name,
        &(struct weir__layer_node){.engine = copies && !cores ? "sdma" : "vector",
                                   .cores = copies ? cores : 0,
                                   .collective = kind,
                                   .bytes = bytes,
                                   .uneven = weir__deploy_imbalance(w->m, w->d, w->prefill),
                                   .net_bytes = net_bytes(w, bytes, dies),
                                   .ranks = (unsigned)dies},
        last, w->late);
    strcpy(last, name);
    w->late[0] = 0;
    w->stream = stream;
}

/* The state of a microbatch in its layer: the nodes that later nodes follow. */
struct place {
    char last[WEIR__LAYER_NAME], norm[WEIR__LAYER_NAME], shared[WEIR__LAYER_NAME],
        fetched[WEIR__LAYER_NAME];
};

/* The load of the experts of a die. */
struct expert_load {
    double dies, tokens, copies, rows, dim;
    double hit;  /* experts of the die that at least one token uses */
    bool remote; /* the shared expert is on dies of its own */
    bool apart;  /* the shared expert has a stream of its own */
};

static struct expert_load load_of(const struct weir__layer_writer *w)
{
    const struct weir__llm *m = w->m;
    const struct weir__deploy *d = w->d;
    struct expert_load x = {.dies = weir__deploy_expert_dies(d), .remote = shared_is_remote(w)};

    x.tokens = w->tokens / (x.dies > 1 ? d->tp : 1);
    x.copies = m->top + (x.remote ? 1 : 0);
    x.rows = x.tokens * x.copies * weir__deploy_imbalance(m, d, w->prefill);
    x.dim = x.dies > 1 ? m->expert_dim : m->expert_dim / d->tp;
    x.hit =
        fmax(1, ceil(m->experts / x.dies) * (1 - pow(1 - m->top / m->experts, x.tokens * x.dies)));
    x.apart = d->placement == WEIR__PLACE_SHARED && !x.remote && m->shared_dim > 0;
    return x;
}

/* Writes the part of a layer from the norm to the dispatch. */
static void send_to_experts(struct weir__layer_writer *w, const char *prefix, struct place *at)
{
    const struct weir__llm *m = w->m;
    const struct expert_load x = load_of(w);
    const char *stream = w->stream;
    struct weir__layer_node n = weir__layer_rowwise(w->tokens, 4 * m->hidden);

    at->shared[0] = at->fetched[0] = 0;
    weir__layer_step(w, prefix, "moe_norm", &n, at->last); /* norm of the sum, which the node writes
                                                            * too */
    strcpy(at->norm, at->last);
    n = (struct weir__layer_node){.engine = "cube",
                                  .dtype = "bf16",
                                  .flops = 2 * w->tokens * m->hidden * m->experts,
                                  .bytes = 2 * m->hidden * m->experts + 2 * w->tokens * m->hidden,
                                  .m = w->tokens,
                                  .n = m->experts,
                                  .k = m->hidden};
    weir__layer_step(w, prefix, "gate", &n, at->last);
    n = weir__layer_rowwise(w->tokens, 4 * m->experts);
    weir__layer_step(w, prefix, "top", &n, at->last);
    if (x.apart) {
        strcpy(at->shared, at->norm);
        w->stream = "shared";
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / w->d->tp, 1, at->shared);
        w->stream = stream;
    }
    if (w->d->prefetch && !w->prefill && x.dies > 1) {
        strcpy(at->fetched, at->last);
        n = (struct weir__layer_node){.engine = "sdma", .bytes = fetched_bytes(w, x.dim, x.hit)};
        w->stream = "prefetch";
        weir__layer_step(w, prefix, "prefetch", &n, at->fetched);
        w->stream = stream;
    }
    exchange(w, prefix, "dispatch", x.tokens * x.copies * exchanged_bytes(w, true), x.dies,
             at->last);
}

/* Dies that share heads need all rows of their tokens again: as sums of parts, or gathered from the
 * dies that sent them to experts. */
static void collect(struct weir__layer_writer *w, const char *prefix, const struct expert_load *x,
                    char *last)
{
    bool sums = x->dies <= 1 || (w->m->shared_dim > 0 && !x->remote);

    if (sums)
        all_reduce(w, prefix, "moe_reduce", w->tokens, last);
    else if (w->d->tp > 1)
        weir__layer_step(w, prefix, "moe_gather",
                         &(struct weir__layer_node){.engine = "sdma",
                                                    .collective = "all_gather",
                                                    .bytes = 2 * w->tokens * w->m->hidden,
                                                    .ranks = w->d->tp},
                         last);
}

/* Writes the part from the dispatch to the sum. */
static void ask_experts(struct weir__layer_writer *w, const char *prefix, struct place *at)
{
    const struct weir__llm *m = w->m;
    const struct expert_load x = load_of(w);
    bool eight = w->d->quant != WEIR__QUANT_BF16;
    char name[WEIR__LAYER_NAME];
    struct weir__layer_node n = weir__layer_rowwise(x.rows, eight ? m->hidden : 2 * m->hidden);

    weir__layer_step(w, prefix, "permute", &n, at->last);
    mlp_after(w, prefix, "expert", x.rows, x.dim, x.hit, at->fetched, at->last);
    exchange(w, prefix, "combine", x.tokens * x.copies * exchanged_bytes(w, false), x.dies,
             at->last);
    if (!x.apart && !x.remote && m->shared_dim > 0) {
        strcpy(at->shared, at->norm);
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / w->d->tp, 1, at->shared);
    }
    n = weir__layer_rowwise(w->tokens, 3 * m->hidden);
    weir__layer_name(name, prefix, "sum");
    weir__layer_emit(w, name, &n, at->last, at->shared);
    strcpy(at->last, name);
    collect(w, prefix, &x, at->last);
}

/* In a decode step, the two microbatches' attention and experts have streams and cores of their
 * own. In a prefill copy engines do the exchange, so the streams need no separate cores. */
static void use_stream(struct weir__layer_writer *w, const char *stream, bool attention)
{
    const struct weir__deploy *d = w->d;
    bool two = d->placement == WEIR__PLACE_TWO && !w->prefill;
    unsigned cube = d->cube ? d->cube : (unsigned)(w->p->cube_cores * 2 / 3);
    unsigned vector = d->vector ? d->vector : (unsigned)(w->p->vector_cores * 2 / 3);

    w->stream = stream;
    w->cube = !two ? 0 : attention ? cube : (unsigned)w->p->cube_cores - cube;
    w->vector = !two ? 0 : attention ? vector : (unsigned)w->p->vector_cores - vector;
}

/* The stream of a part: with two microbatches, a decode step has one stream for attention and one
 * for experts; a prefill has one per microbatch. */
static const char *stream_of(const struct weir__layer_writer *w, int half, const char *part)
{
    if (w->d->placement != WEIR__PLACE_TWO)
        return NULL;
    return !w->prefill ? part : half ? "second" : NULL;
}

static bool slides(const struct weir__llm *m, int i)
{
    return floor((i + 1) * m->window_layers / m->layers) > floor(i * m->window_layers / m->layers);
}

/* Mean keys that a token sees through the window: the first tokens of a prompt see fewer. */
static double window_context(const struct weir__layer_writer *w)
{
    double prompt = w->d->prompt, window = w->m->window;

    if (!w->prefill || w->d->chunk_context > 0 || prompt <= window)
        return fmin(w->context, window);
    return window - window * (window - 1) / (2 * prompt);
}

/* Writes layer i up to its dispatch, or all of a layer without experts. `at` holds the nodes that
 * it follows. */
static void begin_layer(struct weir__layer_writer *w, const char *prefix, int i, int half,
                        struct place *at)
{
    const struct weir__llm *m = w->m;
    double dense = weir__deploy_dense_layers(m, w->d);
    /* norm of the sum with the previous layer, which the node writes too */
    struct weir__layer_node n = weir__layer_rowwise(w->tokens, 4 * m->hidden);
    double context = w->context;

    use_stream(w, stream_of(w, half, "attention"), true);
    if (slides(m, i))
        context = window_context(w);
    weir__layer_step(w, prefix, "norm", &n, at->last);
    if (m->kv_rank > 0)
        weir__layer_latent_attention(w, prefix, at->last);
    else
        weir__layer_grouped_attention(w, prefix, context, at->last);
    all_reduce(w, prefix, "reduce", w->tokens, at->last);
    if (i >= dense)
        wait_for_peers(w, prefix, at->last);
    use_stream(w, stream_of(w, half, "experts"), false);
    if (i >= dense) {
        send_to_experts(w, prefix, at);
        return;
    }
    n = weir__layer_rowwise(w->tokens, 4 * m->hidden);
    weir__layer_step(w, prefix, "mlp_norm", &n, at->last);
    mlp(w, prefix, "mlp", w->tokens, m->dense_dim / w->d->tp, 1, at->last);
    all_reduce(w, prefix, "mlp_reduce", w->tokens, at->last);
}

static void end_layer(struct weir__layer_writer *w, const char *prefix, int i, int half,
                      struct place *at)
{
    if (i < weir__deploy_dense_layers(w->m, w->d))
        return;
    use_stream(w, stream_of(w, half, "experts"), false);
    ask_experts(w, prefix, at);
}

/* Writes layer i of both microbatches, or of all tokens. In a prefill one stream does the exchanges
 * of both: the dispatch of the second comes before the combine of the first, which waits for the
 * experts. */
static void layer(struct weir__layer_writer *w, int i, bool two, struct place at[2])
{
    char prefix[2][24];

    for (int half = 0; half <= two; half++)
        snprintf(prefix[half], sizeof *prefix, two ? "L%d.%d" : "L%d", i, half);
    for (int half = 0; half <= two; half++) {
        begin_layer(w, prefix[half], i, half, &at[half]);
        if (!w->prefill)
            end_layer(w, prefix[half], i, half, &at[half]);
    }
    for (int half = 0; half <= two && w->prefill; half++)
        end_layer(w, prefix[half], i, half, &at[half]);
}

/* The embedding reads its rows from memory. The head is applied to every token, or to one of each
 * sequence. Dies that share the head exchange rows. */
static void head(struct weir__layer_writer *w, const char *prefix, char *last)
{
    double share = weir__deploy_head_dies(w->m, w->d);
    double rows = (w->prefill ? w->sequences : w->asking) * share / w->d->tp;
    struct weir__layer_writer plain = *w;
    struct weir__layer_node n =
        weir__layer_half_product(w, rows, w->m->hidden, w->m->vocab / share, 1);

    plain.stream = NULL;
    plain.cube = plain.vector = 0;
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

weir_status weir__estimate_graph(const struct weir__llm *m, const struct weir__deploy *d,
                                 const struct weir__model_step *what, const struct weir__profile *p,
                                 struct weir__text *out)
{
    bool two = weir__deploy_has_two(d);
    struct weir__deploy one = *d; /* a batch that cannot be split has one stream */
    int layers = (int)(what->layers > 0 ? what->layers : ceil(m->layers / d->pp));
    double drafts = d->accept > 0 && m->mtp > 0 ? 1 : 0;
    double sequences = fmax(1, d->batch / d->pp) / (two ? 2 : 1);
    struct weir__layer_writer w = {
        .m = m,
        .d = two || d->placement != WEIR__PLACE_TWO ? d : &one,
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
    struct place at[2] = {0};
    char prefix[24];

    if (one.placement == WEIR__PLACE_TWO)
        one.placement = WEIR__PLACE_SINGLE;
    w.asking = w.tokens;
    w.tokens += w.chunk;
    for (int i = 0; i < layers; i++)
        layer(&w, i, two, at);
    for (int half = 0; half <= two; half++) {
        snprintf(prefix, sizeof prefix, two ? "E.%d" : "E", half);
        head(&w, prefix, at[half].last);
        if (what->prefill || !drafts || what->layers > 0)
            continue;
        snprintf(prefix, sizeof prefix, two ? "M.%d" : "M", half);
        begin_layer(&w, prefix, (int)m->layers, half, &at[half]);
        end_layer(&w, prefix, (int)m->layers, half, &at[half]);
        head(&w, prefix, at[half].last);
    }
    if (d->pp > 1) {
        w.stream = NULL;
        w.cube = 0;
        weir__layer_step(&w, "E", "send",
                         &(struct weir__layer_node){.engine = "sdma",
                                                    .collective = "send",
                                                    .bytes = 2 * w.tokens * m->hidden,
                                                    .ranks = 2},
                         at[0].last);
    }
    return out->failed ? weir__fail_nomem("allocating the graph of %d layers", layers) : WEIR_OK;
}
