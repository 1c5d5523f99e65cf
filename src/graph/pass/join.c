/* Decides whether nodes can be joined into one kernel source. Prepares them with made-up addresses,
 * which are equal or different in the same places as those of a run. */
#include "graph/build/stand_in.h"
#include "graph/pass/compile.h"

static weir_status prepare(const struct weir__compile *c, int v, struct weir__work *work)
{
    const struct weir__node *n = &c->g->nodes[v];
    const weir_device *dev = c->g->dev;
    struct weir__stand_in s;

    weir__stand_in_init(&s, n, weir__cores_of(dev, n->op->engine, dev->props.cores, c->limit[v]),
                        c->offset);
    s.call.for_gpu = true;
    weir__work_init(work, n->op);
    return n->op->prepare(&s.call, work);
}

bool weir__nodes_join(const struct weir__compile *c, const int *nodes, int n)
{
    _Alignas(64) unsigned char joined[WEIR_ARGS_MAX] = {0};
    const struct weir__code *code = NULL;
    struct weir__work work;

    for (int i = 0; i < n; i++) {
        if (prepare(c, nodes[i], &work) || !work.code || !work.code->join)
            return false;
        if (code && work.code->joined != code && work.code->after != code)
            return false;
        code = work.code->joined;
        if (!work.code->join(joined, work.args, weir__node_is_kept(c, &c->g->nodes[nodes[i]])))
            return false;
    }
    return true;
}
