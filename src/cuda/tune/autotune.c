/* Chooses the algorithms of a plan's products: first for each product alone, then, if products of
 * several lanes may run at the same time, for all of them together. The algorithm that is fastest
 * alone fills the GPU. Two such products run one after the other, where two slower ones could run
 * side by side, or one stack of both could be faster still.
 *
 * The plan's own graph is timed. But its products write to temporary memory, and its other kernels
 * are replaced by kernels that only take time: timing must not run the plan. */
#include <string.h>

#include "cuda/load/cache.h"
#include "cuda/product/product.h"
#include "cuda/program/program.h"

enum { MEMBERS = 32, PASSES = 2 };
#define LONGEST_NS UINT64_C(1000000000) /* time limit for algorithms, and again for merges */
#define BETTER 0.98f                    /* a ratio below this is not noise */
#define TOO_SLOW 2.5f                   /* times the fastest: not tried together with others */
#define ROOM ((size_t)64 << 20)         /* bytes for the results of a merge */

struct member {
    struct weir__cuda_product *product;
    struct weir__product call; /* one of the plan's */
    struct weir__cuda_sink sink;
    const struct weir__cuda_part *part;
};

struct tuning {
    struct weir__program *program;
    struct member members[MEMBERS];
    int nmembers, nlanes;                      /* nlanes: lanes that have products */
    struct weir__cuda_place products[MEMBERS]; /* the plan's first products */
    int nproducts;
    size_t span; /* bytes of the longest result */
    size_t room; /* bytes of the memory for results */
    struct weir__cuda_watch watch;
    char *into;
    uint64_t end;
};

/* ---- gathering the products ---- */

/* Leaves out alignment, because tensors that are bound later may be aligned differently. */
static uint64_t hash_key(uint64_t h, const struct weir__cuda_key *key)
{
    struct weir__cuda_key k;

    memcpy(&k, key, sizeof k);
    memset(k.align, 0, sizeof k.align);
    return weir__cuda_hash(h, &k, sizeof k);
}

static void add_member(struct tuning *r, const struct member *m)
{
    for (int i = 0; i < r->nmembers; i++)
        if (r->members[i].product == m->product)
            return;
    if (r->nmembers < MEMBERS)
        r->members[r->nmembers++] = *m;
}

/* Tunes the product alone. False if the item is not a product that can be tuned. */
static bool take_item(struct tuning *r, struct weir__cuda_lane *lane,
                      const struct weir__cuda_item *item)
{
    const struct weir__kernel *k = &item->kernel;
    struct member m = {
        .sink = {.dev = r->program->dev, .cores = k->cores, .workspace = &lane->workspace}};
    size_t span;

    if (!k->fn || !k->tune || !k->code->product || !k->code->product(k->args, &m.call) ||
        weir__cuda_product_find(m.sink.dev, &m.call, k->cores, &m.product) ||
        weir__cuda_find_part(weir__cuda_stream_of(lane->stream), k->cores, &m.part) ||
        weir__cuda_product_workspace(&m.sink))
        return false;
    if (!m.product->tuned)
        weir__cuda_tune(&m.sink, m.part, m.product, &m.call);
    r->program->concurrent_set = hash_key(r->program->concurrent_set, &m.product->key);
    add_member(r, &m);
    span = weir__cuda_product_span(&m.call);
    r->span = span > r->span ? span : r->span;
    return true;
}

static void gather(struct tuning *r)
{
    struct weir__program *p = r->program;

    p->concurrent_set = WEIR__CUDA_HASH;
    for (int i = 0; i < p->nlanes; i++) {
        struct weir__cuda_lane *lane = &p->lanes[i];
        bool some = false;

        for (int k = 0; k < lane->nitems; k++) {
            const struct weir__cuda_item *item = &lane->items[k];
            const int place[] = {i, k, item->lane, item->item};

            if (!item->is_wait && !take_item(r, lane, item))
                continue;
            p->concurrent_set = weir__cuda_hash(p->concurrent_set, place, sizeof place);
            if (item->is_wait)
                continue;
            some = true;
            if (r->nproducts < MEMBERS)
                r->products[r->nproducts++] = (struct weir__cuda_place){i, k};
        }
        r->nlanes += some;
    }
}

/* ---- together ---- */

static float time_together(struct tuning *r)
{
    struct weir__cuda *dev = r->program->dev;
    weir__cu_graph graph = NULL;
    float ms = -1;

    if (!weir__cuda_program_graph(r->program, r->into, false, &graph))
        ms = weir__cuda_watch_graph(dev, &r->watch, graph);
    if (graph)
        dev->api->cu.graph_destroy(graph);
    return ms;
}

/* Tries the product's other algorithms. True if one of them makes the whole plan faster. */
static bool improve(struct tuning *r, struct weir__cuda_product *p, float *least)
{
    uint64_t concurrent_set = r->program->concurrent_set;
    int best = weir__cuda_choice(p, concurrent_set), before = best;

    for (int i = 0; i < p->nalgorithms && weir__clock_ns() < r->end; i++) {
        float ms;

        if (i == before || p->algorithms[i].ms <= 0 ||
            p->algorithms[i].ms > p->algorithms[p->best].ms * TOO_SLOW)
            continue;
        weir__cuda_choose(p, concurrent_set, i);
        ms = time_together(r);
        weir__log(WEIR_LOG_DEBUG,
                  "product [%lld, %lld, %lld] by algorithm %d: the plan's products take %.2f us "
                  "together, %.2f before",
                  (long long)p->key.m, (long long)p->key.k, (long long)p->key.n, i,
                  (double)ms * 1e3, (double)*least * 1e3);
        if (ms > 0 && ms < *least * BETTER) {
            *least = ms;
            best = i;
        }
    }
    weir__cuda_choose(p, concurrent_set, best);
    return best != before;
}

/* Tries the orders and priorities of nodes. Returns the time of the fastest. */
static float try_orders(struct tuning *r)
{
    struct weir__cuda_arrangement *a = &r->program->arrangement;
    float least = -1;
    int best = 0;

    (void)time_together(r); /* warms up: the GPU's clocks rise */
    for (int i = 0; i < 4; i++) {
        float ms;

        a->longest_first = i & 1;
        a->urgent = i >> 1;
        weir__cuda_arrange(r->program);
        ms = time_together(r);
        weir__log(WEIR_LOG_DEBUG, "a plan takes %.2f us %s%s", (double)ms * 1e3,
                  a->longest_first ? "longest first" : "lane by lane",
                  a->urgent ? ", with priorities" : "");
        if (ms > 0 && (least < 0 || ms < least * BETTER)) {
            least = ms;
            best = i;
        }
    }
    a->longest_first = best & 1;
    a->urgent = best >> 1;
    weir__cuda_arrange(r->program);
    return least;
}

static void try_algorithms(struct tuning *r, float *least)
{
    bool better = true;

    for (int i = 0; i < r->nmembers; i++) {
        struct member *m = &r->members[i];

        weir__cuda_tune(&m->sink, m->part, m->product, &m->call);
        weir__cuda_choose(m->product, r->program->concurrent_set, m->product->best);
    }
    for (int pass = 0; pass < PASSES && better; pass++) {
        better = false; /* a single product has tried every choice */
        for (int i = 0; i < r->nmembers; i++)
            better |= improve(r, r->members[i].product, least) && r->nmembers > 1;
    }
}

/* ---- merged ---- */

static bool is_merged(const struct tuning *r, int i)
{
    return weir__cuda_item_at(r->program, r->products[i])->merge > 0;
}

/* Adds product i to the last merge. False if that is not possible. */
static bool grow(struct tuning *r, int i)
{
    struct weir__cuda_arrangement *a = &r->program->arrangement;
    struct weir__cuda_merge *m = &a->merges[a->nmerges - 1];

    if (m->n == WEIR__CUDA_MERGED || is_merged(r, i))
        return false;
    m->members[m->n++] = r->products[i];
    weir__cuda_arrange(r->program);
    if (is_merged(r, i))
        return true;
    m->n--;
    weir__cuda_arrange(r->program);
    return false;
}

/* True if the plan is faster with the last merge, by the merge's best algorithm. */
static bool try_merge(struct tuning *r, float *least)
{
    struct weir__program *p = r->program;
    struct weir__cuda_merge *m = &p->arrangement.merges[p->arrangement.nmerges - 1];
    struct weir__cuda_lane *lane = &p->lanes[m->members[0].lane];
    struct member member = {
        .sink = {.dev = p->dev, .cores = p->dev->cores.total, .workspace = &lane->workspace}};
    float ms;

    if (!weir__cuda_merge_stack(p, m, true, &member.call) ||
        weir__cuda_product_span(&member.call) > r->room ||
        weir__cuda_product_find(p->dev, &member.call, member.sink.cores, &member.product))
        return false;
    weir__cuda_tune(&member.sink, NULL, member.product, &member.call);
    weir__cuda_choose(member.product, p->concurrent_set, member.product->best);
    if ((ms = time_together(r)) <= 0)
        return false;
    (void)improve(r, member.product, &ms);
    weir__log(WEIR_LOG_DEBUG, "%d products as one: the plan takes %.2f us, %.2f before", m->n,
              (double)ms * 1e3, (double)*least * 1e3);
    if (ms >= *least * BETTER)
        return false;
    *least = ms;
    add_member(r, &member);
    return true;
}

static void try_merges(struct tuning *r, float *least)
{
    struct weir__cuda_arrangement *a = &r->program->arrangement;

    for (int i = 0; i < r->nproducts && a->nmerges < WEIR__CUDA_MERGES; i++) {
        if (is_merged(r, i) || weir__clock_ns() >= r->end)
            continue;
        a->merges[a->nmerges++] = (struct weir__cuda_merge){{r->products[i]}, 1};
        for (int k = i + 1; k < r->nproducts; k++)
            (void)grow(r, k);
        if (!is_merged(r, i) || !try_merge(r, least)) {
            a->nmerges--;
            weir__cuda_arrange(r->program);
        }
    }
}

/* ---- for later processes ---- */

static void keep(const struct tuning *r)
{
    const struct weir__program *p = r->program;

    for (int i = 0; i < r->nmembers; i++)
        weir__cuda_keep_choice(p->dev, r->members[i].product, p->concurrent_set,
                               weir__cuda_choice(r->members[i].product, p->concurrent_set));
    weir__cuda_keep_arrangement(p);
}

/* Loads the choices of an earlier process. False if any is missing. A merge may have no stored
 * choice for this concurrent set: then it uses its best algorithm alone. */
static bool recall(struct tuning *r)
{
    struct weir__program *p = r->program;
    struct weir__cuda_product *product;
    struct weir__product stack;

    for (int i = 0; i < r->nmembers; i++)
        if (weir__cuda_read_choice(p->dev, r->members[i].product, p->concurrent_set) < 0)
            return false;
    if (!weir__cuda_read_arrangement(p))
        return false;
    for (int i = 0; i < p->arrangement.nmerges; i++)
        if (weir__cuda_merge_stack(p, &p->arrangement.merges[i], false, &stack) &&
            !weir__cuda_product_find(p->dev, &stack, p->dev->cores.total, &product))
            (void)weir__cuda_read_choice(p->dev, product, p->concurrent_set);
    return true;
}

static void tune(struct tuning *r)
{
    float least = try_orders(r);

    if (least <= 0)
        return;
    r->end = weir__clock_ns() + LONGEST_NS;
    try_algorithms(r, &least);
    r->end = weir__clock_ns() + LONGEST_NS;
    try_merges(r, &least);
    (void)try_orders(r);
    keep(r);
}

void weir__cuda_autotune(struct weir__program *p)
{
    struct weir__cuda *dev = p->dev;
    struct tuning r = {.program = p};
    weir__cu_address into;

    if (p->autotuned)
        return;
    p->autotuned = true;
    gather(&r);
    if (r.nlanes < 2 || dev->base.pool.deterministic || recall(&r) ||
        !weir__cuda_watch_open(dev, NULL, &r.watch))
        return;
    r.room = r.span > ROOM ? r.span : ROOM;
    if (!dev->api->cu.memory_alloc(&into, r.room)) {
        r.into = (char *)(uintptr_t)into;
        tune(&r);
        weir__cuda_free(dev, (void *)(uintptr_t)into);
    }
    weir__cuda_watch_close(dev, &r.watch);
}
