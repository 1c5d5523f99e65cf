/* Literals that a plan generates in every run, such as those of arange. Each instance has bytes of
 * its own for them, behind its arena, so that concurrent runs, of this plan or of others of the
 * same graph, do not overwrite each other's. Literals that are read before they are generated keep
 * the graph's bytes. */
#include "graph/pass/memory.h"
#include "graph/plan/plan.h"

/* Whether the node writes all of the literal without reading it. */
static bool generates(const weir_graph *g, const struct weir__node *n, int value)
{
    const struct weir__view *whole = &g->values[value].view;

    return n->op->flags & WEIR__OP_OVERWRITES && n->nin == 1 && n->in[0].value == value &&
           !n->in[0].view.data && weir__view_numel(&n->in[0].view) == weir__view_numel(whole);
}

static bool is_made(const weir_graph *g, int value)
{
    return value != WEIR__NO_VALUE && g->values[value].kind == WEIR__VALUE_CONSTANT &&
           g->values[value].literal && g->values[value].last_writer >= 0;
}

/* Called for each use in order. If the first node that uses the literal overwrites all of it, each
 * instance gets its own bytes for it. */
static void meet(weir_plan *plan, const struct weir__node *n, int value, bool *met)
{
    const struct weir__view *whole;
    int64_t bytes;

    if (!is_made(plan->graph, value) || met[value])
        return;
    met[value] = true;
    if (!generates(plan->graph, n, value))
        return;
    whole = &plan->graph->values[value].view;
    bytes = weir__view_numel(whole) * (int64_t)weir_dtype_size(whole->dtype);
    plan->literal_at[value] = (int64_t)plan->literal_bytes;
    plan->literal_bytes += (size_t)weir__div_up(bytes, WEIR__ARENA_ALIGN) * WEIR__ARENA_ALIGN;
}

weir_status weir__plan_find_literals(weir_plan *plan)
{
    const weir_graph *g = plan->graph;
    size_t nvalues = (size_t)g->nvalues + 1;
    bool *met = weir__calloc(nvalues, sizeof *met);

    if (!met || !(plan->literal_at = weir__malloc(nvalues * sizeof *plan->literal_at))) {
        weir__free(met);
        return weir__fail_nomem("placing the literals of a plan of %d nodes", g->nnodes);
    }
    for (int i = 0; i < g->nvalues; i++)
        plan->literal_at[i] = -1;
    for (int v = 0; v < g->nnodes; v++)
        for (int i = 0; plan->c.live[v] && i < g->nodes[v].nin + g->nodes[v].nout; i++)
            meet(plan, &g->nodes[v],
                 i < g->nodes[v].nin ? g->nodes[v].in[i].value
                                     : g->nodes[v].out[i - g->nodes[v].nin].value,
                 met);
    weir__free(met);
    return WEIR_OK;
}
