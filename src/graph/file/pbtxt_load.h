/* Between the files that turn a graph file's records into a graph. */
#ifndef WEIR_GRAPH_FILE_PBTXT_LOAD_H
#define WEIR_GRAPH_FILE_PBTXT_LOAD_H

#include "graph/build/graph.h"
#include "graph/file/pbtxt_attr.h"

/* Bounds that keep a hostile file cheap; real ones are far below. */
enum {
    WEIR__PB_MAX_NODES = 1 << 20,
    WEIR__PB_MAX_ENDS = 1 << 14,   /* inputs, outputs and constants, each */
    WEIR__PB_MAX_LABELS = 1 << 12, /* stream labels, and super kernels */
    WEIR__PB_MAX_WAITS = 1 << 10,  /* control edges that one Identity hands on */
};
#define WEIR__PB_MAX_ZEROS ((int64_t)256 << 20) /* bytes of constants not spelt out, together */

/* What a node of the file became. */
struct weir__pb_made {
    enum { WEIR__PB_MADE_NODE, WEIR__PB_MADE_OPERAND, WEIR__PB_MADE_NOTHING } kind;
    int node;                      /* of the graph */
    int waits, nwaits;             /* what its users run after beside their operands: Identity */
    struct weir__operand *operand; /* an input, a constant, or another node's result seen anew */
};

struct weir__pb_loader {
    struct weir__pb_file file;
    weir_graph *g;
    int *order;
    bool *read; /* by node of the file: some node has its result as data, and not only
                 * Kernels that of a Kernel: see weir__pb_is_token */
    struct weir__pb_made *made; /* by node of the file */
    int *waits;                 /* nodes of the graph: lists of all that hand them on */
    int nwaits, cap_waits;
    int *stamp; /* by node of the graph: the last list it was put into */
    int list;
    int64_t zeros; /* bytes of constants that are not spelt out */
    struct weir__pb_foreign {
        int count;
        struct weir__pb_attr_of {
            const char *node, *key;
        } first;
    } kept, lost; /* attributes that mean nothing to weir */
};

/* ---- pbtxt_load.c ---- */

/* All of the file, or of what a pipe gives. Free with weir__free(), also on failure. */
weir_status weir__pb_read(const char *path, char **data, size_t *size);

/* ---- pbtxt_order.c ---- */

/* Finds what each reference names; a lenient look leaves -1 where a control input names
 * nothing.
 * returns  WEIR_EINVAL for a name used twice or by no node. */
weir_status weir__pb_resolve(struct weir__pb_file *f, bool lenient);
/* A topological order. Inputs and constants come first, in the file's order. What runs keeps the
 * file's order where that is one: what another operator names before it is defined moves to just
 * before that user, together with what the file has before it on the stream of its label, unless
 * that contradicts the inputs. Where views and NetOutput stand means nothing. Free with
 * weir__free().
 * returns  WEIR_EINVAL naming the nodes of a cycle. */
weir_status weir__pb_sort(struct weir__pb_file *f, int **order);
/* By node: the first node with the same stream label, -1 without one. */
weir_status weir__pb_labels(struct weir__pb_file *f, int *same);

/* ---- pbtxt_ends.c ---- */

weir_status weir__pb_load_input(struct weir__pb_file *f, const struct weir__pb_node *n,
                                weir_graph *g, struct weir__operand *out);
weir_status weir__pb_load_constant(struct weir__pb_file *f, const struct weir__pb_node *n,
                                   weir_graph *g, int64_t *zeros, struct weir__operand *out);

/* ---- pbtxt_operand.c ---- */

/* What a data reference stands for. */
weir_status weir__pb_operand(const struct weir__pb_loader *l, const struct weir__pb_ref *ref,
                             struct weir__operand *out);
/* The node's inputs, or what its outputs are written `into`. *count is how many there is
 * room for, and then how many there are. */
weir_status weir__pb_operands(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                              bool into, struct weir__operand *out, int *count);
/* Sets l->read. */
weir_status weir__pb_find_read(struct weir__pb_loader *l);
/* Whether the input of `n` is a token, by which one Kernel comes after another: these are most of
 * a large file's data, and an edge says as much as a value would. */
bool weir__pb_is_token(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                       const struct weir__pb_ref *ref);
/* Changes the operand's view as the call does, and keeps how if sizes may change. */
weir_status weir__pb_step(struct weir__pb_loader *l, struct weir__operand *o,
                          const struct weir__view_step *step);
/* Appends to l->waits what `n` runs after: the tokens among its inputs, which are `ntokens`, then,
 * each once, its control inputs, and what the Identities among its inputs hand on. */
weir_status weir__pb_collect_waits(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   int *ntokens);
/* Identity and View: their input as another operand, with what its users wait for. */
weir_status weir__pb_load_alias(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                struct weir__pb_made *m);

/* ---- pbtxt_foreign.c ---- */

/* What the node has beside what its operator knows, as a dump writes it; *out stays NULL if
 * there is none. Free with weir__free(). */
weir_status weir__pb_load_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                  const struct weir__op *op, char **out);
/* Notes what an input, a constant or a view has that cannot be kept. */
void weir__pb_lose_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n);
/* Says once what was noted. */
void weir__pb_warn_foreign(const struct weir__pb_loader *l);

/* ---- pbtxt_op.c ---- */

/* The attribute turns an operand of this matrix product. */
bool weir__pb_is_transpose(const struct weir__op *op, const char *key);
weir_status weir__pb_load_operator(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   struct weir__pb_made *m);

/* Gives an error of another module the node's place; running out of memory stays what
 * it is, all else is WEIR_EINVAL. WEIR_OK stays too. */
weir_status weir__pb_at_node(const struct weir__pb_file *f, const struct weir__pb_node *n,
                             weir_status status);

#endif
