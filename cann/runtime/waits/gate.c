/* Streams that wait for the host, without holding a core or a thread: the stream takes part in a
 * barrier of two, and the host makes the other call, on a stream of the gate's own, when it is
 * time.
 */
#include "runtime/runtime.h"

#include <stdlib.h>

struct gate {
    weir_group *group;
    weir_stream *opener;
    pthread_mutex_t lock; /* calls of the opener's rank come one at a time */
};

static aclError gate_new(struct stream *s, struct gate **out)
{
    weir_device *dev = s->context->device->dev, *both[2] = {dev, dev};
    struct gate *g = calloc(1, sizeof *g);
    weir_status st;

    *out = NULL;
    if (!g)
        return fail(ACL_ERROR_BAD_ALLOC, "a gate of stream %d", s->id);
    pthread_mutex_init(&g->lock, NULL);
    if (!(st = weir_stream_create(dev, NULL, &g->opener)) &&
        !(st = weir_group_create(both, 2,
                                 &(weir_group_options){.timeout_ns = -1, .mode = WEIR_COMM_SDMA},
                                 &g->group))) {
        *out = g;
        return ACL_SUCCESS;
    }
    gate_free(g);
    return fail_status(st, "a gate");
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
    st = weir_barrier(weir_group_rank(g->group, 0));
    weir_cann_leave(&l);
    return fail_status(st, function);
}

static void open_gate(struct gate *g, weir_stream *after)
{
    weir_stream *previous = weir_stream_current(weir_stream_device(g->opener));

    pthread_mutex_lock(&g->lock);
    if ((after && weir_stream_wait_stream(g->opener, after)) ||
        weir_stream_set_current(g->opener) || weir_barrier(weir_group_rank(g->group, 1)))
        weir_group_abort(g->group, weir_last_error());
    weir_stream_set_current(previous);
    pthread_mutex_unlock(&g->lock);
}

void gate_open(struct gate *g, const char *failure)
{
    if (failure)
        weir_group_abort(g->group, failure);
    else
        open_gate(g, NULL);
}

void gate_open_after(struct gate *g, weir_stream *after)
{
    open_gate(g, after);
}

/* Waits that nobody will open end with an error. */
void gate_free(struct gate *g)
{
    if (!g)
        return;
    if (g->group && weir_group_destroy(g->group)) {
        weir_group_abort(g->group, "the stream was destroyed while it waited for the host");
        weir_stream_sync(g->opener);
        if (weir_group_destroy(g->group))
            return; /* its last command has yet to fail: the device keeps both */
    }
    weir_stream_destroy(g->opener);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
