/* Searches for the best deployments under latency limits. */
#include <math.h>
#include <stdlib.h>

#include "graph/estimate/estimate.h"

struct finder {
    weir_device *dev;
    const struct weir__llm *m;
    const struct weir__search_options *options;
    struct weir__candidate *found;
    int nfound, cap;
    size_t tried, all;
    /* Prefill times of the current parallelism: cores and streams of decoding do not change
     * them. */
    struct prefill {
        struct weir__deploy d;
        double us;
    } prefills[128];
    int nprefills;
};

static weir_status prefill_us(struct finder *f, const struct weir__deploy *d, double *us)
{
    struct prefill *p = NULL;
    weir_status st = WEIR_OK;

    for (int i = 0; i < f->nprefills && !p; i++)
        if (f->prefills[i].d.batch == d->batch && f->prefills[i].d.placement == d->placement)
            p = &f->prefills[i];
    if (p) {
        *us = p->us;
        return WEIR_OK;
    }
    st = weir__estimate_time_step(f->dev, f->m, d, true, us);
    if (!st && f->nprefills < (int)weir__countof(f->prefills))
        f->prefills[f->nprefills++] = (struct prefill){*d, *us};
    return st;
}

static bool within(double value, double limit)
{
    return !(limit > 0) || value <= limit;
}

/* returns  false to end the search. *fits: whether the deployment met the limit of TPOT. */
static weir_status try(struct finder *f, const struct weir__deploy *d, bool *fits, bool *go_on)
{
    double replicas = (double)d->ranks / d->tp / d->pp, us, first, tpot;
    struct weir__estimate_memory memory;
    weir_status st;

    *fits = false;
    weir__estimate_find_memory(f->m, d, &f->dev->model->profile, &memory);
    if (d->batch > memory.most_batch)
        return WEIR_OK;
    if (d->placement == WEIR__PLACE_TWO && !weir__deploy_has_two(d)) {
        *fits = true; /* a larger batch can be split */
        return WEIR_OK;
    }
    f->tried++;
    *go_on = !f->options->poll || f->options->poll(f->options->user, f->tried, f->all);
    if ((st = weir__estimate_time_step(f->dev, f->m, d, false, &us)))
        return st;
    tpot = us / 1e3 / (1 + d->accept);
    *fits = within(tpot, f->options->tpot_ms);
    if (!*fits)
        return WEIR_OK;
    if (d->chunk > 0)
        first = ceil(d->prompt / d->chunk) * us;
    else if ((st = prefill_us(f, d, &first)))
        return st;
    else
        first = weir__deploy_first_us(d, first);
    if (!within(first / 1e3, f->options->ttft_ms))
        return WEIR_OK;
    if (!weir__grow(&f->found, f->nfound, &f->cap, sizeof *f->found))
        return WEIR_ENOMEM;
    f->found[f->nfound++] = (struct weir__candidate){.d = *d,
                                                     .ttft_ms = first / 1e3,
                                                     .tpot_ms = tpot,
                                                     .rate = replicas * d->batch / (tpot / 1e3)};
    return WEIR_OK;
}

/* Doubles the batch until memory or the limit is reached. TTFT is computed with one prompt at a
 * time, so a batch that is too large for it may still be served; --serve decides that. */
static weir_status try_batches(struct finder *f, struct weir__deploy *d, bool *go_on)
{
    weir_status st = WEIR_OK;
    bool fits = true;

    for (double batch = d->pp; batch <= f->options->max_batch && fits && *go_on && !st;
         batch *= batch < 8 ? 2 : 1.5) {
        d->batch = ceil(batch / (2 * d->pp)) * (batch >= 2 * d->pp ? 2 * d->pp : d->pp);
        st = try(f, d, &fits, go_on);
    }
    return st;
}

/* Tries the placements that apply to the model, each with a few shares of the cores or extra
 * streams. */
static weir_status try_placements(struct finder *f, const struct weir__deploy *from, bool *go_on)
{
    const struct weir__profile *p = &f->dev->model->profile;
    bool mla = f->m->kv_rank > 0, spread = f->m->experts > 0 && from->ep != 1;
    weir_status st = WEIR_OK;

    for (int i = WEIR__PLACE_SINGLE; i <= WEIR__PLACE_TWO; i++) {
        int nshares = i == WEIR__PLACE_TWO ? WEIR__CORE_SHARES : 1;

        if (i == WEIR__PLACE_SHARED && !(f->m->shared_dim > 0))
            continue;
        for (int k = 0; k < nshares; k++)
            for (int extra = 0; extra < 2 && *go_on && !st; extra++) {
                struct weir__deploy d = *from;

                d.placement = (enum weir__placement)i;
                if (i == WEIR__PLACE_TWO)
                    weir__deploy_share_cores(&d, p, k);
                d.prolog = from->prolog || (extra && mla);
                d.prefetch = from->prefetch || (extra && spread);
                if (extra && d.prolog == from->prolog && d.prefetch == from->prefetch)
                    continue; /* nothing more to try */
                st = try_batches(f, &d, go_on);
            }
    }
    return st;
}

static int by_rate(const void *a, const void *b)
{
    const struct weir__candidate *x = a, *y = b;

    return x->rate != y->rate ? (x->rate < y->rate) - (x->rate > y->rate)
                              : (x->tpot_ms > y->tpot_ms) - (x->tpot_ms < y->tpot_ms);
}

static void mark_pareto(struct weir__candidate *c, int n)
{
    double least = INFINITY; /* sorted by rate, so only a lower TPOT is not dominated */

    for (int i = 0; i < n; i++) {
        c[i].pareto = c[i].tpot_ms < least;
        least = fmin(least, c[i].tpot_ms);
    }
}

weir_status weir__estimate_search(weir_device *dev, const struct weir__llm *m,
                                  const struct weir__deploy *from,
                                  const struct weir__search_options *options,
                                  struct weir__candidate **out, size_t *n, size_t *tried)
{
    struct finder f = {.dev = dev, .m = m, .options = options};
    struct weir__deploy plain = *from;
    weir_status st;
    bool go_on = true;

    if (!dev->model)
        return weir__fail(
            WEIR_EUNSUPPORTED,
            "%s runs in real time: an estimate needs a modelled device such as npu:a3",
            dev->props.name);
    plain.tp = plain.pp = 1; /* finds errors that no tp, pp or ep can fix */
    plain.ep = from->ep > 1 ? 1 : from->ep;
    if ((st = weir__deploy_check(m, &plain)))
        return st;
    for (uint32_t tp = 1; tp <= from->ranks && tp <= 64 && go_on && !st; tp *= 2)
        for (uint32_t pp = 1; pp * tp <= from->ranks && pp <= 16 && go_on && !st; pp *= 2)
            for (int spread = 0; spread <= (m->experts > 0) && go_on && !st; spread++) {
                struct weir__deploy d = *from;

                d.tp = tp;
                d.pp = pp;
                d.ep = spread ? 0 : 1;
                d.batch = 1;
                f.nprefills = 0;
                if (!weir__deploy_check(m, &d))
                    st = try_placements(&f, &d, &go_on);
            }
    if (st) {
        weir__free(f.found);
        return st;
    }
    if (f.nfound)
        qsort(f.found, (size_t)f.nfound, sizeof *f.found, by_rate);
    mark_pareto(f.found, f.nfound);
    *out = f.found;
    *n = (size_t)f.nfound;
    *tried = f.tried;
    return WEIR_OK;
}
