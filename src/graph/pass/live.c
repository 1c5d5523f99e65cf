/* Dead code: nodes with unused results. */
#include "graph/pass/compile.h"

/* A graph without outputs (such as a profile of kernels) keeps all its nodes. */
weir_status weir__pass_live(struct weir__compile *c)
{
    const weir_graph *g = c->g;
    bool *needed = weir__calloc((size_t)g->nvalues + 1, sizeof *needed);

    c->live = weir__calloc((size_t)g->nnodes + 1, sizeof *c->live);
    if (!needed || !c->live) {
        weir__free(needed);
        return weir__fail_nomem("finding the dead code of %d nodes", g->nnodes);
    }
    for (int i = 0; i < g->noutputs; i++)
        needed[g->outputs[i].operand.value] = true;
    for (int v = g->nnodes - 1; v >= 0; v--) {
        const struct weir__node *n = &g->nodes[v];
        const struct weir__operand *writes;
        int nwrites;

        writes = weir__node_writes(n, &nwrites);
        c->live[v] |= !g->noutputs || (n->op->flags & WEIR__OP_ALWAYS_RUNS);
        for (int i = 0; i < nwrites; i++)
            c->live[v] |=
                needed[writes[i].value] || g->values[writes[i].value].kind != WEIR__VALUE_NODE;
        if (!c->live[v])
            continue;
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].value != WEIR__NO_VALUE)
                needed[n->in[i].value] = true;
        for (int i = 0; i < n->nout; i++) /* the node may write only part of an existing value: its
                                           * other bytes are needed too */
            needed[n->out[i].value] = true;
        for (int i = 0; i < n->ncontrol; i++)
            c->live[n->control[i]] = true;
    }
    weir__free(needed);
    return WEIR_OK;
}
