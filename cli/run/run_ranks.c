#include "run/run_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "graph/build/graph.h"

/* ---- groups ---- */

static weir_status add_group(struct run_members *s, const char *name)
{
    weir_device **devices;
    weir_status st;

    for (size_t i = 0; i < s->ngroups; i++)
        if (!strcmp(weir_group_name(s->groups[i]), name))
            return WEIR_OK;
    if (s->ngroups == RUN_GROUPS)
        return weir__fail(WEIR_ERANGE, "group '%s': a run has at most %d groups", name, RUN_GROUPS);
    if (s->job->world) {
        if ((st = run_job_group(s->job, name, &s->groups[s->ngroups])))
            return st;
        s->at[0].as[s->ngroups] = weir_group_self(s->groups[s->ngroups]);
        s->ngroups++;
        return WEIR_OK;
    }
    if (!(devices = calloc(s->n, sizeof(weir_device *))))
        return weir__fail_nomem("joining group '%s'", name);
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
static weir_status add_groups(struct run_members *s, const weir_graph *g)
{
    weir_status st = WEIR_OK;

    for (int v = 0; v < g->nnodes && !st; v++) {
        const struct weir__node *n = &g->nodes[v];
        struct weir__member member;

        if (!n->op->member)
            continue;
        n->op->member(n->params, &member);
        if (member.meets)
            st = add_group(s, *member.group ? member.group : "ranks");
    }
    return st;
}

/* ---- ranks ---- */

/* Zeros for every input. */
static weir_status make_inputs(struct run_member *member)
{
    const weir_graph *g = member->graph;

    member->inputs = calloc((size_t)g->ninputs + 1, sizeof(weir_tensor *));
    member->outputs = calloc((size_t)g->noutputs + 1, sizeof(weir_tensor *));
    if (!member->inputs || !member->outputs)
        return weir__fail_nomem("making the inputs of a run");
    for (int i = 0; i < g->ninputs; i++) {
        const struct weir__view *v = &g->values[g->inputs[i]].view;
        weir_status st = weir_tensor_empty(weir_stream_default(member->dev), v->dtype, v->ndim,
                                           v->shape, &member->inputs[i]);

        if (st || (st = weir_fill(member->inputs[i], 0)))
            return st;
    }
    return WEIR_OK;
}

weir_status run_members_open(struct run_members *s, const struct cli_ranks *ranks, weir_device *dev,
                             const char *spec, const struct run_job *job)
{
    weir_status st = WEIR_OK;

    *s = (struct run_members){.job = job, .nranks = ranks->nranks};
    s->at = calloc(ranks->nranks, sizeof *s->at);
    s->graphs = calloc(ranks->nranks, sizeof(weir_graph *));
    if (!s->at || !s->graphs)
        return weir__fail_nomem("running %u ranks", ranks->nranks);
    s->n = job->world ? 1 : ranks->nranks;
    s->at[0].dev = dev;
    s->at[0].graph = ranks->graphs[job->self];
    for (unsigned r = 1; r < s->n && !st; r++)
        if (!(st = weir_device_open(spec, &s->at[r].dev)))
            st = weir_graph_load_file(s->at[r].dev, ranks->paths[ranks->file_of[r]],
                                      &s->at[r].graph);
    for (unsigned r = 0; r < s->nranks && !st; r++) {
        s->graphs[r] = job->world ? ranks->graphs[r] : s->at[r].graph;
        if (s->nranks > 1)
            st = add_groups(s, s->graphs[r]);
    }
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

void run_members_close(struct run_members *s)
{
    for (unsigned r = 0; r < s->n; r++) {
        struct run_member *member = &s->at[r];

        weir_plan_destroy(member->plan);
        if (!member->graph)
            continue;
        release_all(member->inputs, member->graph->ninputs);
        release_all(member->outputs, member->graph->noutputs);
        if (r)
            weir_graph_destroy(member->graph);
    }
    for (size_t i = 0; i < s->ngroups; i++)
        weir_group_destroy(s->groups[i]);
    for (unsigned r = 1; r < s->n; r++)
        if (s->at[r].dev)
            weir_device_close(s->at[r].dev);
    free(s->at);
    free(s->graphs);
}

weir_status run_members_compile(struct run_members *s)
{
    weir_status st = WEIR_OK;

    for (unsigned r = 0; r < s->n && !st; r++) {
        struct run_member *member = &s->at[r];
        weir_compile_options as_issued = {
            .mode = WEIR_COMPILE_REDUCE_OVERHEAD, .ranks = member->as, .nranks = s->ngroups};

        weir_plan_destroy(member->plan);
        member->plan = NULL;
        st = weir_graph_compile(member->graph, &as_issued, &member->plan);
    }
    return st;
}

weir_status run_members_run(struct run_members *s)
{
    weir_status st = WEIR_OK, over;

    for (unsigned r = 0; r < s->n && !st; r++) {
        struct run_member *member = &s->at[r];

        st = weir_plan_run(member->plan, weir_stream_default(member->dev), member->inputs,
                           (size_t)member->graph->ninputs, member->outputs,
                           (size_t)member->graph->noutputs);
        for (size_t i = 0; st && i < s->ngroups; i++)
            weir_group_abort(s->groups[i], "another rank could not be run");
    }
    for (unsigned r = 0; r < s->n; r++)
        if ((over = weir_device_sync(s->at[r].dev)) && !st)
            st = over;
    return st;
}
