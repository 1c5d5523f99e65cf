#include "run/run_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "graph/build/graph.h"

/* ---- groups ---- */

static const char all_ranks[] = "ranks"; /* the group of Kernels that meet all ranks */

static weir_status add_group(struct run_members *s, const char *name, bool kernel, int64_t ranks,
                             int rank)
{
    struct run_group *g = s->groups;

    while (g < s->groups + s->ngroups && (g->kernel != kernel || strcmp(g->name, name) != 0))
        g++;
    if (g == s->groups + RUN_GROUPS)
        return weir__fail(WEIR_ERANGE, "group '%s': a run has at most %d groups", name, RUN_GROUPS);
    if (g == s->groups + s->ngroups) {
        s->ngroups++;
        g->name = name;
        g->kernel = kernel;
        g->ranks = ranks;
    }
    if (g->ranks != ranks && ranks && g->ranks)
        return weir__fail(WEIR_EINVAL,
                          "group '%s' has %lld ranks in one node and %lld in another: give groups "
                          "of different ranks different names",
                          name, (long long)g->ranks, (long long)ranks);
    g->ranks = ranks ? ranks : g->ranks;
    weir__ranks_add(&g->has, rank);
    return WEIR_OK;
}

/* Adds the groups that a rank's graph names. Kernels name only their collective, and may say how
 * many ranks it has. */
static weir_status add_groups(struct run_members *s, const weir_graph *g, int rank)
{
    weir_status st = WEIR_OK;

    for (int v = 0; v < g->nnodes && !st; v++) {
        const struct weir__node *n = &g->nodes[v];
        struct weir__member member;

        if (!n->op->member)
            continue;
        n->op->member(n->params, &member);
        if (!member.is_collective)
            continue;
        if (*member.group)
            st = add_group(s, member.group, false, member.ranks, rank);
        else if (member.of_some > 0 && member.of_some < s->nranks)
            st = add_group(s, member.name, true, member.of_some, rank);
        else
            st = add_group(s, all_ranks, false, 0, rank);
    }
    return st;
}

/* Decides the groups of Kernels. If the number of ranks that a collective names differs from the
 * number of ranks that have it, its Kernels meet all ranks, as in the checker. The group of all
 * ranks is moved to the front: it is the default for Kernels without another group. */
static weir_status settle_kernels(struct run_members *s)
{
    weir_status st = WEIR_OK;

    for (size_t i = 0; i < s->ngroups && !st; i++) {
        struct run_group *g = &s->groups[i];

        for (size_t k = 0; k < s->ngroups && g->kernel; k++)
            if (!s->groups[k].kernel && s->groups[k].ranks == g->ranks &&
                !strcmp(s->groups[k].name, g->name))
                return weir__fail(WEIR_EINVAL,
                                  "'%s' is both a group of %lld ranks and a collective of as many: "
                                  "give them different names",
                                  g->name, (long long)g->ranks);
        if (g->kernel && weir__ranks_count(&g->has) != g->ranks) {
            *g = s->groups[--s->ngroups];
            i--;
            st = add_group(s, all_ranks, false, 0, 0);
        }
    }
    for (size_t i = 1; i < s->ngroups; i++)
        if (!s->groups[i].kernel && !strcmp(s->groups[i].name, all_ranks)) {
            struct run_group first = s->groups[i];

            s->groups[i] = s->groups[0];
            s->groups[0] = first;
        }
    return st;
}

/* Finds the members of a group: all ranks, or those whose graphs name it, in their order. */
static weir_status find_ranks(const struct run_members *s, const struct run_group *g, int *ranks,
                              int *n)
{
    int has = weir__ranks_count(&g->has);

    *n = 0;
    for (unsigned r = 0; r < s->nranks; r++)
        if (!g->ranks || g->ranks == s->nranks || weir__ranks_has(&g->has, (int)r))
            ranks[(*n)++] = (int)r;
    if (g->ranks && *n != g->ranks)
        return weir__fail(WEIR_EINVAL,
                          "group '%s' has %lld ranks, and %d of the run's %u have it in their "
                          "graphs: give each group a name of its own, and its ranks graphs with it",
                          g->name, (long long)g->ranks, has, s->nranks);
    return WEIR_OK;
}

static void be_member(struct run_member *member, weir_rank *as)
{
    member->as[member->ngroups++] = as;
}

static weir_status make_group(struct run_members *s, struct run_group *g)
{
    weir_device *devices[WEIR_MAX_RANKS];
    int ranks[WEIR_MAX_RANKS], n;
    weir_status st = find_ranks(s, g, ranks, &n);

    if (st)
        return st;
    if (s->job->world) {
        for (int i = 0; i < n && !st; i++)
            if (ranks[i] == s->job->self &&
                !(st = run_job_group(s->job, g->name, ranks, n, &g->made)))
                be_member(&s->at[0], weir_group_self(g->made));
        return st;
    }
    for (int i = 0; i < n; i++)
        devices[i] = s->at[ranks[i]].dev;
    if ((st = weir_group_create(devices, n, &(weir_group_options){.name = g->name}, &g->made)))
        return st;
    for (int i = 0; i < n; i++)
        be_member(&s->at[ranks[i]], weir_group_rank(g->made, i));
    return WEIR_OK;
}

/* ---- ranks ---- */

/* Makes the inputs and fills them with zeros. */
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
            st = add_groups(s, s->graphs[r], (int)r);
    }
    if (!st)
        st = settle_kernels(s);
    for (size_t i = 0; i < s->ngroups && !st; i++)
        st = make_group(s, &s->groups[i]);
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
        if (s->groups[i].made)
            weir_group_destroy(s->groups[i].made);
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
            .mode = WEIR_COMPILE_REDUCE_OVERHEAD, .ranks = member->as, .nranks = member->ngroups};

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
            if (s->groups[i].made)
                weir_group_abort(s->groups[i].made, "another rank could not be run");
    }
    for (unsigned r = 0; r < s->n; r++)
        if ((over = weir_device_sync(s->at[r].dev)) && !st)
            st = over;
    return st;
}
