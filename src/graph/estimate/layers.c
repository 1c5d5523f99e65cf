/* A step of a model as Kernel nodes: what each part computes and moves on one die. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/estimate.h"

const char *const weir__quant_names[4] = {"bf16", "w8a8", "w4a8", "fp8"};
const char *const weir__placement_names[3] = {"single", "shared", "microbatch"};

#define NAME 64
/* An exchanged token in 8 bits has a scale for every 128 values and its place behind it. */
#define TOKEN_EXTRA 512

struct writer {
    const struct weir__llm *m;
    const struct weir__deploy *d;
    const struct weir__profile *p;
    struct weir__text *out;
    bool prefill;
    double sequences, tokens; /* of this microbatch on this die */
    double asking, context;   /* tokens of these that look at a cache; keys that one of them sees */
    double chunk, chunk_context; /* tokens of prompts among them, in a decode step */
    const char *stream;          /* NULL: the default one */
    unsigned cube, vector;       /* limits, 0 for none */
};

struct node {
    const char *engine, *dtype, *collective;
    double flops, bytes, m, n, k;
    unsigned ranks;
};

static void emit(struct writer *w, const char *name, const struct node *n, const char *first,
                 const char *second)
{
    struct weir__text *t = w->out;
    double blocks = strcmp(n->engine, "vector") ? w->p->cube_cores : w->p->vector_cores;

    weir__text_add(t, "node {\n  name: \"%s\"\n  op: \"Kernel\"\n", name);
    if (first && *first)
        weir__text_add(t, "  input: \"^%s\"\n", first);
    if (second && *second)
        weir__text_add(t, "  input: \"^%s\"\n", second);
    if (n->collective && strcmp(n->engine, "vector") != 0)
        blocks = 1;
#define ATTR(key, kind, format, value) \
    weir__text_add(t, "  attr { key: \"" key "\" value { " kind ": " format " } }\n", value)
    ATTR("engine", "s", "\"%s\"", n->engine);
    ATTR("blocks", "i", "%.0f", blocks);
    ATTR("bytes", "i", "%.0f", n->bytes);
    if (n->flops > 0) {
        ATTR("flops", "f", "%.6e", n->flops);
        ATTR("dtype", "s", "\"%s\"", n->dtype);
    }
    if (n->k > 0) {
        ATTR("m", "i", "%.0f", ceil(n->m));
        ATTR("n", "i", "%.0f", n->n);
        ATTR("k", "i", "%.0f", n->k);
    }
    if (n->collective) {
        ATTR("collective", "s", "\"%s\"", n->collective);
        ATTR("class", "s", "\"%s\"", "mc2");
        ATTR("ranks", "i", "%u", n->ranks);
    }
    if (w->stream)
        ATTR("_user_stream_label", "s", "\"%s\"", w->stream);
    if (w->cube && strcmp(n->engine, "sdma") != 0) {
        ATTR("_op_aicore_num", "i", "%u", w->cube);
        ATTR("_op_vectorcore_num", "i", "%u", w->vector);
    }
#undef ATTR
    weir__text_add(t, "}\n");
}

/* ---- sizes ---- */

static double weight_bytes(const struct weir__deploy *d)
{
    return d->quant == WEIR__QUANT_BF16 ? 2 : d->quant == WEIR__QUANT_W4A8 ? 0.5 : 1;
}

static const char *product_type(const struct weir__deploy *d)
{
    return d->quant == WEIR__QUANT_BF16 ? "bf16" : d->quant == WEIR__QUANT_F8 ? "f8" : "i8";
}

/* `rows` against `copies` matrices of k x n, spread evenly over them. */
static struct node product(const struct writer *w, double rows, double k, double n, double copies)
{
    return (struct node){
        .engine = "cube",
        .dtype = product_type(w->d),
        .flops = 2 * rows * k * n,
        .bytes = copies * k * n * weight_bytes(w->d) + 2 * rows * (k + n),
        .m = copies > 1 ? rows / copies : rows,
        .n = n,
        .k = k,
    };
}

/* Reads and writes that many values of 16 bits for each of `rows`, a few flops each. */
static struct node rowwise(double rows, double values)
{
    return (struct node){
        .engine = "vector", .dtype = "f32", .flops = 4 * rows * values, .bytes = 2 * rows * values};
}

/* Dies that share the experts. */
static double expert_dies(const struct weir__deploy *d)
{
    return d->ep ? d->ep : (double)d->ranks / d->pp;
}

/* What of the weights of `copies` first products fits half of the second level, and comes there
 * while a dispatch is under way: nobody would ask for more. */
static double fetched_bytes(const struct writer *w, double dim, double copies)
{
    double meanwhile = w->p->exchange_us * w->p->sdma_gb_s * 1e3;

    return fmin(fmin(w->p->l2_mib * 1024 * 1024 / 2, meanwhile),
                copies * w->m->hidden * 2 * dim * weight_bytes(w->d));
}

/* ---- parts of a layer ---- */

static void set_name(char *name, const char *prefix, const char *part)
{
    snprintf(name, NAME, "%.23s.%.31s", prefix, part);
}

static void all_reduce(struct writer *w, const char *prefix, const char *part, double rows,
                       char *last)
{
    char name[NAME];

    if (w->d->tp < 2)
        return;
    set_name(name, prefix, part);
    emit(w, name,
         &(struct node){.engine = "sdma",
                        .collective = "all_reduce",
                        .bytes = 2 * rows * w->m->hidden,
                        .ranks = w->d->tp},
         last, NULL);
    strcpy(last, name);
}

static void step(struct writer *w, const char *prefix, const char *part, const struct node *n,
                 char *last)
{
    char name[NAME];

    set_name(name, prefix, part);
    emit(w, name, n, last, NULL);
    strcpy(last, name);
}

/* Values of 16 bits become 8, with a scale for each row. */
static void quantise(struct writer *w, const char *prefix, const char *part, double rows,
                     double values, char *last)
{
    struct node n = rowwise(rows, 1.5 * values);

    if (w->d->quant != WEIR__QUANT_BF16)
        step(w, prefix, part, &n, last);
}

/* Tokens of prompts that ride with a decode step look at the keys before them. `heads` have keys
 * and values of `key` and `value` numbers; a latent cache is expanded for them. */
static void chunk_attention(struct writer *w, const char *prefix, double heads, double key,
                            double value, char *last)
{
    const struct weir__llm *m = w->m;
    double pairs = w->chunk * heads * w->chunk_context;
    double expand = m->kv_rank > 0 ? w->chunk_context * heads * m->kv_rank * (m->nope + value) : 0;
    struct node n = {.engine = "mix",
                     .dtype = "bf16",
                     .flops = 2 * pairs * (key + value) + 2 * expand,
                     .bytes = 2 * (w->chunk + w->chunk_context) * heads * (key + value)};

    if (w->chunk > 0)
        step(w, prefix, "chunk_attention", &n, last);
}

/* Queries, absorbed into the cache's space, and what the cache gets; the latter may have a stream
 * of its own. `kv` becomes its node there. */
static void decode_prolog(struct writer *w, const char *prefix, double heads, char *kv, char *last)
{
    const struct weir__llm *m = w->m;
    double query = heads * (m->nope + m->rope), t = w->tokens;
    double cache = m->hidden * (m->kv_rank + m->rope);
    double weights =
        (m->q_rank > 0 ? m->hidden * m->q_rank + m->q_rank * query : m->hidden * query) +
        heads * m->kv_rank * m->nope;
    const char *stream = w->stream;
    struct node n = {.engine = "mix", .dtype = product_type(w->d)};

    if (w->d->prolog) {
        n.flops = 2 * t * cache;
        n.bytes = cache * weight_bytes(w->d) + 2 * t * (m->hidden + m->kv_rank + m->rope);
        strcpy(kv, last);
        w->stream = "prolog";
        step(w, prefix, "kv_prolog", &n, kv);
        w->stream = stream;
    } else {
        weights += cache;
    }
    n.flops = 2 * t * weights;
    n.bytes = weights * weight_bytes(w->d) + 2 * t * (m->hidden + query);
    step(w, prefix, "mla_prolog", &n, last);
}

/* Between all dies of a stage, by copy engines. */
static void spread(struct writer *w, const char *prefix, const char *part, const char *kind,
                   double bytes, char *last)
{
    unsigned dies = w->d->ranks / w->d->pp;
    const char *stream = w->stream;

    if (!w->d->spread || dies < 2)
        return;
    w->stream = w->d->placement == WEIR__PLACE_TWO ? "exchange" : stream;
    step(w, prefix, part,
         &(struct node){.engine = "sdma", .collective = kind, .bytes = bytes, .ranks = dies}, last);
    w->stream = stream;
}

/* Down to latents, up to queries, keys and values of each head, positions into both. Keys are put
 * together of a part of each head's own and one that all heads share. */
static void prefill_prolog(struct writer *w, const char *prefix, double heads, char *last)
{
    const struct weir__llm *m = w->m;
    double query = heads * (m->nope + m->rope), t = w->tokens;
    double latent = m->q_rank + m->kv_rank + m->rope, from = m->q_rank > 0 ? m->q_rank : m->hidden;
    double all = t * (w->d->spread ? (double)w->d->ranks / w->d->pp : 1);
    struct node n;

    quantise(w, prefix, "quant_in", t, m->hidden, last);
    n = product(w, t, m->hidden, latent, 1);
    step(w, prefix, "mla_down", &n, last);
    n = rowwise(t, 2 * latent);
    step(w, prefix, "latent_norm", &n, last);
    spread(w, prefix, "latent_gather", "all_gather",
           all * latent * (w->d->quant == WEIR__QUANT_BF16 ? 2 : 1), last);
    n = product(w, t, from, query, 1);
    step(w, prefix, "q_up", &n, last);
    n = product(w, t, m->kv_rank, heads * (m->nope + m->v_dim), 1);
    step(w, prefix, "kv_up", &n, last);
    n = rowwise(t, query + heads * m->nope + 2 * heads * m->rope);
    step(w, prefix, "rope", &n, last);
}

/* Absorbed where one token looks at the compressed cache, expanded where many do. */
static void latent_attention(struct writer *w, const char *prefix, char *last)
{
    const struct weir__llm *m = w->m;
    double heads = m->heads / w->d->tp, t = w->tokens;
    char kv[NAME] = "", name[NAME];
    struct node n;

    if (w->prefill)
        prefill_prolog(w, prefix, heads, last);
    else
        decode_prolog(w, prefix, heads, kv, last);
    n = (struct node){.engine = "mix", .dtype = "bf16"};
    if (w->prefill) {
        n.flops = 2 * t * heads * w->context * (m->nope + m->rope + m->v_dim);
        n.bytes = 2 * t * heads * 2 * (m->nope + m->rope + m->v_dim);
    } else {
        n.flops = 2 * w->asking * heads * w->context * (2 * m->kv_rank + m->rope);
        n.bytes = 2 * w->sequences * w->context * (m->kv_rank + m->rope) +
                  2 * w->asking * heads * (2 * m->kv_rank + m->rope);
    }
    set_name(name, prefix, "attention");
    emit(w, name, &n, last, kv);
    strcpy(last, name);
    chunk_attention(w, prefix, heads, m->nope + m->rope, m->v_dim, last);
    if (!w->prefill) {
        n = product(w, t * heads, m->kv_rank, m->v_dim, heads);
        step(w, prefix, "v_up", &n, last);
    } else {
        spread(w, prefix, "head_exchange", "all_to_all", 2 * t * heads * m->v_dim, last);
    }
    quantise(w, prefix, "quant", t, heads * m->v_dim, last);
    n = product(w, t, heads * m->v_dim, m->hidden, 1);
    step(w, prefix, "o_proj", &n, last);
}

static void grouped_attention(struct writer *w, const char *prefix, double context, char *last)
{
    const struct weir__llm *m = w->m;
    double heads = m->heads / w->d->tp, kv = fmax(1, m->kv_heads / w->d->tp), t = w->tokens;
    struct node n = product(w, t, m->hidden, (heads + 2 * kv) * m->head_dim, 1);

    step(w, prefix, "qkv", &n, last);
    n = rowwise(t, 2 * (heads + 2 * kv) * m->head_dim);
    step(w, prefix, "rope", &n, last);
    n = (struct node){
        .engine = "mix",
        .dtype = "bf16",
        .flops = 4 * w->asking * heads * context * m->head_dim,
        .bytes =
            2 * w->asking * 2 * heads * m->head_dim +
            (w->prefill ? 4 * t * kv * m->head_dim : 4 * w->sequences * context * kv * m->head_dim),
    };
    step(w, prefix, "attention", &n, last);
    chunk_attention(w, prefix, heads, m->head_dim, m->head_dim, last);
    quantise(w, prefix, "quant", t, heads * m->head_dim, last);
    n = product(w, t, heads * m->head_dim, m->hidden, 1);
    step(w, prefix, "o_proj", &n, last);
}

/* `fetched` is the node that brings the first weights to the second level, "" if none does. */
static void mlp_after(struct writer *w, const char *prefix, const char *part, double rows,
                      double dim, double copies, const char *fetched, char *last)
{
    char name[NAME], node[NAME];
    struct node n = product(w, rows, w->m->hidden, 2 * dim, copies);

    if (*fetched)
        n.bytes -= fetched_bytes(w, dim, copies);
    snprintf(name, sizeof name, "%s_up", part);
    set_name(node, prefix, name);
    emit(w, node, &n, last, fetched);
    strcpy(last, node);
    /* products of 8 bits leave sums of 32, which this scales, and quantises again */
    n = rowwise(rows, w->d->quant == WEIR__QUANT_BF16 ? 3 * dim : 4.5 * dim);
    snprintf(name, sizeof name, "%s_act", part);
    step(w, prefix, name, &n, last);
    n = product(w, rows, dim, w->m->hidden, copies);
    snprintf(name, sizeof name, "%s_down", part);
    step(w, prefix, name, &n, last);
}

static void mlp(struct writer *w, const char *prefix, const char *part, double rows, double dim,
                double copies, char *last)
{
    mlp_after(w, prefix, part, rows, dim, copies, "", last);
}

/* Experts with more dies than there are have the shared one among them, and copies of hot ones. */
static bool shared_is_remote(const struct writer *w)
{
    return w->m->shared_dim > 0 && expert_dies(w->d) > w->m->experts;
}

static double exchanged_bytes(const struct writer *w, bool there)
{
    bool eight = w->d->quant != WEIR__QUANT_BF16;

    return there && eight ? w->m->hidden + TOKEN_EXTRA : 2 * w->m->hidden;
}

/* Between the dies that share the experts. */
static void exchange(struct writer *w, const char *prefix, const char *kind, double bytes,
                     double dies, char *last)
{
    bool copies = w->prefill && w->d->placement == WEIR__PLACE_TWO;
    const char *stream = w->stream;

    if (dies <= 1)
        return;
    if (copies)
        w->stream = "exchange";
    step(w, prefix, kind,
         &(struct node){.engine = copies ? "sdma" : "vector",
                        .collective = kind,
                        .bytes = bytes,
                        .ranks = (unsigned)dies},
         last);
    w->stream = stream;
}

static void experts(struct writer *w, const char *prefix, char *last)
{
    const struct weir__llm *m = w->m;
    const struct weir__deploy *d = w->d;
    double dies = expert_dies(d), spread = dies > 1 ? d->tp : 1, t = w->tokens / spread;
    bool remote = shared_is_remote(w), apart = d->placement == WEIR__PLACE_SHARED && !remote;
    double copies = m->top + (remote ? 1 : 0), local = fmax(1, m->experts / dies);
    /* experts of the die that some token of the group has */
    double hit = fmax(1, local * (1 - pow(1 - m->top / m->experts, t * dies)));
    double rows = t * copies * d->imbalance, dim = dies > 1 ? m->expert_dim : m->expert_dim / d->tp;
    char norm[NAME], shared[NAME] = "", name[NAME], fetched[NAME] = "";
    const char *stream = w->stream;
    struct node n = rowwise(w->tokens, 2 * m->hidden);

    step(w, prefix, "moe_norm", &n, last);
    strcpy(norm, last);
    n = (struct node){.engine = "cube",
                      .dtype = "bf16",
                      .flops = 2 * w->tokens * m->hidden * m->experts,
                      .bytes = 2 * m->hidden * m->experts + 2 * w->tokens * m->hidden,
                      .m = w->tokens,
                      .n = m->experts,
                      .k = m->hidden};
    step(w, prefix, "gate", &n, last);
    n = rowwise(w->tokens, 4 * m->experts);
    step(w, prefix, "top", &n, last);
    if (apart && m->shared_dim > 0) {
        strcpy(shared, norm);
        w->stream = "shared";
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / d->tp, 1, shared);
        w->stream = stream;
    }
    if (d->prefetch && !w->prefill && dies > 1) {
        strcpy(fetched, last);
        n = (struct node){.engine = "sdma", .bytes = fetched_bytes(w, dim, hit)};
        w->stream = "prefetch";
        step(w, prefix, "prefetch", &n, fetched);
        w->stream = stream;
    }
    exchange(w, prefix, "dispatch", t * copies * exchanged_bytes(w, true), dies, last);
    n = rowwise(rows, w->d->quant == WEIR__QUANT_BF16 ? 2 * m->hidden : m->hidden);
    step(w, prefix, "permute", &n, last);
    mlp_after(w, prefix, "expert", rows, dim, hit, fetched, last);
    exchange(w, prefix, "combine", t * copies * exchanged_bytes(w, false), dies, last);
    if (!apart && !remote && m->shared_dim > 0) {
        strcpy(shared, norm);
        mlp(w, prefix, "shared", w->tokens, m->shared_dim / d->tp, 1, shared);
    }
    if (dies <= 1)
        all_reduce(w, prefix, "moe_reduce", w->tokens, last);
    n = rowwise(w->tokens, 3 * m->hidden);
    set_name(name, prefix, "sum");
    emit(w, name, &n, last, shared);
    strcpy(last, name);
}

/* One layer; `last` is what it comes after and becomes its last node. */
static void layer(struct writer *w, const char *prefix, int i, const char *attention_stream,
                  const char *expert_stream, char *last)
{
    const struct weir__llm *m = w->m;
    const struct weir__deploy *d = w->d;
    unsigned cube = d->cube ? d->cube : (unsigned)(w->p->cube_cores * 2 / 3);
    unsigned vector = d->vector ? d->vector : (unsigned)(w->p->vector_cores * 2 / 3);
    /* a prefill has copy engines exchange, and needs no cores apart for it */
    bool two = d->placement == WEIR__PLACE_TWO && !w->prefill;
    struct node n = rowwise(w->tokens, 2 * m->hidden);
    double context = w->context;

    w->stream = attention_stream;
    w->cube = two ? cube : 0;
    w->vector = two ? vector : 0;
    if (m->window > 0 && i % 2 == 0)
        context = fmin(context, m->window);
    step(w, prefix, "norm", &n, last);
    if (m->kv_rank > 0)
        latent_attention(w, prefix, last);
    else
        grouped_attention(w, prefix, context, last);
    all_reduce(w, prefix, "reduce", w->tokens, last);
    w->stream = expert_stream;
    w->cube = two ? (unsigned)w->p->cube_cores - cube : 0;
    w->vector = two ? (unsigned)w->p->vector_cores - vector : 0;
    if (i >= m->dense_layers) {
        experts(w, prefix, last);
        return;
    }
    n = rowwise(w->tokens, 2 * m->hidden);
    step(w, prefix, "mlp_norm", &n, last);
    mlp(w, prefix, "mlp", w->tokens, m->dense_dim / d->tp, 1, last);
    all_reduce(w, prefix, "mlp_reduce", w->tokens, last);
}

/* The embedding's rows come from memory; every token, or one of each sequence, meets the head. Up
 * to 16 dies share it and take each other's rows. */
static void head(struct writer *w, const char *prefix, char *last)
{
    double share = fmax(w->d->tp, fmin(16, (double)w->d->ranks / w->d->pp));
    double rows = (w->prefill ? w->sequences : w->asking) * share / w->d->tp;
    struct writer plain = *w;
    struct weir__deploy d = *w->d;
    struct node n;

    d.quant = WEIR__QUANT_BF16;
    plain.d = &d;
    plain.stream = NULL;
    plain.cube = plain.vector = 0;
    n = product(&plain, rows, w->m->hidden, w->m->vocab / share, 1);
    step(&plain, prefix, "lm_head", &n, last);
    if (share > 1)
        step(&plain, prefix, "gather",
             &(struct node){.engine = "sdma",
                            .collective = "all_to_all",
                            .bytes = 2 * rows * w->m->vocab / share,
                            .ranks = (unsigned)share},
             last);
    n = rowwise(rows / share, 2 * w->m->vocab);
    step(&plain, prefix, "sample", &n, last);
}

/* Two microbatches that decode have a stream for attention and one for experts; those of a
 * prefill one each. */
static const char *stream_of(const struct writer *w, int half, const char *part)
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
    struct writer w = {
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
    char last[2][NAME] = {"", ""}, prefix[24];

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
        step(&w, "E", "send",
             &(struct node){.engine = "sdma",
                            .collective = "send",
                            .bytes = 2 * w.tokens * m->hidden,
                            .ranks = 2},
             last[0]);
    }
    return out->failed ? weir__fail_nomem("the graph of %d layers", layers) : WEIR_OK;
}
