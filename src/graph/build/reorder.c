/* Another program order of the same nodes. */
#include "graph/build/graph.h"

#include <string.h>

weir_status weir__graph_reorder(weir_graph *g, const int *order)
{
    size_t n = (size_t)g->nnodes;
    struct weir__node *nodes = weir__malloc((n + 1) * sizeof *nodes);
    int *number = weir__malloc((n + 1) * sizeof *number); /* from old to new */

    if (!nodes || !number) {
        weir__free(nodes);
        weir__free(number);
        return weir__fail_nomem("allocating the order of %d nodes", g->nnodes);
    }
    for (int i = 0; i < g->nnodes; i++) {
        nodes[i] = g->nodes[order[i]];
        number[order[i]] = i;
    }
    memcpy(g->nodes, nodes, n * sizeof *nodes);
    for (int v = 0; v < g->nnodes; v++)
        for (int i = 0; i < g->nodes[v].ncontrol; i++)
            g->nodes[v].control[i] = number[g->nodes[v].control[i]];
    for (int i = 0; i < g->nvalues; i++) {
        struct weir__value *value = &g->values[i];

        if (value->node >= 0)
            value->node = number[value->node];
        if (value->last_writer >= 0)
            value->last_writer = number[value->last_writer];
        for (int k = 0; k < value->nafter; k++)
            value->after[k] = number[value->after[k]];
    }
    weir__free(nodes);
    weir__free(number);
    return WEIR_OK;
}
