/* Lets a stream wait for an event of another device. Both sides call a barrier; on the event's side
 * the call is on the bridge's own stream, which waits for the event. A bridge serves one wait at a
 * time, so no wait is queued behind another. Bridges are reused after their wait has completed. */
#include "runtime/runtime.h"

#include <stdlib.h>

struct bridge {
    struct device *from, *to;
    struct relay relay;
    struct bridge *next;
};

static struct bridge *bridges;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void bridge_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    bridges = NULL;
}

void bridge_free_all(void)
{
    while (bridges) {
        struct bridge *b = bridges;

        bridges = b->next;
        if (relay_close(&b->relay, "the runtime was finalised"))
            free(b);
    }
}

/* Returns a free bridge or a new one. The caller holds the lock. */
static aclError bridge_get(struct device *from, struct device *to, struct bridge **out)
{
    struct bridge *b;
    weir_status st;
    bool idle;

    for (b = bridges; b; b = b->next)
        if (b->from == from && b->to == to && !weir_stream_query(b->relay.stream, &idle) && idle) {
            *out = b;
            return ACL_SUCCESS;
        }
    *out = NULL;
    if (!(b = calloc(1, sizeof *b)))
        return fail(ACL_ERROR_BAD_ALLOC, "a wait for device %d", from->id);
    b->from = from;
    b->to = to;
    if ((st = relay_open(&b->relay, to->dev, from->dev))) {
        free(b);
        return fail_status(st, "a wait for another device");
    }
    b->next = bridges;
    bridges = b;
    *out = b;
    return ACL_SUCCESS;
}

aclError bridge_wait(const char *function, const weir_event *event, struct device *from,
                     struct stream *s)
{
    struct weir_cann_launch l;
    struct bridge *b;
    weir_status st;
    aclError err;

    if ((err = stream_check_eager(function, s)))
        return err;
    pthread_mutex_lock(&lock);
    if ((err = bridge_get(from, s->context->device, &b)))
        goto unlock;
    if ((st = weir_stream_wait(b->relay.stream, event)) || (st = relay_signal(&b->relay))) {
        err = fail_status(st, function);
        goto unlock;
    }
    if (!(err = weir_cann_enter(s->handle, &l))) {
        st = weir_barrier(weir_group_rank(b->relay.group, 0));
        weir_cann_leave(&l);
        err = fail_status(st, function);
    }
    if (err) /* one half of the barrier is queued: it must not match the next wait's other half */
        weir_group_abort(b->relay.group, "a stream could not be made to wait");
unlock:
    pthread_mutex_unlock(&lock);
    return err;
}
