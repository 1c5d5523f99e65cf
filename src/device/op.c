#include "device/op.h"

#include <string.h>

struct weir__call *weir__call_copy(const struct weir__call *call)
{
    size_t nin = (size_t)call->nin, nout = (size_t)call->nout, size = call->op->params_size;
    struct {
        struct weir__call call;
        const struct weir__view *in[WEIR__OP_MAX_IN];
        struct weir__view views[];
    } *own = weir__calloc(1, sizeof *own + (nin + nout) * sizeof *own->views + size);

    if (!own)
        return NULL;
    own->call = *call;
    own->call.in = own->in;
    own->call.out = own->views + nin;
    for (size_t i = 0; i < nin; i++)
        if (call->in[i]) {
            own->views[i] = *call->in[i];
            own->in[i] = &own->views[i];
        }
    memcpy(own->call.out, call->out, nout * sizeof *call->out);
    if (size)
        own->call.params = memcpy(own->views + nin + nout, call->params, size);
    return &own->call;
}
