/* Notifies order streams like events, but a wait may be queued before the record that it waits for.
 * The wait is one half of a barrier of two ranks. The record queues the other half on the notify's
 * own stream, so that the recording stream does not block. */
#include "runtime/runtime.h"

#include <stdlib.h>

struct notify {
    void *handle;
    uint32_t id;
    struct device *device;
    struct relay relay;
    pthread_mutex_t lock; /* serialises the calls of a rank */
};

static aclError get(const char *function, aclrtNotify handle, struct notify **out)
{
    if ((*out = handle_get(handle, KIND_NOTIFY)))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                             "%p is not a notify, or a destroyed one", handle);
}

static void notify_free(struct notify *n)
{
    if (!relay_close(&n->relay, "the notify was destroyed while a stream waited for it"))
        return;
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static void drop(void *object, void *user)
{
    (void)user;
    if (handle_take(((struct notify *)object)->handle, KIND_NOTIFY))
        notify_free(object);
}

void notify_free_all(void)
{
    handle_each(KIND_NOTIFY, drop, NULL);
}

EXPORT aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag)
{
    struct context *c;
    struct notify *n;
    weir_status st;
    aclError err;

    (void)flag;
    NEED(notify);
    *notify = NULL;
    if ((err = context_current(&c)))
        return err;
    if (!(n = calloc(1, sizeof *n)))
        return FAIL(ACL_ERROR_BAD_ALLOC, "a notify");
    pthread_mutex_init(&n->lock, NULL);
    n->device = c->device;
    n->id = next_id();
    if ((st = relay_open(&n->relay, c->device->dev, c->device->dev)))
        err = fail_status(st, __func__);
    else if (!(n->handle = handle_new(KIND_NOTIFY, n)))
        err = FAIL(ACL_ERROR_BAD_ALLOC, "a notify");
    if (err)
        notify_free(n);
    else
        *notify = n->handle;
    return err;
}

EXPORT aclError aclrtDestroyNotify(aclrtNotify notify)
{
    struct notify *n = handle_take(notify, KIND_NOTIFY);

    if (!n)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a notify, or a destroyed one", notify);
    notify_free(n);
    return ACL_SUCCESS;
}

static aclError check_stream(const char *function, struct notify *n, aclrtStream handle,
                             struct stream **out)
{
    aclError err = stream_get(handle, out);

    if (err)
        return err;
    if ((*out)->context->device != n->device)
        return weir_cann_fail_in(function, ACL_ERROR_RT_STREAM_CONTEXT,
                                 "the notify is of device %d, stream %d of device %d",
                                 n->device->id, (*out)->id, (*out)->context->device->id);
    return stream_check_eager(function, *out);
}

EXPORT aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream)
{
    struct notify *n;
    struct stream *s;
    weir_status st;
    aclError err;

    if ((err = get(__func__, notify, &n)) || (err = check_stream(__func__, n, stream, &s)))
        return err;
    pthread_mutex_lock(&n->lock);
    if (!(st = weir_stream_wait_stream(n->relay.stream, s->weir)))
        st = relay_signal(&n->relay);
    pthread_mutex_unlock(&n->lock);
    return fail_status(st, __func__);
}

EXPORT aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout)
{
    struct weir_cann_launch l;
    struct notify *n;
    struct stream *s;
    weir_status st;
    aclError err;

    (void)timeout; /* the device's op_timeout bounds it */
    if ((err = get(__func__, notify, &n)) || (err = check_stream(__func__, n, stream, &s)) ||
        (err = weir_cann_enter(s->handle, &l)))
        return err;
    pthread_mutex_lock(&n->lock);
    st = weir_barrier(weir_group_rank(n->relay.group, 0));
    pthread_mutex_unlock(&n->lock);
    weir_cann_leave(&l);
    return fail_status(st, __func__);
}

EXPORT aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId)
{
    struct notify *n;
    aclError err;

    NEED(notifyId);
    if (!(err = get(__func__, notify, &n)))
        *notifyId = n->id;
    return err;
}
