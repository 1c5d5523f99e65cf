/* Places items when all pairs that may not share bytes are known.
 *
 * Items are placed one by one into a gap between the items they conflict with. The result depends
 * on the order, so several orders are tried, each with the smallest gap and with the lowest gap.
 * Then the best result is improved by moving items that end at the top to the front of the order.
 * All work is counted, so that a large graph gets fewer tries instead of a long compile.
 */
#include "graph/pass/memory.h"

#include <stdlib.h>
#include <string.h>

/* Limits on the number of neighbours visited: by all orders after the first together, and by the
 * improvement. */
#define WORK_ORDERS 12000000
#define WORK_IMPROVE 1500000
#define TRIES 200
/* An item has few neighbours if it conflicts with less than 1/FEW of the other items. */
#define FEW 16

struct span {
    int64_t from, to;
};

struct fit {
    const struct weir__lifetimes *items;
    int *first, *others; /* item i conflicts with others[first[i] .. first[i+1]-1] */
    int64_t *offset;     /* -1: not placed */
    bool dense;          /* items conflict with many others: `placed` is kept */
    int *placed;         /* the placed items, in order of offset */
    int nplaced;
    int *marked_by;     /* by item: 1 + the last item that marked it as its neighbour */
    struct span *spans; /* of placed neighbours */
    struct ranked {
        double key;
        int64_t size;
        int item;
    } * ranked;          /* for sorting */
    int64_t *most_alive; /* tree of maxima over items->alive, see most_alive_in */
    int *order, *best_order;
    bool best_lowest;
    int64_t *best; /* offsets */
    int64_t best_top;
    int64_t work; /* remaining work */
};

/* ---- conflicts ---- */

struct pairs {
    int *earlier; /* grouped by the later item */
    int *first;   /* by item */
    int n, cap;
};

static bool reserve(struct pairs *pairs, int more)
{
    int *bigger, want = pairs->cap;

    if (pairs->n + more <= pairs->cap)
        return true;
    while (want < pairs->n + more)
        want = want ? 2 * want : 64;
    if (!(bigger = weir__malloc((size_t)want * sizeof *bigger)))
        return false;
    if (pairs->n)
        memcpy(bigger, pairs->earlier, (size_t)pairs->n * sizeof *bigger);
    weir__free(pairs->earlier);
    pairs->earlier = bigger;
    pairs->cap = want;
    return true;
}

static weir_status find_pairs(const struct weir__lifetimes *items, int64_t most,
                              struct pairs *pairs, bool *too_many)
{
    struct weir__conflicts conflicts;
    weir_status st = weir__conflicts_init(&conflicts, items);
    bool ok = (pairs->first = weir__calloc((size_t)items->n + 1, sizeof *pairs->first));

    for (int j = 0; j < items->n && ok && !st && !*too_many; j++) {
        const int *earlier;
        int n = 0;

        st = weir__conflicts_of(&conflicts, j, NULL, &earlier, &n);
        if (!st && (ok = reserve(pairs, n)) && n)
            memcpy(pairs->earlier + pairs->n, earlier, (size_t)n * sizeof *earlier);
        pairs->n += ok ? n : 0;
        pairs->first[j + 1] = pairs->n;
        *too_many = pairs->n > most;
    }
    weir__conflicts_fini(&conflicts);
    return ok || st ? st : weir__fail_nomem("allocating lifetimes of %d values", items->n);
}

/* Lists each pair in both directions, so that an item finds its placed neighbours in any order. */
static weir_status find_conflicts(struct fit *f, int64_t most_pairs, bool *too_many)
{
    int n = f->items->n;
    struct pairs pairs = {0};
    weir_status st = find_pairs(f->items, most_pairs, &pairs, too_many);

    if (st || *too_many)
        goto free_pairs;
    f->first = weir__calloc((size_t)n + 2, sizeof *f->first);
    f->others = weir__malloc(2 * (size_t)pairs.n * sizeof *f->others);
    if (!f->first || !f->others) {
        st = weir__fail_nomem("allocating %d conflicts", pairs.n);
        goto free_pairs;
    }
    /* Counts are stored two places ahead, so that filling leaves each `first` at its final
     * value. */
    for (int j = 0; j < n; j++)
        for (int i = pairs.first[j]; i < pairs.first[j + 1]; i++) {
            f->first[j + 2]++;
            f->first[pairs.earlier[i] + 2]++;
        }
    for (int j = 0; j < n; j++)
        f->first[j + 2] += f->first[j + 1];
    for (int j = 0; j < n; j++)
        for (int i = pairs.first[j]; i < pairs.first[j + 1]; i++) {
            f->others[f->first[j + 1]++] = pairs.earlier[i];
            f->others[f->first[pairs.earlier[i] + 1]++] = j;
        }

free_pairs:
    weir__free(pairs.earlier);
    weir__free(pairs.first);
    return st;
}

/* ---- one order ---- */

static int by_from(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

static struct span span_of(const struct fit *f, int i)
{
    return (struct span){f->offset[i], f->offset[i] + f->items->item[i].size};
}

/* Fills spans with the placed neighbours of item i, in order of offset. A few neighbours are
 * sorted; many are found in order by a walk over all placed items. */
static int list_neighbours(struct fit *f, int i)
{
    const int *others = f->others + f->first[i];
    int nothers = f->first[i + 1] - f->first[i], n = 0;

    if (!f->dense || nothers < f->nplaced / FEW) {
        for (int k = 0; k < nothers; k++)
            if (f->offset[others[k]] >= 0)
                f->spans[n++] = span_of(f, others[k]);
        qsort(f->spans, (size_t)n, sizeof *f->spans, by_from);
        return n;
    }
    for (int k = 0; k < nothers; k++)
        f->marked_by[others[k]] = i + 1;
    for (int k = 0; k < f->nplaced; k++)
        if (f->marked_by[f->placed[k]] == i + 1)
            f->spans[n++] = span_of(f, f->placed[k]);
    return n;
}

static void put(struct fit *f, int i, int64_t offset)
{
    int low = 0;

    f->offset[i] = offset;
    if (!f->dense)
        return;
    for (int high = f->nplaced; low < high;) {
        int middle = (low + high) / 2;

        if (f->offset[f->placed[middle]] > offset)
            high = middle;
        else
            low = middle + 1;
    }
    memmove(f->placed + low + 1, f->placed + low, (size_t)(f->nplaced - low) * sizeof *f->placed);
    f->placed[low] = i;
    f->nplaced++;
}

static int64_t find_gap(struct fit *f, int i, bool lowest)
{
    int64_t size = f->items->item[i].size, end = 0, at = -1, smallest = INT64_MAX;
    int n = list_neighbours(f, i);

    for (int k = 0; k < n; k++) {
        int64_t gap = f->spans[k].from - end;

        if (gap >= size && gap < smallest) {
            at = end;
            smallest = gap;
            if (lowest)
                return at;
        }
        end = weir__max(end, f->spans[k].to);
    }
    return at >= 0 ? at : end;
}

/* Places all items in the order f->order. Gives up and returns INT64_MAX once the top exceeds
 * `limit` or the work is used up. */
static int64_t place_all(struct fit *f, bool lowest, int64_t limit)
{
    int n = f->items->n;
    int64_t top = 0;

    memset(f->offset, -1, (size_t)n * sizeof *f->offset);
    f->nplaced = 0;
    for (int k = 0; k < n; k++) {
        int i = f->order[k];

        put(f, i, find_gap(f, i, lowest));
        f->work -= 1 + f->first[i + 1] - f->first[i];
        top = weir__max(top, f->offset[i] + f->items->item[i].size);
        if (top > limit || f->work < 0)
            return INT64_MAX;
    }
    return top;
}

static void keep(struct fit *f, bool lowest, int64_t top)
{
    size_t n = (size_t)f->items->n;

    memcpy(f->best, f->offset, n * sizeof *f->best);
    memcpy(f->best_order, f->order, n * sizeof *f->best_order);
    f->best_top = top;
    f->best_lowest = lowest;
}

/* ---- orders ---- */

/* The most bytes alive beside any of the nodes from..to. Node v is leaf nnodes + v of a tree; an
 * inner entry is the larger of its two children. */
static int64_t most_alive_in(const struct fit *f, int from, int to)
{
    int nnodes = f->items->c->g->nnodes;
    int64_t most = 0;

    for (int a = from + nnodes, b = to + nnodes + 1; a < b; a /= 2, b /= 2) {
        if (a & 1)
            most = weir__max(most, f->most_alive[a++]);
        if (b & 1)
            most = weir__max(most, f->most_alive[--b]);
    }
    return most;
}

static bool grow_tree(struct fit *f)
{
    int nnodes = f->items->c->g->nnodes;

    if (!(f->most_alive = weir__calloc(2 * (size_t)nnodes, sizeof *f->most_alive)))
        return false;
    memcpy(f->most_alive + nnodes, f->items->alive, (size_t)nnodes * sizeof *f->most_alive);
    for (int v = nnodes - 1; v > 0; v--)
        f->most_alive[v] = weir__max(f->most_alive[2 * v], f->most_alive[2 * v + 1]);
    return true;
}

static double by_size(const struct fit *f, const struct weir__lifetime *item)
{
    (void)f;
    return (double)item->size;
}

static double by_area(const struct fit *f, const struct weir__lifetime *item)
{
    (void)f;
    return (double)item->size * (item->last - item->def + 1);
}

/* A sort key: items beside nodes with the most live bytes come first. */
static double by_breadth(const struct fit *f, const struct weir__lifetime *item)
{
    return (double)most_alive_in(f, item->def, item->last);
}

static double by_definition(const struct fit *f, const struct weir__lifetime *item)
{
    (void)f;
    return -item->def;
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static void sort_order(struct fit *f,
                       double (*key)(const struct fit *, const struct weir__lifetime *))
{
    int n = f->items->n;

    for (int i = 0; i < n; i++) {
        const struct weir__lifetime *item = &f->items->item[i];

        f->ranked[i] = (struct ranked){key(f, item), item->size, i};
    }
    qsort(f->ranked, (size_t)n, sizeof *f->ranked, by_rank);
    for (int i = 0; i < n; i++)
        f->order[i] = f->ranked[i].item;
}

static void try_orders(struct fit *f, int64_t lower_bound)
{
    static double (*const keys[])(const struct fit *, const struct weir__lifetime *) = {
        by_size, by_definition, by_breadth, by_area};

    f->work = WORK_ORDERS + f->items->n + f->first[f->items->n]; /* always enough for one order */
    f->best_top = INT64_MAX;
    for (size_t k = 0; k < weir__countof(keys); k++) {
        sort_order(f, keys[k]);
        for (int lowest = 0; lowest <= 1; lowest++) {
            int64_t top = place_all(f, lowest, f->best_top - 1);

            if (top < f->best_top)
                keep(f, lowest, top);
            if (f->best_top == lower_bound)
                return;
        }
    }
}

/* ---- improving the best result ---- */

static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 32) * n >> 32);
}

/* Moves an item that ends at the top to an earlier place in the order. False if it is already
 * first. */
static bool move_top_forward(struct fit *f, uint64_t *random)
{
    int n = f->items->n, from, to;

    memcpy(f->order, f->best_order, (size_t)n * sizeof *f->order);
    for (from = 0; from < n; from++) {
        int i = f->order[from];

        if (f->best[i] + f->items->item[i].size == f->best_top)
            break;
    }
    if (!from)
        return false;
    int moved = f->order[from];

    to = (int)random_below(random, (uint32_t)from);
    memmove(f->order + to + 1, f->order + to, (size_t)(from - to) * sizeof *f->order);
    f->order[to] = moved;
    return true;
}

/* Accepts equal results too: they lead out of a state from which every move fails. */
static void improve(struct fit *f, int64_t lower_bound)
{
    uint64_t random = 1;

    f->work = WORK_IMPROVE;
    for (int i = 0; i < TRIES && f->best_top > lower_bound; i++) {
        if (!move_top_forward(f, &random))
            return;
        int64_t top = place_all(f, f->best_lowest, f->best_top);

        if (top <= f->best_top)
            keep(f, f->best_lowest, top);
        if (f->work < 0)
            return;
    }
}

static bool allocate(struct fit *f)
{
    size_t n = (size_t)f->items->n;

    f->offset = weir__calloc(n, sizeof *f->offset);
    f->placed = weir__calloc(n, sizeof *f->placed);
    f->marked_by = weir__calloc(n, sizeof *f->marked_by);
    f->spans = weir__calloc(n, sizeof *f->spans);
    f->ranked = weir__calloc(n, sizeof *f->ranked);
    f->order = weir__calloc(n, sizeof *f->order);
    f->best_order = weir__calloc(n, sizeof *f->best_order);
    return f->offset && f->placed && f->marked_by && f->spans && f->ranked && f->order &&
           f->best_order && grow_tree(f);
}

weir_status weir__memory_fit(const struct weir__lifetimes *items, int64_t lower_bound,
                             int64_t most_pairs, int64_t *offset, int64_t *top, bool *too_many)
{
    struct fit f = {.items = items, .best = offset};
    weir_status st;

    *too_many = false;
    st = find_conflicts(&f, most_pairs, too_many);
    if (!st && !*too_many) {
        f.dense = f.first[items->n] >= (int64_t)items->n * items->n / FEW;
        if (allocate(&f)) {
            try_orders(&f, lower_bound);
            improve(&f, lower_bound);
            *top = f.best_top;
        } else {
            st = weir__fail_nomem("planning the memory of %d values", items->n);
        }
    }
    weir__free(f.most_alive);
    weir__free(f.best_order);
    weir__free(f.order);
    weir__free(f.ranked);
    weir__free(f.spans);
    weir__free(f.marked_by);
    weir__free(f.placed);
    weir__free(f.offset);
    weir__free(f.others);
    weir__free(f.first);
    return st;
}
