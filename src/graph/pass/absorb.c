/* Finds nodes whose results the next node can compute itself, block by block, as it reads them: for
 * example, attention that reads keys and values which Concat extends. The memory pass keeps the
 * inputs of such a launch alive until the launch ends. */
#include "graph/build/stand_in.h"
#include "graph/pass/compile.h"

static bool is_whole(const struct weir__operand *o, const struct weir__node *maker)
{
    return o->view.data == maker->out[0].view.data && weir__operand_is_flat(o, maker);
}

/* The index of the input of n that is the whole result of node u; -1 if none or several are. */
static int input_made_by(const struct weir__compile *c, const struct weir__node *n, int u)
{
    const struct weir__node *maker = &c->g->nodes[u];
    int found = -1;

    if (maker->nout != 1 || c->g->values[maker->out[0].value].last_writer != u)
        return -1;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value == maker->out[0].value) {
            if (found >= 0 || !is_whole(&n->in[i], maker))
                return -1;
            found = i;
        }
    return found;
}

static bool reads(const struct weir__node *n, int value)
{
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value == value)
            return true;
    return false;
}

static bool may_absorb(const struct weir__compile *c, int v, int u)
{
    const struct weir__node *n = &c->g->nodes[v], *maker = &c->g->nodes[u];
    int input = input_made_by(c, n, u);
    struct weir__stand_in call, made;

    if (input < 0 || maker->marks.super_kernel >= 0 ||
        memcmp(&c->limit[v], &c->limit[u], sizeof *c->limit) != 0)
        return false;
    weir__stand_in_init(&call, n, 1, NULL);
    weir__stand_in_init(&made, maker, 1, NULL);
    return n->op->absorbs(&call.call, input, &made.call);
}

int weir__absorbed_before(const struct weir__compile *c, int v)
{
    const struct weir__node *n = &c->g->nodes[v];
    int count = 0;

    if (!n->op->absorbs || !c->g->dev->props.threads || !weir__is_autotuned(&c->options) ||
        n->marks.super_kernel >= 0)
        return 0;
    /* Only the first node of a launch may have waits. */
    for (int last = v; count < WEIR__ABSORBED_MOST && count < c->position[v]; count++) {
        int u = weir__node_at(c, c->stream[v], c->position[v] - count - 1);

        if (c->sync_first[last] != c->sync_first[last + 1] || !may_absorb(c, v, u))
            break;
        for (int k = 0; k < count; k++)
            if (reads(&c->g->nodes[weir__node_at(c, c->stream[v], c->position[v] - k - 1)],
                      c->g->nodes[u].out[0].value))
                return count;
        last = u;
    }
    return count;
}
