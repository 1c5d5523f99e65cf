/* Checks that tensors a run writes share no memory with its other tensors: the plan orders its
 * nodes as if every input, output and constant had memory of its own. */
#include "graph/plan/plan.h"

#include <stdlib.h>

/* ---- constants ---- */

static const char *address_of(const weir_plan *plan, const struct weir__operand *o)
{
    return (const char *)plan->graph->values[o->value].constant->buffer->address +
           (uintptr_t)o->view.data;
}

static struct weir__view view_of(const weir_plan *plan, const struct weir__operand *o)
{
    struct weir__view v = o->view;

    v.data = (char *)(uintptr_t)address_of(plan, o);
    return v;
}

static int by_address(const void *a, const void *b)
{
    const struct weir__constant_use *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

void weir__plan_measure_constants(weir_plan *plan)
{
    const char *end = NULL;

    for (int i = 0; i < plan->nuses; i++) {
        struct weir__constant_use *u = &plan->uses[i];
        struct weir__view v = view_of(plan, u->operand);

        weir__view_span(&v, &u->first, &u->end);
    }
    if (plan->nuses)
        qsort(plan->uses, (size_t)plan->nuses, sizeof *plan->uses, by_address);
    for (int i = 0; i < plan->nuses; i++) {
        end = i && end > plan->uses[i].end ? end : plan->uses[i].end;
        plan->uses[i].most_end = end;
    }
}

/* A use of a constant that lies in bytes of the view; NULL for none. Bytes that are only `read` may
 * be those of constants that are only read, too. `but`: not of this buffer. */
static const struct weir__constant_use *find_use(const weir_plan *plan, const struct weir__view *v,
                                                 bool read, const weir_buffer *but)
{
    const char *first, *end;
    struct weir__footprint of_view, of_use;
    int low = 0, high = plan->nuses;

    weir__view_span(v, &first, &end);
    while (low < high) {
        int middle = low + (high - low) / 2;

        if (plan->uses[middle].first < end)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low - 1; i >= 0 && plan->uses[i].most_end > first; i--) {
        const struct weir__constant_use *u = &plan->uses[i];
        struct weir__view used;

        if (u->end <= first || (read && !u->writes) ||
            plan->graph->values[u->operand->value].constant->buffer == but)
            continue;
        used = view_of(plan, u->operand);
        weir__view_footprint(v, &of_view);
        weir__view_footprint(&used, &of_use);
        if (weir__footprint_overlaps(&of_view, &of_use))
            return u;
    }
    return NULL;
}

/* Constants of several handles on the same memory are several values to the graph. */
static weir_status check_constants(const weir_plan *plan)
{
    for (int i = 0; i < plan->nuses; i++) {
        const struct weir__constant_use *u = &plan->uses[i], *other;
        struct weir__view v = view_of(plan, u->operand);

        if (!u->writes || u->first == u->end)
            continue;
        other = find_use(plan, &v, false, plan->graph->values[u->operand->value].constant->buffer);
        if (other)
            return weir__fail(WEIR_EINVAL,
                              "node '%s' writes the constant %s, whose memory node '%s' uses by "
                              "another handle: capture views of one tensor instead",
                              u->node->name, weir__view_text(&u->operand->view).text,
                              other->node->name);
    }
    return WEIR_OK;
}

static bool is_outside(const weir_plan *plan, const struct weir__operand *o)
{
    const struct weir__value *v =
        o->value == WEIR__NO_VALUE ? NULL : &plan->graph->values[o->value];

    return v && v->kind == WEIR__VALUE_CONSTANT && v->constant && !v->literal;
}

static void note_uses(weir_plan *plan, const struct weir__node *n)
{
    int nwrites;
    const struct weir__operand *writes = weir__node_writes(n, &nwrites);

    for (int i = 0; i < n->nin + n->nout; i++) {
        const struct weir__operand *o = i < n->nin ? &n->in[i] : &n->out[i - n->nin];

        if (!is_outside(plan, o))
            continue;
        if (plan->uses)
            plan->uses[plan->nuses] = (struct weir__constant_use){
                .operand = o, .node = n, .writes = o >= writes && o < writes + nwrites};
        plan->nuses++;
    }
}

weir_status weir__plan_find_constants(weir_plan *plan)
{
    const weir_graph *g = plan->graph;
    struct weir__constant_use *uses;

    for (int v = 0; v < g->nnodes; v++)
        if (plan->c.live[v])
            note_uses(plan, &g->nodes[v]);
    if (!plan->nuses)
        return WEIR_OK;
    if (!(uses = weir__malloc((size_t)plan->nuses * sizeof *uses)))
        return weir__fail_nomem("listing the constants of a plan");
    plan->uses = uses;
    plan->nuses = 0;
    for (int v = 0; v < g->nnodes; v++)
        if (plan->c.live[v])
            note_uses(plan, &g->nodes[v]);
    for (int i = 0; i < plan->nuses; i++)
        plan->writes_constants |= uses[i].writes;
    weir__plan_measure_constants(plan);
    return check_constants(plan);
}

/* ---- what is bound ---- */

struct extent {
    const char *first, *end;
    const char *name;
    bool is_output, is_written;
    struct weir__view view;
};

static struct extent extent_of(const weir_graph *g, char *const *bound, int i)
{
    bool is_output = i >= g->ninputs;
    const struct weir__output *out = is_output ? &g->outputs[i - g->ninputs] : NULL;
    const struct weir__value *v = &g->values[is_output ? out->operand.value : g->inputs[i]];
    struct weir__view view = is_output ? out->operand.view : weir__input_view(v);
    size_t bytes = (size_t)weir__view_numel(&view) * weir_dtype_size(view.dtype);

    view.data = bound[i];
    return (struct extent){
        .view = view,
        .first = bound[i],
        .end = bound[i] + bytes,
        .name = is_output ? out->name : v->name,
        .is_output = is_output,
        .is_written = is_output || v->last_writer >= 0,
    };
}

static weir_status check_beside_constants(const weir_plan *plan, const struct extent *a)
{
    const struct weir__constant_use *u;

    if (a->first == a->end || !(u = find_use(plan, &a->view, !a->is_written, NULL)))
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL,
                      "plan %s '%s' shares memory with the constant %s that node '%s' %s: it needs "
                      "memory of its own",
                      a->is_output ? "output" : "input", a->name,
                      weir__view_text(&u->operand->view).text, u->node->name,
                      u->writes ? "writes" : "reads");
}

weir_status weir__plan_check_overlap(const weir_plan *plan, char *const *bound)
{
    const weir_graph *g = plan->graph;
    int n = g->ninputs + g->noutputs;

    for (int i = 0; i < n; i++) {
        struct extent a = extent_of(g, bound, i);
        weir_status st;

        if (plan->nuses && (a.is_written || plan->writes_constants) &&
            (st = check_beside_constants(plan, &a)))
            return st;
        for (int k = 0; k < n && a.is_written && a.first < a.end; k++) {
            struct extent b = extent_of(g, bound, k);

            if (i == k || b.first == b.end || a.first >= b.end || b.first >= a.end)
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
