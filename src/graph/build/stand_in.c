#include "graph/build/stand_in.h"

#define ARENA ((uintptr_t)1 << 39)

static struct weir__view place(const struct weir__operand *o, const int64_t *offset)
{
    struct weir__view v = o->view;
    uintptr_t at = offset && offset[o->value] >= 0 ? ARENA + (uintptr_t)offset[o->value]
                                                   : ((uintptr_t)o->value + 1) << 40;

    v.data = (char *)at + (uintptr_t)o->view.data;
    return v;
}

void weir__stand_in_init(struct weir__stand_in *s, const struct weir__node *n, unsigned cores,
                         const int64_t *offset)
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
            s->in[i] = place(&n->in[i], offset);
    }
    for (int i = 0; i < n->nout; i++)
        s->out[i] = place(&n->out[i], offset);
}
