/* Capture: which graph this thread's operators go into. */
#include "graph/build/graph.h"

static _Thread_local weir_graph *current;

weir_graph *weir_graph_current(void)
{
    return current;
}

weir_graph *weir__capture_on(const weir_device *dev)
{
    return current && current->dev == dev ? current : NULL;
}

weir_status weir_graph_begin(weir_graph *g)
{
    WEIR__NEED(g, "graph");

    bool idle = false;

    if (current)
        return weir__fail(WEIR_ESTATE,
                          "this thread captures a graph already: call weir_graph_end first");
    if (!atomic_compare_exchange_strong(&g->capturing, &idle, true))
        return weir__fail(WEIR_ESTATE, "the graph is being captured by another thread");
    current = g;
    return WEIR_OK;
}

void weir__capture_leave(const weir_graph *g)
{
    if (current == g)
        current = NULL;
}

weir_status weir_graph_end(weir_graph *g)
{
    WEIR__NEED(g, "graph");
    if (!g || current != g)
        return weir__fail(WEIR_ESTATE, current ? "this thread captures another graph"
                                               : "this thread captures no graph");
    current = NULL;
    atomic_store(&g->capturing, false);
    return WEIR_OK;
}
