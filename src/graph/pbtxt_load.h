/* Between the files that turn a graph file's records into a graph. */
#ifndef WEIR_GRAPH_PBTXT_LOAD_H
#define WEIR_GRAPH_PBTXT_LOAD_H

#include "graph/graph.h"
#include "graph/pbtxt_attr.h"

/* Bounds that keep a hostile file cheap; real ones are far below. */
enum {
    WEIR__PB_MAX_NODES = 1 << 20,
    WEIR__PB_MAX_ENDS = 1 << 14,   /* inputs, outputs and constants, each */
    WEIR__PB_MAX_LABELS = 1 << 12, /* stream labels, and super kernels */
    WEIR__PB_MAX_WAITS = 1 << 10,  /* control edges that one Identity hands on */
};
#define WEIR__PB_MAX_ZEROS ((int64_t)256 << 20) /* bytes of constants not spelt out, together */

/* ---- pbtxt_order.c ---- */

/* Finds what each reference names.
 * returns  WEIR_EINVAL for a name used twice or by no node. */
weir_status weir__pb_resolve(struct weir__pb_file *f);
/* A topological order that is the file's own where that is one: what is named before it
 * is defined moves to just before its first user. Free with weir__free().
 * returns  WEIR_EINVAL naming the nodes of a cycle. */
weir_status weir__pb_sort(const struct weir__pb_file *f, int **order);

/* ---- pbtxt_ends.c ---- */

weir_status weir__pb_load_input(struct weir__pb_file *f, const struct weir__pb_node *n,
                                weir_graph *g, struct weir__operand *out);
/* `zeros` counts the bytes of constants that are not spelt out. */
weir_status weir__pb_load_constant(struct weir__pb_file *f, const struct weir__pb_node *n,
                                   weir_graph *g, int64_t *zeros, struct weir__operand *out);

/* Gives an error of another module the node's place; running out of memory stays what
 * it is, all else is WEIR_EINVAL. WEIR_OK stays too. */
weir_status weir__pb_at_node(const struct weir__pb_file *f, const struct weir__pb_node *n,
                             weir_status status);

#endif
