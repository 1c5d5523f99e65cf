/* From decisions to programs. */
#include "graph/plan.h"

#include <stdio.h>
#include <string.h>

/* Where a value's first element is. */
static char *value_base(const weir_plan *plan, const struct weir__instance *inst, int value)
{
    const struct weir__value *v = &plan->graph->values[value];

    if (v->kind == WEIR__VALUE_CONSTANT)
        return v->constant->buffer->address;
    if (plan->slot_of[value] >= 0)
        return inst->bound[plan->slot_of[value]];
    return inst->arena->address + plan->c.offset[value];
}

static struct weir__view resolve(const weir_plan *plan, const struct weir__instance *inst,
                                 const struct weir__operand *o)
{
    struct weir__view v = o->view;

    v.data = value_base(plan, inst, o->value) + (uintptr_t)o->view.data;
    return v;
}

/* The same estimate as for eager calls decides what is too short to share. */
static uint32_t estimate(const struct weir__op *op, const struct weir__call *call, unsigned parts)
{
    struct weir__cost cost = {0, 0};
    double ns;

    op->cost(call, &cost);
    ns = weir__cost_ns(&cost) / parts;
    return ns < 4e9 ? (uint32_t)ns : UINT32_MAX - 1;
}

/* Kernel and arguments of node v; work must outlive the kernel. */
static weir_status prepare(const weir_plan *plan, const struct weir__instance *inst, int v,
                           struct weir__work *work, struct weir__kernel *kernel)
{
    const struct weir__node *n = &plan->graph->nodes[v];
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    int lane = plan->c.stream[v];
    struct weir__call call = {
        .op = n->op,
        .nin = n->nin,
        .nout = n->nout,
        .in = ins,
        .out = out,
        .params = n->params,
        .cores = weir__cores_of(plan->dev, n->op->engine, inst->limits[lane], plan->c.limit[v]),
    };
    weir_status st;

    for (int i = 0; i < n->nin; i++) {
        ins[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &in[i];
        if (ins[i])
            in[i] = resolve(plan, inst, &n->in[i]);
    }
    for (int i = 0; i < n->nout; i++)
        out[i] = resolve(plan, inst, &n->out[i]);
    if (plan->c.scratch_size[v])
        call.scratch = inst->arena->address + plan->c.scratch_offset[v];
    work->blocks = work->phases = 1;
    work->args_size = 0;
    work->fn = NULL;
    if ((st = n->op->prepare(&call, work)))
        return st;
    *kernel = (struct weir__kernel){
        .name = n->name,
        .fn = work->blocks ? work->fn : NULL,
        .args = work->args,
        .args_size = (uint32_t)work->args_size,
        .engine = n->op->engine,
        .blocks = work->blocks ? work->blocks : 1,
        .phases = work->phases,
        .cores = call.cores,
        .gang = (n->op->flags & WEIR__OP_GANG) && work->blocks > 1,
        .work_ns = work->blocks ? estimate(n->op, &call, work->blocks * work->phases) : 0,
    };
    return WEIR_OK;
}

/* ---- items ---- */

/* Fills items of one lane: each node's waits, then the node. */
static weir_status fill_lane(const weir_plan *plan, const struct weir__instance *inst, int lane,
                             struct weir__item *items, unsigned char **args)
{
    const struct weir__compile *c = &plan->c;
    struct weir__work work;
    int n = 0;

    for (int p = 0; p < c->streams[lane].nnodes; p++) {
        int v = weir__node_at(c, lane, p);
        weir_status st;

        for (int i = c->sync_first[v]; i < c->sync_first[v + 1]; i++)
            items[n++] = (struct weir__item){
                .is_wait = true,
                .lane = c->syncs[i].stream,
                .item = plan->item[weir__node_at(c, c->syncs[i].stream, c->syncs[i].position)],
            };
        items[n] = (struct weir__item){0};
        if ((st = prepare(plan, inst, v, &work, &items[n].kernel)))
            return st;
        if (work.args_size) {
            if (!(args[n] = weir__malloc(work.args_size)))
                return weir__fail(WEIR_ENOMEM, "the arguments of node '%s'",
                                  plan->graph->nodes[v].name);
            memcpy(args[n], work.args, work.args_size);
        }
        items[n].kernel.args = args[n];
        n++;
    }
    return WEIR_OK;
}

static int lane_items(const struct weir__compile *c, int lane)
{
    int n = c->streams[lane].nnodes;

    for (int p = 0; p < c->streams[lane].nnodes; p++) {
        int v = weir__node_at(c, lane, p);

        n += c->sync_first[v + 1] - c->sync_first[v];
    }
    return n;
}

static weir_status make_program(weir_plan *plan, struct weir__instance *inst)
{
    int nlanes = plan->c.nstreams, total = 0, at = 0;
    struct weir__lane *lanes = weir__calloc((size_t)nlanes, sizeof *lanes);
    struct weir__item *items = NULL;
    unsigned char **args = NULL;
    weir_status st = WEIR_OK;

    for (int i = 0; i < nlanes; i++)
        total += lane_items(&plan->c, i);
    items = weir__calloc((size_t)total + 1, sizeof *items);
    args = weir__calloc((size_t)total + 1, sizeof *args);
    if (!lanes || !items || !args)
        st = weir__fail(WEIR_ENOMEM, "a program of %d commands", total);
    for (int i = 0; i < nlanes && !st; i++) {
        lanes[i].items = items + at;
        lanes[i].nitems = lane_items(&plan->c, i);
        st = fill_lane(plan, inst, i, items + at, args + at);
        at += lanes[i].nitems;
    }
    if (!st)
        st = plan->dev->driver->program_make(plan->dev, lanes, nlanes, &inst->program);
    for (int i = 0; args && i < total; i++)
        weir__free(args[i]);
    weir__free(args);
    weir__free(items);
    weir__free(lanes);
    return st;
}

/* ---- instances ---- */

static int nbound(const weir_plan *plan) { return plan->graph->ninputs + plan->graph->noutputs; }

void weir__instance_free(weir_plan *plan, struct weir__instance *inst)
{
    if (!inst)
        return;
    plan->dev->driver->program_free(inst->program);
    if (inst->arena)
        weir__pool_free(&plan->dev->pool, inst->arena);
    weir__clock_fini(&inst->last_clock);
    weir__free(inst->bound);
    weir__free(inst->limits);
    weir__free(inst);
}

struct weir__instance *weir__instance_make(weir_plan *plan, char *const *bound,
                                           const weir_cores *limits)
{
    struct weir__instance *inst = weir__calloc(1, sizeof *inst);
    weir_stream *home = plan->dev->default_stream;

    if (!inst) {
        weir__fail(WEIR_ENOMEM, "an instance of a plan");
        return NULL;
    }
    inst->bound = weir__calloc((size_t)nbound(plan) + 1, sizeof *inst->bound);
    inst->limits = weir__calloc((size_t)plan->c.nstreams, sizeof *inst->limits);
    if (!inst->bound || !inst->limits) {
        weir__fail(WEIR_ENOMEM, "an instance of a plan");
        goto free_instance;
    }
    memcpy(inst->bound, bound, (size_t)nbound(plan) * sizeof *bound);
    memcpy(inst->limits, limits, (size_t)plan->c.nstreams * sizeof *limits);
    if (plan->c.arena_bytes) {
        if (weir__pool_alloc(&plan->dev->pool, home->slot, plan->c.arena_bytes, &inst->arena))
            goto free_instance;
        /* The bytes are the home stream's from here on: whoever runs first comes after. */
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

weir_status weir__instance_rebind(weir_plan *plan, struct weir__instance *inst, char *const *bound,
                                  const weir_cores *limits, bool all)
{
    struct weir__kernel kernel;
    struct weir__work work;
    weir_status st;

    memcpy(inst->bound, bound, (size_t)nbound(plan) * sizeof *bound);
    memcpy(inst->limits, limits, (size_t)plan->c.nstreams * sizeof *limits);
    for (int v = 0; v < plan->graph->nnodes; v++) {
        if (!plan->c.live[v] || (!all && !plan->external[v]))
            continue;
        if ((st = prepare(plan, inst, v, &work, &kernel)))
            return st;
        plan->dev->driver->program_update(inst->program, plan->c.stream[v], plan->item[v], &kernel);
    }
    return WEIR_OK;
}
