/* Between the parts of the memory plan: what needs bytes in the arena, and for how long.
 *
 * An item is a value or a node's scratch. Two items may share bytes only if every use of
 * one is over before the node that defines the other starts. */
#ifndef WEIR_GRAPH_MEMORY_H
#define WEIR_GRAPH_MEMORY_H

#include "graph/compile.h"

#define WEIR__ARENA_ALIGN 64

struct weir__lifetime {
    int64_t size; /* a multiple of WEIR__ARENA_ALIGN, not 0 */
    int value;    /* -1: the scratch of node `def` */
    int def;      /* the node before which nobody uses it */
    int last;     /* the last node in program order that does */
    int first_use,
        nuses; /* in weir__lifetimes.uses: the last of each stream, unless before `last` */
};

struct weir__lifetimes {
    const struct weir__compile *c;
    struct weir__reach reach;
    struct weir__lifetime *item; /* by def */
    int n;
    int *uses;      /* nodes */
    int64_t *alive; /* by node: bytes alive beside it if nodes ran in program order */
};

/* Every use of the item is over before node v starts. */
static inline bool weir__lifetime_over(const struct weir__lifetimes *items,
                                       const struct weir__lifetime *item, int v)
{
    for (int i = 0; i < item->nuses; i++)
        if (!weir__reach_before(&items->reach, items->c, items->uses[item->first_use + i], v))
            return false;
    return true;
}

/* weir__pass_memory, which keeps that many pairs of items that may not share; with more
 * of them the plan is made by the sweep. */
weir_status weir__memory_plan(struct weir__compile *c, int64_t most_pairs);

/* Both fill offset[] by item and *top, the end of the highest.
 *
 * memory_fit.c: the best of several orders and fits. It knows all pairs that may not
 * share; *too_many if those are more than most_pairs, and nothing is filled then. */
weir_status weir__memory_fit(const struct weir__lifetimes *items, int64_t lower_bound,
                             int64_t most_pairs, int64_t *offset, int64_t *top, bool *too_many);
/* memory_sweep.c: one pass in program order over a list of free regions, near-linear
 * whatever the graph. */
weir_status weir__memory_sweep(const struct weir__lifetimes *items, int64_t *offset, int64_t *top);

#endif
