/* Shared by the files that turn a graph file's records into a graph. */
#ifndef WEIR_GRAPH_FILE_PBTXT_LOAD_H
#define WEIR_GRAPH_FILE_PBTXT_LOAD_H

#include "graph/build/graph.h"
#include "graph/file/pbtxt_attr.h"

/* Limits that bound the cost of a hostile file; real files are far below. */
enum {
    WEIR__PB_MAX_NODES = 1 << 20,
    WEIR__PB_MAX_ENDS = 1 << 14,   /* inputs, outputs and constants, each */
    WEIR__PB_MAX_LABELS = 1 << 12, /* stream labels, and super kernels, each */
    WEIR__PB_MAX_WAITS = 1 << 10,  /* control edges passed on by one Identity */
};
/* Limit on the total bytes of constants whose values are not in the file. */
#define WEIR__PB_MAX_ZEROS ((int64_t)256 << 20)

/* The result of loading one node of the file. */
struct weir__pb_made {
    enum { WEIR__PB_MADE_NODE, WEIR__PB_MADE_OPERAND, WEIR__PB_MADE_NOTHING } kind;
    int node;                      /* of the graph */
    int waits, nwaits;             /* Identity: nodes that its users must run after, besides their
                                    * operands */
    struct weir__operand *operand; /* an input, a constant, or a view of another node's result */
};

struct weir__pb_loader {
    struct weir__pb_file file;
    weir_graph *g;
    int *order;
    bool *read; /* by node of the file: some node reads its result as data, other than a Kernel that
                 * only depends on a Kernel: see weir__pb_is_token */
    struct weir__pb_made *made; /* by node of the file */
    int *waits;                 /* nodes of the graph: the concatenated lists of `waits` */
    int nwaits, cap_waits;
    int *stamp; /* by node of the graph: the last list that it was added to */
    int list;
    int64_t zeros; /* bytes of constants whose values are not in the file */
    struct weir__pb_foreign {
        int count;
        struct weir__pb_attr_of {
            const char *node, *key;
        } first;
    } kept, lost; /* attributes that weir does not know */
};

/* ---- pbtxt_load.c ---- */

/* Reads a whole file or pipe. Free with weir__free(), also on failure. */
weir_status weir__pb_read(const char *path, char **data, size_t *size);

/* ---- pbtxt_order.c ---- */

/* Finds what each reference names; if lenient, a control input that names no node gets -1.
 * returns  WEIR_EINVAL for a name used twice or by no node. */
weir_status weir__pb_resolve(struct weir__pb_file *f, bool lenient);
/* A topological order. Inputs and constants come first, in the file's order. Operators keep the
 * file's order where it is topological. An operator that another one names before its definition
 * moves to just before that user, together with the nodes before it on its labelled stream, unless
 * that contradicts the inputs. The places of views and NetOutput have no meaning. Free with
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

/* The operand that a data reference stands for. */
weir_status weir__pb_operand(const struct weir__pb_loader *l, const struct weir__pb_ref *ref,
                             struct weir__operand *out);
/* The node's inputs, or the operands that its outputs are written to (`into`). *count is the
 * capacity on entry and the number of operands on return. */
weir_status weir__pb_operands(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                              bool into, struct weir__operand *out, int *count);
/* Sets l->read. */
weir_status weir__pb_find_read(struct weir__pb_loader *l);
/* Whether the input of `n` is a token, which only orders one Kernel after another. Most data of a
 * large file are tokens; an edge replaces the value. */
bool weir__pb_is_token(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                       const struct weir__pb_ref *ref);
/* Applies the step to the operand's view. Records it in the recipe if sizes may change. */
weir_status weir__pb_step(struct weir__pb_loader *l, struct weir__operand *o,
                          const struct weir__view_step *step);
/* Appends to l->waits the nodes that `n` must run after: first its token inputs, counted in
 * *ntokens; then, without duplicates, its control inputs and the nodes passed on by the Identities
 * among its inputs. */
weir_status weir__pb_collect_waits(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   int *ntokens);
/* Loads Identity and View: their result is the input as another operand, with the nodes that its
 * users must run after. */
weir_status weir__pb_load_alias(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                struct weir__pb_made *m);

/* ---- pbtxt_foreign.c ---- */

/* The node's attributes that its operator does not know, in the form of a dump; *out stays NULL if
 * there are none. Free with weir__free(). */
weir_status weir__pb_load_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                  const struct weir__op *op, char **out);
/* Counts the unknown attributes of an input, a constant or a view, which cannot be kept. */
void weir__pb_lose_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n);
/* Logs what was counted, once. */
void weir__pb_warn_foreign(const struct weir__pb_loader *l);

/* ---- pbtxt_op.c ---- */

/* Whether the attribute transposes an operand of this matrix product. */
bool weir__pb_is_transpose(const struct weir__op *op, const char *key);
weir_status weir__pb_load_operator(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   struct weir__pb_made *m);

/* Adds the node's place to an error of another module. WEIR_ENOMEM and WEIR_OK stay; every other
 * status becomes WEIR_EINVAL. */
weir_status weir__pb_at_node(const struct weir__pb_file *f, const struct weir__pb_node *n,
                             weir_status status);

#endif
