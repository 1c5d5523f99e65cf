/* The best deployments under limits of latency. */
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
};

static bool within(double value, double limit)
{
    return !(limit > 0) || value <= limit;
}

/* returns  false to end the search; *fits: whether it met the limit of TPOT. */
static weir_status try(struct finder *f, const struct weir__deploy *d, bool *fits, bool *go_on)
{
    struct weir__estimate_memory memory;
    struct weir__estimate e;
    weir_status st;

    *fits = false;
    weir__estimate_memory(f->m, d, &f->dev->model->profile, &memory);
    if (d->batch > memory.most_batch)
        return WEIR_OK;
    f->tried++;
    *go_on = !f->options->poll || f->options->poll(f->options->user, f->tried, f->all);
    if ((st = weir__estimate_quick(f->dev, f->m, d, &e)))
        return st;
    *fits = within(e.tpot_ms, f->options->tpot_ms);
    if (*fits && within(e.ttft_ms, f->options->ttft_ms)) {
        if (!weir__grow(&f->found, f->nfound, &f->cap, sizeof *f->found))
            return WEIR_ENOMEM;
        f->found[f->nfound++] = (struct weir__candidate){
            .d = *d, .ttft_ms = e.ttft_ms, .tpot_ms = e.tpot_ms, .rate = e.decode_rate};
    }
    weir__estimate_fini(&e);
    return WEIR_OK;
}

/* Batches double until memory or the limit is reached. TTFT counts with a prompt at a time, so
 * a batch that is too large for it may still be served: it is left to --serve. */
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
    static const enum weir__placement placements[] = {WEIR__PLACE_SINGLE, WEIR__PLACE_SHARED,
                                                      WEIR__PLACE_TWO};
    struct finder f = {.dev = dev, .m = m, .options = options};
    weir_status st = WEIR_OK;
    bool go_on = true;

    if (!dev->model)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s runs in real time: only a modelled device estimates",
                          dev->props.name);
    for (uint32_t tp = 1; tp <= from->ranks && tp <= 64 && go_on && !st; tp *= 2)
        for (uint32_t pp = 1; pp * tp <= from->ranks && pp <= 16 && go_on && !st; pp *= 2)
            for (int spread = 0; spread <= (m->experts > 0) && go_on && !st; spread++)
                for (size_t i = 0; i < weir__countof(placements) && go_on && !st; i++) {
                    struct weir__deploy d = *from;

                    d.tp = tp;
                    d.pp = pp;
                    d.ep = spread ? 0 : 1;
                    d.batch = 1;
                    d.placement = placements[i];
                    if (weir__deploy_check(m, &d) ||
                        (placements[i] == WEIR__PLACE_SHARED && !(m->shared_dim > 0)))
                        continue;
                    st = try_batches(&f, &d, &go_on);
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
