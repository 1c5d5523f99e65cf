/* A deployment: how it distributes a model, its limits, and the memory it needs. */
#include <math.h>

#include "graph/estimate/estimate.h"

/* How much dies differ, as standard deviations relative to the mean.
 * - EXPERT_SPREAD: load of one expert while decoding, with copies of the most loaded ones;
 *   ATTENTION_JITTER: time before a dispatch. Both are fitted to the dispatch and combine times of
 *   arXiv 2508.02520 on 288 dies: 234 us at a minimum of 185, and 312 at a minimum of 165
 * - PROMPT_SPREAD: load of one expert in prompts, whose tokens are more alike. Fitted to the two
 *   rates of arXiv 2506.12708 with evenly and with really loaded experts: 6688 / 5655 */
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
    double p = (n - 0.375) / (n + 0.25), low = 0, high = 8; /* Blom's approximation */

    if (!(n > 1))
        return 0;
    for (int i = 0; i < 50; i++) {
        double z = (low + high) / 2;

        *(0.5 * erfc(-z / sqrt(2)) < p ? &low : &high) = z;
    }
    return low;
}

double weir__deploy_expert_dies(const struct weir__deploy *d)
{
    return d->ep ? d->ep : (double)d->ranks / d->pp;
}

double weir__deploy_head_dies(const struct weir__llm *m, const struct weir__deploy *d)
{
    bool together = m->experts > 0 && weir__deploy_expert_dies(d) > d->tp;

    return together ? fmax(d->tp, fmin(16, (double)d->ranks / d->pp)) : d->tp;
}

double weir__deploy_dense_layers(const struct weir__llm *m, const struct weir__deploy *d)
{
    return m->experts > 0 ? floor(m->dense_layers / d->pp) : m->layers;
}

bool weir__deploy_has_two(const struct weir__deploy *d)
{
    return d->placement == WEIR__PLACE_TWO && d->batch >= 2 * d->pp;
}

/* The stages form a pipeline: each takes the parts of the batch one after the other. */
double weir__deploy_first_us(const struct weir__deploy *d, double us)
{
    double parts = fmin(d->pp, ceil(d->batch));

    return us * (d->pp + parts - 1) / d->pp;
}

double weir__deploy_imbalance(const struct weir__llm *m, const struct weir__deploy *d, bool prefill)
{
    double dies = weir__deploy_expert_dies(d);
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
    d->share = (uint32_t)share + 1;
}

static weir_status divides(const char *part, double a, const char *whole, double b)
{
    return a >= 1 && fmod(b, a) == 0
               ? WEIR_OK
               : weir__fail(WEIR_EINVAL, "%s %g does not divide %s %g", part, a, whole, b);
}

/* Refuses options that have no effect because the model lacks the part they concern. */
static weir_status check_use(const struct weir__llm *m, const struct weir__deploy *d)
{
    const struct {
        bool asked, has;
        const char *option, *part;
    } rows[] = {
        {d->accept > 0, m->mtp > 0, "--mtp", "layer that drafts"},
        {d->prolog, m->kv_rank > 0, "--prolog", "latent attention"},
        {d->spread, m->kv_rank > 0, "--spread", "latent attention"},
        {d->prefetch, m->experts > 0, "--prefetch", "experts"},
        {d->placement == WEIR__PLACE_SHARED, m->shared_dim > 0, "--placement shared",
         "shared expert"},
        {d->ep > 1, m->experts > 0, "--ep", "experts"},
    };

    for (size_t i = 0; i < weir__countof(rows); i++)
        if (rows[i].asked && !rows[i].has)
            return weir__fail(WEIR_EINVAL, "%s has no %s: leave out %s", m->family, rows[i].part,
                              rows[i].option);
    return WEIR_OK;
}

weir_status weir__deploy_check(const struct weir__llm *m, const struct weir__deploy *d)
{
    weir_status st;

    if ((st = check_use(m, d)) ||
        (st = divides("tp x pp", (double)d->tp * d->pp, "the ranks", d->ranks)) ||
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
    return WEIR_OK;
}

/* ---- memory ---- */

/* Cache bytes of one sequence on a die of the fullest stage, with the drafting layer. */
static double cache_bytes(const struct weir__llm *m, const struct weir__deploy *d)
{
    double token =
        m->kv_rank > 0 ? m->kv_rank + m->rope : 2 * ceil(m->kv_heads / d->tp) * m->head_dim;
    double context = d->prompt + d->output, layers = ceil(m->layers / d->pp);
    double sliding = m->window_layers * layers / m->layers;

    layers += d->accept > 0 ? 1 : 0;
    return 2 * token * ((layers - sliding) * context + sliding * fmin(context, m->window));
}

/* Weight bytes of one layer's experts, gate and shared expert on a die. */
static double expert_layer_bytes(const struct weir__llm *m, const struct weir__deploy *d,
                                 double per)
{
    double dies = weir__deploy_expert_dies(d);
    double local = dies > 1 ? ceil(fmax(m->experts, 1) / dies) : m->experts / d->tp;
    bool remote = m->shared_dim > 0 && dies > m->experts;

    return local * 3 * m->hidden * m->expert_dim * per +
           (remote ? 0 : 3 * m->hidden * m->shared_dim * per / d->tp) +
           2 * m->hidden * m->experts; /* the gate has half precision */
}

void weir__estimate_find_memory(const struct weir__llm *m, const struct weir__deploy *d,
                                const struct weir__profile *p, struct weir__estimate_memory *out)
{
    double per = d->quant == WEIR__QUANT_BF16 ? 2 : d->quant == WEIR__QUANT_W4A8 ? 0.5 : 1;
    double layers = ceil(m->layers / d->pp);
    double dense = m->experts > 0 ? weir__deploy_dense_layers(m, d) : layers;
    /* the matrices that absorb queries and values have half precision */
    double absorb = m->kv_rank * m->heads * (m->nope + m->v_dim);
    double attention = (weir__llm_attention(m) * per + absorb * (2 - per)) / d->tp;
    double moe = m->experts > 0 ? expert_layer_bytes(m, d, per) : 0;
    double embedding = 2 * m->vocab * m->hidden;
    double free, tokens = d->batch / d->pp * d->prompt;

    out->weights = layers * attention + dense * 3 * m->hidden * m->dense_dim * per / d->tp +
                   (layers - dense) * moe + embedding / d->tp;
    if (d->pp == 1 && !m->tied) /* other stages hold only one of embedding and head */
        out->weights += embedding / weir__deploy_head_dies(m, d);
    if (d->accept > 0) /* a drafting layer, and its matrix that joins two rows */
        out->weights += attention + moe + 2 * m->hidden * m->hidden * per;
    out->cache = d->batch * cache_bytes(m, d);
    /* a prefill keeps a few rows of each token, in pieces of 16 Ki tokens */
    out->activations = fmin(tokens, 16384) *
                       (8 * m->hidden + 4 * fmax(m->dense_dim, m->top * m->expert_dim) / d->tp) * 2;
    out->most = p->hbm_gib * 1024 * 1024 * 1024;
    free = 0.95 * out->most - out->weights - out->activations;
    out->most_batch = free > 0 ? floor(free / cache_bytes(m, d)) : 0;
}
