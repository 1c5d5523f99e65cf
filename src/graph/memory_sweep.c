/* Placing items in program order over a list of free regions.
 *
 * When the program has passed the last use of an item, its bytes become a free region
 * that remembers up to where in each stream it was used. A new item takes a region only
 * if all of that is over before the item's node starts. Free regions are kept by the
 * stream of their last use and by size class: a stream looks among its own first, which
 * it can nearly always take, and a bounded number of regions in all. They are joined with
 * their neighbours only when somebody may take them all, since what two streams left
 * side by side could be taken by neither for long.
 */
#include "graph/memory.h"

#include <string.h>

#define NONE (-1)
#define CLASSES 256 /* four to a power of two */
#define LOOKS 48

struct region {
    int64_t offset, size;
    int prev, next;         /* by offset */
    int bin_prev, bin_next; /* within its class, if free; bin_next also links spare ones */
    int home;               /* the stream of its last use; NONE while in use */
};

struct bins {
    int head[CLASSES], tail[CLASSES]; /* oldest first: those are over for most nodes */
    uint64_t full[CLASSES / 64];      /* a bit for each class with a region */
};

struct sweep {
    const struct weir__lifetimes *items;
    int nstreams;
    struct region *regions;
    int *used; /* by region, then stream: positions below this are to be over */
    int nregions, cap, spare;
    int last; /* the region at the top */
    int64_t top;
    struct bins *bins; /* by home */
};

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
    struct bins *bins = &w->bins[region->home];
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
    struct bins *bins = &w->bins[region->home];
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

/* The first class from k on that has a region; CLASSES if none. */
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

/* Region b, right above a, becomes part of it. Neither is in a bin. */
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
    high->bin_next = w->spare;
    w->spare = b;
}

static bool may_take(const struct sweep *w, int r, int v)
{
    return r != NONE && w->regions[r].home != NONE && over_before(w, r, v);
}

/* Joins the free region with its neighbours, as far as v may take those too. */
static int absorb(struct sweep *w, int r, int v)
{
    bin_remove(w, r);
    for (int next; may_take(w, next = w->regions[r].next, v);) {
        bin_remove(w, next);
        merge(w, r, next);
    }
    for (int prev; may_take(w, prev = w->regions[r].prev, v); r = prev) {
        bin_remove(w, prev);
        merge(w, prev, r);
    }
    bin_add(w, r);
    return r;
}

/* A region of at least `size` that v may take, from class `k` on. */
static int find_in(struct sweep *w, const struct bins *bins, int k, int64_t size, int v, int *looks)
{
    for (k = next_class(bins, k); k < CLASSES; k = next_class(bins, k + 1))
        for (int r = bins->head[k], next; r != NONE; r = next) {
            next = w->regions[r].bin_next;
            if ((*looks)-- == 0)
                return NONE;
            if (!over_before(w, r, v))
                continue;
            if (w->regions[r].size < size)
                r = absorb(w, r, v);
            if (w->regions[r].size >= size)
                return r;
        }
    return NONE;
}

/* Among those that are large enough as they are, then among all, which join with their
 * neighbours on the way. */
static int find_free(struct sweep *w, int64_t size, int v)
{
    int own = w->items->c->stream[v], r = NONE;

    for (int pass = 0; pass < 2; pass++) {
        int looks = LOOKS;

        for (int i = 0; i < w->nstreams && looks > 0; i++) {
            r = find_in(w, &w->bins[(own + i) % w->nstreams], pass ? 0 : class_of(size), size, v,
                        &looks);
            if (r != NONE)
                return r;
        }
    }
    return may_take(w, w->last, v) ? w->last : NONE;
}

/* ---- taking and giving back ---- */

/* Cuts a free region, already out of its bin, to `size`; the rest stays free. */
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
    bin_add(w, rest);
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

/* The region at the top grows if it is too small, others are cut. */
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
    w->regions[r].home = NONE;
    *out = r;
    return true;
}

static void give_back(struct sweep *w, int r, const struct weir__lifetime *item)
{
    const struct weir__compile *c = w->items->c;
    int *used = used_of(w, r);

    memset(used, 0, (size_t)w->nstreams * sizeof *used);
    for (int i = 0; i < item->nuses; i++) {
        int u = w->items->uses[item->first_use + i];

        used[c->stream[u]] = c->position[u] + 1;
    }
    w->regions[r].home = c->stream[item->last];
    bin_add(w, r);
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

weir_status weir__memory_sweep(const struct weir__lifetimes *items, int64_t *offset, int64_t *top)
{
    struct sweep w = {.items = items, .nstreams = items->c->nstreams, .spare = NONE, .last = NONE};
    int *first = NULL, *ended = NULL, *region = weir__calloc((size_t)items->n, sizeof *region);
    bool ok = region && list_ends(items, &first, &ended) &&
              (w.bins = weir__calloc((size_t)w.nstreams, sizeof *w.bins));

    for (int s = 0; ok && s < w.nstreams; s++)
        memset(w.bins[s].head, NONE, sizeof w.bins[s].head + sizeof w.bins[s].tail);
    ok = ok && sweep_all(&w, first, ended, region, offset);
    *top = w.top;
    weir__free(w.bins);
    weir__free(w.used);
    weir__free(w.regions);
    weir__free(region);
    weir__free(ended);
    weir__free(first);
    return ok ? WEIR_OK : weir__fail(WEIR_ENOMEM, "memory plan of %d values", items->n);
}
