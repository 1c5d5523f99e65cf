/* Launches by rows: what of fuse.c concerns operators that are cut into rows they have in common.
 */
#ifndef WEIR_GRAPH_PASS_FUSE_H
#define WEIR_GRAPH_PASS_FUSE_H

#include "graph/pass/compile.h"

/* Operators with so many outputs and inputs at most. */
#define WEIR__FUSE_OPERANDS 4

/* What members of a launch by rows have in common so far. */
struct weir__row_run {
    int64_t rows;     /* the output of each is so many equal parts; 0: there is no member yet */
    unsigned blocks;  /* the most that a member alone would be cut into */
    unsigned members; /* that are not elementwise */
};

/* Adds the node; false, and nothing changes, if it cannot be a member, or if too few rows would be
 * left for all cores. */
bool weir__rows_add(const struct weir__compile *c, struct weir__row_run *run, int v);
/* Whether row r of what the node gives needs, of that operand, but what lies in row r of its
 * value. */
bool weir__rows_hold(const struct weir__compile *c, const struct weir__node *n,
                     const struct weir__operand *o, int64_t rows);
/* Bytes of one row of a value. */
int64_t weir__row_bytes(const struct weir__compile *c, int value, int64_t rows);

#endif
