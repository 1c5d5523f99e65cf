/* Finds for each item the earlier items that it may not share bytes with, without testing all
 * pairs.
 *
 * An item that is dead before one node of a stream is dead before all later nodes of that stream.
 * So each stream has a list of items that its later nodes may conflict with. Each step of a search
 * through the list either finds a conflict or drops an item for good. Beside each item the list
 * holds one use that has not completed: until it has, the item's other uses need no test.
 */
#include "graph/pass/memory.h"

#include <string.h>

/* The place of a use: its stream, and its position there. */
struct use {
    int stream, position;
};

struct weir__open_items {
    int *list;        /* in order of definition, or of offset if requested */
    struct use *open; /* parallel to `list`: one use of the item that had not completed */
    int n, cap;
    int next; /* items from here on are not yet in the list */
};

weir_status weir__conflicts_init(struct weir__conflicts *k, const struct weir__lifetimes *items)
{
    k->items = items;
    if (!(k->open = weir__calloc((size_t)items->c->nstreams, sizeof *k->open)))
        return weir__fail_nomem("allocating lifetimes on %d streams", items->c->nstreams);
    return WEIR_OK;
}

void weir__conflicts_fini(struct weir__conflicts *k)
{
    for (int s = 0; k->open && s < k->items->c->nstreams; s++) {
        weir__free(k->open[s].list);
        weir__free(k->open[s].open);
    }
    weir__free(k->open);
}

static bool grow(struct weir__open_items *open)
{
    int cap = open->cap ? 2 * open->cap : 64;
    int *list = weir__malloc((size_t)cap * sizeof *list);
    struct use *uses = weir__malloc((size_t)cap * sizeof *uses);

    if (!list || !uses) {
        weir__free(list);
        weir__free(uses);
        return false;
    }
    if (open->n) {
        memcpy(list, open->list, (size_t)open->n * sizeof *list);
        memcpy(uses, open->open, (size_t)open->n * sizeof *uses);
    }
    weir__free(open->list);
    weir__free(open->open);
    open->list = list;
    open->open = uses;
    open->cap = cap;
    return true;
}

static bool insert(struct weir__open_items *open, int item, struct use use, const int64_t *offset)
{
    int at = open->n;

    if (open->n == open->cap && !grow(open))
        return false;
    for (int low = 0; offset && low < at;) { /* binary search for the first larger offset */
        int middle = (low + at) / 2;

        if (offset[open->list[middle]] > offset[item])
            at = middle;
        else
            low = middle + 1;
    }
    memmove(open->list + at + 1, open->list + at, (size_t)(open->n - at) * sizeof *open->list);
    memmove(open->open + at + 1, open->open + at, (size_t)(open->n - at) * sizeof *open->open);
    open->list[at] = item;
    open->open[at] = use;
    open->n++;
    return true;
}

/* Finds a use of the item that has not completed at the time of the clock; false if there is
 * none. */
static bool find_open(const struct weir__lifetimes *items, int item, const int *clock,
                      struct use *out)
{
    const struct weir__lifetime *l = &items->item[item];

    for (int i = 0; i < l->nuses; i++) {
        int node = items->uses[l->first_use + i];
        struct use use = {items->c->stream[node], items->c->position[node]};

        if (use.position >= clock[use.stream]) {
            *out = use;
            return true;
        }
    }
    return false;
}

weir_status weir__conflicts_of(struct weir__conflicts *k, int j, const int64_t *offset,
                               const int **list, int *n)
{
    const struct weir__lifetimes *items = k->items;
    int v = items->item[j].def, kept = 0;
    const int *clock = weir__reach_clock(&items->reach, v);
    struct weir__open_items *open = &k->open[items->c->stream[v]];
    struct use use;

    for (int i = 0; i < open->n; i++) {
        use = open->open[i];
        if (use.position < clock[use.stream] && !find_open(items, open->list[i], clock, &use))
            continue;
        open->list[kept] = open->list[i];
        open->open[kept++] = use;
    }
    open->n = kept;
    for (; open->next < j; open->next++)
        if (find_open(items, open->next, clock, &use) && !insert(open, open->next, use, offset))
            return weir__fail_nomem("allocating lifetimes of %d values", items->n);
    *list = open->list;
    *n = open->n;
    return WEIR_OK;
}
