/* How a plan's products are done: first each on its own, then, where products of several lanes may
 * run at the same time, all of them together. A product that is fastest alone fills the GPU; two of
 * those take turns, where two others would fit side by side.
 *
 * What is timed is the plan's own graph, but its products write into memory made for that and its
 * other kernels do nothing: a plan may not run twice for being timed. */
#include <string.h>

#include "cuda/product.h"
#include "cuda/program.h"

enum { MEMBERS = 32, PASSES = 2 };
#define LONGEST_NS UINT64_C(1000000000)
#define BETTER 0.98f  /* a gain that is not noise */
#define TOO_SLOW 2.5f /* against the fastest: not worth a trial beside others */

struct member {
    struct weir__cuda_product *product;
    struct weir__product call; /* one of the plan's */
    struct weir__cuda_sink sink;
    const struct weir__cuda_part *part;
};

struct rehearsal {
    struct weir__program *program;
    struct member members[MEMBERS];
    int nmembers, nlanes; /* lanes that have some */
    size_t span;          /* of the longest result */
    struct weir__cuda_watch watch;
    char *into;
    uint64_t end;
};

/* ---- who takes part ---- */

/* Alignment is left out: tensors bound later may lie differently. */
static uint64_t hash_key(uint64_t h, const struct weir__cuda_key *key)
{
    struct weir__cuda_key k;

    memcpy(&k, key, sizeof k);
    memset(k.align, 0, sizeof k.align);
    return weir__cuda_hash(h, &k, sizeof k);
}

static void add_member(struct rehearsal *r, const struct member *m)
{
    for (int i = 0; i < r->nmembers; i++)
        if (r->members[i].product == m->product)
            return;
    if (r->nmembers < MEMBERS)
        r->members[r->nmembers++] = *m;
}

/* Tunes the product on its own; false if the item is none that can be. */
static bool take_item(struct rehearsal *r, struct weir__cuda_lane *lane,
                      const struct weir__cuda_item *item)
{
    const struct weir__kernel *k = &item->kernel;
    struct member m = {
        .sink = {.dev = r->program->dev, .cores = k->cores, .workspace = &lane->workspace}};
    size_t span;

    if (!k->fn || !k->tune || !k->code->product || !k->code->product(k->args, &m.call) ||
        weir__cuda_product_find(m.sink.dev, &m.call, k->cores, &m.product) ||
        weir__cuda_part(weir__cuda_stream(lane->stream), k->cores, &m.part) ||
        weir__cuda_product_workspace(&m.sink))
        return false;
    if (!m.product->tuned)
        weir__cuda_tune(&m.sink, m.part, m.product, &m.call);
    r->program->company = hash_key(r->program->company, &m.product->key);
    add_member(r, &m);
    span = weir__cuda_product_span(&m.call);
    r->span = span > r->span ? span : r->span;
    return true;
}

static void gather(struct rehearsal *r)
{
    struct weir__program *p = r->program;

    p->company = WEIR__CUDA_HASH;
    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *lane = &p->lanes[i];
        bool some = false;

        for (int k = 0; k < lane->nitems; k++) {
            const struct weir__cuda_item *item = &lane->items[k];
            const int place[] = {i, k, item->lane, item->item};

            if (!item->is_wait && !take_item(r, lane, item))
                continue;
            p->company = weir__cuda_hash(p->company, place, sizeof place);
            some |= !item->is_wait;
        }
        r->nlanes += some;
    }
}

/* ---- together ---- */

static float time_together(struct rehearsal *r)
{
    struct weir__cuda *dev = r->program->dev;
    weir__cu_graph graph = NULL;
    float ms = -1;

    if (!weir__cuda_program_graph(r->program, r->into, &graph))
        ms = weir__cuda_watch_graph(dev, &r->watch, graph);
    if (graph)
        dev->api->cu.graph_destroy(graph);
    return ms;
}

/* Tries the member's other ways; true if one of them makes all faster. */
static bool improve(struct rehearsal *r, struct weir__cuda_product *p, float *least)
{
    uint64_t company = r->program->company;
    int best = weir__cuda_choice(p, company), before = best;

    for (int i = 0; i < p->nways && weir__clock_ns() < r->end; i++) {
        float ms;

        if (i == before || p->ways[i].ms <= 0 || p->ways[i].ms > p->ways[p->best].ms * TOO_SLOW)
            continue;
        weir__cuda_choose(p, company, i);
        ms = time_together(r);
        weir__log(WEIR_LOG_DEBUG,
                  "product [%lld, %lld, %lld] by way %d: the plan's products take %.2f us "
                  "together, %.2f before",
                  (long long)p->key.m, (long long)p->key.k, (long long)p->key.n, i,
                  (double)ms * 1e3, (double)*least * 1e3);
        if (ms > 0 && ms < *least * BETTER) {
            *least = ms;
            best = i;
        }
    }
    weir__cuda_choose(p, company, best);
    return best != before;
}

static void try_orders(struct rehearsal *r)
{
    float ms[2];

    (void)time_together(r); /* the clocks rise */
    for (int i = 0; i < 2; i++) {
        weir__cuda_line_up(r->program, i);
        ms[i] = time_together(r);
    }
    weir__log(WEIR_LOG_DEBUG, "a plan's products take %.2f us lane by lane, %.2f us longest first",
              (double)ms[0] * 1e3, (double)ms[1] * 1e3);
    weir__cuda_line_up(r->program, ms[1] > 0 && ms[1] < ms[0] * BETTER);
}

static void try_ways(struct rehearsal *r)
{
    uint64_t company = r->program->company;
    bool better = true;
    float least;

    for (int i = 0; i < r->nmembers; i++) {
        struct member *m = &r->members[i];

        weir__cuda_tune(&m->sink, m->part, m->product, &m->call);
        weir__cuda_choose(m->product, company, m->product->best);
    }
    if ((least = time_together(r)) <= 0)
        return;
    for (int pass = 0; pass < PASSES && better; pass++) {
        better = false; /* and a single one has tried everything */
        for (int i = 0; i < r->nmembers; i++)
            better |= improve(r, r->members[i].product, &least) && r->nmembers > 1;
    }
    for (int i = 0; i < r->nmembers; i++)
        weir__cuda_keep_choice(r->program->dev, r->members[i].product, company,
                               weir__cuda_choice(r->members[i].product, company));
}

/* Whether all of them were chosen by an earlier process. */
static bool recall(struct rehearsal *r)
{
    for (int i = 0; i < r->nmembers; i++)
        if (weir__cuda_read_choice(r->program->dev, r->members[i].product, r->program->company) < 0)
            return false;
    return true;
}

void weir__cuda_rehearse(struct weir__program *p)
{
    struct weir__cuda *dev = p->dev;
    struct rehearsal r = {.program = p};
    weir__cu_address into;
    bool known;

    if (p->rehearsed)
        return;
    p->rehearsed = true;
    gather(&r);
    if (r.nlanes < 2 || dev->base.pool.deterministic || !weir__cuda_watch_open(dev, NULL, &r.watch))
        return;
    if (!dev->api->cu.memory_alloc(&into, r.span)) {
        r.into = (char *)(uintptr_t)into;
        r.end = weir__clock_ns() + LONGEST_NS;
        known = recall(&r);
        try_orders(&r);
        if (!known) {
            try_ways(&r);
            try_orders(&r);
        }
        dev->api->cu.memory_free(into);
    }
    weir__cuda_watch_close(dev, &r.watch);
}
