#include "run_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "graph/build/graph.h"

/* ---- groups ---- */

static weir_status add_group(struct run_seats *s, const char *name)
{
    weir_device **devices;
    weir_status st;

    for (size_t i = 0; i < s->ngroups; i++)
        if (!strcmp(weir_group_name(s->groups[i]), name))
            return WEIR_OK;
    if (s->ngroups == RUN_GROUPS)
        return weir__fail(WEIR_ERANGE, "group '%s': a run has at most %d groups", name, RUN_GROUPS);
    if (!(devices = calloc(s->n, sizeof(weir_device *))))
        return weir__fail(WEIR_ENOMEM, "group '%s'", name);
    for (unsigned r = 0; r < s->n; r++)
        devices[r] = s->at[r].dev;
    st = weir_group_create(devices, (int)s->n, &(weir_group_options){.name = name},
                           &s->groups[s->ngroups]);
    free(devices);
    if (st)
        return st;
    for (unsigned r = 0; r < s->n; r++)
        s->at[r].as[s->ngroups] = weir_group_rank(s->groups[s->ngroups], (int)r);
    s->ngroups++;
    return WEIR_OK;
}

/* Those that the graph names, and one for kernels that only name their collective. */
static weir_status add_groups(struct run_seats *s, const weir_graph *g)
{
    weir_status st = WEIR_OK;

    for (int v = 0; v < g->nnodes && !st; v++) {
        const struct weir__node *n = &g->nodes[v];
        struct weir__party party;

        if (!n->op->party)
            continue;
        n->op->party(n->params, &party);
        if (party.meets)
            st = add_group(s, *party.group ? party.group : "ranks");
    }
    return st;
}

/* ---- ranks ---- */

/* Zeros for every input. */
static weir_status make_inputs(struct run_seat *seat)
{
    const weir_graph *g = seat->graph;

    seat->inputs = calloc((size_t)g->ninputs + 1, sizeof(weir_tensor *));
    seat->outputs = calloc((size_t)g->noutputs + 1, sizeof(weir_tensor *));
    if (!seat->inputs || !seat->outputs)
        return weir__fail(WEIR_ENOMEM, "the inputs of a run");
    for (int i = 0; i < g->ninputs; i++) {
        const struct weir__view *v = &g->values[g->inputs[i]].view;
        weir_status st = weir_tensor_empty(weir_stream_default(seat->dev), v->dtype, v->ndim,
                                           v->shape, &seat->inputs[i]);

        if (st || (st = weir_fill(seat->inputs[i], 0)))
            return st;
    }
    return WEIR_OK;
}

weir_status run_seats_open(struct run_seats *s, const struct cli_ranks *ranks, weir_device *dev,
                           const char *spec)
{
    weir_status st = WEIR_OK;

    *s = (struct run_seats){.n = 0};
    if (!(s->at = calloc(ranks->nranks, sizeof *s->at)))
        return weir__fail(WEIR_ENOMEM, "a run of %u ranks", ranks->nranks);
    s->n = ranks->nranks;
    s->at[0].dev = dev;
    s->at[0].graph = ranks->graphs[0];
    for (unsigned r = 1; r < s->n && !st; r++)
        if (!(st = weir_device_open(spec, &s->at[r].dev)))
            st = weir_graph_load_file(s->at[r].dev, ranks->paths[ranks->file_of[r]],
                                      &s->at[r].graph);
    for (unsigned r = 0; r < s->n && s->n > 1 && !st; r++)
        st = add_groups(s, s->at[r].graph);
    for (unsigned r = 0; r < s->n && !st; r++)
        st = make_inputs(&s->at[r]);
    return st;
}

static void release_all(weir_tensor **tensors, int n)
{
    for (int i = 0; tensors && i < n; i++)
        if (tensors[i])
            weir_tensor_release(tensors[i]);
    free(tensors);
}

void run_seats_close(struct run_seats *s)
{
    for (unsigned r = 0; r < s->n; r++) {
        struct run_seat *seat = &s->at[r];

        weir_plan_destroy(seat->plan);
        if (!seat->graph)
            continue;
        release_all(seat->inputs, seat->graph->ninputs);
        release_all(seat->outputs, seat->graph->noutputs);
        if (r)
            weir_graph_destroy(seat->graph);
    }
    for (size_t i = 0; i < s->ngroups; i++)
        weir_group_destroy(s->groups[i]);
    for (unsigned r = 1; r < s->n; r++)
        if (s->at[r].dev)
            weir_device_close(s->at[r].dev);
    free(s->at);
}

weir_status run_seats_compile(struct run_seats *s)
{
    weir_status st = WEIR_OK;

    for (unsigned r = 0; r < s->n && !st; r++) {
        struct run_seat *seat = &s->at[r];
        weir_compile_options as_issued = {
            .mode = "reduce-overhead", .ranks = seat->as, .nranks = s->ngroups};

        weir_plan_destroy(seat->plan);
        seat->plan = NULL;
        st = weir_graph_compile(seat->graph, &as_issued, &seat->plan);
    }
    return st;
}

weir_status run_seats_run(struct run_seats *s)
{
    weir_status st = WEIR_OK, over;

    for (unsigned r = 0; r < s->n && !st; r++) {
        struct run_seat *seat = &s->at[r];

        st = weir_plan_run(seat->plan, weir_stream_default(seat->dev), seat->inputs,
                           (size_t)seat->graph->ninputs, seat->outputs,
                           (size_t)seat->graph->noutputs);
        for (size_t i = 0; st && i < s->ngroups; i++)
            weir_group_abort(s->groups[i], "another rank could not be run");
    }
    for (unsigned r = 0; r < s->n; r++)
        if ((over = weir_device_sync(s->at[r].dev)) && !st)
            st = over;
    return st;
}
