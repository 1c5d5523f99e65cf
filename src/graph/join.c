/* Whether nodes can be joined to one launch on a device that compiles its kernels: tried with
 * addresses that tell values apart as those of a run will. */
#include "graph/compile.h"

#include <string.h>

/* Far from each other, and from the arena, which is where all values of a plan are that share
 * bytes. */
static char *stand_in(const struct weir__compile *c, int value)
{
    const uintptr_t arena = (uintptr_t)1 << 39;

    return (char *)(c->offset[value] >= 0 ? arena + (uintptr_t)c->offset[value]
                                          : (uintptr_t)(value + 1) << 40);
}

static weir_status prepare(const struct weir__compile *c, int v, struct weir__work *work)
{
    const struct weir__node *n = &c->g->nodes[v];
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
    struct weir__call call = {
        .op = n->op,
        .nin = n->nin,
        .nout = n->nout,
        .in = ins,
        .out = out,
        .params = n->params,
        .cores = weir__cores_of(c->g->dev, n->op->engine, c->g->dev->props.cores, c->limit[v]),
        .compiled = true,
    };

    for (int i = 0; i < n->nin; i++) {
        ins[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &in[i];
        if (ins[i]) {
            in[i] = n->in[i].view;
            in[i].data = stand_in(c, n->in[i].value) + (uintptr_t)n->in[i].view.data;
        }
    }
    for (int i = 0; i < n->nout; i++) {
        out[i] = n->out[i].view;
        out[i].data = stand_in(c, n->out[i].value) + (uintptr_t)n->out[i].view.data;
    }
    weir__work_init(work, n->op);
    return n->op->prepare(&call, work);
}

bool weir__nodes_join(const struct weir__compile *c, const int *nodes, int n)
{
    _Alignas(64) unsigned char joined[WEIR_ARGS_MAX] = {0};
    const struct weir__code *code = NULL;
    struct weir__work work;

    for (int i = 0; i < n; i++) {
        if (prepare(c, nodes[i], &work) || !work.code || !work.code->join)
            return false;
        if (code && work.code->joined != code)
            return false;
        code = work.code->joined;
        if (!work.code->join(joined, work.args, c->slot[c->g->nodes[nodes[i]].out[0].value] < 0))
            return false;
    }
    return true;
}
