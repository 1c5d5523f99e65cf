#include "graph/stand_in.h"

static struct weir__view place(const struct weir__operand *o)
{
    struct weir__view v = o->view;

    v.data = (char *)(((uintptr_t)o->value + 1) << 40) + (uintptr_t)o->view.data;
    return v;
}

void weir__stand_in(struct weir__stand_in *s, const struct weir__node *n, unsigned cores)
{
    s->call = (struct weir__call){.op = n->op,
                                  .nin = n->nin,
                                  .nout = n->nout,
                                  .in = s->ins,
                                  .out = s->out,
                                  .params = n->params,
                                  .cores = cores,
                                  .scratch = (void *)(uintptr_t)4096};
    for (int i = 0; i < n->nin; i++) {
        s->ins[i] = n->in[i].value == WEIR__NO_VALUE ? NULL : &s->in[i];
        if (s->ins[i])
            s->in[i] = place(&n->in[i]);
    }
    for (int i = 0; i < n->nout; i++)
        s->out[i] = place(&n->out[i]);
}
