/* A copy of a graph, so that a plan does not see later changes. */
#include "graph/build/graph.h"

#include <string.h>

static void *copy_array(const void *from, int n, size_t size, bool *failed)
{
    void *to = n ? weir__malloc((size_t)n * size) : NULL;

    if (to)
        memcpy(to, from, (size_t)n * size);
    else if (n)
        *failed = true;
    return to;
}

static char *copy_text(const char *from, bool *failed)
{
    char *to = from ? weir__strdup(from) : NULL;

    if (from && !to)
        *failed = true;
    return to;
}

static void copy_node(struct weir__node *to, const struct weir__node *from, bool *failed)
{
    *to = *from;
    to->name = copy_text(from->name, failed);
    to->shares_name = to->shares_control = to->shares_params = false;
    to->foreign = copy_text(from->foreign, failed);
    to->params =
        copy_array(from->params, from->op->params_size ? 1 : 0, from->op->params_size, failed);
    to->in = copy_array(from->in, from->nin, sizeof *from->in, failed);
    to->out = copy_array(from->out, from->nout, sizeof *from->out, failed);
    to->control = copy_array(from->control, from->ncontrol, sizeof *from->control, failed);
}

static void copy_value(struct weir__value *to, const struct weir__value *from, bool *failed)
{
    *to = *from;
    to->name = copy_text(from->name, failed);
    to->after = copy_array(from->after, from->nafter, sizeof *from->after, failed);
    to->cap_after = to->nafter;
    if (from->constant)
        weir_tensor_retain(from->constant);
}

static void copy_tables(weir_graph *to, const weir_graph *from, bool *failed)
{
    to->inputs = copy_array(from->inputs, from->ninputs, sizeof *from->inputs, failed);
    to->constants = copy_array(from->constants, from->nconstants, sizeof *from->constants, failed);
    to->outputs = copy_array(from->outputs, from->noutputs, sizeof *from->outputs, failed);
    to->labels = copy_array(from->labels, from->nlabels, sizeof *from->labels, failed);
    to->recipes = copy_array(from->recipes, from->nrecipes, sizeof *from->recipes, failed);
    for (int i = 0; to->recipes && i < from->nrecipes; i++)
        weir__recipe_retain(to->recipes[i]);
    to->sizes = copy_array(from->sizes, from->nsizes, sizeof *from->sizes, failed);
    to->size_uses = copy_array(from->size_uses, from->nsize_uses, sizeof *from->size_uses, failed);
    to->super_kernels =
        copy_array(from->super_kernels, from->nsuper_kernels, sizeof *from->super_kernels, failed);
    for (int i = 0; to->outputs && i < from->noutputs; i++)
        to->outputs[i].name = copy_text(from->outputs[i].name, failed);
    for (int i = 0; to->labels && i < from->nlabels; i++)
        to->labels[i] = copy_text(from->labels[i], failed);
    for (int i = 0; to->super_kernels && i < from->nsuper_kernels; i++) {
        to->super_kernels[i].name = copy_text(from->super_kernels[i].name, failed);
        to->super_kernels[i].options = copy_text(from->super_kernels[i].options, failed);
    }
}

weir_status weir__graph_clone(const weir_graph *from, weir_graph **out)
{
    weir_graph *to = weir__calloc(1, sizeof *to);
    bool failed = !to;

    *out = NULL;
    if (to) {
        *to = (weir_graph){
            .dev = from->dev,
            .id = from->id,
            .nnodes = from->nnodes,
            .cap_nodes = from->nnodes,
            .nvalues = from->nvalues,
            .cap_values = from->nvalues,
            .ninputs = from->ninputs,
            .cap_inputs = from->ninputs,
            .nconstants = from->nconstants,
            .cap_constants = from->nconstants,
            .noutputs = from->noutputs,
            .cap_outputs = from->noutputs,
            .nlabels = from->nlabels,
            .cap_labels = from->nlabels,
            .nsuper_kernels = from->nsuper_kernels,
            .cap_super_kernels = from->nsuper_kernels,
            .nrecipes = from->nrecipes,
            .cap_recipes = from->nrecipes,
            .nsizes = from->nsizes,
            .cap_sizes = from->nsizes,
            .nsize_uses = from->nsize_uses,
            .cap_size_uses = from->nsize_uses,
            .dynamic = from->dynamic,
            .specialised = from->specialised,
        };
        atomic_fetch_add(&to->dev->graphs_live, 1);
        to->nodes = weir__calloc((size_t)from->nnodes, sizeof *to->nodes);
        to->values = weir__calloc((size_t)from->nvalues, sizeof *to->values);
        failed = !to->nodes || !to->values;
        if (!to->nodes)
            to->nnodes = 0;
        if (!to->values)
            to->nvalues = 0;
        for (int i = 0; i < to->nnodes; i++)
            copy_node(&to->nodes[i], &from->nodes[i], &failed);
        for (int i = 0; i < to->nvalues; i++)
            copy_value(&to->values[i], &from->values[i], &failed);
        copy_tables(to, from, &failed);
        if (!to->outputs)
            to->noutputs = 0;
        if (!to->labels)
            to->nlabels = 0;
        if (!to->super_kernels)
            to->nsuper_kernels = 0;
        if (!to->recipes)
            to->nrecipes = 0;
    }
    if (failed) {
        weir_graph_destroy(to);
        return weir__fail_nomem("copying a graph of %d nodes", from->nnodes);
    }
    *out = to;
    return WEIR_OK;
}
