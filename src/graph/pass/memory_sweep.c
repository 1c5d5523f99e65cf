/* Places items in program order over a list of free regions.
 *
 * After the last use of an item in program order, its bytes become a free region. The region
 * records, for each stream, the position up to which it was used. A new item takes a region only if
 * all those uses complete before the item's node starts.
 *
 * Free regions are kept in pools, by size class. A region is settled once every later node of the
 * program comes after its uses; until then it stays in a pool of the stream that used it last.
 * Neighbouring regions are joined if that makes neither harder to reuse: two settled ones, or two
 * that only one stream used, because that stream can always take them. A node searches its own
 * stream's pools, then the settled pool, then a bounded number of other streams' regions.
 */
#include "graph/pass/memory.h"

#include <string.h>

#define NONE (-1)
#define CLASSES 256 /* four to a power of two */
#define LOOKS 48

struct region {
    int64_t offset, size;
    int prev, next;         /* by offset */
    int bin_prev, bin_next; /* in its size class, if free; bin_next also links unused records */
    int pool;               /* NONE while in use */
    int ticket;             /* its place in the queue, if not settled */
};

struct bins {
    int head[CLASSES], tail[CLASSES]; /* oldest first: most nodes come after their uses */
    uint64_t full[CLASSES / 64];      /* a bit for each class with a region */
};

struct sweep {
    const struct weir__lifetimes *items;
    int nstreams;
    struct region *regions;
    int *used; /* by region, then stream: positions below this must complete before reuse */
    int nregions, cap, spare;
    int last; /* the region at the top */
    int64_t top;
    struct bins *bins; /* by pool */
    int *queue;        /* freed regions, oldest first; some may be in use again */
    int nqueued, settled;
    int *low;    /* by stream: positions below this complete before all later nodes */
    int *latest; /* by stream: its last node so far, or NONE */
};

/* Pool of regions that only this stream used. The settled pool comes last. */
static int own_pool(int stream)
{
    return stream;
}
static int mixed_pool(const struct sweep *w, int stream)
{
    return w->nstreams + stream;
}
static int settled_pool(const struct sweep *w)
{
    return 2 * w->nstreams;
}
static bool is_mixed(const struct sweep *w, int pool)
{
    return pool >= w->nstreams && pool < 2 * w->nstreams;
}

/* ---- records ---- */

static bool new_region(struct sweep *w, int *out)
{
    if (w->spare != NONE) {
        *out = w->spare;
        w->spare = w->regions[w->spare].bin_next;
        return true;
    }
    if (w->nregions == w->cap) {
        size_t cap = w->cap ? 2 * (size_t)w->cap : 64, row = (size_t)w->nstreams * sizeof(int);
        struct region *regions = weir__malloc(cap * sizeof *regions);
        int *used = weir__malloc(cap * row);

        if (!regions || !used) {
            weir__free(regions);
            weir__free(used);
            return false;
        }
        if (w->cap) {
            memcpy(regions, w->regions, (size_t)w->cap * sizeof *regions);
            memcpy(used, w->used, (size_t)w->cap * row);
        }
        weir__free(w->regions);
        weir__free(w->used);
        w->regions = regions;
        w->used = used;
        w->cap = (int)cap;
    }
    *out = w->nregions++;
    return true;
}

static int *used_of(const struct sweep *w, int r)
{
    return w->used + (size_t)r * (size_t)w->nstreams;
}

/* ---- free regions by size ---- */

static int class_of(int64_t size)
{
    uint64_t grains = (uint64_t)size / WEIR__ARENA_ALIGN;
    int log = 63 - __builtin_clzll(grains);

    return 4 * log + (int)((log >= 2 ? grains >> (log - 2) : grains << (2 - log)) & 3);
}

static void bin_add(struct sweep *w, int r)
{
    struct region *region = &w->regions[r];
    struct bins *bins = &w->bins[region->pool];
    int k = class_of(region->size);

    region->bin_prev = bins->tail[k];
    region->bin_next = NONE;
    if (bins->tail[k] != NONE)
        w->regions[bins->tail[k]].bin_next = r;
    else
        bins->head[k] = r;
    bins->tail[k] = r;
    bins->full[k / 64] |= UINT64_C(1) << k % 64;
}

static void bin_remove(struct sweep *w, int r)
{
    struct region *region = &w->regions[r];
    struct bins *bins = &w->bins[region->pool];
    int k = class_of(region->size);

    if (region->bin_next != NONE)
        w->regions[region->bin_next].bin_prev = region->bin_prev;
    else
        bins->tail[k] = region->bin_prev;
    if (region->bin_prev != NONE)
        w->regions[region->bin_prev].bin_next = region->bin_next;
    else if ((bins->head[k] = region->bin_next) == NONE)
        bins->full[k / 64] &= ~(UINT64_C(1) << k % 64);
}

/* The first class from k on with a region; CLASSES if none. */
static int next_class(const struct bins *bins, int k)
{
    for (int word = k / 64; word < CLASSES / 64; word++) {
        uint64_t bits = bins->full[word];

        if (word == k / 64)
            bits &= ~UINT64_C(0) << k % 64;
        if (bits)
            return 64 * word + __builtin_ctzll(bits);
    }
    return CLASSES;
}

static bool over_before(const struct sweep *w, int r, int v)
{
    const int *used = used_of(w, r);
    const int *clock = w->items->reach.clock + (size_t)v * (size_t)w->nstreams;

    for (int s = 0; s < w->nstreams; s++)
        if (used[s] > clock[s])
            return false;
    return true;
}

/* Merges region b into region a, which lies directly below it. Neither is in a bin. */
static void merge(struct sweep *w, int a, int b)
{
    struct region *low = &w->regions[a], *high = &w->regions[b];

    low->size += high->size;
    low->next = high->next;
    if (high->next != NONE)
        w->regions[high->next].prev = a;
    else
        w->last = a;
    weir__reach_max(used_of(w, a), used_of(w, b), w->nstreams);
    high->pool = high->ticket = NONE;
    high->bin_next = w->spare;
    w->spare = b;
}

/* Joins the free region, which is in no bin, with its free neighbours in the same pool. */
static int absorb(struct sweep *w, int r)
{
    int pool = w->regions[r].pool, next = w->regions[r].next, prev = w->regions[r].prev;

    if (is_mixed(w, pool))
        return r;
    if (next != NONE && w->regions[next].pool == pool) {
        bin_remove(w, next);
        merge(w, r, next);
    }
    if (prev != NONE && w->regions[prev].pool == pool) {
        bin_remove(w, prev);
        merge(w, prev, r);
        r = prev;
    }
    return r;
}

static int find_in(struct sweep *w, int pool, int64_t size, int v, int *looks)
{
    const struct bins *bins = &w->bins[pool];

    for (int k = next_class(bins, class_of(size)); k < CLASSES; k = next_class(bins, k + 1))
        for (int r = bins->head[k]; r != NONE && *looks > 0; r = w->regions[r].bin_next, --*looks)
            if (w->regions[r].size >= size && over_before(w, r, v))
                return r;
    return NONE;
}

static int find_free(struct sweep *w, int64_t size, int v)
{
    int own = w->items->c->stream[v], looks = LOOKS, r;

    if ((r = find_in(w, own_pool(own), size, v, &looks)) != NONE)
        return r;
    looks = LOOKS;
    if ((r = find_in(w, settled_pool(w), size, v, &looks)) != NONE)
        return r;
    looks = LOOKS;
    for (int i = 0; i < w->nstreams && looks > 0; i++) {
        int stream = (own + i) % w->nstreams;

        if ((r = find_in(w, mixed_pool(w, stream), size, v, &looks)) != NONE ||
            (r = find_in(w, own_pool(stream), size, v, &looks)) != NONE)
            return r;
    }
    r = w->last;
    return r != NONE && w->regions[r].pool != NONE && over_before(w, r, v) ? r : NONE;
}

/* ---- settling ---- */

/* Adds a free region to its pool, and to the queue unless it is settled. */
static void add_free(struct sweep *w, int r)
{
    if (w->regions[r].pool != settled_pool(w)) {
        w->regions[r].ticket = w->nqueued;
        w->queue[w->nqueued++] = r;
    }
    bin_add(w, r);
}

static void raise_low(struct sweep *w)
{
    const struct weir__compile *c = w->items->c;
    bool any = false;

    for (int t = 0; t < w->nstreams; t++) {
        int v = w->latest[t];

        if (c->streams[t].nnodes == 0 || (v != NONE && c->position[v] + 1 == c->streams[t].nnodes))
            continue; /* no later node on that stream */
        const int *clock =
            v == NONE ? NULL : w->items->reach.clock + (size_t)v * (size_t)w->nstreams;

        for (int s = 0; s < w->nstreams; s++) {
            int over = clock ? clock[s] : 0;

            w->low[s] = any ? (int)weir__min(w->low[s], over) : over;
        }
        any = true;
    }
}

static bool is_settled(const struct sweep *w, int r)
{
    const int *used = used_of(w, r);

    for (int s = 0; s < w->nstreams; s++)
        if (used[s] > w->low[s])
            return false;
    return true;
}

/* Called when the pass reaches node v: settles queued regions. Recomputes the bounds once per
 * nstreams nodes, so that they cost a node no more than one clock. */
static void settle(struct sweep *w, int v)
{
    w->latest[w->items->c->stream[v]] = v;
    if (v % w->nstreams == 0)
        raise_low(w);
    for (; w->settled < w->nqueued; w->settled++) {
        int r = w->queue[w->settled];
        struct region *region = &w->regions[r];

        if (region->pool == NONE || region->ticket != w->settled)
            continue;
        if (!is_settled(w, r))
            return;
        bin_remove(w, r);
        region->pool = settled_pool(w);
        region->ticket = NONE;
        add_free(w, absorb(w, r));
    }
}

/* ---- taking and freeing ---- */

/* Cuts a free region, already out of its bin, to `size`. The rest stays free. */
static bool cut(struct sweep *w, int r, int64_t size)
{
    int rest;

    if (w->regions[r].size == size)
        return true;
    if (!new_region(w, &rest))
        return false;
    struct region *region = &w->regions[r], *tail = &w->regions[rest];

    *tail = *region;
    tail->offset += size;
    tail->size -= size;
    tail->prev = r;
    if (tail->next != NONE)
        w->regions[tail->next].prev = rest;
    else
        w->last = rest;
    region->next = rest;
    region->size = size;
    memcpy(used_of(w, rest), used_of(w, r), (size_t)w->nstreams * sizeof *w->used);
    add_free(w, rest);
    return true;
}

static bool new_top(struct sweep *w, int *r)
{
    if (!new_region(w, r))
        return false;
    w->regions[*r] = (struct region){.offset = w->top, .prev = w->last, .next = NONE};
    if (w->last != NONE)
        w->regions[w->last].next = *r;
    w->last = *r;
    return true;
}

/* Takes a region for the item. The topmost region grows if it is too small; others are cut. */
static bool take(struct sweep *w, int64_t size, int v, int *out)
{
    int r = find_free(w, size, v);

    if (r != NONE)
        bin_remove(w, r);
    else if (!new_top(w, &r))
        return false;
    if (w->regions[r].size < size) {
        w->regions[r].size = size;
        w->top = w->regions[r].offset + size;
    }
    if (!cut(w, r, size))
        return false;
    w->regions[r].pool = NONE;
    *out = r;
    return true;
}

static void give_back(struct sweep *w, int r, const struct weir__lifetime *item)
{
    const struct weir__compile *c = w->items->c;
    int *used = used_of(w, r), stream = c->stream[item->last];
    bool alone = c->stream[item->def] == stream && item->nuses == 1;

    memset(used, 0, (size_t)w->nstreams * sizeof *used);
    for (int i = 0; i < item->nuses; i++) {
        int u = w->items->uses[item->first_use + i];

        used[c->stream[u]] = c->position[u] + 1;
    }
    w->regions[r].pool = alone ? own_pool(stream) : mixed_pool(w, stream);
    add_free(w, absorb(w, r));
}

/* ---- the pass ---- */

/* ended[first[v] .. first[v+1]-1] are the items whose last use in the program is v. */
static bool list_ends(const struct weir__lifetimes *items, int **first, int **ended)
{
    int nnodes = items->c->g->nnodes;

    *first = weir__calloc((size_t)nnodes + 2, sizeof **first);
    *ended = weir__calloc((size_t)items->n, sizeof **ended);
    if (!*first || !*ended)
        return false;
    for (int i = 0; i < items->n; i++)
        (*first)[items->item[i].last + 2]++;
    for (int v = 0; v < nnodes; v++)
        (*first)[v + 2] += (*first)[v + 1];
    for (int i = 0; i < items->n; i++)
        (*ended)[(*first)[items->item[i].last + 1]++] = i;
    return true;
}

static bool sweep_all(struct sweep *w, const int *first, const int *ended, int *region,
                      int64_t *offset)
{
    const struct weir__lifetimes *items = w->items;

    for (int v = 0, i = 0; v < items->c->g->nnodes; v++) {
        if (items->c->live[v])
            settle(w, v);
        for (; i < items->n && items->item[i].def == v; i++) {
            if (!take(w, items->item[i].size, v, &region[i]))
                return false;
            offset[i] = w->regions[region[i]].offset;
        }
        for (int k = first[v]; k < first[v + 1]; k++)
            give_back(w, region[ended[k]], &items->item[ended[k]]);
    }
    return true;
}

static bool allocate(struct sweep *w)
{
    size_t n = (size_t)w->nstreams, npools = 2 * n + 1;

    w->bins = weir__calloc(npools, sizeof *w->bins);
    /* A region is queued when an item ends and when one is cut for an item. */
    w->queue = weir__calloc(2 * (size_t)w->items->n, sizeof *w->queue);
    w->low = weir__calloc(n, sizeof *w->low);
    w->latest = weir__malloc(n * sizeof *w->latest);
    if (!w->bins || !w->queue || !w->low || !w->latest)
        return false;
    memset(w->latest, NONE, n * sizeof *w->latest);
    for (size_t i = 0; i < npools; i++) {
        memset(w->bins[i].head, NONE, sizeof w->bins[i].head);
        memset(w->bins[i].tail, NONE, sizeof w->bins[i].tail);
    }
    return true;
}

weir_status weir__memory_sweep(const struct weir__lifetimes *items, int64_t *offset, int64_t *top)
{
    struct sweep w = {.items = items, .nstreams = items->c->nstreams, .spare = NONE, .last = NONE};
    int *first = NULL, *ended = NULL, *region = weir__calloc((size_t)items->n, sizeof *region);
    bool ok = region && list_ends(items, &first, &ended) && allocate(&w) &&
              sweep_all(&w, first, ended, region, offset);

    *top = w.top;
    weir__free(w.latest);
    weir__free(w.low);
    weir__free(w.queue);
    weir__free(w.bins);
    weir__free(w.used);
    weir__free(w.regions);
    weir__free(region);
    weir__free(ended);
    weir__free(first);
    return ok ? WEIR_OK : weir__fail_nomem("planning the memory of %d values", items->n);
}
