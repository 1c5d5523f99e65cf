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

/* The size that stands in for a dynamic size until a run decides it. Tensors that depend on a
 * dynamic size show this size, or one computed from it. */
#define WEIR__DYNAMIC_SIZE 10080

struct weir__value {
    enum weir__value_kind kind;
    char *name;             /* of an input, or of a file's constant; NULL otherwise */
    int node;               /* the node that makes it; -1 for inputs and constants */
    struct weir__view view; /* the whole value, contiguous unless constant; data NULL */
    weir_tensor *constant;  /* all of its buffer, as in `view`; NULL unless a constant */
    int last_writer;        /* the last node that writes it; -1 if none does */
    int *after;             /* nodes that every later user of the value must run after
                             * (wait_tensor) */
    int nafter, cap_after;
    bool is_output;
    unsigned dynamic; /* for an input: bit d is set if each run decides size d; the view then has
                       * WEIR__DYNAMIC_SIZE */
    bool literal;     /* for a constant: nothing outside the graph can write it */
};

/* A view of a value: view.data is the offset in bytes from the value's first element,
 * as a pointer. */
struct weir__operand {
    int value; /* WEIR__NO_VALUE for an absent optional input */
    struct weir__view view;
    struct weir__recipe *recipe; /* how the view is made from the whole value, if sizes may change;
                                  * owned by graph->recipes */
};

/* The settings of the scopes that were open when the node was made. */
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
    int *control;                   /* nodes it must run after, besides those of its operands */
    int ncontrol;
    unsigned ntokens : 28; /* for a Kernel: the first `ntokens` of these, whose tokens it takes as
                            * inputs */
    unsigned shares_params : 1; /* `params` belongs to graph->shared_params */
    unsigned shares_name : 1;   /* `name` belongs to graph->adopted */
    unsigned shares_control : 1;
    struct weir__marks marks;
    char *foreign; /* attributes of its file that weir does not know, as text; NULL if none */
};

struct weir__super_kernel {
    char *name, *options;
};

/* A named size: an expression of others, or a free size, which a run's inputs decide. */
struct weir__named_size {
    bool is_free;
    weir_size_op op;
    int64_t a, b; /* numbers or named sizes */
};

/* Size `dim` of input number `input` is the named size `size`. */
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
    uint64_t id; /* tensors hold this number instead of a pointer, so that they may outlive the
                  * graph */
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
    void **shared_params; /* each shared by nodes with equal parameters */
    int nshared_params, cap_shared_params;
    int *shared_by_hash;           /* by hash: 1 + a node with such parameters, 0 if none; NULL
                                    * while the graph is small */
    struct weir__recipe **recipes; /* all recipes that operands use, each held one or more times */
    int nrecipes, cap_recipes;
    struct weir__named_size *sizes; /* named sizes; an expression comes after its operands */
    int nsizes, cap_sizes;
    struct weir__size_use *size_uses;
    int nsize_uses, cap_size_uses;
    char *module, *source; /* description for the nodes that are added next (weir_graph_describe);
                            * NULL: none */
    bool adopts;   /* nodes added now do not copy their name and control: `adopted` owns them */
    void *adopted; /* freed with the graph by free_adopted */
    void (*free_adopted)(void *adopted);
    bool dynamic;     /* an input has a dynamic size */
    bool specialised; /* a copy of a dynamic graph for one set of sizes, which may change again: do
                       * not compute anything that depends on them once and for all */
    _Atomic bool capturing;
};

/* ---- build.c: all return -1 or a status with the error set, nothing changed ---- */

int weir__graph_add_value(weir_graph *g, enum weir__value_kind kind, const struct weir__view *view,
                          int node);
/* Allocates room for `n` more nodes at once. */
weir_status weir__graph_expect_nodes(weir_graph *g, int n);
/* Copies everything, except the name and control if g->adopts. `in` operands must belong to this
 * graph. Infers the outputs and makes their values, unless `into` gives the operands to write. */
weir_status weir__graph_add_node(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, const struct weir__operand *in, int nin,
                                 const struct weir__operand *into, const struct weir__marks *marks,
                                 const int *control, int ncontrol, int *node);
/* Removes the outputs of the node that was added last: nobody uses its results. */
void weir__graph_drop_outputs(weir_graph *g, int node);
/* Frees what the node owns. */
void weir__node_fini(struct weir__node *n);
int weir__graph_label(weir_graph *g, const char *label);
int weir__graph_super_kernel(weir_graph *g, const char *name, const char *options);
/* Fails with WEIR_EINVAL and a sentence that names the option. */
#define WEIR__SUPER_OPTIONS_MAX 127
weir_status weir__super_options_check(const char *options);
/* Names a result; one that is not a whole value of a node of its own is copied. */
weir_status weir__graph_add_output(weir_graph *g, const char *name,
                                   const struct weir__operand *operand);
/* The same for a result that already has a name, after sizes have changed. */
weir_status weir__graph_own_output(weir_graph *g, struct weir__operand *operand);
/* The graph holds the recipe from now on, as operands will use it. NULL is fine. */
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
/* Turns a tensor whose only handle the caller holds into a constant that nobody else can write.
 * Replaces the handle by one of the graph's; on an error the handle stays. */
weir_status weir__graph_literal(weir_graph *g, weir_tensor **tensor);
/* Removes the literal that was made last, if the node that should fill it could not be added. */
void weir__graph_drop_literal(weir_graph *g);
/* Adds a node whose operands are given as tensors. Results go to out[], or are written to
 * into[]. */
weir_status weir__graph_add_call(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, weir_tensor *const *in, int nin,
                                 weir_tensor *const *into, const struct weir__marks *marks,
                                 weir_tensor **out);

/* The operands that the node writes: its outputs, or in[0] of an in-place node. */
static inline const struct weir__operand *weir__node_writes(const struct weir__node *n, int *count)
{
    bool in_place = n->op->flags & WEIR__OP_IN_PLACE;

    *count = in_place ? 1 : n->nout;
    return in_place ? n->in : n->out;
}

/* The first operand that the node writes; there must be one. */
static inline const struct weir__operand *weir__node_result(const struct weir__node *n)
{
    int count;

    return weir__node_writes(n, &count);
}

/* ---- shapes.c ---- */

/* Types and shapes of the outputs; strides are not filled. */
weir_status weir__node_infer(const struct weir__op *op, const void *params,
                             const struct weir__operand *in, int nin, struct weir__view *out);
/* Checks that existing operands match the inferred types and shapes: returns WEIR_EDTYPE or
 * WEIR_ESHAPE with both. */
weir_status weir__node_check_into(const struct weir__op *op, const struct weir__view *want,
                                  const struct weir__operand *into);
/* Checks the operands that a node writes, `into` or in[0] of an in-place operator, by the rules of
 * eager calls. returns WEIR_EINVAL if one is expanded, or shares elements with an input without
 * being that input. */
weir_status weir__node_check_writes(const struct weir__op *op, const struct weir__operand *in,
                                    int nin, const struct weir__operand *into);
/* Makes the operand's view again over its value's present view; `before` is the value's earlier
 * view. */
weir_status weir__operand_remake(const weir_graph *g, const struct weir__view *before,
                                 const int64_t *sizes, struct weir__operand *o);
/* A copy of a dynamic graph with inputs of these sizes, by input: it has no dynamic sizes.
 * returns  an error naming the node whose operands do not fit, or whose views cannot be made
 * again. */
weir_status weir__graph_specialise(const weir_graph *g, const int64_t *const *sizes,
                                   weir_graph **out);
/* An input's type and shape, -1 where it is dynamic. */
struct weir__view weir__input_view(const struct weir__value *input);

/* ---- sizes.c ---- */

/* The values of the graph's named sizes for inputs of these sizes: values[] has g->nsizes.
 * returns  WEIR_ESHAPE naming the input that contradicts another; WEIR_EINVAL for a free size that
 *          no input has. */
weir_status weir__sizes_at(const weir_graph *g, const int64_t *const *inputs, int64_t *values);
/* Records that size `dim` of the input is the named size. */
weir_status weir__sizes_use(weir_graph *g, int input, int dim, int64_t size);
/* Rounds the dynamic sizes of the inputs up, so that plans have room for larger sizes. Fixed sizes,
 * and sizes of 0 and 1, stay. */
weir_status weir__sizes_with_room(const weir_graph *from, const int64_t *const *inputs,
                                  int64_t (*larger)[WEIR_MAX_DIMS]);
/* Tries a dynamic graph with one other size, so that nodes which fit no size but the stand-in fail
 * when the graph is compiled. */
weir_status weir__graph_try_sizes(const weir_graph *g);
/* The graph specialised to the examples of its named sizes. */
weir_status weir__graph_of_examples(const weir_graph *g, weir_graph **out);

/* ---- reorder.c ---- */

/* order[i] is the present index of the node that becomes node i. It must be a topological order of
 * the edges that weir__graph_edges derives. */
weir_status weir__graph_reorder(weir_graph *g, const int *order);

/* ---- capture.c ---- */

/* The graph that captures this thread's operators on tensors of `dev`, or NULL. */
weir_graph *weir__capture_on(const weir_device *dev);
/* "24|48"; a dash stands for a count without a limit. */
struct weir__cores_text {
    char text[24];
};
struct weir__cores_text weir__cores_to_text(weir_cores limit);
/* Called before the graph is freed: ends this thread's capture of it. */
void weir__capture_leave(const weir_graph *g);

/* ---- edges.c ---- */

/* Edges from data, hazards and control, each from an earlier node to a later one, without
 * duplicates. The predecessors of node v are preds[first[v] .. first[v+1]-1]. */
struct weir__edges {
    int *first; /* nnodes + 1 */
    int *preds;
};
weir_status weir__graph_edges(const weir_graph *g, struct weir__edges *out);
void weir__edges_fini(struct weir__edges *e);

/* ---- cores.c ---- */

/* The engine the node runs on, whether core limits apply to it, and whether its cores are granted
 * all at once: from the operator's row, or from the parameters of a Kernel node. */
weir_engine weir__node_engine(const struct weir__node *n);
bool weir__node_obeys_limit(const struct weir__node *n);
bool weir__node_is_gang(const struct weir__node *n);

#endif
