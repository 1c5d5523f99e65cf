/* Checks that tensors a run writes share no memory with its other tensors: the plan orders its
 * nodes as if every input and output had memory of its own. */
#include "graph/plan/plan.h"

struct extent {
    const char *first, *end;
    const char *name;
    bool is_output, is_written;
};

static struct extent extent_of(const weir_graph *g, char *const *bound, int i)
{
    bool is_output = i >= g->ninputs;
    const struct weir__output *out = is_output ? &g->outputs[i - g->ninputs] : NULL;
    const struct weir__value *v = &g->values[is_output ? out->operand.value : g->inputs[i]];
    struct weir__view view = is_output ? out->operand.view : weir__input_view(v);
    size_t bytes = (size_t)weir__view_numel(&view) * weir_dtype_size(view.dtype);

    return (struct extent){
        .first = bound[i],
        .end = bound[i] + bytes,
        .name = is_output ? out->name : v->name,
        .is_output = is_output,
        .is_written = is_output || v->last_writer >= 0,
    };
}

weir_status weir__plan_check_overlap(const weir_plan *plan, char *const *bound)
{
    const weir_graph *g = plan->graph;
    int n = g->ninputs + g->noutputs;

    for (int i = 0; i < n; i++) {
        struct extent a = extent_of(g, bound, i);

        for (int k = 0; k < n && a.is_written && a.first < a.end; k++) {
            struct extent b = extent_of(g, bound, k);

            if (i == k || a.first >= b.end || b.first >= a.end)
                continue;
            return weir__fail(WEIR_EINVAL,
                              "plan %s '%s' is written but shares memory with %s '%s': it "
                              "needs memory of its own",
                              a.is_output ? "output" : "input", a.name,
                              b.is_output ? "output" : "input", b.name);
        }
    }
    return WEIR_OK;
}

bool weir_plan_writes_input(const weir_plan *plan, size_t input)
{
    const weir_graph *g = plan ? plan->graph : NULL;

    return g && input < (size_t)g->ninputs && g->values[g->inputs[input]].last_writer >= 0;
}
