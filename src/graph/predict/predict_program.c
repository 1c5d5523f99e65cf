/* Translates a graph into a program of the modelled machine. */
#include "graph/predict/predict_program.h"

#include <math.h>
#include <string.h>

#include "graph/build/stand_in.h"
#include "graph/pass/memory.h"
#include "tensor/kernel_params.h"

/* ---- costs of nodes ---- */

/* The limit that applies to the node on its engine; 0 if there is none. */
static unsigned own_limit(const weir_device *dev, weir_engine engine, weir_cores limit)
{
    switch (engine) {
    case WEIR_ENGINE_CUBE:
        return (unsigned)limit.cube;
    case WEIR_ENGINE_VECTOR:
        return (unsigned)limit.vector;
    case WEIR_ENGINE_MIX:
        return limit.cube || limit.vector ? weir__cores_of(dev, engine, dev->props.cores, limit)
                                          : 0;
    default:
        return 0;
    }
}

static unsigned all_cores(const weir_device *dev, weir_engine engine)
{
    const struct weir__profile *p = &dev->model->profile;

    return engine == WEIR_ENGINE_SDMA ? (unsigned)p->sdma_channels
           : engine == WEIR_ENGINE_HOST
               ? (unsigned)p->host_cores
               : weir__cores_of(dev, engine, dev->props.cores, (weir_cores){0, 0});
}

static void load_kernel(const weir_device *dev, const struct weir__kernel_params *p,
                        weir_cores limit, struct weir__load *load)
{
    unsigned own;

    load->engine = weir__kernel_engine(p);
    load->blocks = weir__kernel_blocks(p);
    load->gang = p->gang;
    load->together = p->us > 0;
    load->block_us = p->us > 0 ? p->us : p->us_per_block;
    load->bytes = (double)p->bytes;
    load->flops = weir__model_flops(
        dev->model, load->engine,
        &(struct weir__flops){p->flops, p->dtype, (double)p->m, (double)p->n, (double)p->k});
    load->comm = p->collective[0] || load->engine == WEIR_ENGINE_SDMA ||
                 !strcmp(p->class, "hccl") || !strcmp(p->class, "mc2");
    own = weir__kernel_obeys_limit(p) ? own_limit(dev, load->engine, limit) : 0;
    /* Blocks that must all be resident at once never start if there are more of them than cores. */
    load->cores = own                            ? own
                  : load->gang || load->together ? load->blocks
                                                 : all_cores(dev, load->engine);
    if (p->measured)
        load->cores = load->blocks = weir__kernel_measured_cores(p, all_cores(dev, load->engine));
}

/* Uses measured times as they are: they include launches, events and other traffic. */
static void take_as_measured(const struct weir__kernel_params *p, struct weir__sim_op *op)
{
    op->block_ps = weir__model_ps(p->us);
    op->launch_ps = weir__model_ps(p->delay_us);
    memset(op->draws, 0, sizeof op->draws);
}

/* Attention is cut into stacks of 128 queries, which cores take in turn. Returns the load of the
 * core with the most stacks, relative to the mean. */
static double attention_waste(const struct weir__cost *cost, unsigned cores)
{
    const double tile = 128, most_units = 1 << 20;
    double rows = ceil(cost->m / tile), units = cost->units * rows, longest = 0, all = 0;

    if (!(units >= 1) || units > most_units || cost->m <= 1)
        return 1;
    for (unsigned c = 0; c < cores && c < units; c++) {
        double sum = 0;

        for (double u = c; u < units; u += cores) {
            double row = fmod(u, rows);
            double last = fmin(cost->m, (row + 1) * tile) + cost->k - cost->m;

            sum += cost->causal ? fmax(0, fmin(cost->k, last)) : cost->k;
        }
        longest = fmax(longest, sum);
        all += sum;
    }
    return all > 0 ? longest * cores / all : 1;
}

static weir_status load_operator(const weir_device *dev, const struct weir__node *n,
                                 weir_cores limit, struct weir__load *load)
{
    unsigned own = own_limit(dev, n->op->engine, limit);
    struct weir__stand_in s;
    struct weir__cost cost = {0};
    struct weir__work work;
    double waste = 1;
    weir_status st;

    weir__stand_in_init(&s, n, own ? own : all_cores(dev, n->op->engine), NULL);
    weir__work_init(&work, n->op);
    if ((st = n->op->prepare(&s.call, &work)))
        return st;
    if (n->op->cost)
        n->op->cost(&s.call, &cost);
    if (cost.units > 0) {
        waste = attention_waste(&cost, own ? own : all_cores(dev, n->op->engine));
        cost.m = cost.k = 0; /* not a matrix product */
    }
    weir__cost_scale(&cost, dev->model, work.engine, n->nin && s.ins[0] ? s.ins[0] : NULL);
    *load = (struct weir__load){
        .engine = work.engine,
        .blocks = work.blocks,
        .cores = work.engine == n->op->engine ? s.call.cores : all_cores(dev, work.engine),
        .gang = work.gang && work.blocks > 1,
        .flops = cost.flops,
        .bytes = cost.bytes,
        .rows = cost.rows,
        .depth = work.engine == WEIR_ENGINE_CUBE && cost.m > 128 ? cost.k : 0,
        .waste = waste,
        .comm = work.engine == WEIR_ENGINE_SDMA,
    };
    return WEIR_OK;
}

/* ---- rendezvous ---- */

/* Finds or adds the name. NULL when out of memory. */
static struct weir__rendezvous_name *find_name(struct weir__rendezvous_table *m,
                                               const struct weir__rendezvous_name *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->names[i].name, name->name) && m->names[i].group == name->group &&
            m->names[i].from == name->from && m->names[i].to == name->to)
            return &m->names[i];
    if (!weir__grow(&m->names, m->n, &m->cap, sizeof *m->names))
        return NULL;
    m->names[m->n] = *name;
    return &m->names[m->n++];
}

weir_status weir__rendezvous_count(struct weir__rendezvous_table *m, const weir_graph *g,
                                   uint32_t index, uint32_t copies)
{
    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__kernel_params *p = (const void *)g->nodes[v].params;
        struct weir__rendezvous_name *entry;

        if (strcmp(g->nodes[v].op->name, "Kernel") != 0 || !p->collective[0] || !p->ranks)
            continue;
        if (!(entry = find_name(
                  m, &(struct weir__rendezvous_name){.name = p->collective, .from = -1, .to = -1})))
            return WEIR_ENOMEM;
        if (entry->seen != index + 1)
            entry->ranks += copies;
        entry->seen = index + 1;
    }
    return WEIR_OK;
}

/* The k-th node of a name on one rank meets the k-th nodes on the other ranks: on `some` of them if
 * that many have one, else on all. */
static weir_status find_rendezvous(struct weir__rendezvous_table *m,
                                   const struct weir__rendezvous_name *name, uint32_t graph,
                                   uint32_t some, uint32_t nranks, uint32_t *out)
{
    struct weir__rendezvous_name *entry = find_name(m, name);

    if (!entry)
        return WEIR_ENOMEM;
    if (some && some < nranks && entry->ranks == some)
        nranks = some;
    if (entry->graph != graph + 1)
        entry->used = 0;
    entry->graph = graph + 1;
    if (entry->used == entry->n) {
        if (!weir__grow(&entry->ids, entry->n, &entry->cap, sizeof *entry->ids) ||
            !weir__grow(&m->sizes, (int)m->count, &m->cap_sizes, sizeof *m->sizes))
            return WEIR_ENOMEM;
        m->sizes[m->count] = nranks;
        entry->ids[entry->n++] = ++m->count;
    }
    *out = entry->ids[entry->used++];
    return WEIR_OK;
}

void weir__rendezvous_table_fini(struct weir__rendezvous_table *m)
{
    for (int i = 0; i < m->n; i++)
        weir__free(m->names[i].ids);
    weir__free(m->names);
    weir__free(m->sizes);
}

/* ---- nodes ---- */

/* Adds a Kernel with a collective. */
static weir_status meet_by_name(struct weir__predict_graph *pg, int v,
                                const struct weir__kernel_params *p, const struct weir__load *load,
                                const struct weir__predict_place *place,
                                struct weir__rendezvous_table *rendezvous, struct weir__sim_op *op)
{
    const struct weir__model *model = pg->g->dev->model;

    pg->nodes[v].meets = p->collective;
    if (!(load->block_us > 0) && p->bytes)
        weir__model_collective(model,
                               &(struct weir__collective){
                                   .kind = weir__collective_kind(p->collective),
                                   .nranks = p->ranks ? (uint32_t)p->ranks : place->nranks,
                                   .bytes = (double)p->bytes,
                                   .net_bytes = p->net_bytes,
                                   .uneven = p->uneven,
                               },
                               op);
    if (load->engine == WEIR_ENGINE_SDMA)
        weir__model_take_no_cores(op);
    return find_rendezvous(rendezvous,
                           &(struct weir__rendezvous_name){
                               .name = p->collective, .group = false, .from = -1, .to = -1},
                           place->index, (uint32_t)p->ranks, place->nranks, &op->rendezvous);
}

/* Adds an operator of a group. A single rank is predicted as if its peers arrived at the same
 * time. */
static weir_status meet_in_group(struct weir__predict_graph *pg, int v, struct weir__load *load,
                                 const struct weir__predict_place *place,
                                 struct weir__rendezvous_table *rendezvous, struct weir__sim_op *op)
{
    const struct weir__node *n = &pg->g->nodes[v];
    struct weir__rendezvous_name name = {.group = true, .from = -1, .to = -1};
    struct weir__collective c = {.kind = weir__collective_kind(n->op->name)};
    struct weir__member member;
    bool pair;

    n->op->member(n->params, &member);
    pair = member.to >= 0 || member.from >= 0;
    c.nranks = pair ? 2 : (uint32_t)member.ranks;
    if (pair)
        c.span = weir__span_between(pg->g->dev->model, place->rank,
                                    (uint32_t)(member.to >= 0 ? member.to : member.from));
    weir__model_group_op(pg->g->dev->model, load, &c, op);
    if (place->nranks == 1)
        return WEIR_OK;
    if ((uint32_t)member.ranks != place->nranks)
        return weir__fail(WEIR_EINVAL,
                          "node '%s' is a collective of the %lld ranks of group '%s', but the run "
                          "has %u ranks",
                          n->name, (long long)member.ranks, member.group, place->nranks);
    if (pair && place->shared)
        return weir__fail(WEIR_EINVAL,
                          "node '%s' is for one rank: give each rank a graph of its own", n->name);
    name.name = pg->nodes[v].meets = member.group;
    if (pair) {
        name.from = member.to >= 0 ? (int)place->rank : member.from;
        name.to = member.to >= 0 ? member.to : (int)place->rank;
    }
    return find_rendezvous(rendezvous, &name, place->index, 0, pair ? 2 : place->nranks,
                           &op->rendezvous);
}

static weir_status make_op(struct weir__predict_graph *pg, int v,
                           const struct weir__predict_place *place,
                           struct weir__rendezvous_table *rendezvous, struct weir__sim_op *op)
{
    const weir_device *dev = pg->g->dev;
    const struct weir__node *n = &pg->g->nodes[v];
    const struct weir__kernel_params *p =
        strcmp(n->op->name, "Kernel") ? NULL : (const struct weir__kernel_params *)n->params;
    struct weir__load load = {.in_graph = true};
    weir_status st = WEIR_OK;

    if (p)
        load_kernel(dev, p, pg->c.limit[v], &load);
    else
        st = load_operator(dev, n, pg->c.limit[v], &load);
    if (st)
        return st;
    load.in_graph = true;
    weir__model_op(dev->model, &load, op);
    if (p && p->measured) {
        take_as_measured(p, op);
        pg->nodes[v].measured = true;
    }
    pg->engine[v] = load.engine;
    if (p && p->collective[0])
        st = meet_by_name(pg, v, p, &load, place, rendezvous, op);
    else if (n->op->flags & WEIR__OP_COLLECTIVE)
        st = meet_in_group(pg, v, &load, place, rendezvous, op);
    if (pg->c.leader[v] != v && !pg->nodes[v].measured)
        op->launch_ps = 0; /* a super kernel or chain is launched once, by its first node */
    return st;
}

/* Whether the file gives the node's time: then the profile's error does not apply. */
static bool given_time(const weir_graph *g, int v)
{
    const struct weir__kernel_params *p = (const struct weir__kernel_params *)g->nodes[v].params;

    return !strcmp(g->nodes[v].op->name, "Kernel") &&
           (p->us > 0 || p->us_per_block > 0 || p->measured);
}

static void number_waits(struct weir__predict_graph *pg)
{
    const struct weir__compile *c = &pg->c;

    for (int i = 0; i < c->nsyncs; i++) {
        pg->waits[i] = (struct weir__replay_wait){(uint32_t)c->syncs[i].stream,
                                                  (uint32_t)c->syncs[i].position};
        pg->nodes[weir__node_at(c, c->syncs[i].stream, c->syncs[i].position)].recorded = true;
    }
    for (int v = 0; v < pg->g->nnodes; v++) {
        pg->nodes[v].waits = (uint32_t)c->sync_first[v];
        pg->nodes[v].nwaits = (uint32_t)(c->sync_first[v + 1] - c->sync_first[v]);
        pg->nodes[v].name = pg->g->nodes[v].name;
        pg->order[v] = (uint32_t)c->order[v];
    }
    for (int s = 0; s < c->nstreams; s++)
        pg->streams[s] = (struct weir__replay_stream){
            .name = c->streams[s].tag ? c->streams[s].tag : "default",
            .priority = c->streams[s].priority,
            .nodes = pg->order + c->streams[s].first,
            .nnodes = (uint32_t)c->streams[s].nnodes,
        };
}

static weir_status passes(struct weir__compile *c, const struct weir__predict_options *options)
{
    weir_status st;

    if ((st = weir__graph_edges(c->g, &c->edges)) || (st = weir__pass_live(c)) ||
        (st = weir__pass_streams(c)) || (st = weir__pass_sync(c)) || (st = weir__pass_super(c)) ||
        (st = weir__pass_cores(c)))
        return st;
    if (options->memory)
        st = weir__pass_memory(c);
    else if (options->fused) /* only to see which chains may share bytes: a rough memory plan is
                              * enough */
        st = weir__memory_plan(c, (struct weir__memory_effort){0});
    return !st && options->fused ? weir__pass_fuse(c) : st;
}

static size_t value_bytes(const weir_graph *g, int value)
{
    const struct weir__view *v = &g->values[value].view;

    return (size_t)weir__view_numel(v) * weir_dtype_size(v->dtype);
}

static size_t memory_bytes(const struct weir__predict_graph *pg)
{
    const weir_graph *g = pg->g;
    size_t bytes = pg->c.arena_bytes;

    for (int i = 0; i < g->ninputs; i++)
        bytes += value_bytes(g, g->inputs[i]);
    for (int i = 0; i < g->nconstants; i++)
        bytes += value_bytes(g, g->constants[i]);
    for (int i = 0; i < g->noutputs; i++)
        bytes += value_bytes(g, g->outputs[i].operand.value);
    return bytes;
}

static weir_status make_ops(struct weir__predict_graph *pg, const struct weir__predict_place *place,
                            struct weir__rendezvous_table *rendezvous)
{
    struct weir__sim_op nothing = {0};
    struct weir__op_kinds kinds = {0};
    struct weir__sim_limits limits;
    uint32_t index;
    weir_status st = weir__op_kinds_keep(pg, &kinds, &nothing, &index);

    weir__model_limits(pg->g->dev->model, &limits);
    for (int v = 0; v < pg->g->nnodes && !st; v++) {
        struct weir__sim_op op = {0};
        uint64_t alone;

        if (!pg->c.live[v])
            continue;
        if ((st = make_op(pg, v, place, rendezvous, &op)) ||
            (st = weir__op_kinds_keep(pg, &kinds, &op, &pg->nodes[v].op)))
            break;
        alone = op.launch_ps + weir__sim_alone(&limits, &op);
        pg->serial += alone;
        pg->modelled += given_time(pg->g, v) ? 0 : alone;
    }
    weir__free(kinds.slots);
    return st;
}

weir_status weir__predict_graph_init(struct weir__predict_graph *pg, const weir_graph *g,
                                     const struct weir__predict_options *options,
                                     const struct weir__predict_place *place,
                                     struct weir__rendezvous_table *rendezvous)
{
    size_t n = (size_t)g->nnodes + 1;
    weir_status st;

    *pg = (struct weir__predict_graph){.g = g, .c = {.g = g}};
    if (options->compile)
        pg->c.options = *options->compile;
    if ((st = passes(&pg->c, options)))
        return st;
    pg->nodes = weir__calloc(n, sizeof *pg->nodes);
    pg->order = weir__calloc(n, sizeof *pg->order);
    pg->engine = weir__calloc(n, sizeof *pg->engine);
    pg->waits = weir__calloc((size_t)pg->c.nsyncs + 1, sizeof *pg->waits);
    pg->streams = weir__calloc((size_t)pg->c.nstreams, sizeof *pg->streams);
    if (!pg->nodes || !pg->order || !pg->engine || !pg->waits || !pg->streams)
        return weir__fail_nomem("predicting %d nodes", g->nnodes);
    number_waits(pg);
    if ((st = make_ops(pg, place, rendezvous)))
        return st;
    pg->program = (struct weir__replay_program){
        .nodes = pg->nodes,
        .nnodes = (uint32_t)g->nnodes,
        .waits = pg->waits,
        .ops = pg->ops,
        .streams = pg->streams,
        .nstreams = (uint32_t)pg->c.nstreams,
    };
    if (options->memory)
        pg->memory_bytes = memory_bytes(pg);
    return WEIR_OK;
}

void weir__predict_graph_fini(struct weir__predict_graph *pg)
{
    weir__compile_fini(&pg->c);
    weir__free(pg->nodes);
    weir__free(pg->ops);
    weir__free(pg->order);
    weir__free(pg->engine);
    weir__free(pg->waits);
    weir__free(pg->streams);
}
