/* A node's call before there is memory for it: for the operator's tiling and cost. */
#ifndef WEIR_GRAPH_BUILD_STAND_IN_H
#define WEIR_GRAPH_BUILD_STAND_IN_H

#include "graph/build/graph.h"

struct weir__stand_in {
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    struct weir__call call;
};

/* Fills `s`, whose call points into it and borrows from the node. Nothing is at the addresses of
 * the operands, and no two values share one, so operators that look for overlap see the truth:
 * but for those that share bytes of a plan's arena, where `offset`, unless it is NULL, says by
 * value where each is, or -1. */
void weir__stand_in_init(struct weir__stand_in *s, const struct weir__node *n, unsigned cores,
                         const int64_t *offset);

#endif
