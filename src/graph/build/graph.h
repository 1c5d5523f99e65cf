/* The graph inside the library: nodes over values, in the order they were made.
 *
 * A value is a storage: bytes that an input, a constant or a node's output stands for.
 * A node's operand is a view of a value (offset, shape, strides), so slices and
 * transposes are free here as they are eagerly. Nodes are kept in program order, which
 * is a topological order; an in-place node writes a value that an earlier node made.
 *
 * What orders two nodes: a read after the write it sees, a write after the reads and
 * writes before it (of overlapping bytes), control edges, and program order on the same
 * stream. weir__graph_edges derives the first two.
 */
#ifndef WEIR_GRAPH_BUILD_GRAPH_H
#define WEIR_GRAPH_BUILD_GRAPH_H

#include "tensor/op.h"
#include "tensor/recipe.h"
#include "tensor/tensor.h"
#include "weir/graph.h"

#define WEIR__NO_VALUE (-1)

enum weir__value_kind { WEIR__VALUE_INPUT, WEIR__VALUE_CONSTANT, WEIR__VALUE_NODE };

/* What stands in for a dynamic size until a run decides it: tensors that depend on it show
 * this size, or what follows from it. */
#define WEIR__DYNAMIC_SIZE 10080

struct weir__value {
    enum weir__value_kind kind;
    char *name;             /* of an input, or of a file's constant; NULL otherwise */
    int node;               /* that makes it; -1 for inputs and constants */
    struct weir__view view; /* the whole value, contiguous unless constant; data NULL */
    weir_tensor *constant;  /* all of its buffer, as in `view`; NULL unless a constant */
    int last_writer;        /* the last node that writes it; -1 if none does */
    int *after;             /* nodes that whoever uses it from now on runs after (wait_tensor) */
    int nafter, cap_after;
    bool is_output;
    unsigned dynamic; /* of an input: bit d is set where size d is decided at run, and the view
                       * has WEIR__DYNAMIC_SIZE */
    bool literal;     /* of a constant: nobody outside the graph can write it */
};

/* A view of a value: view.data is the offset in bytes from the value's first element,
 * as a pointer. */
struct weir__operand {
    int value; /* WEIR__NO_VALUE for an absent optional input */
    struct weir__view view;
    struct weir__recipe *recipe; /* how the view is made of the whole value, where that may
                                  * change; held by graph->recipes */
};

/* What scopes said when the node was made. */
struct weir__marks {
    int stream; /* label, index into graph->labels; 0 is "default" */
    int priority;
    weir_cores limit; /* 0: none */
    int super_kernel; /* index into graph->super_kernels; -1: none */
    bool never_timeout;
};

struct weir__node {
    const struct weir__op *op;
    char *name;   /* unique in the graph */
    void *params; /* op->params_size bytes */
    int nin, nout;
    struct weir__operand *in, *out; /* an in-place node has nout 0 and writes in[0] */
    int *control;                   /* nodes it must run after, beside its operands */
    int ncontrol;
    unsigned ntokens : 28; /* of a Kernel: the first of these, whose tokens it names as inputs */
    unsigned shares_params : 1; /* they are the graph's (shared_params) */
    unsigned shares_name : 1;   /* it and `control` are among what the graph adopted */
    unsigned shares_control : 1;
    struct weir__marks marks;
    char *foreign; /* attributes of its file that mean nothing here, as text; NULL if none */
};

struct weir__super_kernel {
    char *name, *options;
};

/* A named size: an expression of others, or a free one, which a run's inputs decide. */
struct weir__named_size {
    bool is_free;
    weir_size_op op;
    int64_t a, b; /* numbers or named sizes */
};

/* Size `dim` of input number `input` is `size`, a name. */
struct weir__size_use {
    int input, dim;
    int64_t size;
};

/* A named result. */
struct weir__output {
    char *name;
    struct weir__operand operand;
};

struct weir_graph {
    weir_device *dev;
    uint64_t id; /* tensors name their graph by it, so that they may outlive it */
    struct weir__node *nodes;
    int nnodes, cap_nodes;
    struct weir__value *values;
    int nvalues, cap_values;
    int *inputs; /* values */
    int ninputs, cap_inputs;
    int *constants; /* values */
    int nconstants, cap_constants;
    struct weir__output *outputs;
    int noutputs, cap_outputs;
    char **labels; /* stream labels; [0] is "default" */
    int nlabels, cap_labels;
    struct weir__super_kernel *super_kernels;
    int nsuper_kernels, cap_super_kernels;
    void **shared_params; /* of nodes that are alike */
    int nshared_params, cap_shared_params;
    int *shared_by_hash;           /* some of them; NULL while the graph is small */
    struct weir__recipe **recipes; /* all that operands name, each held once or more often */
    int nrecipes, cap_recipes;
    struct weir__named_size *sizes; /* named ones; expressions come after what they are of */
    int nsizes, cap_sizes;
    struct weir__size_use *size_uses;
    int nsize_uses, cap_size_uses;
    char *module, *source; /* of nodes that are added (weir_graph_describe); NULL: nowhere */
    bool adopts;   /* name and control of a node that is added now live as long as the graph */
    void *adopted; /* those, which end with it */
    void (*free_adopted)(void *adopted);
    bool dynamic;     /* an input is */
    bool specialised; /* of a dynamic graph, for sizes that may change again: nothing that follows
                       * from them may be computed for good */
    _Atomic bool capturing;
};

/* ---- build.c: all return -1 or a status with the error set, nothing changed ---- */

int weir__graph_add_value(weir_graph *g, enum weir__value_kind kind, const struct weir__view *view,
                          int node);
/* Room for `n` nodes at once. */
weir_status weir__graph_expect_nodes(weir_graph *g, int n);
/* Takes copies of everything, but for what it adopts (g->adopts). `in` operands must be of this
 * graph. Outputs are inferred and their values made, unless `into` gives the operands to write. */
weir_status weir__graph_add_node(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, const struct weir__operand *in, int nin,
                                 const struct weir__operand *into, const struct weir__marks *marks,
                                 const int *control, int ncontrol, int *node);
/* The node that was added last has results that nobody will ask for: it keeps none. */
void weir__graph_drop_outputs(weir_graph *g, int node);
/* What the node holds. */
void weir__node_fini(struct weir__node *n);
int weir__graph_label(weir_graph *g, const char *label);
int weir__graph_super_kernel(weir_graph *g, const char *name, const char *options);
/* Fails with WEIR_EINVAL and a sentence that names the option. */
#define WEIR__SUPER_OPTIONS_MAX 127
weir_status weir__super_options_check(const char *options);
/* Names a result; one that is not a whole value of a node of its own is copied. */
weir_status weir__graph_add_output(weir_graph *g, const char *name,
                                   const struct weir__operand *operand);
/* The same for a result that is named already, when sizes have changed. */
weir_status weir__graph_own_output(weir_graph *g, struct weir__operand *operand);
/* The graph holds the recipe from now on, as it will hold operands that name it. NULL is
 * fine. */
weir_status weir__graph_hold_recipe(weir_graph *g, struct weir__recipe *recipe);
/* Uses of `value` by nodes added from now on run after `node`. */
weir_status weir__graph_use_after(weir_graph *g, int value, int node);
/* A copy that shares the constants' bytes and nothing else. */
weir_status weir__graph_clone(const weir_graph *g, weir_graph **out);
/* A tensor that stands for the operand. */
weir_status weir__graph_tensor(weir_graph *g, const struct weir__operand *operand,
                               weir_tensor **out);
/* The operand that the tensor stands for; one with bytes becomes a constant.
 * returns  WEIR_EINVAL if it is another graph's. */
weir_status weir__graph_operand(weir_graph *g, weir_tensor *tensor, struct weir__operand *out);
/* Makes a tensor that only this call's caller has a constant that nobody else can write. The
 * handle is exchanged for one of the graph's; on an error it stays. */
weir_status weir__graph_literal(weir_graph *g, weir_tensor **tensor);
/* Takes the literal back that was made last, where the node that was to fill it could not be added.
 */
void weir__graph_drop_literal(weir_graph *g);
/* Adds a node whose operands are given as tensors; results in out[], or written to
 * into[]. */
weir_status weir__graph_add_call(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, weir_tensor *const *in, int nin,
                                 weir_tensor *const *into, const struct weir__marks *marks,
                                 weir_tensor **out);

/* The node writes this operand (its outputs, or in[0] of an in-place one). */
static inline const struct weir__operand *weir__node_writes(const struct weir__node *n, int *count)
{
    bool in_place = n->op->flags & WEIR__OP_IN_PLACE;

    *count = in_place ? 1 : n->nout;
    return in_place ? n->in : n->out;
}

/* The first of them; there must be one. */
static inline const struct weir__operand *weir__node_result(const struct weir__node *n)
{
    int count;

    return weir__node_writes(n, &count);
}

/* ---- shapes.c ---- */

/* Types and shapes of the outputs; strides are not filled. */
weir_status weir__node_infer(const struct weir__op *op, const void *params,
                             const struct weir__operand *in, int nin, struct weir__view *out);
/* Existing operands take what was inferred: returns WEIR_EDTYPE or WEIR_ESHAPE with both. */
weir_status weir__node_check_into(const struct weir__op *op, const struct weir__view *want,
                                  const struct weir__operand *into);
/* What an existing operand must be to be written: `into`, or in[0] of an in-place operator. The
 * same as for eager calls. returns WEIR_EINVAL if it is expanded, or shares elements with an input
 * without being it. */
weir_status weir__node_check_writes(const struct weir__op *op, const struct weir__operand *in,
                                    int nin, const struct weir__operand *into);
/* The operand over its value as that is now; `before` is how it was. */
weir_status weir__operand_remake(const weir_graph *g, const struct weir__view *before,
                                 const int64_t *sizes, struct weir__operand *o);
/* A copy of a dynamic graph with inputs of these sizes, by input: nothing in it is dynamic.
 * returns  an error naming the node whose operands do not fit, or cannot be made again. */
weir_status weir__graph_specialise(const weir_graph *g, const int64_t *const *sizes,
                                   weir_graph **out);
/* An input's type and shape, -1 where it is dynamic. */
struct weir__view weir__input_view(const struct weir__value *input);

/* ---- sizes.c ---- */

/* The values of the graph's named sizes for inputs of these sizes: values[] has g->nsizes.
 * returns  WEIR_ESHAPE naming the input that does not go with another; WEIR_EINVAL for a free size
 *          that is none of an input's. */
weir_status weir__sizes_at(const weir_graph *g, const int64_t *const *inputs, int64_t *values);
/* The input has a named size. */
weir_status weir__sizes_use(weir_graph *g, int input, int dim, int64_t size);
/* Somewhat larger sizes of the inputs, by input, for plans to have room: where the sizes of `from`
 * are open. 0 and 1 stay. */
weir_status weir__sizes_with_room(const weir_graph *from, const int64_t *const *inputs,
                                  int64_t (*larger)[WEIR_MAX_DIMS]);
/* Tries a dynamic graph with a size that is no other's: shows what no size would fit. */
weir_status weir__graph_try_sizes(const weir_graph *g);
/* The graph for the examples of its named sizes. */
weir_status weir__graph_of_examples(const weir_graph *g, weir_graph **out);

/* ---- reorder.c ---- */

/* order[i] is the node, by its index now, that comes i-th from now on. It must be a
 * topological order of the edges that weir__graph_edges derives. */
weir_status weir__graph_reorder(weir_graph *g, const int *order);

/* ---- capture.c ---- */

/* The graph that operators on tensors of `dev` go into on this thread, or NULL. */
weir_graph *weir__capture_on(const weir_device *dev);
/* "24|48", with a dash for a count that is not limited. */
struct weir__cores_text {
    char text[24];
};
struct weir__cores_text weir__cores_to_text(weir_cores limit);
/* The graph goes away: this thread captures it no longer. */
void weir__capture_leave(const weir_graph *g);

/* ---- edges.c ---- */

/* Edges from data, hazards and control, each from an earlier node to a later one, no
 * pair twice, as lists of predecessors: preds[first[v] .. first[v+1]-1] of node v. */
struct weir__edges {
    int *first; /* nnodes + 1 */
    int *preds;
};
weir_status weir__graph_edges(const weir_graph *g, struct weir__edges *out);
void weir__edges_fini(struct weir__edges *e);

/* ---- cores.c ---- */

/* What the node runs on, whether a core limit reaches it, and whether its cores are
 * granted together: the row's, or what a Kernel node says of itself. */
weir_engine weir__node_engine(const struct weir__node *n);
bool weir__node_obeys_limit(const struct weir__node *n);
bool weir__node_is_gang(const struct weir__node *n);

#endif
