/* Elementwise chains in one pass over memory: a launch runs all its operators on one piece
 * of the tensor, then on the next, so that what one writes the next finds in the cache.
 *
 * Nothing may be written that an operator of the launch still needs at another place: bytes
 * that one of them writes are touched by the others only at the same positions. Memory is
 * placed before this pass, so values that share bytes show here.
 */
#include "graph/compile.h"

#include <string.h>

enum { MAX_MEMBERS = 16, MAX_TOUCHES = MAX_MEMBERS * 4 };

/* Bytes that a member touches. */
struct touch {
    int space; /* -1: the arena; else the value that has memory of its own */
    int64_t from, to;
    size_t elem;
    bool flat; /* element i at position i */
    bool write;
};

struct launch {
    int leader, members;
    int64_t numel;
    struct touch touches[MAX_TOUCHES];
    int ntouches;
};

static struct touch touch_of(const struct weir__compile *c, const struct weir__operand *o,
                             const struct weir__view *whole, bool write)
{
    const char *first, *last;
    int64_t base = c->offset[o->value];

    weir__view_span(&o->view, &first, &last);
    return (struct touch){
        .space = base >= 0 ? -1 : o->value,
        .from = (base >= 0 ? base : 0) + (int64_t)(uintptr_t)first,
        .to = (base >= 0 ? base : 0) + (int64_t)(uintptr_t)last,
        .elem = weir_dtype_size(o->view.dtype),
        .flat = o->view.ndim == whole->ndim && weir__view_is_contiguous(&o->view) &&
                !memcmp(o->view.shape, whole->shape, (size_t)whole->ndim * sizeof *whole->shape),
        .write = write,
    };
}

static bool agree(const struct touch *a, const struct touch *b)
{
    if ((!a->write && !b->write) || a->space != b->space || a->to <= b->from || b->to <= a->from)
        return true;
    return a->flat && b->flat && a->from == b->from && a->to == b->to && a->elem == b->elem;
}

/* Adds what the node touches if it may join. */
static bool join(const struct weir__compile *c, struct launch *l, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    struct touch own[4];
    int nown = 0;

    if (n->nin >= (int)weir__countof(own) ||
        l->ntouches + n->nin + 1 > (int)weir__countof(l->touches))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value != WEIR__NO_VALUE)
            own[nown++] = touch_of(c, &n->in[i], &n->out[0].view, false);
    own[nown++] = touch_of(c, &n->out[0], &n->out[0].view, true);
    for (int i = 0; i < nown; i++)
        for (int j = 0; j < l->ntouches; j++)
            if (!agree(&own[i], &l->touches[j]))
                return false;
    memcpy(l->touches + l->ntouches, own, (size_t)nown * sizeof *own);
    l->ntouches += nown;
    l->members++;
    return true;
}

static bool is_candidate(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];

    return (n->op->flags & WEIR__OP_ELEMENTWISE) && n->marks.super_kernel < 0 && n->nout == 1 &&
           c->g->values[n->out[0].value].node == v && weir__view_is_contiguous(&n->out[0].view);
}

weir_status weir__pass_fuse(struct weir__compile *c)
{
    const weir_graph *g = c->g;

    if (!(c->chunked = weir__calloc((size_t)g->nnodes + 1, sizeof *c->chunked)))
        return weir__fail(WEIR_ENOMEM, "the fusion of %d nodes", g->nnodes);
    /* A compiled kernel cannot call another. */
    if (!weir__is_autotuned(&c->options) || c->g->dev->driver->compiles)
        return WEIR_OK;
    for (int s = 0; s < c->nstreams; s++) {
        struct launch l = {.leader = -1};

        for (int p = 0; p < c->streams[s].nnodes; p++) {
            int v = weir__node_at(c, s, p);
            int64_t numel;

            if (!is_candidate(c, v)) {
                l.leader = -1;
                continue;
            }
            numel = weir__view_numel(&g->nodes[v].out[0].view);
            if (l.leader >= 0 && l.members < MAX_MEMBERS && numel == l.numel &&
                c->sync_first[v] == c->sync_first[v + 1] &&
                !memcmp(&c->limit[v], &c->limit[l.leader], sizeof *c->limit) && join(c, &l, v)) {
                c->leader[v] = l.leader;
                c->chunked[l.leader] = true;
                continue;
            }
            l = (struct launch){.leader = v, .numel = numel};
            if (!join(c, &l, v))
                l.leader = -1;
        }
    }
    return WEIR_OK;
}
