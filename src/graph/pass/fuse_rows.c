/* Launches by rows: norms, softmax, reductions, concatenation and similar operators beside
 * elementwise ones. The output of each member is cut into the same number of equal parts, its rows.
 * A row needs only the same row of the other members' results. So all members run on a few rows,
 * then on the next ones, and values that only they use stay in the block's memory.
 */
#include "graph/build/stand_in.h"
#include "graph/pass/fuse.h"

/* Each core must get at least this many rows, if the members by themselves would give it a
 * block. */
enum { ROWS_PER_CORE = 2 };

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static bool is_elementwise(const struct weir__op *op)
{
    return op->flags & WEIR__OP_ELEMENTWISE && !op->parts;
}

/* The number of rows into which the node's output can be cut; 0: it cannot. `blocks` is the number
 * of blocks it has by itself. */
static int64_t parts_of(const struct weir__compile *c, int v, unsigned *blocks, unsigned *cores)
{
    const struct weir__node *n = &c->g->nodes[v];
    const weir_device *dev = c->g->dev;
    struct weir__stand_in s;
    struct weir__work work;

    if (!n->op->place || !(is_elementwise(n->op) || n->op->parts) || n->nout != 1 ||
        n->nin >= WEIR__FUSE_OPERANDS || n->marks.super_kernel >= 0 ||
        c->g->values[n->out[0].value].node != v || !weir__view_is_contiguous(&n->out[0].view) ||
        !weir__view_numel(&n->out[0].view))
        return 0;
    *cores = weir__cores_of(dev, n->op->engine, dev->props.cores, c->limit[v]);
    weir__stand_in_init(&s, n, *cores, NULL);
    s.call.model = dev->model;
    weir__work_init(&work, n->op);
    if (n->op->prepare(&s.call, &work) || !work.fn || work.phases != 1 || work.gang ||
        work.engine != WEIR_ENGINE_VECTOR || weir__scratch_bytes(c, v))
        return 0;
    *blocks = work.blocks;
    return n->op->parts ? n->op->parts(&s.call) : weir__view_numel(&n->out[0].view);
}

bool weir__rows_add(const struct weir__compile *c, struct weir__row_run *run, int v)
{
    unsigned blocks, cores;
    int64_t parts = parts_of(c, v, &blocks, &cores), rows = common(run->rows, parts);

    if (!parts)
        return false;
    blocks = blocks > run->blocks ? blocks : run->blocks;
    if (rows < blocks && rows < (int64_t)ROWS_PER_CORE * cores)
        return false;
    run->rows = rows;
    run->blocks = blocks;
    run->members += !is_elementwise(c->g->nodes[v].op);
    return true;
}

int64_t weir__row_bytes(const struct weir__compile *c, int value, int64_t rows)
{
    const struct weir__view *v = &c->g->values[value].view;

    return weir__view_numel(v) / rows * (int64_t)weir_dtype_size(v->dtype);
}

/* Whether the positions of dims 0..k-1 of the view begin `q` equal parts of the whole, in order,
 * and the elements of the other dims stay within their part. */
static bool is_cut_at(const struct weir__view *v, const struct weir__view *whole, int k, int64_t q)
{
    int64_t elem = (int64_t)weir_dtype_size(v->dtype), part = weir__view_numel(whole) / q;
    int64_t at = (int64_t)(uintptr_t)v->data / elem, step = part;

    if (part * q != weir__view_numel(whole))
        return false;
    for (int d = k - 1; d >= 0; d--) {
        if (v->shape[d] > 1 && v->stride[d] != step)
            return false;
        step *= v->shape[d];
    }
    for (int d = k; d < v->ndim; d++) {
        if (v->stride[d] < 0)
            return false;
        at += (v->shape[d] - 1) * v->stride[d];
    }
    return at < part;
}

bool weir__rows_hold(const struct weir__compile *c, const struct weir__node *n,
                     const struct weir__operand *o, int64_t rows)
{
    const struct weir__view *whole = &c->g->values[o->value].view, *out = &n->out[0].view;
    struct weir__view v =
        is_elementwise(n->op) ? weir__view_broadcast(&o->view, out->ndim, out->shape) : o->view;
    int64_t q = 1;

    if (o == n->out)
        return true;
    if (!is_elementwise(n->op) && !(n->op->by_parts >> (o - n->in) & 1))
        return false;
    if (!weir__view_is_contiguous(whole) || v.dtype != whole->dtype ||
        weir__view_numel(whole) % rows || !weir__view_numel(&v))
        return false;
    for (int k = 0; k < v.ndim; q *= v.shape[k++])
        if (q % rows == 0 && is_cut_at(&v, whole, k, q))
            return true;
    return q % rows == 0 && is_cut_at(&v, whole, v.ndim, q);
}
