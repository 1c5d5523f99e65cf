/* What must run before what: data, hazards and control.
 *
 * For each value the builder keeps the writes and reads that no later write has covered. Views are
 * compared by the byte ranges they span, so two halves of one buffer do not wait for each other.
 */
#include "graph/build/graph.h"

/* One use of a value, a link in a list, newest first. */
struct use {
    int node, next;
    uintptr_t from, to; /* bytes within the value */
};

/* By value: heads of the lists of its reads and writes, indices into `uses`; -1 ends a list. The
 * lists are separate because reads need no order among each other. */
struct lists {
    int reads, writes;
};

struct builder {
    const weir_graph *g;
    struct use *uses;
    int nuses, cap_uses;
    struct lists *lists; /* by value */
    int *seen;           /* by node: the last node that has it as a predecessor */
    int *preds;
    int npreds, cap_preds;
};

static bool add_pred(struct builder *b, int node, int pred)
{
    if (b->seen[pred] == node)
        return true;
    if (!weir__grow(&b->preds, b->npreds, &b->cap_preds, sizeof *b->preds))
        return false;
    b->seen[pred] = node;
    b->preds[b->npreds++] = pred;
    return true;
}

/* A view of no bytes still orders nodes (tokens are such views): it counts as one byte. */
static void span(const struct weir__operand *o, uintptr_t *from, uintptr_t *to)
{
    const char *first, *last;

    weir__view_span(&o->view, &first, &last);
    *from = (uintptr_t)first;
    *to = (uintptr_t)last + (first == last);
}

/* Orders u after every use in the list that it overlaps. A write removes the uses that it covers
 * entirely: every later use that overlaps them is ordered after the write, and so after them. */
static bool order_after(struct builder *b, const struct use *u, int *link, bool write)
{
    while (*link >= 0) {
        struct use *old = &b->uses[*link];
        bool overlaps = old->from < u->to && u->from < old->to && old->node != u->node;

        if (overlaps && !add_pred(b, u->node, old->node))
            return false;
        if (overlaps && write && u->from <= old->from && old->to <= u->to)
            *link = old->next;
        else
            link = &old->next;
    }
    return true;
}

static bool add_use(struct builder *b, int node, const struct weir__operand *o, bool write)
{
    struct lists *l = &b->lists[o->value];
    int *list = write ? &l->writes : &l->reads;
    struct use u = {.node = node};

    span(o, &u.from, &u.to);
    if (!order_after(b, &u, &l->writes, write) || (write && !order_after(b, &u, &l->reads, true)))
        return false;
    if (!weir__grow(&b->uses, b->nuses, &b->cap_uses, sizeof *b->uses))
        return false;
    u.next = *list;
    b->uses[b->nuses] = u;
    *list = b->nuses++;
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
    b.lists = weir__malloc((size_t)g->nvalues * sizeof *b.lists);
    b.seen = weir__malloc((size_t)g->nnodes * sizeof *b.seen);
    ok = out->first && b.lists && b.seen;
    for (int i = 0; ok && i < g->nvalues; i++)
        b.lists[i] = (struct lists){-1, -1};
    for (int i = 0; ok && i < g->nnodes; i++)
        b.seen[i] = -1;
    for (int v = 0; ok && v < g->nnodes; v++) {
        ok = add_node(&b, v);
        out->first[v + 1] = b.npreds;
    }
    out->preds = b.preds;
    weir__free(b.uses);
    weir__free(b.lists);
    weir__free(b.seen);
    if (ok)
        return WEIR_OK;
    weir__edges_fini(out);
    return weir__fail_nomem("allocating the edges of %d nodes", g->nnodes);
}

void weir__edges_fini(struct weir__edges *e)
{
    weir__free(e->first);
    weir__free(e->preds);
    *e = (struct weir__edges){0};
}
