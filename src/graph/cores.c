/* How many cores each node may use: operator scope, then graph, then stream and device. */
#include "graph/compile.h"

#include <stdlib.h>

/* "24|48" */
static weir_status parse_limit(const weir_graph *g, const char *text, weir_cores *out)
{
    char *end;
    long cube, vector;

    *out = (weir_cores){0, 0};
    if (!text)
        return WEIR_OK;
    cube = strtol(text, &end, 10);
    if (end == text || *end != '|')
        goto malformed;
    text = end + 1;
    vector = strtol(text, &end, 10);
    if (end == text || *end)
        goto malformed;
    if (cube < 1 || cube > g->dev->props.cores.cube || vector < 1 ||
        vector > g->dev->props.cores.vector)
        return weir__fail(WEIR_ERANGE,
                          "core limit %ld|%ld of the graph is out of range: %s has 1..%d cube and "
                          "1..%d vector cores",
                          cube, vector, g->dev->props.name, g->dev->props.cores.cube,
                          g->dev->props.cores.vector);
    *out = (weir_cores){(int)cube, (int)vector};
    return WEIR_OK;

malformed:
    return weir__fail(WEIR_EINVAL,
                      "the cores of a graph are two counts such as \"24|48\", not \"%s\"", text);
}

weir_status weir__pass_cores(struct weir__compile *c)
{
    const weir_graph *g = c->g;
    weir_cores whole;
    weir_status st;

    if ((st = parse_limit(g, c->options.cores, &whole)))
        return st;
    if (!(c->limit = weir__calloc((size_t)g->nnodes + 1, sizeof *c->limit)))
        return weir__fail(WEIR_ENOMEM, "the core limits of %d nodes", g->nnodes);
    for (int v = 0; v < g->nnodes; v++) {
        weir_cores own = g->nodes[v].marks.limit;

        if ((st = weir__device_check_limit(g->dev, own)))
            return st;
        c->limit[v] = (weir_cores){own.cube > 0 ? own.cube : whole.cube,
                                   own.vector > 0 ? own.vector : whole.vector};
    }
    return WEIR_OK;
}
