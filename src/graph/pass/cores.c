/* How many cores each node may use: operator scope, then graph, then stream and device. */
#include "graph/pass/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/kernel_params.h"

/* The parameters of a Kernel node; NULL for a node of the operator table. */
static const struct weir__kernel_params *stand_in(const struct weir__node *n)
{
    return strcmp(n->op->name, "Kernel") ? NULL : n->params;
}

weir_engine weir__node_engine(const struct weir__node *n)
{
    const struct weir__kernel_params *p = stand_in(n);

    return p ? weir__kernel_engine(p) : n->op->engine;
}

bool weir__node_is_gang(const struct weir__node *n)
{
    const struct weir__kernel_params *p = stand_in(n);

    return p ? weir__kernel_is_gang(p) : n->op->flags & WEIR__OP_GANG;
}

bool weir__node_obeys_limit(const struct weir__node *n)
{
    const struct weir__kernel_params *p = stand_in(n);

    return p ? weir__kernel_obeys_limit(p) : !(n->op->flags & WEIR__OP_IGNORES_LIMIT);
}

struct weir__cores_text weir__cores_to_text(weir_cores limit)
{
    struct weir__cores_text out;
    int n = limit.cube > 0 ? snprintf(out.text, sizeof out.text, "%d|", limit.cube)
                           : snprintf(out.text, sizeof out.text, "-|");

    if (limit.vector > 0)
        snprintf(out.text + n, sizeof out.text - (size_t)n, "%d", limit.vector);
    else
        snprintf(out.text + n, sizeof out.text - (size_t)n, "-");
    return out;
}

static bool is_limit(long count, int most)
{
    return count == -1 || (count >= 1 && count <= most);
}

weir_status weir__graph_cores(const weir_graph *g, const char *text, weir_cores *out)
{
    const weir_cores has = g->dev->props.cores;
    const char *second;
    char *end = NULL;
    long cube, vector;

    *out = (weir_cores){0, 0};
    if (!text)
        return WEIR_OK;
    cube = strtol(text, &end, 10);
    second = end != text && *end == '|' ? end + 1 : NULL;
    vector = second ? strtol(second, &end, 10) : 0;
    if (!second || end == second || *end)
        return weir__fail(
            WEIR_EINVAL, "the cores of a graph are two counts such as \"24|48\", not \"%s\"", text);
    if (!is_limit(cube, has.cube) || !is_limit(vector, has.vector))
        return weir__fail(WEIR_ERANGE,
                          "core limit %ld|%ld of the graph is out of range: %s has 1..%d cube and "
                          "1..%d vector cores, and -1 keeps the device's",
                          cube, vector, g->dev->props.name, has.cube, has.vector);
    *out = (weir_cores){cube > 0 ? (int)cube : 0, vector > 0 ? (int)vector : 0};
    return WEIR_OK;
}

/* The limit from the operator's scope, completed by the options of its super kernel. */
static weir_status own_limit(const weir_graph *g, const struct weir__node *n, weir_cores *out)
{
    const struct weir__super_kernel *k;
    weir_status st;

    *out = n->marks.limit;
    if ((st = weir__device_check_limit(g->dev, *out)))
        return weir__fail(st, "node '%s': %s", n->name, weir_last_error());
    if (n->marks.super_kernel < 0)
        return WEIR_OK;
    k = &g->super_kernels[n->marks.super_kernel];
    if (out->cube <= 0)
        out->cube = weir__super_count(k, "debug-aic-num");
    if (out->vector <= 0)
        out->vector = weir__super_count(k, "debug-aiv-num");
    if ((st = weir__device_check_limit(g->dev, *out)))
        return weir__fail(st, "super kernel '%s': %s", k->name, weir_last_error());
    return WEIR_OK;
}

/* Warns once per plan; names the first such node and counts the others. */
static void warn_ignored(const struct weir__node *n, int count)
{
    char others[32] = "";

    if (count > 1)
        snprintf(others, sizeof others, " and %d others", count - 1);
    weir__log(WEIR_LOG_WARN,
              "node '%s'%s take%s no core limit: limits do not apply to the host and copy engines, "
              "nor to kernels of a class that cannot be limited",
              n->name, others, count > 1 ? "" : "s");
}

weir_status weir__pass_cores(struct weir__compile *c)
{
    const struct weir__node *first_ignoring = NULL;
    int ignoring = 0;
    const weir_graph *g = c->g;
    weir_cores whole;
    weir_status st;

    if ((st = weir__graph_cores(g, c->options.cores, &whole)))
        return st;
    if (!(c->limit = weir__calloc((size_t)g->nnodes + 1, sizeof *c->limit)))
        return weir__fail_nomem("allocating the core limits of %d nodes", g->nnodes);
    for (int v = 0; v < g->nnodes; v++) {
        weir_cores own;

        if ((st = own_limit(g, &g->nodes[v], &own)))
            return st;
        if (!weir__node_obeys_limit(&g->nodes[v])) {
            if (own.cube > 0 || own.vector > 0) {
                ignoring++;
                first_ignoring = first_ignoring ? first_ignoring : &g->nodes[v];
            }
            continue;
        }
        c->limit[v] = (weir_cores){own.cube > 0 ? own.cube : whole.cube,
                                   own.vector > 0 ? own.vector : whole.vector};
    }
    if (ignoring)
        warn_ignored(first_ignoring, ignoring);
    return WEIR_OK;
}
