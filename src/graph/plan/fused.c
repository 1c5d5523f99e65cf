/* Several nodes as one launch: super kernels, and chains that run piece by piece or a few rows at a
 * time. A device that compiles its kernels gets such a launch as one source. */
#include "graph/plan/plan.h"

#include <string.h>

#include "graph/pass/fuse.h"

/* Elementwise blocks begin at multiples of this many elements: WEIR__OP_ELEMENTWISE. */
enum { CUT = 64 };

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

/* Values that only the launch uses are in the upper half of the block's memory; the lower half is
 * the kernels'. A slot holds the part's elements or rows from `begin` on. */
static weir_status run_part(const struct weir__fused *f, const struct weir__fused_part *part,
                            const weir_block *piece, int64_t begin)
{
    _Alignas(64) unsigned char args[WEIR_ARGS_MAX];
    char *slots = (char *)piece->local + WEIR_LOCAL_BYTES / 2;

    if (!part->nprivate)
        return part->fn(part->args, piece);
    memcpy(args, part->args, part->args_size);
    for (int i = 0; i < part->nprivate; i++)
        part->place(args, part->private[i].operand,
                    slots + (size_t)part->private[i].slot * f->slot_bytes +
                        part->private[i].offset - begin * part->private[i].step);
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
            weir_status st = run_part(f, &f->parts[p], &piece, (int64_t)i * f->piece);

            if (st)
                return st;
        }
    }
    return WEIR_OK;
}

static weir_status run_rows(const void *args, const weir_block *block)
{
    const struct weir__fused *f = *(struct weir__fused *const *)args;
    struct weir__rows_block piece = {.block = *block, .rows = f->rows};
    int64_t last = (int64_t)f->pieces * (block->index + 1) / block->count;

    piece.block.count = 0;
    for (int64_t i = (int64_t)f->pieces * block->index / block->count; i < last; i++) {
        piece.begin = i * f->piece;
        piece.end = weir__min(f->rows, piece.begin + f->piece);
        for (int p = 0; p < f->n; p++) {
            weir_status st = run_part(f, &f->parts[p], &piece.block, piece.begin);

            if (st)
                return st;
        }
    }
    return WEIR_OK;
}

static weir_status run_absorbing(const void *args, const weir_block *block)
{
    const struct weir__fused *f = *(struct weir__fused *const *)args;
    const void *makers[WEIR__ABSORBED_MOST];

    for (int i = 0; i < f->n - 1; i++)
        makers[i] = f->parts[i].args;
    return f->absorbing(f->parts[f->n - 1].args, makers, f->n - 1, block);
}

void weir__fused_free(struct weir__fused *f)
{
    for (int i = 0; f && i < f->n; i++)
        weir__free(f->parts[i].args);
    weir__free(f);
}

/* Copies a prepared kernel and its arguments into the part. */
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

/* Records which operands of node v are in slots of the launch. */
static void set_private(const struct weir__compile *c, int v, int64_t rows,
                        struct weir__fused_part *part)
{
    const struct weir__node *n = &c->g->nodes[v];

    part->place = n->op->place;
    part->nprivate = 0;
    for (int i = -1; i < n->nin; i++) {
        const struct weir__operand *o = i < 0 ? &n->out[0] : &n->in[i];

        if (o->value == WEIR__NO_VALUE || c->slot[o->value] < 0)
            continue;
        part->private[part->nprivate].operand = (int8_t)i;
        part->private[part->nprivate].slot = c->slot[o->value];
        part->private[part->nprivate].step =
            rows ? weir__row_bytes(c, o->value, rows) : (int64_t)weir_dtype_size(o->view.dtype);
        part->private[part->nprivate++].offset = (int64_t)(uintptr_t)o->view.data;
    }
}

/* Sets the size of pieces: a number of elements, or of rows such that the longest row times the
 * number is about as many elements and the slots fit. */
static void cut(const struct weir__compile *c, int leader, int n, struct weir__fused *f)
{
    int64_t numel = weir__view_numel(&c->g->nodes[leader].out[0].view), row = 1, slot = 1;

    f->rows = c->rows[leader];
    f->slot_bytes = WEIR__PIECE * sizeof(double);
    f->pieces = (uint32_t)weir__div_up(numel, WEIR__PIECE);
    f->piece = weir__div_up(weir__div_up(numel, weir__max(f->pieces, 1)), CUT) * CUT;
    if (!f->rows)
        return;
    for (int i = 0; i < n; i++) {
        int v = weir__node_at(c, c->stream[leader], c->position[leader] + i);
        const struct weir__operand *out = &c->g->nodes[v].out[0];

        row = weir__max(row, weir__view_numel(&out->view) / f->rows);
        if (c->slot[out->value] >= 0)
            slot = weir__max(slot, weir__row_bytes(c, out->value, f->rows));
    }
    f->piece = weir__max(1, weir__min(WEIR__PIECE / row, WEIR__ROW_SLOT / slot));
    f->piece = weir__min(f->piece, f->rows);
    f->slot_bytes = (size_t)weir__div_up(f->piece * slot, WEIR__LINE) * WEIR__LINE;
    f->pieces = (uint32_t)weir__div_up(f->rows, f->piece);
}

/* Adds a node's demands to its launch. The sum `ns` is divided among blocks and phases later. */
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

/* Replaces the launch by the kernel of its last part, which does the work of all parts. */
static void absorb(const struct weir__node *last, struct weir__fused *f, struct weir__kernel *all)
{
    const struct weir__fused_part *part = &f->parts[f->n - 1];

    f->absorbing = last->op->run_absorbing;
    all->fn = run_absorbing;
    all->name = last->name;
    all->engine = last->op->engine;
    all->blocks = part->blocks;
    all->phases = part->phases;
}

/* Prepares the parts for a host function that calls them in turn. */
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
        cut(c, leader, n, *slot);
    for (int i = 0; i < n; i++) {
        int v = weir__node_at(c, c->stream[leader], c->position[leader] + i);
        struct weir__kernel k;
        weir_status st = weir__plan_prepare(plan, inst, v, p, &k);

        if (st || (st = set_part(&(*slot)->parts[i], &k)))
            return st;
        if (c->chunked[leader])
            set_private(c, v, (*slot)->rows, &(*slot)->parts[i]);
        add_node(all, &k, ns);
    }
    all->fn = !c->chunked[leader] ? run_fused : (*slot)->rows ? run_rows : run_chunked;
    if (c->absorbs[leader])
        absorb(
            &plan->graph->nodes[weir__node_at(c, c->stream[leader], c->position[leader] + n - 1)],
            *slot, all);
    all->args = slot;
    all->args_size = sizeof *slot;
    return WEIR_OK;
}

/* Prepares the parts as one source (join.c has checked that this is possible). */
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
        if (!k.code) /* none of the parts has elements */
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
    bool chunked = plan->c.chunked[leader], named = chunked || plan->c.absorbs[leader];
    uint64_t ns = 0;
    weir_status st;

    *kernel = (struct weir__kernel){
        .name = named ? first->name : plan->graph->super_kernels[first->marks.super_kernel].name,
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
