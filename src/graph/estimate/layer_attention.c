/* Writes a layer's attention as nodes: on a latent cache, or with groups of heads. */
#include <math.h>
#include <string.h>

#include "graph/estimate/layer.h"

/* Attention of the prompt tokens in a decode step: they read the keys before them. Each of `heads`
 * has keys and values of `key` and `value` numbers; a latent cache is expanded for them. */
static void chunk_attention(struct weir__layer_writer *w, const char *prefix, double heads,
                            double key, double value, char *last)
{
    const struct weir__llm *m = w->m;
    double pairs = w->chunk * heads * w->chunk_context;
    double expand = m->kv_rank > 0 ? w->chunk_context * heads * m->kv_rank * (m->nope + value) : 0;
    struct weir__layer_node n = {.engine = "mix",
                                 .dtype = "bf16",
                                 .flops = 2 * pairs * (key + value) + 2 * expand,
                                 .bytes =
                                     2 * (w->chunk + w->chunk_context) * heads * (key + value)};

    if (w->chunk > 0)
        weir__layer_step(w, prefix, "chunk_attention", &n, last);
}

/* Cost of a half-precision flop, in flops of the type of products. */
static double half_cost(const struct weir__layer_writer *w)
{
    double rate = w->d->quant == WEIR__QUANT_BF16 ? w->p->cube_bf16_ratio
                  : w->d->quant == WEIR__QUANT_F8 ? w->p->cube_f8_ratio
                                                  : w->p->cube_i8_ratio;

    return rate / w->p->cube_bf16_ratio;
}

/* Factor by which cores that wait for the fullest core slow decoding. A core of an NPU takes whole
 * `units`, a token against its keys; several cores share one unit only if there are fewer units
 * than cores. Kernels of GPUs divide the work evenly. */
static double whole_units(const struct weir__layer_writer *w, double units)
{
    double cube = w->cube ? w->cube : w->p->cube_cores;
    double vector = w->vector ? w->vector : w->p->vector_cores;
    double cores = fmin(cube, fmax(1, floor(vector / 2))); /* each has two vector cores */

    return w->p->shared_cores > 0 || units <= cores ? 1 : ceil(units / cores) * cores / units;
}

/* Computes the queries, absorbed into the cache's space, and the new cache entries. The latter may
 * have a stream of their own; `kv` becomes their node there. */
static void decode_prolog(struct weir__layer_writer *w, const char *prefix, double heads, char *kv,
                          char *last)
{
    const struct weir__llm *m = w->m;
    double query = heads * (m->nope + m->rope), t = w->tokens;
    double cache = m->hidden * (m->kv_rank + m->rope);
    double weights = m->q_rank > 0 ? m->hidden * m->q_rank + m->q_rank * query : m->hidden * query;
    /* in half precision, as the cache and v_up are */
    double absorb = heads * m->kv_rank * m->nope;
    /* queries, like their latents, are written and read again before absorption */
    double rows = m->hidden + 2 * m->q_rank + 2 * query + heads * (m->kv_rank + m->rope);
    const char *stream = w->stream;
    struct weir__layer_node n = {.engine = "mix", .dtype = weir__layer_product_type(w->d)};

    if (w->d->prolog) {
        n.flops = 2 * t * cache;
        n.bytes =
            cache * weir__layer_weight_bytes(w->d) + 2 * t * (m->hidden + m->kv_rank + m->rope);
        strcpy(kv, last);
        w->stream = "prolog";
        weir__layer_step(w, prefix, "kv_prolog", &n, kv);
        w->stream = stream;
    } else {
        weights += cache;
    }
    n.flops = 2 * t * (weights + absorb * half_cost(w));
    n.bytes = weights * weir__layer_weight_bytes(w->d) + 2 * absorb + 2 * t * rows;
    weir__layer_step(w, prefix, "mla_prolog", &n, last);
}

/* An exchange between all dies of a stage, by copy engines. */
static void spread(struct weir__layer_writer *w, const char *prefix, const char *part,
                   const char *kind, double bytes, char *last)
{
    unsigned dies = w->d->ranks / w->d->pp;
    const char *stream = w->stream;

    if (!w->d->spread || dies < 2)
        return;
    w->stream = w->d->placement == WEIR__PLACE_TWO ? "exchange" : stream;
    weir__layer_step(w, prefix, part,
                     &(struct weir__layer_node){
                         .engine = "sdma", .collective = kind, .bytes = bytes, .ranks = dies},
                     last);
    w->stream = stream;
}

/* Projections to latents and up to queries, keys and values of each head; then positions. A key
 * consists of a part of the head's own and a part that all heads share. */
static void prefill_prolog(struct weir__layer_writer *w, const char *prefix, double heads,
                           char *last)
{
    const struct weir__llm *m = w->m;
    double query = heads * (m->nope + m->rope), t = w->tokens;
    double latent = m->q_rank + m->kv_rank + m->rope, from = m->q_rank > 0 ? m->q_rank : m->hidden;
    double all = t * (w->d->spread ? (double)w->d->ranks / w->d->pp : 1);
    struct weir__layer_node n;

    weir__layer_quantise(w, prefix, "quant_in", t, m->hidden, last);
    n = weir__layer_product(w, t, m->hidden, latent, 1);
    weir__layer_step(w, prefix, "mla_down", &n, last);
    n = weir__layer_rowwise(t, 2 * latent);
    weir__layer_step(w, prefix, "latent_norm", &n, last);
    spread(w, prefix, "latent_gather", "all_gather",
           all * latent * (w->d->quant == WEIR__QUANT_BF16 ? 2 : 1), last);
    n = weir__layer_product(w, t, from, query, 1);
    weir__layer_step(w, prefix, "q_up", &n, last);
    n = weir__layer_product(w, t, m->kv_rank, heads * (m->nope + m->v_dim), 1);
    weir__layer_step(w, prefix, "kv_up", &n, last);
    n = weir__layer_rowwise(t, query + heads * m->nope + 2 * heads * m->rope);
    weir__layer_step(w, prefix, "rope", &n, last);
}

void weir__layer_latent_attention(struct weir__layer_writer *w, const char *prefix, char *last)
{
    const struct weir__llm *m = w->m;
    double heads = m->heads / w->d->tp, t = w->tokens;
    char kv[WEIR__LAYER_NAME] = "", name[WEIR__LAYER_NAME];
    struct weir__layer_node n;

    if (w->prefill)
        prefill_prolog(w, prefix, heads, last);
    else
        decode_prolog(w, prefix, heads, kv, last);
    n = (struct weir__layer_node){.engine = "mix", .dtype = "bf16"};
    if (w->prefill) {
        n.flops = 2 * t * heads * w->context * (m->nope + m->rope + m->v_dim);
        n.bytes = 2 * t * heads * 2 * (m->nope + m->rope + m->v_dim);
    } else {
        n.flops = 2 * w->asking * heads * w->context * (2 * m->kv_rank + m->rope) *
                  whole_units(w, w->asking);
        n.bytes = 2 * w->sequences * w->context * (m->kv_rank + m->rope) +
                  2 * w->asking * heads * (2 * m->kv_rank + m->rope);
    }
    weir__layer_name(name, prefix, "attention");
    weir__layer_emit(w, name, &n, last, kv);
    strcpy(last, name);
    chunk_attention(w, prefix, heads, m->nope + m->rope, m->v_dim, last);
    if (!w->prefill) {
        n = weir__layer_half_product(w, t * heads, m->kv_rank, m->v_dim, heads);
        weir__layer_step(w, prefix, "v_up", &n, last);
    } else {
        spread(w, prefix, "head_exchange", "all_to_all", 2 * t * heads * m->v_dim, last);
    }
    weir__layer_quantise(w, prefix, "quant", t, heads * m->v_dim, last);
    n = weir__layer_product(w, t, heads * m->v_dim, m->hidden, 1);
    weir__layer_step(w, prefix, "o_proj", &n, last);
}

void weir__layer_grouped_attention(struct weir__layer_writer *w, const char *prefix, double context,
                                   char *last)
{
    const struct weir__llm *m = w->m;
    double heads = m->heads / w->d->tp, kv = fmax(1, m->kv_heads / w->d->tp), t = w->tokens;
    struct weir__layer_node n =
        weir__layer_product(w, t, m->hidden, (heads + 2 * kv) * m->head_dim, 1);

    weir__layer_step(w, prefix, "qkv", &n, last);
    n = weir__layer_rowwise(t, 2 * (heads + 2 * kv) * m->head_dim);
    weir__layer_step(w, prefix, "rope", &n, last);
    n = (struct weir__layer_node){
        .engine = "mix",
        .dtype = "bf16",
        .flops = 4 * w->asking * heads * context * m->head_dim *
                 (w->prefill ? 1 : whole_units(w, w->asking * kv)),
        .bytes =
            2 * w->asking * 2 * heads * m->head_dim +
            (w->prefill ? 4 * t * kv * m->head_dim : 4 * w->sequences * context * kv * m->head_dim),
    };
    weir__layer_step(w, prefix, "attention", &n, last);
    chunk_attention(w, prefix, heads, m->head_dim, m->head_dim, last);
    weir__layer_quantise(w, prefix, "quant", t, heads * m->head_dim, last);
    n = weir__layer_product(w, t, heads * m->head_dim, m->hidden, 1);
    weir__layer_step(w, prefix, "o_proj", &n, last);
}
