/* Lists what a plan launches, and the bytes that each launch moves. */
#include "base/sized.h"
#include "graph/build/stand_in.h"
#include "graph/plan/dynamic.h"

/* Member i of a launch: members are neighbours on their stream. */
static int member_at(const struct weir__compile *c, int leader, int i)
{
    int s = c->stream[leader], p = c->position[leader] + i, v;

    if (p >= c->streams[s].nnodes)
        return -1;
    v = weir__node_at(c, s, p);
    return c->leader[v] == leader ? v : -1;
}

/* Bytes of a view; repeated elements (stride 0) count once. */
static uint64_t view_bytes(const struct weir__view *v)
{
    uint64_t n = weir_dtype_size(v->dtype);

    for (int d = 0; d < v->ndim; d++)
        n *= v->shape[d] == 0 ? 0 : v->stride[d] == 0 ? 1 : (uint64_t)v->shape[d];
    return n;
}

static bool same_operand(const struct weir__operand *a, const struct weir__operand *b)
{
    if (a->value != b->value || a->view.data != b->view.data || a->view.ndim != b->view.ndim)
        return false;
    for (int d = 0; d < a->view.ndim; d++)
        if (a->view.shape[d] != b->view.shape[d] || a->view.stride[d] != b->view.stride[d])
            return false;
    return true;
}

/* Whether the launch has used the same operand before input `at` of node v. */
static bool is_known(const struct weir__compile *c, int leader, int v, int at)
{
    const struct weir__operand *o = &c->g->nodes[v].in[at];
    int u;

    for (int i = 0; (u = member_at(c, leader, i)) >= 0; i++) {
        const struct weir__node *n = &c->g->nodes[u];

        for (int k = 0; k < (u == v ? at : n->nin); k++)
            if (same_operand(&n->in[k], o))
                return true;
        if (u == v)
            return false;
        for (int k = 0; k < n->nout; k++)
            if (n->out[k].value == o->value)
                return true;
    }
    return false;
}

/* Counts the bytes of an operator that is a launch by itself. Uses its cost, because it may read
 * only part of an operand. */
static void count_one(const struct weir__compile *c, int v, weir_launch_info *info)
{
    const struct weir__node *n = &c->g->nodes[v];
    struct weir__cost cost = {0};
    struct weir__stand_in s;
    int nwrites;
    const struct weir__operand *w = weir__node_writes(n, &nwrites);
    uint64_t written = 0;

    weir__stand_in_init(&s, n, 1, c->offset);
    n->op->cost(&s.call, &cost);
    for (int i = 0; i < nwrites && !(n->op->flags & WEIR__OP_IN_PLACE); i++)
        written += view_bytes(&w[i].view);
    if (n->op->flags & WEIR__OP_IN_PLACE)
        written = (uint64_t)cost.bytes / 2;
    info->bytes_written += written;
    if ((uint64_t)cost.bytes > written)
        info->bytes_read += (uint64_t)cost.bytes - written;
}

static void count_several(const struct weir__compile *c, int leader, weir_launch_info *info)
{
    int v;

    for (int i = 0; (v = member_at(c, leader, i)) >= 0; i++) {
        const struct weir__node *n = &c->g->nodes[v];

        if (!n->nout) {
            count_one(c, v, info);
            continue;
        }
        for (int k = 0; k < n->nin; k++)
            if (n->in[k].value != WEIR__NO_VALUE && !is_known(c, leader, v, k))
                info->bytes_read += view_bytes(&n->in[k].view);
        for (int k = 0; k < n->nout; k++)
            if (c->slot[n->out[k].value] < 0)
                info->bytes_written += view_bytes(&n->out[k].view);
    }
}

size_t weir_plan_list_launches(const weir_plan *plan, weir_launch_info *out, size_t size,
                               size_t max)
{
    const struct weir__compile *c;
    size_t count = 0;

    if (!plan || plan->dynamic)
        return 0;
    c = &plan->c;
    for (int v = 0; v < c->g->nnodes; v++) {
        weir_launch_info info = {.name = c->g->nodes[v].name, .op = c->g->nodes[v].op->name};

        if (!c->live[v] || c->leader[v] != v)
            continue;
        while (member_at(c, v, (int)info.nodes) >= 0)
            info.nodes++;
        if (out && count < max) {
            if (info.nodes == 1)
                count_one(c, v, &info);
            else
                count_several(c, v, &info);
            weir__sized_give((char *)out + count * size, size, &info, sizeof info);
        }
        count++;
    }
    return count;
}
