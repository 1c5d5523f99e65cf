/* Decides whether operators can be one launch: bytes in memory that one of them writes may be
 * accessed by the others only at the same positions. Memory is already placed, so the check sees
 * values that share bytes.
 */
#include "graph/pass/fuse.h"

struct touch {
    int space; /* -1: the arena; else a value with memory of its own */
    int64_t from, to;
    int64_t base, step; /* start of the pieces and their length: an element, or a row */
    bool flat, write;   /* flat: members that touch the same byte do so at the same position */
};

static bool is_in_step(const struct weir__compile *c, const struct weir__launch *l,
                       const struct weir__operand *o, const struct weir__node *n)
{
    if (l->rows)
        return weir__rows_hold(c, n, o, l->rows);
    if (n->op->flags & WEIR__OP_BESIDE)
        return false;
    return weir__operand_is_flat(o, n) ||
           (weir__view_numel(&o->view) == 1 && weir__view_numel(&weir__node_result(n)->view) == 1);
}

static struct touch touch_of(const struct weir__compile *c, const struct weir__launch *l,
                             const struct weir__operand *o, const struct weir__node *n, bool write)
{
    const char *first, *last;
    int64_t base = c->offset[o->value];

    weir__view_span(&o->view, &first, &last);
    return (struct touch){
        .space = base >= 0 ? -1 : o->value,
        .from = (base >= 0 ? base : 0) + (int64_t)(uintptr_t)first,
        .to = (base >= 0 ? base : 0) + (int64_t)(uintptr_t)last,
        .base = l->rows ? (base >= 0 ? base : 0) : 0,
        .step = l->rows ? weir__row_bytes(c, o->value, l->rows)
                        : (int64_t)weir_dtype_size(o->view.dtype),
        .flat = is_in_step(c, l, o, n),
        .write = write,
    };
}

static bool agree(const struct weir__launch *l, const struct touch *a, const struct touch *b)
{
    if ((!a->write && !b->write) || a->space != b->space || a->to <= b->from || b->to <= a->from)
        return true;
    if (!a->flat || !b->flat || a->step != b->step || a->base != b->base)
        return false;
    return l->rows || (a->from == b->from && a->to == b->to);
}

bool weir__launch_is_sound(const struct weir__compile *c, const struct weir__launch *l)
{
    struct touch touches[WEIR__FUSE_SLOTS * WEIR__FUSE_OPERANDS];
    int n = 0;

    for (int m = 0; m < l->n; m++) {
        const struct weir__node *node = &c->g->nodes[l->nodes[m]];
        int first = n;

        for (int i = -node->nout; i < node->nin; i++) {
            const struct weir__operand *o = i < 0 ? &node->out[0] : &node->in[i];

            if (o->value != WEIR__NO_VALUE && c->slot[o->value] < 0)
                touches[n++] = touch_of(c, l, o, node, i == -node->nout);
        }
        for (int i = first; i < n; i++)
            for (int j = 0; j < first; j++)
                if (!agree(l, &touches[i], &touches[j]))
                    return false;
    }
    return true;
}
