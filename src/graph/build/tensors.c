/* Tensors of a graph: handles on its values, operands of calls, inputs and outputs. */
#include "graph/build/graph.h"
#include "tensor/size.h"

#include <stdio.h>
#include <string.h>

weir_status weir__graph_tensor(weir_graph *g, const struct weir__operand *operand,
                               weir_tensor **out)
{
    weir_tensor *t;

    weir__device_lock(g->dev);
    t = weir__tensor_new(g->dev);
    weir__device_unlock(g->dev);
    *out = t;
    if (!t)
        return weir__fail_nomem("making a tensor of a graph");
    t->graph = g->id;
    t->value = operand->value;
    t->view = operand->view;
    t->dynamic = g->dynamic;
    t->recipe = operand->recipe ? weir__recipe_retain(operand->recipe) : NULL;
    return WEIR_OK;
}

/* All of the tensor's buffer: as the tensor sees it if that is all, else flat. */
static struct weir__view whole_buffer(const weir_tensor *t)
{
    size_t size = weir_dtype_size(t->view.dtype);
    struct weir__view v = t->view;

    if (v.data == t->buffer->address && weir__view_is_contiguous(&v) &&
        (size_t)weir__view_numel(&v) * size == t->buffer->asked)
        return v;
    v.data = t->buffer->address;
    v.ndim = 1;
    v.shape[0] = (int64_t)(t->buffer->asked / size);
    v.stride[0] = 1;
    return v;
}

/* Tensors that share a buffer share a value, so that in-place writes are seen. */
static weir_status add_constant(weir_graph *g, weir_tensor *t, int *value)
{
    struct weir__view whole = whole_buffer(t);
    weir_tensor *handle;

    for (int i = 0; i < g->nconstants; i++)
        if (g->values[ *value = g->constants[i]].constant->buffer == t->buffer)
            return WEIR_OK;
    if (!weir__grow(&g->constants, g->nconstants, &g->cap_constants, sizeof *g->constants))
        return WEIR_ENOMEM;
    weir__device_lock(g->dev);
    if ((handle = weir__tensor_new(g->dev))) {
        atomic_fetch_add_explicit(&t->buffer->refs, 1, memory_order_relaxed);
        handle->buffer = t->buffer;
        handle->view = whole;
    }
    weir__device_unlock(g->dev);
    if (!handle)
        return weir__fail_nomem("adding a constant to a graph");
    if ((*value = weir__graph_add_value(g, WEIR__VALUE_CONSTANT, &whole, -1)) < 0) {
        weir_tensor_release(handle);
        return WEIR_ENOMEM;
    }
    g->values[*value].constant = handle;
    g->constants[g->nconstants++] = *value;
    return WEIR_OK;
}

weir_status weir__graph_operand(weir_graph *g, weir_tensor *t, struct weir__operand *out)
{
    weir_status st;

    *out = (struct weir__operand){.value = WEIR__NO_VALUE};
    if (!t)
        return WEIR_OK;
    if (t->dev != g->dev)
        return weir__fail(WEIR_EDEVICE, "a graph on %s cannot use a tensor on %s", g->dev->label,
                          t->dev->label);
    if (t->graph && t->graph != g->id)
        return weir__fail(WEIR_EINVAL, "the tensor %s belongs to another graph",
                          weir__view_text(&t->view).text);
    out->view = t->view;
    if (t->graph) {
        out->value = t->value;
        out->recipe = t->recipe;
        return weir__graph_hold_recipe(g, t->recipe);
    }
    if ((st = add_constant(g, t, &out->value)))
        return st;
    out->view.data = (char *)(t->view.data - t->buffer->address);
    return WEIR_OK;
}

/* Takes back the constants that were added last, until there are `n`. */
static void drop_constants(weir_graph *g, int n)
{
    while (g->nconstants > n) {
        g->nvalues = g->constants[--g->nconstants];
        weir_tensor_release(g->values[g->nvalues].constant);
    }
}

weir_status weir__graph_literal(weir_graph *g, weir_tensor **tensor)
{
    struct weir__operand operand;
    int before = g->nconstants;
    weir_tensor *t;
    weir_status st;

    if ((st = weir__graph_operand(g, *tensor, &operand)) ||
        (st = weir__graph_tensor(g, &operand, &t))) {
        drop_constants(g, before);
        return st;
    }
    g->values[operand.value].literal = true;
    weir_tensor_release(*tensor);
    *tensor = t;
    return WEIR_OK;
}

void weir__graph_drop_literal(weir_graph *g)
{
    drop_constants(g, g->nconstants - 1);
}

weir_status weir__graph_add_call(weir_graph *g, const struct weir__op *op, const char *name,
                                 const void *params, weir_tensor *const *in, int nin,
                                 weir_tensor *const *into, const struct weir__marks *marks,
                                 weir_tensor **out)
{
    struct weir__operand operands[WEIR__OP_MAX_IN], targets[WEIR__OP_MAX_OUT];
    int constants_before = g->nconstants, made = into ? 0 : op->nout, node;
    weir_status st = WEIR_OK;

    if (nin > WEIR__OP_MAX_IN)
        return weir__fail(WEIR_EINVAL, "%s has %d inputs: a node takes at most %d", op->name, nin,
                          WEIR__OP_MAX_IN);
    for (int i = 0; i < nin && !st; i++)
        st = weir__graph_operand(g, in[i], &operands[i]);
    for (int i = 0; into && i < op->nout && !st; i++)
        st = weir__graph_operand(g, into[i], &targets[i]);
    /* Before the node, which is not taken back. */
    for (int i = 0; i < made; i++) {
        out[i] = NULL;
        if (!st)
            st = weir__graph_tensor(g, &(struct weir__operand){.value = WEIR__NO_VALUE}, &out[i]);
    }
    if (!st)
        st = weir__graph_add_node(g, op, name, params, operands, nin, into ? targets : NULL, marks,
                                  NULL, 0, &node);
    if (st)
        drop_constants(g, constants_before);
    for (int i = 0; i < made; i++) {
        if (st) {
            weir_tensor_release(out[i]);
            out[i] = NULL;
            continue;
        }
        out[i]->value = g->nodes[node].out[i].value;
        out[i]->view = g->nodes[node].out[i].view;
    }
    return st;
}

static weir_status check_new_name(const char *what, const char *name, const char *used)
{
    if (!used || strcmp(name, used))
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL, "the graph has an %s '%s' already", what, name);
}

weir_status weir_graph_input(weir_graph *g, const char *name, weir_dtype dtype, int ndim,
                             const int64_t *shape, weir_tensor **out)
{
    WEIR__NEED(g, "graph");
    WEIR__NEED(name, "name");
    WEIR__NEED(out, "out");
    WEIR__NEED(shape || ndim < 1, "shape");

    struct weir__operand operand = {.recipe = NULL};
    int64_t sizes[WEIR_MAX_DIMS];
    struct weir__view view;
    unsigned dynamic = 0;
    char *copied;
    weir_status st;

    *out = NULL;
    if (!name || !*name)
        return weir__fail(WEIR_EINVAL, "a graph input needs a name");
    for (int i = 0; i < g->ninputs; i++)
        if ((st = check_new_name("input", name, g->values[g->inputs[i]].name)))
            return st;
    for (int d = 0; d < ndim && d < WEIR_MAX_DIMS; d++) {
        dynamic |= shape[d] == -1 || weir__size_is_named(shape[d]) ? 1u << d : 0;
        sizes[d] = shape[d] == -1 ? WEIR__DYNAMIC_SIZE : weir__size_value(shape[d], NULL);
    }
    if ((st = weir__view_init(&view, dtype, ndim, sizes)))
        return st;
    if (!weir__grow(&g->inputs, g->ninputs, &g->cap_inputs, sizeof *g->inputs) ||
        !(copied = weir__strdup(name)))
        return weir__fail_nomem("adding graph input '%s'", name);
    if ((operand.value = weir__graph_add_value(g, WEIR__VALUE_INPUT, &view, -1)) < 0) {
        weir__free(copied);
        return WEIR_ENOMEM;
    }
    g->values[operand.value].name = copied;
    g->values[operand.value].dynamic = dynamic;
    g->dynamic |= dynamic != 0;
    operand.view = view;
    for (int d = 0; d < ndim; d++)
        if (weir__size_is_named(shape[d]) && !st)
            st = weir__sizes_use(g, g->ninputs, d, shape[d]);
    g->inputs[g->ninputs++] = operand.value;
    if (st || (st = weir__graph_tensor(g, &operand, out))) {
        g->ninputs--;
        while (g->nsize_uses && g->size_uses[g->nsize_uses - 1].input == g->ninputs)
            g->nsize_uses--;
        weir__free(g->values[--g->nvalues].name);
    }
    return st;
}

static bool is_whole(const weir_graph *g, const struct weir__operand *o)
{
    const struct weir__value *v = &g->values[o->value];

    return v->kind == WEIR__VALUE_NODE && !o->view.data && weir__view_is_contiguous(&o->view) &&
           weir__view_numel(&o->view) == weir__view_numel(&v->view);
}

/* A result gets memory of its own at each run, which only a whole value made by a node
 * can be: anything else is copied into one. */
static weir_status own_value(weir_graph *g, struct weir__operand *o)
{
    static const struct weir__marks plain = {.super_kernel = -1};
    int node;
    weir_status st;

    if (is_whole(g, o) && !g->values[o->value].is_output)
        return WEIR_OK;
    if ((st = weir__graph_add_node(g, weir__op_find("Copy"), NULL, NULL, o, 1, NULL, &plain, NULL,
                                   0, &node)))
        return st;
    *o = g->nodes[node].out[0];
    return WEIR_OK;
}

weir_status weir__graph_add_output(weir_graph *g, const char *name,
                                   const struct weir__operand *operand)
{
    struct weir__output output = {.operand = *operand};
    weir_status st;

    if (!name || !*name)
        return weir__fail(WEIR_EINVAL, "a graph output needs a name");
    for (int i = 0; i < g->noutputs; i++)
        if ((st = check_new_name("output", name, g->outputs[i].name)))
            return st;
    if (!weir__grow(&g->outputs, g->noutputs, &g->cap_outputs, sizeof *g->outputs) ||
        !(output.name = weir__strdup(name)))
        return weir__fail_nomem("adding graph output '%s'", name);
    if ((st = own_value(g, &output.operand))) {
        weir__free(output.name);
        return st;
    }
    g->values[output.operand.value].is_output = true;
    g->outputs[g->noutputs++] = output;
    return WEIR_OK;
}

weir_status weir__graph_own_output(weir_graph *g, struct weir__operand *o)
{
    int value = o->value;
    weir_status st;

    if (is_whole(g, o))
        return WEIR_OK;
    if ((st = own_value(g, o)))
        return st;
    g->values[value].is_output = false;
    g->values[o->value].is_output = true;
    return WEIR_OK;
}

weir_status weir_graph_output(weir_graph *g, const char *name, weir_tensor *t)
{
    struct weir__operand operand;
    weir_status st;

    WEIR__NEED(g, "graph");
    WEIR__NEED(name, "name");
    WEIR__NEED(t, "tensor");
    if (!t || t->graph != g->id)
        return weir__fail(WEIR_EINVAL, "graph output '%s' is not a tensor of this graph",
                          name ? name : "");
    if ((st = weir__graph_operand(g, t, &operand)))
        return st;
    return weir__graph_add_output(g, name, &operand);
}
