/* Builds programs from the decisions of the passes. */
#include "graph/plan/plan.h"

#include <stdio.h>
#include <string.h>

/* Address of a value's first element. */
static char *value_base(const weir_plan *plan, const struct weir__instance *inst, int value)
{
    static char nothing[64]; /* address of values without bytes */
    const struct weir__value *v = &plan->graph->values[value];

    if (plan->literal_at[value] >= 0)
        return inst->arena ? inst->arena->address + plan->c.arena_bytes + plan->literal_at[value]
                           : nothing;
    if (v->kind == WEIR__VALUE_CONSTANT)
        return v->constant->buffer->address;
    if (plan->slot_of[value] >= 0)
        return inst->bound[plan->slot_of[value]];
    return inst->arena && plan->c.offset[value] >= 0 ? inst->arena->address + plan->c.offset[value]
                                                     : nothing;
}

static struct weir__view resolve(const weir_plan *plan, const struct weir__instance *inst,
                                 const struct weir__operand *o)
{
    struct weir__view v = o->view;

    v.data = value_base(plan, inst, o->value) + (uintptr_t)o->view.data;
    return v;
}

/* Cores that node v may use on an engine. */
static unsigned cores_of(const weir_plan *plan, const struct weir__instance *inst, int v,
                         weir_engine engine)
{
    if (!weir__node_obeys_limit(&plan->graph->nodes[v]))
        return weir__cores_of(plan->dev, engine, plan->dev->props.cores, (weir_cores){0, 0});
    return weir__cores_of(plan->dev, engine, inst->limits[plan->c.stream[v]], plan->c.limit[v]);
}

static uint16_t scope_of(const weir_graph *g, const struct weir__node *n)
{
    int super = n->marks.super_kernel;

    return super < 0 ? 0 : weir__trace_scope(g->super_kernels[super].name);
}

weir_status weir__plan_prepare(const weir_plan *plan, const struct weir__instance *inst, int v,
                               struct weir__prepared *p, struct weir__kernel *kernel)
{
    const struct weir__node *n = &plan->graph->nodes[v];
    struct weir__work *work = &p->work;
    weir_status st = WEIR_OK;

    p->call = (struct weir__call){
        .op = n->op,
        .nin = n->nin,
        .nout = n->nout,
        .in = p->ins,
        .out = p->out,
        .params = n->params,
        .cores = cores_of(plan, inst, v, n->op->engine),
        .for_gpu = weir__device_can(plan->dev, WEIR__RUNS_SOURCE),
        .model = plan->dev->model,
    };
    for (int i = 0; i < n->nin; i++) {
        p->ins[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &p->in[i];
        if (p->ins[i])
            p->in[i] = resolve(plan, inst, &n->in[i]);
    }
    for (int i = 0; i < n->nout; i++)
        p->out[i] = resolve(plan, inst, &n->out[i]);
    if (plan->slots[v].place >= 0)
        p->call.rank = plan->channels[plan->slots[v].place].rank;
    if (plan->c.scratch_size[v])
        p->call.scratch = inst->arena->address + plan->c.scratch_offset[v];
    weir__work_init(work, n->op);
    if (weir__device_runs_kernels(plan->dev) && (st = n->op->prepare(&p->call, work)))
        return st;
    if (work->is_collective)
        weir__plan_fill_meet(plan, v, (void *)work->args);
    *kernel = (struct weir__kernel){
        .name = n->name,
        .call = &p->call,
        .fn = work->blocks ? work->fn : NULL,
        .code = work->blocks ? work->code : NULL,
        .tune = weir__is_autotuned(&plan->c.options),
        .args = work->args,
        .args_size = (uint32_t)work->args_size,
        .engine = work->engine,
        .blocks = work->blocks ? work->blocks : 1,
        .phases = work->phases,
        .cores = cores_of(plan, inst, v, work->engine),
        .gang = work->gang && work->blocks > 1,
        .own_cores = true,
        .is_collective = work->is_collective,
        .never_timeout = n->marks.never_timeout,
        .scope = scope_of(plan->graph, n),
    };
    if (work->blocks)
        weir__kernel_set_cost(kernel, &p->call, work);
    return WEIR_OK;
}

/* ---- launches ---- */

static int launch_size(const struct weir__compile *c, int leader)
{
    int s = c->stream[leader], p = c->position[leader], n = 0;

    while (p + n < c->streams[s].nnodes && c->leader[weir__node_at(c, s, p + n)] == leader)
        n++;
    return n;
}

/* Prepares the kernel of the launch that begins with node `leader`. */
static weir_status prepare_launch(const weir_plan *plan, struct weir__instance *inst, int leader,
                                  struct weir__prepared *p, struct weir__kernel *kernel)
{
    int n = launch_size(&plan->c, leader);

    return n == 1 ? weir__plan_prepare(plan, inst, leader, p, kernel)
                  : weir__plan_prepare_fused(plan, inst, leader, n, p, kernel);
}

/* ---- items ---- */

static int lane_nodes(const weir_plan *plan, int lane)
{
    return plan->merged ? plan->graph->nnodes : plan->c.streams[lane].nnodes;
}

/* The node at a place of a lane; -1 if no launch begins there. */
static int lane_node(const weir_plan *plan, int lane, int place)
{
    int v = plan->merged ? place : weir__node_at(&plan->c, lane, place);

    return plan->c.live[v] && plan->c.leader[v] == v ? v : -1;
}

static int nwaits(const weir_plan *plan, int v)
{
    return plan->merged ? 0 : plan->c.sync_first[v + 1] - plan->c.sync_first[v];
}

static struct weir__item wait_item(const weir_plan *plan, const struct weir__sync *sync)
{
    return (struct weir__item){
        .is_wait = true,
        .lane = sync->stream,
        .item = plan->item[weir__node_at(&plan->c, sync->stream, sync->position)],
    };
}

/* The caller's lane ends with the waits that join the other lanes. They are part of the program, so
 * nothing can fail after it is queued. */
static int njoins(const weir_plan *plan, int lane)
{
    return lane || plan->merged ? 0 : plan->c.njoins;
}

/* Memory that kernels point to, kept until the program is made. */
struct kept {
    unsigned char *args;
    struct weir__call *call;
};

static weir_status keep(struct weir__kernel *k, struct kept *kept)
{
    if ((k->args_size && !(kept->args = weir__malloc(k->args_size))) ||
        (k->call && !(kept->call = weir__call_copy(k->call))))
        return weir__fail_nomem("allocating the arguments of node '%s'", k->name);
    if (k->args_size)
        memcpy(kept->args, k->args, k->args_size);
    k->args = kept->args;
    k->call = kept->call;
    return WEIR_OK;
}

/* Fills the items of one lane: each launch's waits, then the launch; at the end the joins. */
static weir_status fill_lane(const weir_plan *plan, struct weir__instance *inst, int lane,
                             struct weir__item *items, struct kept *kept)
{
    const struct weir__compile *c = &plan->c;
    struct weir__prepared prepared;
    int n = 0;

    for (int p = 0; p < lane_nodes(plan, lane); p++) {
        int v = lane_node(plan, lane, p);
        struct weir__kernel *k;
        weir_status st;

        if (v < 0)
            continue;
        for (int i = 0; i < nwaits(plan, v); i++)
            items[n++] = wait_item(plan, &c->syncs[c->sync_first[v] + i]);
        items[n] = (struct weir__item){0};
        k = &items[n].kernel;
        if ((st = prepare_launch(plan, inst, v, &prepared, k)))
            return st;
        if ((st = keep(k, &kept[n++])))
            return st;
    }
    for (int i = 0; i < njoins(plan, lane); i++)
        items[n++] = wait_item(plan, &c->joins[i]);
    return WEIR_OK;
}

static int lane_items(const weir_plan *plan, int lane)
{
    int n = njoins(plan, lane);

    for (int p = 0; p < lane_nodes(plan, lane); p++) {
        int v = lane_node(plan, lane, p);

        n += v < 0 ? 0 : 1 + nwaits(plan, v);
    }
    return n;
}

void weir__plan_number_items(weir_plan *plan)
{
    for (int lane = 0; lane < plan->nlanes; lane++)
        for (int p = 0, n = 0; p < lane_nodes(plan, lane); p++) {
            int v = lane_node(plan, lane, p);

            if (v >= 0) {
                n += nwaits(plan, v);
                plan->item[v] = n++;
            }
        }
    for (int v = 0; v < plan->graph->nnodes; v++)
        if (plan->c.live[v])
            plan->item[v] = plan->item[plan->c.leader[v]];
}

static weir_status make_program(weir_plan *plan, struct weir__instance *inst)
{
    int nlanes = plan->nlanes, total = 0, at = 0;
    struct weir__lane *lanes = weir__calloc((size_t)nlanes, sizeof *lanes);
    struct weir__item *items = NULL;
    struct kept *kept = NULL;
    weir_status st = WEIR_OK;

    for (int i = 0; i < nlanes; i++)
        total += lane_items(plan, i);
    items = weir__calloc((size_t)total + 1, sizeof *items);
    kept = weir__calloc((size_t)total + 1, sizeof *kept);
    if (!lanes || !items || !kept)
        st = weir__fail_nomem("allocating a program of %d commands", total);
    for (int i = 0; i < nlanes && !st; i++) {
        lanes[i].items = items + at;
        lanes[i].nitems = lane_items(plan, i);
        st = fill_lane(plan, inst, i, items + at, kept + at);
        at += lanes[i].nitems;
    }
    if (!st)
        st = plan->dev->driver->plans->make(plan->dev, lanes, nlanes, &inst->program);
    for (int i = 0; kept && i < total; i++) {
        weir__free(kept[i].args);
        weir__free(kept[i].call);
    }
    weir__free(kept);
    weir__free(items);
    weir__free(lanes);
    return st;
}

/* ---- instances ---- */

static int nbound(const weir_plan *plan)
{
    return plan->graph->ninputs + plan->graph->noutputs;
}

void weir__instance_free(weir_plan *plan, struct weir__instance *inst)
{
    if (!inst)
        return;
    plan->dev->driver->plans->free(inst->program);
    if (inst->arena)
        weir__pool_free(&plan->dev->pool, inst->arena);
    weir__clock_fini(&inst->last_clock);
    for (int v = 0; inst->fused && v < plan->graph->nnodes; v++)
        weir__fused_free(inst->fused[v]);
    weir__free(inst->fused);
    weir__free(inst->bound);
    weir__free(inst->limits);
    weir__free(inst->stale);
    weir__free(inst);
}

struct weir__instance *weir__instance_make(weir_plan *plan, char *const *bound,
                                           const weir_cores *limits)
{
    struct weir__instance *inst = weir__calloc(1, sizeof *inst);
    weir_stream *home = plan->dev->default_stream;
    size_t arena_bytes = plan->c.arena_bytes + plan->literal_bytes;

    if (!inst) {
        weir__fail_nomem("making an instance of a plan");
        return NULL;
    }
    inst->bound = weir__calloc((size_t)nbound(plan) + 1, sizeof *inst->bound);
    inst->limits = weir__calloc((size_t)plan->c.nstreams, sizeof *inst->limits);
    inst->fused = weir__calloc((size_t)plan->graph->nnodes + 1, sizeof *inst->fused);
    inst->stale = weir__calloc((size_t)plan->graph->nnodes + 1, sizeof *inst->stale);
    if (!inst->bound || !inst->limits || !inst->fused || !inst->stale) {
        weir__fail_nomem("making an instance of a plan");
        goto free_instance;
    }
    memcpy(inst->bound, bound, (size_t)nbound(plan) * sizeof *bound);
    memcpy(inst->limits, limits, (size_t)plan->c.nstreams * sizeof *limits);
    if (arena_bytes) {
        if (weir__pool_alloc(&plan->dev->pool, home->slot, arena_bytes, &inst->arena))
            goto free_instance;
        /* The bytes belong to the home stream up to here: the first run is ordered after it. */
        if (weir__clock_copy(&inst->last_clock, &home->clock))
            goto free_instance;
        inst->last = (struct weir__mark){home, weir__stream_submitted(home)};
    }
    if (make_program(plan, inst))
        goto free_instance;
    return inst;

free_instance:
    weir__instance_free(plan, inst);
    return NULL;
}

/* Marks the launches that access an input or output whose address has changed: they are prepared
 * again. */
static void mark_moved(const weir_plan *plan, struct weir__instance *inst, char *const *bound)
{
    for (int slot = 0; slot < nbound(plan); slot++)
        for (int i = plan->touch_first[slot];
             inst->bound[slot] != bound[slot] && i < plan->touch_first[slot + 1]; i++)
            inst->stale[plan->touch_launches[i]] = true;
}

weir_status weir__instance_rebind(weir_plan *plan, struct weir__instance *inst, char *const *bound,
                                  const weir_cores *limits, bool all)
{
    struct weir__prepared prepared;
    struct weir__kernel kernel;
    weir_status st;

    all |= inst->is_half_bound;
    inst->is_half_bound = true;
    mark_moved(plan, inst, bound);
    memcpy(inst->bound, bound, (size_t)nbound(plan) * sizeof *bound);
    memcpy(inst->limits, limits, (size_t)plan->c.nstreams * sizeof *limits);
    for (int v = 0; v < plan->graph->nnodes; v++) {
        if (!plan->c.live[v] || plan->c.leader[v] != v || (!all && !inst->stale[v]))
            continue;
        if ((st = prepare_launch(plan, inst, v, &prepared, &kernel)) ||
            (st = plan->dev->driver->plans->update(
                 inst->program, plan->merged ? 0 : plan->c.stream[v], plan->item[v], &kernel)))
            return st;
        inst->stale[v] = false;
    }
    inst->is_half_bound = inst->is_stale = false;
    return WEIR_OK;
}
