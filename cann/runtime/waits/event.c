/* AscendCL's events. */
#include "runtime/runtime.h"

#include <stdlib.h>

struct event {
    void *handle;
    struct device *device;
    weir_event *weir;
    uint32_t id;
    uint32_t flags;
    bool timing;
    pthread_mutex_t lock; /* guards mark, and serialises recording of weir's event */
    bool recorded;
    struct capture_mark mark;
    struct shared_event *shared; /* for ACL_EVENT_IPC; else NULL */
};

static aclError event_get(const char *function, aclrtEvent handle, struct event **out)
{
    if (!handle)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "event is NULL");
    if ((*out = handle_get(handle, KIND_EVENT)))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                             "%p is not an event, or a destroyed one", handle);
}

static void event_free(void *object)
{
    struct event *e = object;

    capture_mark_clear(&e->mark);
    shared_event_free(e->shared);
    weir_event_destroy(e->weir);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Creates an event; if `handle` is not NULL, imports another process's event. */
static aclError create(const char *function, aclrtEvent *event, uint32_t flags,
                       const aclrtIpcEventHandle *handle)
{
    bool timing = flags & ACL_EVENT_TIME_LINE;
    struct context *c;
    struct event *e;
    weir_status st;
    aclError err;

    *event = NULL;
    if ((err = context_current(&c)))
        return err;
    if (flags & ACL_EVENT_IPC && timing)
        return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                                 "an event between processes (flags %#x) measures no time", flags);
    if (!(e = calloc(1, sizeof *e)))
        return fail(ACL_ERROR_BAD_ALLOC, "an event");
    pthread_mutex_init(&e->lock, NULL);
    e->device = c->device;
    e->timing = timing;
    e->flags = flags;
    e->id = next_id();
    if ((st = weir_event_create(c->device->dev, &(weir_event_options){.timing = timing}, &e->weir)))
        err = fail_status(st, "an event");
    else if (handle)
        err = shared_event_import(function, handle, &e->shared);
    else if (flags & ACL_EVENT_IPC)
        err = shared_event_create(function, &e->shared);
    if (!err && !(e->handle = handle_new(KIND_EVENT, e)))
        err = fail(ACL_ERROR_BAD_ALLOC, "an event");
    if (err) {
        event_free(e);
        return err;
    }
    *event = e->handle;
    return ACL_SUCCESS;
}

static void drop(void *object, void *user)
{
    (void)user;
    if (handle_take(((struct event *)object)->handle, KIND_EVENT))
        event_free(object);
}

void event_free_all(void)
{
    handle_each(KIND_EVENT, drop, NULL);
}

EXPORT aclError aclrtCreateEvent(aclrtEvent *event)
{
    NEED(event);
    return create(__func__, event, ACL_EVENT_TIME_LINE, NULL);
}

EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    NEED(event);
    return create(__func__, event, flag, NULL);
}

EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    NEED(event);
    return create(__func__, event, flag, NULL);
}

EXPORT aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle)
{
    struct event *e;
    aclError err;

    NEED(handle);
    if ((err = event_get(__func__, event, &e)))
        return err;
    if (!e->shared)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "the event was made without ACL_EVENT_IPC");
    shared_event_export(e->shared, handle);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event)
{
    NEED(event);
    return create(__func__, event, ACL_EVENT_IPC, &handle);
}

EXPORT aclError aclrtDestroyEvent(aclrtEvent event)
{
    struct event *e;
    aclError err = event_get(__func__, event, &e);

    if (err)
        return err;
    if (!handle_take(event, KIND_EVENT))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is destroyed already", event);
    event_free(e);
    return ACL_SUCCESS;
}

/* Fails for events that order a graph against work outside of it: they cannot be captured, as runs
 * of the graph would not wait for anything. */
static aclError check_capture(const char *function, const struct event *e, const struct stream *s)
{
    const uint32_t inside =
        ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | 4 | ACL_EVENT_TIME_LINE;

    if (!s->capture || !(e->flags & ~inside))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT,
                             "an event made with flags %#x cannot be captured: stream %d", e->flags,
                             s->id);
}

EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    struct stream *s;
    struct event *e;
    aclError err;

    if ((err = event_get(__func__, event, &e)) || (err = stream_get(stream, &s)) ||
        (err = check_capture(__func__, e, s)))
        return err;
    if (e->device != s->context->device)
        return FAIL(ACL_ERROR_RT_STREAM_CONTEXT,
                    "the event is of device %d, stream %d of device %d", e->device->id, s->id,
                    s->context->device->id);
    pthread_mutex_lock(&e->lock);
    if (s->capture) {
        err = capture_record(s, &e->mark);
    } else {
        capture_mark_clear(&e->mark);
        err = fail_status(weir_event_record(e->weir, s->weir), __func__);
        e->recorded |= !err;
        if (!err && e->shared)
            err = shared_event_record(e->shared, s);
    }
    pthread_mutex_unlock(&e->lock);
    return err;
}

EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    struct capture *c;
    struct stream *s;
    struct event *e;
    aclError err;

    if ((err = event_get(__func__, event, &e)) || (err = stream_get(stream, &s)) ||
        (err = check_capture(__func__, e, s)))
        return err;
    if (e->shared && shared_event_foreign(e->shared))
        return shared_event_wait(e->shared, stream);
    pthread_mutex_lock(&e->lock);
    c = e->mark.capture ? capture_find(e->mark.capture) : NULL;
    if (c && s->capture && s->capture != c)
        err = FAIL(ACL_ERROR_API_NOT_SUPPORT,
                   "stream %d takes part in another capture than the event", s->id);
    else if (c)
        err = capture_wait(s, c, &e->mark);
    else if (!e->mark.capture && e->device != s->context->device)
        err = bridge_wait(__func__, e->weir, e->device, s);
    else if (!e->mark.capture) /* a record in an ended capture orders only runs of that graph */
        err = fail_status(weir_stream_wait(s->weir, e->weir), __func__);
    pthread_mutex_unlock(&e->lock);
    return err;
}

/* Fails if the event was recorded in an active capture: the host cannot query it. */
static aclError check_eager(const char *function, struct event *e)
{
    struct capture *c;

    pthread_mutex_lock(&e->lock);
    c = e->mark.capture ? capture_find(e->mark.capture) : NULL;
    pthread_mutex_unlock(&e->lock);
    if (!c)
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT,
                             "the event was recorded in a capture that has not ended");
}

static aclError query(const char *function, aclrtEvent event, bool *done)
{
    struct event *e;
    weir_status st;
    aclError err;

    if ((err = event_get(function, event, &e)) || (err = check_eager(function, e)))
        return err;
    if (e->shared) {
        *done = shared_event_done(e->shared);
        return ACL_SUCCESS;
    }
    pthread_mutex_lock(&e->lock);
    st = weir_event_query(e->weir, done);
    pthread_mutex_unlock(&e->lock);
    return fail_status(st, function);
}

EXPORT aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    bool done;
    aclError err;

    NEED(status);
    if (!(err = query(__func__, event, &done)))
        *status = done ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return err;
}

EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    bool done;
    aclError err;

    NEED(status);
    if (!(err = query(__func__, event, &done)))
        *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return err;
}

EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    struct event *e;
    aclError err;

    NEED(status);
    /* weir's waits do not refer to the event object: it may be destroyed or recorded at any
     * time. */
    if (!(err = event_get(__func__, event, &e)))
        *status = ACL_EVENT_WAIT_STATUS_COMPLETE;
    return err;
}

EXPORT aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    struct stream *s;
    struct event *e;
    aclError err;

    if ((err = event_get(__func__, event, &e)) || (err = stream_get(stream, &s)))
        return err;
    return ACL_SUCCESS; /* nothing to do: the next record replaces this one */
}

EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    struct event *e;
    weir_status st;
    aclError err;

    if (timeout < -1)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "timeout is %d ms", timeout);
    if ((err = event_get(__func__, event, &e)) || (err = check_eager(__func__, e)) ||
        (err = launch_check(__func__)))
        return err;
    if (e->shared && shared_event_foreign(e->shared))
        return shared_event_sync(__func__, e->shared, timeout);
    st = timeout < 0 ? weir_event_sync(e->weir)
                     : weir_event_sync_for(e->weir, (int64_t)timeout * 1000000);
    if (st == WEIR_ETIMEDOUT && timeout >= 0)
        return FAIL(ACL_ERROR_RT_WAIT_TIMEOUT, "%s", weir_last_error());
    return fail_status(st, __func__);
}

EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    return aclrtSynchronizeEventWithTimeout(event, -1);
}

static aclError elapsed(const char *function, const weir_event *from, struct event *to, double *ms)
{
    if (!to->timing || !to->recorded)
        return weir_cann_fail_in(function, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                                 to->timing ? "an event was never recorded"
                                            : "an event was made without ACL_EVENT_TIME_LINE");
    return fail_status(weir_event_elapsed(from, to->weir, ms), function);
}

EXPORT aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end)
{
    struct event *s, *e;
    double value;
    aclError err;

    NEED(ms);
    if ((err = event_get(__func__, start, &s)) || (err = event_get(__func__, end, &e)) ||
        (err = elapsed(__func__, s->weir, s, &value)) ||
        (err = elapsed(__func__, s->weir, e, &value)))
        return err;
    *ms = (float)value;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    struct event *e;
    double ms;
    aclError err;

    NEED(timestamp);
    if ((err = event_get(__func__, event, &e)))
        return err;
    if (!e->device->epoch)
        return FAIL(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "device %d has no clock", e->device->id);
    if ((err = elapsed(__func__, e->device->epoch, e, &ms)))
        return err;
    *timestamp = ms < 0 ? 0 : (uint64_t)(ms * 1000);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId)
{
    struct event *e;
    aclError err;

    NEED(eventId);
    if (!(err = event_get(__func__, event, &e)))
        *eventId = e->id;
    return err;
}

EXPORT aclError aclrtGetEventAvailNum(uint32_t *eventCount)
{
    NEED(eventCount);
    *eventCount = 65536; /* weir has no bound of its own */
    return ACL_SUCCESS;
}
