/* Lets streams wait for the host without holding a core or a thread. The stream calls a barrier of
 * two ranks; to open the gate, the host queues the other call on the gate's own stream.
 */
#include "runtime/runtime.h"

#include <stdlib.h>

struct gate {
    struct relay relay;   /* its stream opens the gate */
    pthread_mutex_t lock; /* serialises the calls of the opener's rank */
};

static aclError gate_new(struct stream *s, struct gate **out)
{
    weir_device *dev = s->context->device->dev;
    struct gate *g = calloc(1, sizeof *g);
    weir_status st;

    *out = NULL;
    if (!g)
        return fail(ACL_ERROR_BAD_ALLOC, "a gate of stream %d", s->id);
    pthread_mutex_init(&g->lock, NULL);
    if ((st = relay_open(&g->relay, dev, dev))) {
        gate_free(g);
        return fail_status(st, "a gate");
    }
    *out = g;
    return ACL_SUCCESS;
}

aclError gate_prepare(struct stream *s, struct gate **out)
{
    aclError err = ACL_SUCCESS;

    pthread_mutex_lock(&s->lock);
    if (!s->gate)
        err = gate_new(s, &s->gate);
    *out = s->gate;
    pthread_mutex_unlock(&s->lock);
    return err;
}

aclError gate_close(const char *function, struct stream *s)
{
    struct weir_cann_launch l;
    struct gate *g;
    weir_status st;
    aclError err;

    if ((err = gate_prepare(s, &g)) || (err = weir_cann_enter(s->handle, &l)))
        return err;
    st = weir_barrier(weir_group_rank(g->relay.group, 0));
    weir_cann_leave(&l);
    return fail_status(st, function);
}

static void open_gate(struct gate *g, weir_stream *after)
{
    pthread_mutex_lock(&g->lock);
    if ((after && weir_stream_wait_stream(g->relay.stream, after)) || relay_signal(&g->relay))
        weir_group_abort(g->relay.group, weir_last_error());
    pthread_mutex_unlock(&g->lock);
}

void gate_open(struct gate *g, const char *failure)
{
    if (failure)
        weir_group_abort(g->relay.group, failure);
    else
        open_gate(g, NULL);
}

void gate_open_after(struct gate *g, weir_stream *after)
{
    open_gate(g, after);
}

/* Frees the gate; waits that are still pending end with an error. */
void gate_free(struct gate *g)
{
    if (!g)
        return;
    if (!relay_close(&g->relay, "the stream was destroyed while it waited for the host"))
        return;
    pthread_mutex_destroy(&g->lock);
    free(g);
}
