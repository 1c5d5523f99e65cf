/* A node's call before memory is planned, for the operator's tiling and cost. */
#ifndef WEIR_GRAPH_BUILD_STAND_IN_H
#define WEIR_GRAPH_BUILD_STAND_IN_H

#include "graph/build/graph.h"

struct weir__stand_in {
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    struct weir__call call;
};

/* Fills `s`, whose call points into it and borrows from the node. Addresses of operands are made up
 * and different for each value, so operators that check for overlap get the right answer. If
 * `offset` is not NULL, values with offset[value] >= 0 instead share the bytes of a plan's
 * arena. */
void weir__stand_in_init(struct weir__stand_in *s, const struct weir__node *n, unsigned cores,
                         const int64_t *offset);

#endif
