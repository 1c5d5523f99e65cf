/* Shapes: of a node's results when it is made, and of all of them again once a run has
 * decided the sizes that were left open. */
#include "graph/build/graph.h"

#include <string.h>

#include "tensor/infer.h"

weir_status weir__node_infer(const struct weir__op *op, const void *params,
                             const struct weir__operand *in, int nin, struct weir__view *out)
{
    const struct weir__view *views[WEIR__OP_MAX_IN];
    struct weir__call call = {
        .op = op,
        .nin = nin,
        .nout = op->nout,
        .in = views,
        .out = out,
        .params = params,
        .cores = 1,
    };

    if (nin < op->nin_min || nin > op->nin_max || nin > WEIR__OP_MAX_IN)
        return weir__fail(WEIR_EINVAL, "%s takes %d..%d inputs, not %d", op->name, op->nin_min,
                          op->nin_max, nin);
    for (int i = 0; i < nin; i++) {
        views[i] = in[i].value == WEIR__NO_VALUE ? NULL : &in[i].view;
        if (!views[i] && i < op->nin_min)
            return weir__fail(WEIR_EINVAL, "%s: input %d is absent", op->name, i);
    }
    return weir__op_infer(&call);
}

weir_status weir__node_check_into(const struct weir__op *op, const struct weir__view *want,
                                  const struct weir__operand *into)
{
    for (int i = 0; i < op->nout; i++) {
        const struct weir__view *have = &into[i].view;

        if (want[i].dtype != have->dtype || want[i].ndim != have->ndim ||
            memcmp(want[i].shape, have->shape, (size_t)have->ndim * sizeof *have->shape))
            return weir__fail(want[i].dtype != have->dtype ? WEIR_EDTYPE : WEIR_ESHAPE,
                              "%s gives %s, the output is %s", op->name,
                              weir__view_text(&want[i]).text, weir__view_text(have).text);
    }
    return WEIR_OK;
}

weir_status weir__node_check_writes(const struct weir__op *op, const struct weir__operand *in,
                                    int nin, const struct weir__operand *into)
{
    bool in_place = op->flags & WEIR__OP_IN_PLACE;
    const struct weir__operand *writes = in_place ? in : into;
    int nwrites = in_place ? 1 : into ? op->nout : 0;
    weir_status st = WEIR_OK;

    for (int i = 0; i < nwrites && !st; i++) {
        st = weir__check_writable(op->name, &writes[i].view);
        for (int j = 0; j < i && !st; j++)
            if (writes[j].value == writes[i].value)
                st = weir__check_views(op->name, &writes[i].view, &writes[j].view, false);
        for (int j = in_place; j < nin && !st; j++)
            if (in[j].value == writes[i].value)
                st = weir__check_views(op->name, &writes[i].view, &in[j].view,
                                       weir__op_takes_same(op));
    }
    return st;
}

/* ---- again, for other sizes ---- */

struct weir__view weir__input_view(const struct weir__value *input)
{
    struct weir__view v = input->view;

    for (int d = 0; d < v.ndim; d++)
        if (input->dynamic & 1u << d)
            v.shape[d] = -1;
    return v;
}

static bool same_layout(const struct weir__view *a, const struct weir__view *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;

    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, bytes) &&
           !memcmp(a->stride, b->stride, bytes);
}

weir_status weir__operand_remake(const weir_graph *g, const struct weir__view *before,
                                 const int64_t *sizes, struct weir__operand *o)
{
    const struct weir__view *after = &g->values[o->value].view;

    if (o->recipe) {
        o->view = *after;
        return weir__recipe_apply(o->recipe, &o->view, sizes);
    }
    if (same_layout(before, after))
        return WEIR_OK;
    if (o->view.data || !same_layout(&o->view, before))
        return weir__fail(WEIR_ESHAPE,
                          "it uses %s through fixed strides, %s, which are wrong for other sizes: "
                          "make the view with slice, permute, reshape or expand",
                          weir__view_text(before).text, weir__view_text(&o->view).text);
    o->view = *after;
    return WEIR_OK;
}

/* The operand as it was in `from`, over the value as it is in `to`. */
static weir_status remake(const weir_graph *from, const weir_graph *to, const int64_t *sizes,
                          struct weir__operand *o)
{
    if (o->value == WEIR__NO_VALUE)
        return WEIR_OK;
    return weir__operand_remake(to, &from->values[o->value].view, sizes, o);
}

static weir_status remake_node(const weir_graph *from, weir_graph *to, const int64_t *sizes, int v)
{
    struct weir__node *n = &to->nodes[v];
    struct weir__view out[WEIR__OP_MAX_OUT];
    bool into = n->nout && from->values[n->out[0].value].node != v;
    weir_status st = WEIR_OK;

    for (int i = 0; i < n->nin && !st; i++)
        st = remake(from, to, sizes, &n->in[i]);
    for (int i = 0; i < n->nout && into && !st; i++)
        st = remake(from, to, sizes, &n->out[i]);
    if (n->op->follow)
        (void)n->op->follow(n->params, sizes);
    if (st || (st = weir__node_infer(n->op, n->params, n->in, n->nin, out)) ||
        (st = weir__node_check_writes(n->op, n->in, n->nin, into ? n->out : NULL)))
        return st;
    if (into)
        return weir__node_check_into(n->op, out, n->out);
    for (int i = 0; i < n->nout; i++) {
        struct weir__view *whole = &to->values[n->out[i].value].view;

        if ((st = weir__view_init(whole, out[i].dtype, out[i].ndim, out[i].shape)))
            return st;
        n->out[i].view = *whole;
    }
    return WEIR_OK;
}

static weir_status remake_all(const weir_graph *from, weir_graph *to, const int64_t *sizes)
{
    weir_status st;

    for (int v = 0; v < to->nnodes; v++)
        if ((st = remake_node(from, to, sizes, v)))
            return weir__fail(st, "node '%s': %s", to->nodes[v].name, weir_last_error());
    for (int i = 0; i < to->noutputs; i++)
        if ((st = remake(from, to, sizes, &to->outputs[i].operand)) ||
            (st = weir__graph_own_output(to, &to->outputs[i].operand)))
            return weir__fail(st, "output '%s': %s", to->outputs[i].name, weir_last_error());
    return WEIR_OK;
}

weir_status weir__graph_specialise(const weir_graph *g, const int64_t *const *sizes,
                                   weir_graph **out)
{
    int64_t *values = weir__malloc(((size_t)g->nsizes + 1) * sizeof *values);
    weir_graph *to = NULL;
    weir_status st;

    *out = NULL;
    st = values ? weir__sizes_at(g, sizes, values)
                : weir__fail_nomem("allocating the sizes of a graph");
    if (st || (st = weir__graph_clone(g, &to))) {
        weir__free(values);
        return st;
    }
    for (int i = 0; i < g->ninputs && !st; i++) {
        struct weir__value *input = &to->values[g->inputs[i]];

        if ((st = weir__view_init(&input->view, input->view.dtype, input->view.ndim, sizes[i])))
            st = weir__fail(st, "input '%s': %s", input->name, weir_last_error());
        input->dynamic = 0;
    }
    to->dynamic = false;
    to->specialised = true;
    if (!st)
        st = remake_all(g, to, values);
    weir__free(values);
    if (st)
        weir_graph_destroy(to);
    else
        *out = to;
    return st;
}
