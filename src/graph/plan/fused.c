/* Several nodes as one launch: super kernels, and elementwise chains, which devices that compile
 * their kernels get as one text. */
#include "graph/plan/plan.h"

#include <string.h>

static weir_status run_fused(const void *args, const weir_block *block)
{
    const struct weir__fused *f = *(struct weir__fused *const *)args;
    const struct weir__fused_part *part = f->parts;
    weir_block inner = *block;

    while (inner.phase >= part->phases)
        inner.phase -= part++->phases;
    inner.count = part->blocks;
    return inner.index < inner.count ? part->fn(part->args, &inner) : WEIR_OK;
}

/* What only the launch itself needs is kept in the upper half of the block's memory; kernels have
 * the lower one. */
enum { SLOT_BYTES = WEIR__PIECE * sizeof(double) };

static weir_status run_part(const struct weir__fused_part *part, const weir_block *piece)
{
    _Alignas(64) unsigned char args[WEIR_ARGS_MAX];
    char *slots = (char *)piece->local + WEIR_LOCAL_BYTES / 2;

    if (!part->nprivate)
        return part->fn(part->args, piece);
    memcpy(args, part->args, part->args_size);
    for (int i = 0; i < part->nprivate; i++)
        part->place(args, part->private[i].operand,
                    slots + (size_t)part->private[i].slot * SLOT_BYTES, piece);
    return part->fn(args, piece);
}

static weir_status run_chunked(const void *args, const weir_block *block)
{
    const struct weir__fused *f = *(struct weir__fused *const *)args;
    weir_block piece = *block;
    uint64_t last = (uint64_t)f->pieces * (block->index + 1) / block->count;

    piece.count = f->pieces;
    for (uint64_t i = (uint64_t)f->pieces * block->index / block->count; i < last; i++) {
        piece.index = (unsigned)i;
        for (int p = 0; p < f->n; p++) {
            weir_status st = run_part(&f->parts[p], &piece);

            if (st)
                return st;
        }
    }
    return WEIR_OK;
}

void weir__fused_free(struct weir__fused *f)
{
    for (int i = 0; f && i < f->n; i++)
        weir__free(f->parts[i].args);
    weir__free(f);
}

/* Puts a prepared kernel in its place. */
static weir_status set_part(struct weir__fused_part *part, const struct weir__kernel *k)
{
    if (!part->args || k->args_size > part->args_room) {
        weir__free(part->args);
        part->args_room = k->args_size;
        if (!(part->args = weir__malloc(k->args_size)))
            return weir__fail_nomem("allocating the arguments of node '%s'", k->name);
    }
    if (k->args_size)
        memcpy(part->args, k->args, k->args_size);
    part->fn = k->fn;
    part->args_size = k->args_size;
    part->blocks = k->fn ? k->blocks : 0;
    part->phases = k->phases;
    return WEIR_OK;
}

/* Which operands of node v only its launch knows. */
static void set_private(const struct weir__compile *c, int v, struct weir__fused_part *part)
{
    const struct weir__node *n = &c->g->nodes[v];

    part->place = n->op->place;
    part->nprivate = 0;
    for (int i = -1; i < n->nin; i++) {
        int value = i < 0 ? n->out[0].value : n->in[i].value;

        if (value != WEIR__NO_VALUE && c->slot[value] >= 0) {
            part->private[part->nprivate].operand = (int8_t)i;
            part->private[part->nprivate++].slot = c->slot[value];
        }
    }
}

/* What a node adds to its launch: of `ns` each block and phase will get its share. */
static void add_node(struct weir__kernel *all, const struct weir__kernel *k, uint64_t *ns)
{
    if (k->engine != all->engine)
        all->engine = WEIR_ENGINE_MIX;
    all->blocks = k->blocks > all->blocks ? k->blocks : all->blocks;
    all->cores = k->cores > all->cores ? k->cores : all->cores;
    all->phases += k->phases;
    all->never_timeout |= k->never_timeout;
    *ns += (uint64_t)k->work_ns * k->blocks * k->phases;
    all->flops += k->flops;
    all->bytes += k->bytes;
    all->scope = k->scope;
}

/* The parts, called by a function of the host. */
static weir_status prepare_parts(const weir_plan *plan, struct weir__instance *inst, int leader,
                                 int n, struct weir__prepared *p, struct weir__kernel *all,
                                 uint64_t *ns)
{
    const struct weir__compile *c = &plan->c;
    struct weir__fused **slot = &inst->fused[leader];

    if (!*slot && !(*slot = weir__calloc(1, sizeof **slot + (size_t)n * sizeof *(*slot)->parts)))
        return weir__fail_nomem("opening super kernel '%s'", all->name);
    (*slot)->n = n;
    if (c->chunked[leader])
        (*slot)->pieces = (uint32_t)weir__div_up(
            weir__view_numel(&plan->graph->nodes[leader].out[0].view), WEIR__PIECE);
    for (int i = 0; i < n; i++) {
        int v = weir__node_at(c, c->stream[leader], c->position[leader] + i);
        struct weir__kernel k;
        weir_status st = weir__plan_prepare(plan, inst, v, p, &k);

        if (st || (st = set_part(&(*slot)->parts[i], &k)))
            return st;
        if (c->chunked[leader])
            set_private(c, v, &(*slot)->parts[i]);
        add_node(all, &k, ns);
    }
    all->fn = c->chunked[leader] ? run_chunked : run_fused;
    all->args = slot;
    all->args_size = sizeof *slot;
    return WEIR_OK;
}

/* The parts, joined to one text (join.c has tried that they can be). */
static weir_status prepare_joined(const weir_plan *plan, struct weir__instance *inst, int leader,
                                  int n, struct weir__prepared *p, struct weir__kernel *all,
                                  uint64_t *ns)
{
    const struct weir__compile *c = &plan->c;
    _Alignas(64) unsigned char joined[WEIR_ARGS_MAX] = {0};

    for (int i = 0; i < n; i++) {
        int v = weir__node_at(c, c->stream[leader], c->position[leader] + i);
        struct weir__kernel k;
        weir_status st = weir__plan_prepare(plan, inst, v, p, &k);

        if (st)
            return st;
        add_node(all, &k, ns);
        if (!k.code) /* no elements, in any of them */
            continue;
        if (!k.code->join || !k.code->join(joined, k.args, weir__node_is_kept(c, &c->g->nodes[v])))
            return weir__fail(WEIR_EINTERNAL, "node '%s' does not fit into the launch of '%s'",
                              k.name, all->name);
        all->fn = k.fn;
        all->code = k.code->joined;
        all->args_size = k.code->joined_size;
    }
    memcpy(p->work.args, joined, sizeof joined);
    all->args = p->work.args;
    return WEIR_OK;
}

weir_status weir__plan_prepare_fused(const weir_plan *plan, struct weir__instance *inst, int leader,
                                     int n, struct weir__prepared *p, struct weir__kernel *kernel)
{
    const struct weir__node *first = &plan->graph->nodes[leader];
    bool chunked = plan->c.chunked[leader];
    uint64_t ns = 0;
    weir_status st;

    *kernel = (struct weir__kernel){
        .name = chunked ? first->name : plan->graph->super_kernels[first->marks.super_kernel].name,
        .engine = first->op->engine,
        .own_cores = true,
    };
    st = weir__device_can(plan->dev, WEIR__RUNS_SOURCE)
             ? prepare_joined(plan, inst, leader, n, p, kernel, &ns)
             : prepare_parts(plan, inst, leader, n, p, kernel, &ns);
    if (st)
        return st;
    if (chunked)
        kernel->phases = 1;
    ns /= (uint64_t)kernel->blocks * kernel->phases;
    kernel->work_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX - 1;
    return WEIR_OK;
}
