/* wait_tensor: later users of one tensor run after the work that computes another. */
#include "scope/scope.h"

/* Captured: nodes that use self from now on get a control edge from the node that computes
 * dependency. */
static weir_status wait_captured(weir_graph *g, weir_tensor *self, weir_tensor *dependency)
{
    struct weir__operand s, d;
    weir_status st;

    if (self == dependency)
        return WEIR_OK; /* users of self have an edge from the same node already */
    if ((st = weir__graph_operand(g, self, &s)) || (st = weir__graph_operand(g, dependency, &d)))
        return st;
    if (g->values[d.value].last_writer < 0)
        return WEIR_OK; /* inputs and constants exist from the start */
    return weir__graph_use_after(g, s.value, g->values[d.value].last_writer);
}

weir_status weir__wait_uses(weir_stream *s, const weir_buffer *b)
{
    weir_device *dev = s->dev;
    weir_status st = WEIR_OK;

    if (b->own_seq)
        st = weir__stream_wait_mark(s, (struct weir__mark){dev->streams[b->owner], b->own_seq},
                                    NULL, WEIR__WAIT_ERRORS);
    for (unsigned i = 0; i < b->nothers && !st; i++)
        st = weir__stream_wait_mark(
            s, (struct weir__mark){dev->streams[b->others[i].slot], b->others[i].seq}, NULL,
            WEIR__WAIT_ERRORS);
    return st;
}

weir_status weir_wait_tensor(weir_tensor *self, weir_tensor *dependency)
{
    weir_device *dev;
    weir_graph *g;
    weir_stream *s;
    weir_status st;

    WEIR__NEED(self, "self");
    WEIR__NEED(dependency, "dependency");
    dev = self->dev;
    g = weir__capture_on(dev);
    s = weir_stream_current(dev);
    if (dependency->dev != dev)
        return weir__fail(WEIR_EDEVICE, "wait_tensor: self is on %s, the dependency on %s",
                          dev->label, dependency->dev->label);
    if (g)
        return wait_captured(g, self, dependency);
    if ((st = weir__tensor_check_bytes(self, "wait_tensor")) ||
        (st = weir__tensor_check_bytes(dependency, "wait_tensor")))
        return st;
    weir__device_lock(dev);
    /* One mark per buffer is enough, because this stream first waits for the previous mark. */
    if (!(st = weir__stream_queue_deferred(s)) && !(st = weir__buffer_await(self->buffer, s)) &&
        !(st = weir__wait_uses(s, dependency->buffer)))
        weir__buffer_publish(self->buffer, s);
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    return st;
}
