/* Shared by the files of the memory pass: the items that need bytes in the arena, and their
 * lifetimes.
 *
 * An item is a value or a node's scratch. Two items may share bytes only if every use of one
 * completes before the node that defines the other starts. */
#ifndef WEIR_GRAPH_PASS_MEMORY_H
#define WEIR_GRAPH_PASS_MEMORY_H

#include "graph/pass/compile.h"

#define WEIR__ARENA_ALIGN 64

struct weir__lifetime {
    int64_t size;         /* a multiple of WEIR__ARENA_ALIGN, not 0 */
    int value;            /* -1: the scratch of node `def` */
    int def;              /* the node that defines it: nobody uses the item before */
    int last;             /* the last node in program order that uses it */
    int first_use, nuses; /* in weir__lifetimes.uses: the last use on each stream, except those
                           * ordered before `last` */
};

struct weir__lifetimes {
    const struct weir__compile *c;
    struct weir__reach reach;
    struct weir__lifetime *item; /* in order of `def` */
    int n;
    int *uses;      /* nodes */
    int *before;    /* weir__fuse_runs; NULL: ignore fusion */
    int64_t *alive; /* by node: bytes alive beside it if nodes ran in program order */
};

/* Bounds on the work that grows with the number of pairs of items that may not share bytes. */
struct weir__memory_effort {
    int64_t kept;   /* pairs for memory_fit.c, 12 bytes each */
    int64_t looked; /* pairs for memory_ordered.c */
};

/* weir__pass_memory with other bounds than the usual ones. */
weir_status weir__memory_plan(struct weir__compile *c, struct weir__memory_effort effort);

/* memory_conflicts.c: the earlier items that item j conflicts with, for j = 0, 1, 2, ... If
 * offset[] is given for all earlier items, the list is sorted by it. The list is valid until the
 * next call. */
struct weir__conflicts {
    const struct weir__lifetimes *items;
    struct weir__open_items *open; /* by stream */
};
weir_status weir__conflicts_init(struct weir__conflicts *k, const struct weir__lifetimes *items);
weir_status weir__conflicts_of(struct weir__conflicts *k, int j, const int64_t *offset,
                               const int **list, int *n);
void weir__conflicts_fini(struct weir__conflicts *k);

/* Three ways to place items, from the best to the one that always succeeds. Each fills offset[] by
 * item and *top, the end of the highest item. *too_many is set if there are more than most_pairs
 * pairs; the other results are then invalid. */
weir_status weir__memory_fit(const struct weir__lifetimes *items, int64_t lower_bound,
                             int64_t most_pairs, int64_t *offset, int64_t *top, bool *too_many);
weir_status weir__memory_ordered(const struct weir__lifetimes *items, int64_t most_pairs,
                                 int64_t *offset, int64_t *top, bool *too_many);
weir_status weir__memory_sweep(const struct weir__lifetimes *items, int64_t *offset, int64_t *top);

#endif
