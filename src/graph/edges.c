/* What must run before what: data, hazards and control.
 *
 * Per value the last writes and the reads since are kept. Views are compared by the
 * byte ranges they span, so two halves of one buffer do not wait for each other.
 */
#include "graph/graph.h"

#include <string.h>

/* One use of a value, a link in a list per value, newest first. */
struct use {
    int node, next;
    bool write;
    uintptr_t from, to; /* bytes within the value */
};

struct builder {
    const weir_graph *g;
    struct use *uses;
    int nuses, cap_uses;
    int *newest; /* by value: index into uses, -1 */
    int *seen;   /* by node: the last node that has it as a predecessor */
    int *preds;
    int npreds, cap_preds;
};

static bool reserve(void *array, int n, int *cap, size_t size)
{
    void *old, *fresh;
    int want = *cap ? 2 * *cap : 64;

    if (n < *cap)
        return true;
    memcpy(&old, array, sizeof old);
    if (!(fresh = weir__malloc((size_t)want * size)))
        return false;
    if (n)
        memcpy(fresh, old, (size_t)n * size);
    weir__free(old);
    memcpy(array, &fresh, sizeof fresh);
    *cap = want;
    return true;
}

static bool add_pred(struct builder *b, int node, int pred)
{
    if (b->seen[pred] == node)
        return true;
    if (!reserve(&b->preds, b->npreds, &b->cap_preds, sizeof *b->preds))
        return false;
    b->seen[pred] = node;
    b->preds[b->npreds++] = pred;
    return true;
}

static void span(const struct weir__operand *o, uintptr_t *from, uintptr_t *to)
{
    const char *first, *last;

    weir__view_span(&o->view, &first, &last);
    *from = (uintptr_t)first;
    *to = (uintptr_t)last;
}

/* Everything the use conflicts with comes before it. A write that covers older uses
 * stands for them from then on: whoever comes after it is after them. */
static bool add_use(struct builder *b, int node, const struct weir__operand *o, bool write)
{
    struct use u = {.node = node, .write = write};
    int *link = &b->newest[o->value];

    span(o, &u.from, &u.to);
    while (*link >= 0) {
        struct use *old = &b->uses[*link];
        bool overlaps = old->from < u.to && u.from < old->to;

        if (overlaps && (write || old->write) && old->node != node && !add_pred(b, node, old->node))
            return false;
        if (write && overlaps && u.from <= old->from && old->to <= u.to && old->node != node)
            *link = old->next;
        else
            link = &old->next;
    }
    if (!reserve(&b->uses, b->nuses, &b->cap_uses, sizeof *b->uses))
        return false;
    u.next = b->newest[o->value];
    b->uses[b->nuses] = u;
    b->newest[o->value] = b->nuses++;
    return true;
}

static bool add_node(struct builder *b, int v)
{
    const struct weir__node *n = &b->g->nodes[v];
    const struct weir__operand *writes;
    int nwrites;

    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value != WEIR__NO_VALUE && !add_use(b, v, &n->in[i], false))
            return false;
    writes = weir__node_writes(n, &nwrites);
    for (int i = 0; i < nwrites; i++)
        if (!add_use(b, v, &writes[i], true))
            return false;
    for (int i = 0; i < n->ncontrol; i++)
        if (!add_pred(b, v, n->control[i]))
            return false;
    return true;
}

weir_status weir__graph_edges(const weir_graph *g, struct weir__edges *out)
{
    struct builder b = {.g = g};
    bool ok;

    *out = (struct weir__edges){0};
    out->first = weir__calloc((size_t)g->nnodes + 1, sizeof *out->first);
    b.newest = weir__malloc((size_t)g->nvalues * sizeof *b.newest);
    b.seen = weir__malloc((size_t)g->nnodes * sizeof *b.seen);
    ok = out->first && b.newest && b.seen;
    for (int i = 0; ok && i < g->nvalues; i++)
        b.newest[i] = -1;
    for (int i = 0; ok && i < g->nnodes; i++)
        b.seen[i] = -1;
    for (int v = 0; ok && v < g->nnodes; v++) {
        ok = add_node(&b, v);
        out->first[v + 1] = b.npreds;
    }
    out->preds = b.preds;
    weir__free(b.uses);
    weir__free(b.newest);
    weir__free(b.seen);
    if (ok)
        return WEIR_OK;
    weir__edges_fini(out);
    return weir__fail(WEIR_ENOMEM, "the edges of %d nodes", g->nnodes);
}

void weir__edges_fini(struct weir__edges *e)
{
    weir__free(e->first);
    weir__free(e->preds);
    *e = (struct weir__edges){0};
}
