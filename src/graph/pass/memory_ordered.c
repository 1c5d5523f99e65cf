/* Places items in order of definition, each in the lowest gap between the earlier items that it
 * conflicts with. It keeps no pairs, so it can handle larger graphs than memory_fit.c, but only in
 * this one order, which needs nothing but the earlier items. */
#include "graph/pass/memory.h"

static int64_t lowest_gap(const struct weir__lifetimes *items, const int64_t *offset,
                          const int *others, int n, int64_t size)
{
    int64_t end = 0;

    for (int i = 0; i < n; i++) {
        int64_t from = offset[others[i]];

        if (from - end >= size)
            break;
        end = weir__max(end, from + items->item[others[i]].size);
    }
    return end;
}

weir_status weir__memory_ordered(const struct weir__lifetimes *items, int64_t most_pairs,
                                 int64_t *offset, int64_t *top, bool *too_many)
{
    struct weir__conflicts conflicts;
    weir_status st = weir__conflicts_init(&conflicts, items);

    *top = 0;
    *too_many = false;
    for (int j = 0; j < items->n && !st && !*too_many; j++) {
        const int *others;
        int n;

        if ((st = weir__conflicts_of(&conflicts, j, offset, &others, &n)))
            break;
        offset[j] = lowest_gap(items, offset, others, n, items->item[j].size);
        *top = weir__max(*top, offset[j] + items->item[j].size);
        *too_many = (most_pairs -= n) < 0;
    }
    weir__conflicts_fini(&conflicts);
    return st;
}
