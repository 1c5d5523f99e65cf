/* Which earlier items each item may not share bytes with, without looking at all pairs.
 *
 * An item that is over before one node of a stream is over before all that follow on it.
 * So each stream has a list of items that its later nodes may conflict with, and looking
 * through it is paid for by the conflicts found and by the items dropped for good.
 */
#include "graph/pass/memory.h"

#include <string.h>

struct weir__open_items {
    int *list; /* in order of definition, or of offset if that is asked for */
    int n, cap;
    int next; /* items from here on have not been looked at */
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
    for (int s = 0; k->open && s < k->items->c->nstreams; s++)
        weir__free(k->open[s].list);
    weir__free(k->open);
}

static bool insert(struct weir__open_items *open, int item, const int64_t *offset)
{
    int at = open->n;

    if (open->n == open->cap) {
        int cap = open->cap ? 2 * open->cap : 64;
        int *bigger = weir__malloc((size_t)cap * sizeof *bigger);

        if (!bigger)
            return false;
        if (open->n)
            memcpy(bigger, open->list, (size_t)open->n * sizeof *bigger);
        weir__free(open->list);
        open->list = bigger;
        open->cap = cap;
    }
    for (int low = 0; offset && low < at;) { /* where larger offsets begin */
        int middle = (low + at) / 2;

        if (offset[open->list[middle]] > offset[item])
            at = middle;
        else
            low = middle + 1;
    }
    memmove(open->list + at + 1, open->list + at, (size_t)(open->n - at) * sizeof *open->list);
    open->list[at] = item;
    open->n++;
    return true;
}

weir_status weir__conflicts_of(struct weir__conflicts *k, int j, const int64_t *offset,
                               const int **list, int *n)
{
    const struct weir__lifetimes *items = k->items;
    int v = items->item[j].def, kept = 0;
    struct weir__open_items *open = &k->open[items->c->stream[v]];

    for (int i = 0; i < open->n; i++)
        if (!weir__lifetime_over(items, &items->item[open->list[i]], v))
            open->list[kept++] = open->list[i];
    open->n = kept;
    for (; open->next < j; open->next++)
        if (!weir__lifetime_over(items, &items->item[open->next], v) &&
            !insert(open, open->next, offset))
            return weir__fail_nomem("allocating lifetimes of %d values", items->n);
    *list = open->list;
    *n = open->n;
    return WEIR_OK;
}
