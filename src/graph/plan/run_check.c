/* Checks the arguments of a run before anything is queued. */
#include "graph/plan/plan.h"

/* A size of -1 matches any size. */
static bool fits(const struct weir__view *v, const struct weir__view *want)
{
    bool same = v->ndim == want->ndim;

    for (int d = 0; same && d < v->ndim; d++)
        same = v->shape[d] == want->shape[d] || want->shape[d] == -1;
    return same;
}

static weir_status check_tensor(const weir_plan *plan, bool is_output, const char *name,
                                const weir_tensor *t, const struct weir__view *want)
{
    const char *what = is_output ? "output" : "input";
    weir_status st;

    if (!t)
        return weir__fail(WEIR_EINVAL, "plan %s '%s' is NULL", what, name);
    if ((st = weir__tensor_check_bytes(t, what)))
        return st;
    if (t->dev != plan->dev)
        return weir__fail(WEIR_EDEVICE, "plan %s '%s' is on %s, the plan on %s", what, name,
                          t->dev->label, plan->dev->label);
    if (t->view.dtype != want->dtype || !fits(&t->view, want))
        return weir__fail(t->view.dtype != want->dtype ? WEIR_EDTYPE : WEIR_ESHAPE,
                          "plan %s '%s' is %s, the plan was compiled for %s", what, name,
                          weir__view_text(&t->view).text, weir__view_text(want).text);
    if (!weir__view_is_contiguous(&t->view))
        return weir__fail(WEIR_ESHAPE, "plan %s '%s' is not contiguous: %s", what, name,
                          is_output ? "give NULL for a new tensor" : "call weir_contiguous first");
    return WEIR_OK;
}

weir_status weir__plan_check_inputs(const weir_plan *plan, const weir_stream *s,
                                    weir_tensor *const *inputs, size_t ninputs,
                                    weir_tensor *const *outputs, size_t noutputs)
{
    const weir_graph *g = plan->graph;
    weir_status st;

    if (!s)
        return weir__fail(WEIR_EINVAL, "a plan on %s needs a stream to run on", plan->dev->label);
    if (s->dev != plan->dev)
        return weir__fail(WEIR_EDEVICE, "a plan on %s cannot run on stream '%s' of %s",
                          plan->dev->label, s->name, s->dev->label);
    if (ninputs != (size_t)g->ninputs || noutputs != (size_t)g->noutputs)
        return weir__fail(WEIR_EINVAL, "the plan has %d inputs and %d outputs, not %zu and %zu",
                          g->ninputs, g->noutputs, ninputs, noutputs);
    if ((ninputs && !inputs) || (noutputs && !outputs))
        return weir__fail(WEIR_EINVAL, "the array of the plan's %s is NULL",
                          ninputs && !inputs ? "inputs" : "outputs");
    for (size_t i = 0; i < ninputs; i++) {
        const struct weir__value *v = &g->values[g->inputs[i]];
        struct weir__view want = weir__input_view(v);

        if ((st = check_tensor(plan, false, v->name, inputs[i], &want)))
            return st;
    }
    return WEIR_OK;
}

weir_status weir__plan_check_outputs(const weir_plan *plan, weir_tensor *const *outputs)
{
    const weir_graph *g = plan->graph;
    weir_status st;

    for (int i = 0; i < g->noutputs; i++)
        if (outputs[i] && (st = check_tensor(plan, true, g->outputs[i].name, outputs[i],
                                             &g->outputs[i].operand.view)))
            return st;
    return WEIR_OK;
}
