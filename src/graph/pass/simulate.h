/* A rough estimate of a plan's time: enough to tell which of two placements is better. */
#ifndef WEIR_GRAPH_PASS_SIMULATE_H
#define WEIR_GRAPH_PASS_SIMULATE_H

#include "graph/pass/compile.h"

/* Cores that nodes of one pool share; nodes of different pools never compete. */
#define WEIR__SIM_POOLS 4

struct weir__placement_cost {
    float ns;  /* on one core */
    int width; /* cores it can use at once */
    int pool;
};

struct weir__estimates {
    struct weir__placement_cost *node;
    int capacity[WEIR__SIM_POOLS]; /* cores */
};

/* From each operator's cost, tiling, engine and core limit. */
weir_status weir__estimates_init(struct weir__estimates *e, const weir_graph *g);
void weir__estimates_fini(struct weir__estimates *e);

/* Nanoseconds from the first node to the last, by stream order and syncs. A node starts as soon as
 * stream order and syncs allow. It takes the cores of its pool that earlier nodes do not use, and
 * more when those end. O(nodes x streams). */
weir_status weir__simulate(const struct weir__compile *c, const struct weir__estimates *e,
                           double *makespan);

#endif
