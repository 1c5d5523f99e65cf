/* Graphs: making them and adding to them. */
#include "graph/build/graph.h"

#include <stdio.h>
#include <string.h>

weir_status weir_graph_create(weir_device *dev, weir_graph **out)
{
    static _Atomic uint64_t next_id = 1;
    weir_graph *g;

    WEIR__NEED(dev, "dev");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (!(g = weir__calloc(1, sizeof *g)))
        return weir__fail_nomem("making a graph on %s", dev->props.name);
    g->dev = dev;
    atomic_fetch_add(&dev->graphs_live, 1);
    g->id = atomic_fetch_add(&next_id, 1);
    if (weir__graph_label(g, "default") < 0) {
        weir_graph_destroy(g);
        return WEIR_ENOMEM;
    }
    *out = g;
    return WEIR_OK;
}

void weir__node_fini(struct weir__node *n)
{
    if (!n->shares_name)
        weir__free(n->name);
    if (!n->shares_params)
        weir__free(n->params);
    weir__free(n->in);
    weir__free(n->out);
    if (!n->shares_control)
        weir__free(n->control);
    weir__free(n->foreign);
}

void weir_graph_destroy(weir_graph *g)
{
    if (!g)
        return;
    weir__capture_leave(g);
    for (int i = 0; i < g->nnodes; i++)
        weir__node_fini(&g->nodes[i]);
    if (g->free_adopted)
        g->free_adopted(g->adopted);
    for (int i = 0; i < g->nvalues; i++) {
        weir__free(g->values[i].name);
        weir__free(g->values[i].after);
        weir_tensor_release(g->values[i].constant);
    }
    for (int i = 0; i < g->noutputs; i++)
        weir__free(g->outputs[i].name);
    for (int i = 0; i < g->nlabels; i++)
        weir__free(g->labels[i]);
    for (int i = 0; i < g->nsuper_kernels; i++) {
        weir__free(g->super_kernels[i].name);
        weir__free(g->super_kernels[i].options);
    }
    weir__free(g->nodes);
    weir__free(g->values);
    weir__free(g->inputs);
    weir__free(g->constants);
    weir__free(g->outputs);
    weir__free(g->labels);
    for (int i = 0; i < g->nrecipes; i++)
        weir__recipe_release(g->recipes[i]);
    for (int i = 0; i < g->nshared_params; i++)
        weir__free(g->shared_params[i]);
    weir__free(g->shared_params);
    weir__free(g->shared_by_hash);
    weir__free(g->super_kernels);
    weir__free(g->recipes);
    weir__free(g->sizes);
    weir__free(g->size_uses);
    weir__free(g->module);
    weir__free(g->source);
    atomic_fetch_sub(&g->dev->graphs_live, 1);
    weir__free(g);
}

size_t weir_graph_node_count(const weir_graph *g)
{
    return g ? (size_t)g->nnodes : 0;
}

size_t weir_graph_input_count(const weir_graph *g)
{
    return g ? (size_t)g->ninputs : 0;
}

size_t weir_graph_output_count(const weir_graph *g)
{
    return g ? (size_t)g->noutputs : 0;
}

/* ---- tables ---- */

int weir__graph_label(weir_graph *g, const char *label)
{
    for (int i = 0; i < g->nlabels; i++)
        if (!strcmp(g->labels[i], label))
            return i;
    if (!weir__grow(&g->labels, g->nlabels, &g->cap_labels, sizeof *g->labels))
        return -1;
    if (!(g->labels[g->nlabels] = weir__strdup(label))) {
        weir__fail_nomem("keeping stream label '%s'", label);
        return -1;
    }
    return g->nlabels++;
}

int weir__graph_super_kernel(weir_graph *g, const char *name, const char *options)
{
    struct weir__super_kernel *s;

    for (int i = 0; i < g->nsuper_kernels; i++)
        if (!strcmp(g->super_kernels[i].name, name) &&
            !strcmp(g->super_kernels[i].options, options))
            return i;
    if (!weir__grow(&g->super_kernels, g->nsuper_kernels, &g->cap_super_kernels,
                    sizeof *g->super_kernels))
        return -1;
    s = &g->super_kernels[g->nsuper_kernels];
    s->name = weir__strdup(name);
    s->options = weir__strdup(options);
    if (!s->name || !s->options) {
        weir__free(s->name);
        weir__free(s->options);
        weir__fail_nomem("opening super kernel '%s'", name);
        return -1;
    }
    return g->nsuper_kernels++;
}

int weir__graph_add_value(weir_graph *g, enum weir__value_kind kind, const struct weir__view *view,
                          int node)
{
    if (!weir__grow(&g->values, g->nvalues, &g->cap_values, sizeof *g->values))
        return -1;
    g->values[g->nvalues] =
        (struct weir__value){.kind = kind, .node = node, .last_writer = node, .view = *view};
    g->values[g->nvalues].view.data = NULL;
    return g->nvalues++;
}

weir_status weir__graph_hold_recipe(weir_graph *g, struct weir__recipe *recipe)
{
    if (!recipe)
        return WEIR_OK;
    if (!weir__grow(&g->recipes, g->nrecipes, &g->cap_recipes, sizeof *g->recipes))
        return WEIR_ENOMEM;
    g->recipes[g->nrecipes++] = weir__recipe_retain(recipe);
    return WEIR_OK;
}

/* ---- where nodes come from ---- */

/* Copies `text` for use in names and graph files. Replaces characters that they do not allow, such
 * as quotes and spaces, by '_'. */
static char *plain_copy(const char *text, bool *failed)
{
    char *copied = text && *text ? weir__strdup(text) : NULL;

    *failed |= text && *text && !copied;
    for (char *c = copied; c && *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9') &&
            !strchr("._-/:<>", *c))
            *c = '_';
    return copied;
}

weir_status weir_graph_describe(weir_graph *g, const char *module, const char *source)
{
    bool failed = false;
    char *copied[2];

    WEIR__NEED(g, "graph");
    copied[0] = plain_copy(module, &failed);
    copied[1] = plain_copy(source, &failed);
    if (failed) {
        weir__free(copied[0]);
        weir__free(copied[1]);
        return weir__fail_nomem("describing nodes of a graph");
    }
    for (char *c = copied[0]; c && *c; c++)
        if (*c == ':') /* files write ':' before the number of an output */
            *c = '_';
    weir__free(g->module);
    weir__free(g->source);
    g->module = copied[0];
    g->source = copied[1];
    return WEIR_OK;
}

/* ---- nodes ---- */

static void *copy(const void *from, size_t size, bool *failed)
{
    void *to = size ? weir__malloc(size) : NULL;

    if (to)
        memcpy(to, from, size);
    else if (size)
        *failed = true;
    return to;
}

/* Large graphs have many identical nodes. Nodes with equal parameters share one copy. Operators
 * whose parameters follow sizes (op->follow) change them, so each of their nodes has its own
 * copy. */
static void *keep_params(weir_graph *g, const struct weir__op *op, const void *params, bool *shares,
                         bool *failed)
{
    const int many = 1024, slots = 4096;
    const unsigned char *bytes = params;
    uint64_t h = (uintptr_t)op;
    void *copied;
    int *slot;

    if (g->nnodes < many || !op->params_size || op->follow)
        return copy(params, op->params_size, failed);
    if (!g->shared_by_hash &&
        !(g->shared_by_hash = weir__calloc((size_t)slots, sizeof *g->shared_by_hash)))
        return copy(params, op->params_size, failed);
    for (size_t i = 0; i < op->params_size; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    slot = &g->shared_by_hash[(h ^ h >> 32) % (uint64_t)slots];
    /* Compares with a node of this operator, because nodes may have been reordered since. */
    if (*slot && *slot <= g->nnodes && g->nodes[*slot - 1].op == op &&
        g->nodes[*slot - 1].shares_params &&
        !memcmp(g->nodes[*slot - 1].params, params, op->params_size)) {
        *shares = true;
        return g->nodes[*slot - 1].params;
    }
    if (!(copied = copy(params, op->params_size, failed)))
        return NULL;
    if (weir__grow(&g->shared_params, g->nshared_params, &g->cap_shared_params,
                   sizeof *g->shared_params)) {
        g->shared_params[g->nshared_params++] = copied;
        *slot = g->nnodes + 1;
        *shares = true;
    }
    return copied;
}

void weir__graph_drop_outputs(weir_graph *g, int node)
{
    struct weir__node *n = &g->nodes[node];

    g->nvalues -= n->nout;
    n->nout = 0;
    weir__free(n->out);
    n->out = NULL;
}

static bool has_waits(const weir_graph *g, const struct weir__operand *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (in[i].value != WEIR__NO_VALUE && g->values[in[i].value].nafter)
            return true;
    return false;
}

static bool is_among(const int *list, int n, int node)
{
    for (int i = 0; i < n; i++)
        if (list[i] == node)
            return true;
    return false;
}

/* The nodes that a new node must run after: those the caller names, and those that wait_tensor
 * attached to its operands. */
static int *all_control(const weir_graph *g, const struct weir__operand *in, int nin,
                        const int *control, int *ncontrol, bool *failed)
{
    int n = *ncontrol, *all;

    for (int i = 0; i < nin; i++)
        n += in[i].value == WEIR__NO_VALUE ? 0 : g->values[in[i].value].nafter;
    if (!n)
        return NULL;
    if (!(all = weir__malloc((size_t)n * sizeof *all))) {
        *failed = true;
        return NULL;
    }
    if (*ncontrol)
        memcpy(all, control, (size_t)*ncontrol * sizeof *all);
    n = *ncontrol;
    for (int i = 0; i < nin; i++) {
        const struct weir__value *v =
            in[i].value == WEIR__NO_VALUE ? NULL : &g->values[in[i].value];
        int before = n; /* a value's own list has no duplicates */

        for (int j = 0; v && j < v->nafter; j++)
            if (!is_among(all, before, v->after[j]))
                all[n++] = v->after[j];
    }
    *ncontrol = n;
    return all;
}

weir_status weir__graph_use_after(weir_graph *g, int value, int node)
{
    struct weir__value *v = &g->values[value];

    for (int i = 0; i < v->nafter; i++)
        if (v->after[i] == node)
            return WEIR_OK;
    if (!weir__grow(&v->after, v->nafter, &v->cap_after, sizeof *v->after))
        return WEIR_ENOMEM;
    v->after[v->nafter++] = node;
    return WEIR_OK;
}

weir_status weir__graph_expect_nodes(weir_graph *g, int n)
{
    struct weir__node *nodes;

    if (n <= g->cap_nodes)
        return WEIR_OK;
    if (!(nodes = weir__malloc((size_t)n * sizeof *nodes)))
        return weir__fail_nomem("allocating a graph of %d nodes", n);
    if (g->nnodes)
        memcpy(nodes, g->nodes, (size_t)g->nnodes * sizeof *nodes);
    weir__free(g->nodes);
    g->nodes = nodes;
    g->cap_nodes = n;
    return WEIR_OK;
}

weir_status weir__graph_add_node(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, const struct weir__operand *in, int nin,
                                 const struct weir__operand *into, const struct weir__marks *marks,
                                 const int *control, int ncontrol, int *node)
{
    struct weir__operand out[WEIR__OP_MAX_OUT];
    struct weir__view views[WEIR__OP_MAX_OUT];
    int values_before = g->nvalues;
    char generated[256];
    int nwrites;
    bool failed = false, shares = false;
    struct weir__node n = {
        .op = op,
        .nin = nin,
        .nout = op->nout,
        .ncontrol = ncontrol,
        .marks = *marks,
    };
    weir_status st;

    if ((st = weir__node_infer(op, params, in, nin, views)) ||
        (into && (st = weir__node_check_into(op, views, into))) ||
        (st = weir__node_check_writes(op, in, nin, into)))
        return st;
    if (!weir__grow(&g->nodes, g->nnodes, &g->cap_nodes, sizeof *g->nodes))
        return WEIR_ENOMEM;
    for (int i = 0; i < op->nout; i++) {
        if (into) {
            out[i] = into[i];
            continue;
        }
        if ((st = weir__view_init(&views[i], views[i].dtype, views[i].ndim, views[i].shape))) {
            g->nvalues = values_before; /* the size of a broadcast may exceed the limit */
            return st;
        }
        out[i] = (struct weir__operand){
            .value = weir__graph_add_value(g, WEIR__VALUE_NODE, &views[i], g->nnodes),
            .view = views[i],
        };
        failed |= out[i].value < 0;
    }
    if (!name) {
        snprintf(generated, sizeof generated, "%.160s%s%.60s_%d", g->module ? g->module : "",
                 g->module ? "/" : "", op->name, g->nnodes);
        name = generated;
    }
    if (g->source) {
        char text[256];

        snprintf(text, sizeof text, "  attr { key: \"_source\" value { s: \"%.200s\" } }\n",
                 g->source);
        n.foreign = copy(text, strlen(text) + 1, &failed);
    }
    n.shares_name = g->adopts && name != generated;
    n.name = n.shares_name ? (char *)name : copy(name, strlen(name) + 1, &failed);
    n.params = keep_params(g, op, params, &shares, &failed);
    n.shares_params = shares;
    n.in = copy(in, (size_t)nin * sizeof *in, &failed);
    n.out = copy(out, (size_t)op->nout * sizeof *out, &failed);
    n.shares_control = g->adopts && control && !has_waits(g, in, nin);
    n.control =
        n.shares_control ? (int *)control : all_control(g, in, nin, control, &n.ncontrol, &failed);
    if (failed) {
        weir__node_fini(&n);
        g->nvalues = values_before;
        return weir__fail_nomem("adding node '%s'", name);
    }
    *node = g->nnodes;
    g->nodes[g->nnodes++] = n;

    const struct weir__operand *writes = weir__node_writes(&n, &nwrites);

    for (int i = 0; i < nwrites; i++)
        g->values[writes[i].value].last_writer = *node;
    return WEIR_OK;
}
