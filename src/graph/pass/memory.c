/* The memory plan: the place of each value and of each node's scratch in the arena.
 *
 * Lifetimes follow from the plan's own order, never from program order alone: on several streams a
 * node early in the program may run late, so the last use in program order need not be the last in
 * time.
 */
#include "graph/pass/memory.h"

#include <stdlib.h>

/* Pairs of items that are kept: enough for all pairs of a graph of some thousand nodes, and for the
 * pairs that a larger graph usually has. */
#define KEPT 2000000
#define KEPT_PER_NODE 32
#define LOOKED_PER_NODE 300

bool weir__value_in_arena(const struct weir__compile *c, int value)
{
    return c->offset[value] >= 0;
}

static int64_t aligned(int64_t bytes)
{
    return weir__div_up(bytes, WEIR__ARENA_ALIGN) * WEIR__ARENA_ALIGN;
}

static int64_t view_bytes(const struct weir__view *v)
{
    return weir__view_numel(v) * (int64_t)weir_dtype_size(v->dtype);
}

/* ---- items: values and scratch ---- */

/* 0 for values in the arena, -1 for others. */
static void mark_values(struct weir__compile *c)
{
    const weir_graph *g = c->g;

    for (int i = 0; i < g->nvalues; i++) {
        const struct weir__value *value = &g->values[i];

        c->offset[i] = value->kind == WEIR__VALUE_NODE && c->live[value->node] ? 0 : -1;
    }
    for (int i = 0; i < g->noutputs; i++)
        c->offset[g->outputs[i].operand.value] = -1;
}

/* For the largest number of cores the node may ever get: the limit of a stream or device can change
 * from run to run, the arena cannot. */
int64_t weir__scratch_bytes(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    const struct weir__view *in[WEIR__OP_MAX_IN];
    struct weir__view out[WEIR__OP_MAX_OUT];
    struct weir__call call = {
        .op = n->op,
        .nin = n->nin,
        .nout = n->nout,
        .in = in,
        .out = out,
        .params = n->params,
        .cores = weir__cores_of(c->g->dev, n->op->engine, c->g->dev->props.cores, c->limit[v]),
        .for_gpu = weir__device_can(c->g->dev, WEIR__RUNS_SOURCE),
        .model = c->g->dev->model,
    };

    if (!n->op->scratch || !weir__device_runs_kernels(c->g->dev))
        return 0;
    for (int i = 0; i < n->nin; i++)
        in[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &n->in[i].view;
    for (int i = 0; i < n->nout; i++)
        out[i] = n->out[i].view;
    return (int64_t)n->op->scratch(&call);
}

static void add_item(struct weir__lifetimes *items, int value, int def, int64_t bytes)
{
    if (bytes)
        items->item[items->n++] = (struct weir__lifetime){
            .size = aligned(bytes), .value = value, .def = def, .last = def};
}

/* Lists items in order of definition; by_value[i] is the item of value i, or -1. */
static void list_items(struct weir__lifetimes *items, int *by_value)
{
    const struct weir__compile *c = items->c;
    const weir_graph *g = c->g;

    for (int i = 0; i < g->nvalues; i++)
        by_value[i] = -1;
    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__node *n = &g->nodes[v];

        if (!c->live[v])
            continue;
        for (int i = 0; i < n->nout; i++) {
            int value = n->out[i].value;
            int before = items->n;

            if (!weir__value_in_arena(c, value) || g->values[value].node != v)
                continue;
            add_item(items, value, v, view_bytes(&g->values[value].view));
            if (items->n > before)
                by_value[value] = before;
        }
        c->scratch_size[v] = aligned(weir__scratch_bytes(c, v));
        add_item(items, -1, v, c->scratch_size[v]);
    }
}

/* ---- lifetimes ---- */

/* The item that the operand touches, or NULL. An empty view touches no bytes, so it needs no
 * order. */
static struct weir__lifetime *touched(struct weir__lifetimes *items, const int *by_value,
                                      const struct weir__operand *o)
{
    if (o->value == WEIR__NO_VALUE || by_value[o->value] < 0 || !weir__view_numel(&o->view))
        return NULL;
    return &items->item[by_value[o->value]];
}

/* Extends the lifetimes of a launch's inputs. An operand that a node of the launch reads at other
 * positions than it writes must stay until the launch ends: otherwise the last node might overwrite
 * it, and the nodes could not be one launch. In a launch by rows, where such operands have rows of
 * other sizes, and in one that absorbs nodes, this holds for all operands. */
static void touch_run(struct weir__lifetimes *items, const int *by_value, int v,
                      void (*fn)(struct weir__lifetimes *, struct weir__lifetime *, int node))
{
    const struct weir__compile *c = items->c;
    struct weir__lifetime *item;
    bool by_rows = items->before[v] < 0;

    for (int k = 1; k <= abs(items->before[v]); k++) {
        const struct weir__node *n =
            &c->g->nodes[weir__node_at(c, c->stream[v], c->position[v] - k)];

        for (int i = 0; i < n->nin; i++)
            if ((item = touched(items, by_value, &n->in[i])) &&
                (by_rows || n->op->flags & WEIR__OP_BESIDE || c->g->nodes[v].op->absorbs ||
                 !weir__operand_is_flat(&n->in[i], n)))
                fn(items, item, v);
    }
}

/* Calls `fn` for each use of an item, in program order. */
static void each_touch(struct weir__lifetimes *items, const int *by_value,
                       void (*fn)(struct weir__lifetimes *, struct weir__lifetime *, int node))
{
    const struct weir__compile *c = items->c;
    struct weir__lifetime *item;

    for (int v = 0; v < c->g->nnodes; v++) {
        const struct weir__node *n = &c->g->nodes[v];

        if (!c->live[v])
            continue;
        for (int i = 0; i < n->nin; i++)
            if ((item = touched(items, by_value, &n->in[i])))
                fn(items, item, v);
        for (int i = 0; i < n->nout; i++)
            if ((item = touched(items, by_value, &n->out[i])))
                fn(items, item, v);
        if (items->before)
            touch_run(items, by_value, v, fn);
    }
}

static void count_touch(struct weir__lifetimes *items, struct weir__lifetime *item, int node)
{
    (void)items;
    (void)node;
    item->nuses++;
}

static void note_touch(struct weir__lifetimes *items, struct weir__lifetime *item, int node)
{
    items->uses[item->first_use + item->nuses++] = node;
    item->last = node;
}

/* Keeps only the uses that decide when the item is dead: the last use on each stream, and of those
 * only the ones that the very last use is not already ordered after. */
static void shorten_uses(struct weir__lifetimes *items, struct weir__lifetime *item, int *seen,
                         int mark)
{
    const struct weir__compile *c = items->c;
    int end = item->first_use + item->nuses, kept = end;

    for (int i = end - 1; i >= item->first_use; i--) {
        int u = items->uses[i];

        if (seen[c->stream[u]] == mark || weir__reach_before(&items->reach, c, u, item->last))
            continue;
        seen[c->stream[u]] = mark;
        items->uses[--kept] = u;
    }
    item->first_use = kept;
    item->nuses = end - kept;
}

static weir_status find_uses(struct weir__lifetimes *items, const int *by_value)
{
    const struct weir__compile *c = items->c;
    int *seen = weir__calloc((size_t)c->nstreams, sizeof *seen);
    int total = 0;

    each_touch(items, by_value, count_touch);
    for (int i = 0; i < items->n; i++) {
        struct weir__lifetime *item = &items->item[i];

        item->first_use = total;
        total += item->value < 0 ? 1 : item->nuses;
        item->nuses = 0;
    }
    if (!seen || !(items->uses = weir__calloc((size_t)total, sizeof *items->uses))) {
        weir__free(seen);
        return weir__fail_nomem("allocating %d uses of values", total);
    }
    each_touch(items, by_value, note_touch);
    for (int i = 0; i < items->n; i++) {
        if (items->item[i].value < 0)
            note_touch(items, &items->item[i], items->item[i].def);
        shorten_uses(items, &items->item[i], seen, i + 1);
    }
    weir__free(seen);
    return WEIR_OK;
}

/* Computes the bytes alive beside each node in program order. Items alive together there are alive
 * together in every plan: an item that dies before another's definition in a plan also does so in
 * program order. So their maximum is a lower bound for every plan. */
static weir_status find_alive(struct weir__lifetimes *items, int64_t *most)
{
    int nnodes = items->c->g->nnodes;
    int64_t sum = 0;

    if (!(items->alive = weir__calloc((size_t)nnodes + 1, sizeof *items->alive)))
        return weir__fail_nomem("allocating live bytes of %d nodes", nnodes);
    for (int i = 0; i < items->n; i++) {
        items->alive[items->item[i].def] += items->item[i].size;
        items->alive[items->item[i].last + 1] -= items->item[i].size;
    }
    *most = 0;
    for (int v = 0; v < nnodes; v++) {
        sum += items->alive[v];
        items->alive[v] = sum;
        *most = weir__max(*most, sum);
    }
    return WEIR_OK;
}

/* ---- placing ---- */

static weir_status place(struct weir__compile *c, const struct weir__lifetimes *items,
                         struct weir__memory_effort effort)
{
    int64_t *offset = weir__calloc((size_t)items->n, sizeof *offset);
    bool too_many;
    int64_t top;
    weir_status st;

    if (!offset)
        return weir__fail_nomem("allocating offsets of %d values", items->n);
    st = weir__memory_fit(items, (int64_t)c->lower_bound, effort.kept, offset, &top, &too_many);
    if (!st && too_many)
        st = weir__memory_ordered(items, effort.looked, offset, &top, &too_many);
    if (!st && too_many)
        st = weir__memory_sweep(items, offset, &top);
    for (int i = 0; i < items->n && !st; i++) {
        const struct weir__lifetime *item = &items->item[i];

        *(item->value < 0 ? &c->scratch_offset[item->def] : &c->offset[item->value]) = offset[i];
    }
    if (!st)
        c->arena_bytes = (size_t)top;
    weir__free(offset);
    return st;
}

/* The number of nodes before each one that could be one launch with it; negative if by rows. */
static void list_runs(const struct weir__compile *c, int *before)
{
    weir__fuse_runs(c, before);
    for (int v = 0; v < c->g->nnodes; v++) {
        int absorbed = c->live[v] ? weir__absorbed_before(c, v) : 0;

        before[v] = absorbed ? absorbed : before[v];
    }
}

static weir_status plan(struct weir__compile *c, struct weir__lifetimes *items, int *by_value,
                        struct weir__memory_effort effort)
{
    int64_t lower_bound = 0;
    weir_status st;

    mark_values(c);
    list_items(items, by_value);
    if (items->before)
        list_runs(c, items->before);
    if ((st = find_uses(items, by_value)) || (st = find_alive(items, &lower_bound)))
        return st;
    c->lower_bound = (size_t)lower_bound;
    return place(c, items, effort);
}

weir_status weir__memory_plan(struct weir__compile *c, struct weir__memory_effort effort)
{
    size_t nnodes = (size_t)c->g->nnodes, nvalues = (size_t)c->g->nvalues;
    struct weir__lifetimes items = {.c = c};
    int *by_value = weir__calloc(nvalues, sizeof *by_value);
    bool runs = weir__is_autotuned(&c->options);
    weir_status st;

    c->offset = weir__calloc(nvalues, sizeof *c->offset);
    c->scratch_offset = weir__calloc(nnodes, sizeof *c->scratch_offset);
    c->scratch_size = weir__calloc(nnodes, sizeof *c->scratch_size);
    items.item = weir__calloc(nvalues + nnodes, sizeof *items.item);
    if (runs)
        items.before = weir__calloc(nnodes, sizeof *items.before);
    if (by_value && c->offset && c->scratch_offset && c->scratch_size && items.item &&
        (items.before || !runs))
        st = weir__reach_init(&items.reach, c);
    else
        st = weir__fail_nomem("planning the memory of %zu values", nvalues);
    if (!st)
        st = plan(c, &items, by_value, effort);
    weir__reach_fini(&items.reach);
    weir__free(items.alive);
    weir__free(items.uses);
    weir__free(items.before);
    weir__free(items.item);
    weir__free(by_value);
    return st;
}

weir_status weir__pass_memory(struct weir__compile *c)
{
    int64_t nnodes = c->g->nnodes;

    return weir__memory_plan(c, (struct weir__memory_effort){
                                    .kept = KEPT + KEPT_PER_NODE * nnodes,
                                    .looked = LOOKED_PER_NODE * nnodes,
                                });
}
