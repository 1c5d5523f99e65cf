/* Between the parts of the memory plan: what needs bytes in the arena, and for how long.
 *
 * An item is a value or a node's scratch. Two items may share bytes only if every use of
 * one is over before the node that defines the other starts. */
#ifndef WEIR_GRAPH_PASS_MEMORY_H
#define WEIR_GRAPH_PASS_MEMORY_H

#include "graph/pass/compile.h"

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
    int *before;    /* weir__fuse_runs; NULL where it does not matter */
    int64_t *alive; /* by node: bytes alive beside it if nodes ran in program order */
};

/* How much of the work that grows with pairs of items that may not share is taken on. */
struct weir__memory_effort {
    int64_t kept;   /* pairs for memory_fit.c, 12 bytes each */
    int64_t looked; /* pairs for memory_ordered.c */
};

/* weir__pass_memory with another effort than the usual. */
weir_status weir__memory_plan(struct weir__compile *c, struct weir__memory_effort effort);

/* memory_conflicts.c: the earlier items that item j conflicts with, for j = 0, 1, 2, ...
 * With offset[], of all earlier items, they are in order of that. The list is valid
 * until the next call. */
struct weir__conflicts {
    const struct weir__lifetimes *items;
    struct weir__open_items *open; /* by stream */
};
weir_status weir__conflicts_init(struct weir__conflicts *k, const struct weir__lifetimes *items);
weir_status weir__conflicts_of(struct weir__conflicts *k, int j, const int64_t *offset,
                               const int **list, int *n);
void weir__conflicts_fini(struct weir__conflicts *k);

/* Three ways to place, from the best to the one that never gives up. Each fills offset[]
 * by item and *top, the end of the highest; *too_many if the pairs are more than
 * most_pairs, and then what is filled is of no use. */
weir_status weir__memory_fit(const struct weir__lifetimes *items, int64_t lower_bound,
                             int64_t most_pairs, int64_t *offset, int64_t *top, bool *too_many);
weir_status weir__memory_ordered(const struct weir__lifetimes *items, int64_t most_pairs,
                                 int64_t *offset, int64_t *top, bool *too_many);
weir_status weir__memory_sweep(const struct weir__lifetimes *items, int64_t *offset, int64_t *top);

#endif
