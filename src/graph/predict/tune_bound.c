/* A lower bound for any placement: the longest chain, the fullest engine, the memory. */
#include "graph/predict/tune_state.h"

/* The longest path through one graph, along its edges and the streams whose order is fixed. */
static weir_status longest_chain(struct weir__tuner *t, const struct weir__predict_graph *pg,
                                 const struct weir__sim_limits *limits, uint64_t *out)
{
    const weir_graph *g = pg->g;
    uint64_t *end = weir__calloc((size_t)g->nnodes + 1, sizeof *end);
    uint64_t *last = weir__calloc((size_t)g->nlabels + 1, sizeof *last);
    struct weir__edges e = {0};
    weir_status st = end && last ? weir__graph_edges(g, &e)
                                 : weir__fail_nomem("allocating the longest chain of a graph");

    *out = 0;
    for (int v = 0; v < g->nnodes && !st; v++) {
        int label = t->options->relabel ? 0 : g->nodes[v].marks.stream;
        const struct weir__sim_op *op;

        if (!pg->c.live[v])
            continue;
        if (label)
            end[v] = last[label];
        for (int i = e.first[v]; i < e.first[v + 1]; i++)
            if (end[v] < end[e.preds[i]])
                end[v] = end[e.preds[i]];
        op = weir__predict_op(pg, v);
        end[v] += op->launch_ps + weir__sim_alone(limits, op);
        last[label] = end[v];
        if (*out < end[v])
            *out = end[v];
    }
    weir__free(end);
    weir__free(last);
    weir__edges_fini(&e);
    return st;
}

static void raise_bound(struct weir__tuner *t, struct weir__tune_bound b)
{
    if (t->bound.ps < b.ps)
        t->bound = b;
}

static void add_up(struct weir__tuner *t, const struct weir__predict_graph *pg,
                   const struct weir__sim_limits *limits)
{
    double work[WEIR__POOLS] = {0}, bytes = 0;

    for (int v = 0; v < pg->g->nnodes; v++) {
        const struct weir__sim_op *op = weir__predict_op(pg, v);
        double block = (double)op->block_ps * op->blocks;

        for (int p = 0; p < WEIR__POOLS; p++)
            work[p] += block * op->per_block[p];
        bytes += block * (double)op->draws[WEIR__FLOW_HBM];
    }
    for (int p = 0; p < WEIR__POOLS; p++)
        raise_bound(t, (struct weir__tune_bound){(uint64_t)(work[p] / limits->cores[p]),
                                                 WEIR__BOUND_ENGINE, p});
    if (limits->flow[WEIR__FLOW_HBM])
        raise_bound(
            t, (struct weir__tune_bound){(uint64_t)(bytes / (double)limits->flow[WEIR__FLOW_HBM]),
                                         WEIR__BOUND_MEMORY, 0});
}

static void measure_units(struct weir__tuner *t, const struct weir__prediction *p,
                          const struct weir__sim_limits *limits)
{
    for (int u = 0; u < t->nunits; u++) {
        struct weir__tune_unit *unit = &t->units[u];

        for (int i = unit->first; i < unit->first + unit->nmembers; i++) {
            const struct weir__tune_member *m = &t->members[i];
            const struct weir__sim_op *op = NULL;

            for (uint32_t g = 0; g < p->ngraphs && !op; g++)
                if (p->graphs[g].g == t->graphs[m->graph].work)
                    op = weir__predict_op(&p->graphs[g], m->node);
            if (m->graph != t->members[unit->first].graph)
                break; /* the other graphs have the same operator again */
            unit->alone += op->launch_ps + weir__sim_alone(limits, op);
            unit->comm |= op->comm;
            for (int pool = 0; pool < WEIR__POOLS; pool++)
                if (op->per_block[pool]) {
                    unit->pool = pool;
                    unit->wide |= 2 * op->cores * op->per_block[pool] > limits->cores[pool];
                }
        }
    }
}

weir_status weir__tune_find_bound(struct weir__tuner *t)
{
    struct weir__sim_limits limits;
    struct weir__prediction p;
    weir_status st;

    /* Without the limits that may change: no limit makes an operator faster. */
    weir__tune_copy(t, t->now, t->input);
    for (int u = 0; u < t->nunits; u++)
        if (t->units[u].limits)
            t->now[weir__at_limit(t, u)] = 0;
    if ((st = weir__tune_apply(t, t->now)) ||
        (st = weir__predict(t->by_rank, t->nranks,
                            &(struct weir__predict_options){.makespan_only = true}, &p)))
        return st;
    weir__model_limits(t->by_rank[0]->dev->model, &limits);
    for (uint32_t g = 0; g < p.ngraphs && !st; g++) {
        uint64_t chain;

        if ((st = longest_chain(t, &p.graphs[g], &limits, &chain)))
            break;
        raise_bound(t, (struct weir__tune_bound){chain, WEIR__BOUND_CHAIN, 0});
        add_up(t, &p.graphs[g], &limits);
    }
    if (!st)
        measure_units(t, &p, &limits);
    weir__prediction_fini(&p);
    if (t->options->fused)
        t->bound.ps = 0; /* a fused chain has fewer launches than were counted */
    return st;
}
