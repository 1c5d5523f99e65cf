/* Shared by the files of the pass that fuses operators into launches. */
#ifndef WEIR_GRAPH_PASS_FUSE_H
#define WEIR_GRAPH_PASS_FUSE_H

#include "graph/pass/compile.h"

/* Only operators with at most this many outputs and inputs are fused. */
#define WEIR__FUSE_OPERANDS 4

/* Consecutive nodes of a stream that could be one launch. */
struct weir__launch {
    int nodes[WEIR__FUSE_SLOTS];
    int n;
    int64_t rows; /* rows that the members have in common; 0: they have equally many elements, one
                   * for one */
};

/* fuse_sound.c: whether no member overwrites bytes that another one needs. Slots are assigned. */
bool weir__launch_is_sound(const struct weir__compile *c, const struct weir__launch *l);

/* ---- fuse_rows.c: operators that are cut into rows they have in common ---- */

/* The state of a launch by rows while members are added. */
struct weir__row_run {
    int64_t rows;     /* equal parts of each member's output; 0: there is no member yet */
    unsigned blocks;  /* the most blocks that one member alone would have */
    unsigned members; /* members that are not elementwise */
};

/* Adds the node. False, and nothing changes, if it cannot be a member, or if all cores would not
 * have enough rows. */
bool weir__rows_add(const struct weir__compile *c, struct weir__row_run *run, int v);
/* Whether row r of the node's result needs, of that operand, only row r of its value. */
bool weir__rows_hold(const struct weir__compile *c, const struct weir__node *n,
                     const struct weir__operand *o, int64_t rows);
/* Bytes of one row of a value. */
int64_t weir__row_bytes(const struct weir__compile *c, int value, int64_t rows);

#endif
