/* Resizing: gives an existing plan other sizes.
 *
 * Sizes decide little in a plan. Order, streams and waits depend on which values nodes use, not on
 * how large the values are. Resizing goes through what does depend on sizes: it makes views and
 * shapes again where a size affects them; values must fit into the memory placed for them; launches
 * that run piece by piece must remain possible; and where nodes write parts of values, the edges
 * must stay the same. Kernels of affected nodes are prepared again when an instance is next bound.
 */
#include <string.h>

#include "graph/plan/plan.h"

struct weir__elastic {
    int64_t *room;                     /* by value: bytes reserved for it in the arena */
    int64_t *sizes;                    /* current values of the graph's named sizes */
    struct weir__view *before;         /* by value with changed[]: its view before */
    bool *changed;                     /* by value: its size changes in this resize */
    bool *reached;                     /* by node: an operand has changed */
    int64_t (*largest)[WEIR_MAX_DIMS]; /* by input: its sizes when memory was placed */
    bool writes_parts;                 /* a node writes a value that another node made */
};

static int64_t view_bytes(const struct weir__view *v)
{
    return weir__view_numel(v) * (int64_t)weir_dtype_size(v->dtype);
}

static bool same_view(const struct weir__view *a, const struct weir__view *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->shape;

    return a->data == b->data && a->ndim == b->ndim && !memcmp(a->shape, b->shape, bytes) &&
           !memcmp(a->stride, b->stride, bytes);
}

static bool writes_parts(const weir_graph *g)
{
    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__operand *writes;
        int n;

        writes = weir__node_writes(&g->nodes[v], &n);
        for (int i = 0; i < n; i++)
            if (g->values[writes[i].value].node != v)
                return true;
    }
    return false;
}

weir_status weir__plan_make_elastic(weir_plan *plan)
{
    const weir_graph *g = plan->graph;
    size_t nvalues = (size_t)g->nvalues + 1;
    struct weir__elastic *e = weir__calloc(1, sizeof *e);

    if (!(plan->elastic = e))
        return weir__fail_nomem("allocating the sizes of a plan");
    e->room = weir__calloc(nvalues, sizeof *e->room);
    e->sizes = weir__calloc((size_t)g->nsizes + 1, sizeof *e->sizes);
    e->before = weir__calloc(nvalues, sizeof *e->before);
    e->changed = weir__calloc(nvalues, sizeof *e->changed);
    e->reached = weir__calloc((size_t)g->nnodes + 1, sizeof *e->reached);
    e->largest = weir__calloc((size_t)g->ninputs + 1, sizeof *e->largest);
    if (!e->room || !e->sizes || !e->before || !e->changed || !e->reached || !e->largest)
        return weir__fail_nomem("allocating the sizes of a plan");
    for (int i = 0; i < g->nvalues; i++)
        e->room[i] = plan->c.offset[i] >= 0 ? view_bytes(&g->values[i].view) : INT64_MAX;
    for (int i = 0; i < g->ninputs; i++)
        memcpy(e->largest[i], g->values[g->inputs[i]].view.shape, sizeof *e->largest);
    e->writes_parts = writes_parts(g);
    return WEIR_OK;
}

void weir__plan_free_elastic(weir_plan *plan)
{
    struct weir__elastic *e = plan->elastic;

    if (!e)
        return;
    weir__free(e->room);
    weir__free(e->sizes);
    weir__free(e->before);
    weir__free(e->changed);
    weir__free(e->reached);
    weir__free(e->largest);
    weir__free(e);
    plan->elastic = NULL;
}

bool weir__plan_has_room(const weir_plan *plan, const int64_t *const *sizes)
{
    const weir_graph *g = plan->graph;

    for (int i = 0; i < g->ninputs; i++)
        for (int d = 0; d < g->values[g->inputs[i]].view.ndim; d++)
            if (sizes[i][d] > plan->elastic->largest[i][d])
                return false;
    return true;
}

/* ---- going through the graph ---- */

static void note_change(struct weir__elastic *e, weir_graph *g, int value)
{
    e->before[value] = g->values[value].view;
    e->changed[value] = true;
}

static weir_status resize_inputs(struct weir__elastic *e, weir_graph *g,
                                 const int64_t *const *sizes)
{
    for (int i = 0; i < g->ninputs; i++) {
        struct weir__value *input = &g->values[g->inputs[i]];
        weir_status st;

        if (!memcmp(input->view.shape, sizes[i], (size_t)input->view.ndim * sizeof **sizes))
            continue;
        note_change(e, g, g->inputs[i]);
        if ((st = weir__view_init(&input->view, input->view.dtype, input->view.ndim, sizes[i])))
            return weir__fail(st, "input '%s': %s", input->name, weir_last_error());
    }
    return WEIR_OK;
}

/* Sets *other if the operand has changed. An empty operand orders nothing and takes no memory, so
 * an operand that becomes empty, or ceases to be, does not fit. */
static weir_status resize_operand(struct weir__elastic *e, const weir_graph *g,
                                  struct weir__operand *o, bool *other, bool *fits)
{
    struct weir__view old;
    weir_status st;

    if (o->value == WEIR__NO_VALUE || !(e->changed[o->value] || (o->recipe && o->recipe->is_named)))
        return WEIR_OK;
    old = o->view;
    if ((st = weir__operand_remake(
             g, e->changed[o->value] ? &e->before[o->value] : &g->values[o->value].view, e->sizes,
             o)))
        return st;
    *other |= !same_view(&old, &o->view);
    *fits &= !weir__view_numel(&old) == !weir__view_numel(&o->view);
    return WEIR_OK;
}

/* Infers the results of node v again after an operand has changed. */
static weir_status resize_results(weir_plan *plan, int v, bool into, bool *fits)
{
    struct weir__elastic *e = plan->elastic;
    weir_graph *g = plan->graph;
    struct weir__node *n = &g->nodes[v];
    struct weir__view out[WEIR__OP_MAX_OUT];
    weir_status st;

    if ((st = weir__node_infer(n->op, n->params, n->in, n->nin, out)) ||
        (st = weir__node_check_writes(n->op, n->in, n->nin, into ? n->out : NULL)))
        return st;
    if (into)
        return weir__node_check_into(n->op, out, n->out);
    for (int i = 0; i < n->nout; i++) {
        int value = n->out[i].value;
        struct weir__view *whole = &g->values[value].view;

        if (whole->ndim == out[i].ndim &&
            !memcmp(whole->shape, out[i].shape, (size_t)whole->ndim * sizeof *whole->shape))
            continue;
        note_change(e, g, value);
        if ((st = weir__view_init(whole, out[i].dtype, out[i].ndim, out[i].shape)))
            return st;
        n->out[i].view = *whole;
        *fits &= view_bytes(whole) <= e->room[value] &&
                 !weir__view_numel(whole) == !weir__view_numel(&e->before[value]);
    }
    return WEIR_OK;
}

static weir_status resize_node(weir_plan *plan, int v, bool *fits)
{
    struct weir__elastic *e = plan->elastic;
    weir_graph *g = plan->graph;
    struct weir__node *n = &g->nodes[v];
    bool into = n->nout && g->values[n->out[0].value].node != v, other = false;
    weir_status st = WEIR_OK;

    for (int i = 0; i < n->nin && !st; i++)
        st = resize_operand(e, g, &n->in[i], &other, fits);
    for (int i = 0; i < n->nout && into && !st; i++)
        st = resize_operand(e, g, &n->out[i], &other, fits);
    if (n->op->follow)
        other |= n->op->follow(n->params, e->sizes);
    if (st || !other)
        return st;
    e->reached[v] = true;
    if ((st = resize_results(plan, v, into, fits)))
        return st;
    *fits &= !plan->c.live[v] || weir__scratch_bytes(&plan->c, v) <= plan->c.scratch_size[v];
    return WEIR_OK;
}

static weir_status resize_outputs(weir_plan *plan, bool *fits)
{
    weir_graph *g = plan->graph;

    for (int i = 0; i < g->noutputs; i++) {
        struct weir__operand *o = &g->outputs[i].operand;
        bool other = false;
        weir_status st = resize_operand(plan->elastic, g, o, &other, fits);

        if (st)
            return weir__fail(st, "output '%s': %s", g->outputs[i].name, weir_last_error());
        *fits &= !o->view.data && weir__view_is_contiguous(&o->view) &&
                 weir__view_numel(&o->view) == weir__view_numel(&g->values[o->value].view);
    }
    return WEIR_OK;
}

static weir_status resize_nodes(weir_plan *plan, bool *fits)
{
    for (int v = 0; v < plan->graph->nnodes && *fits; v++) {
        weir_status st = resize_node(plan, v, fits);

        if (st)
            return weir__fail(st, "node '%s': %s", plan->graph->nodes[v].name, weir_last_error());
    }
    return *fits ? resize_outputs(plan, fits) : WEIR_OK;
}

/* ---- checking decisions ---- */

static weir_status edges_hold(const struct weir__compile *c, bool *holds)
{
    struct weir__edges now;
    weir_status st = weir__graph_edges(c->g, &now);
    size_t nnodes = (size_t)c->g->nnodes;

    if (st)
        return st;
    *holds = !memcmp(now.first, c->edges.first, (nnodes + 1) * sizeof *now.first) &&
             (!now.preds ||
              !memcmp(now.preds, c->edges.preds, (size_t)now.first[nnodes] * sizeof *now.preds));
    weir__edges_fini(&now);
    return WEIR_OK;
}

/* Marks the launches of affected nodes stale: instances prepare them again when they are next
 * bound. */
static void mark_stale(weir_plan *plan)
{
    const struct weir__compile *c = &plan->c;

    weir__device_lock(plan->dev);
    for (int i = 0; i < plan->ninstances; i++)
        for (int v = 0; v < plan->graph->nnodes; v++)
            if (plan->elastic->reached[v] && c->live[v])
                plan->instances[i]->is_stale = plan->instances[i]->stale[c->leader[v]] = true;
    weir__device_unlock(plan->dev);
}

weir_status weir__plan_resize(weir_plan *plan, const int64_t *const *sizes, bool *fits)
{
    struct weir__elastic *e = plan->elastic;
    weir_graph *g = plan->graph;
    weir_status st;

    *fits = true;
    memset(e->changed, 0, (size_t)g->nvalues * sizeof *e->changed);
    memset(e->reached, 0, (size_t)g->nnodes * sizeof *e->reached);
    if ((st = weir__sizes_at(g, sizes, e->sizes)) || (st = resize_inputs(e, g, sizes)) ||
        (st = resize_nodes(plan, fits)))
        return st;
    if (*fits && e->writes_parts && (st = edges_hold(&plan->c, fits)))
        return st;
    if (*fits && (st = weir__fuse_holds(&plan->c, e->reached, fits)))
        return st;
    if (*fits) {
        weir__plan_measure_constants(plan);
        mark_stale(plan);
    }
    return WEIR_OK;
}
