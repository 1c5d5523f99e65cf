/* Streams. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>

EXPORT aclError weir_cann_stream(aclrtStream stream, weir_stream **out)
{
    struct stream *s;
    aclError err = stream_get(stream, &s);

    *out = err ? NULL : s->weir;
    return err;
}

aclError stream_get(aclrtStream handle, struct stream **out)
{
    struct context *c;
    aclError err;

    if (!handle) {
        *out = NULL;
        if ((err = context_current(&c)))
            return err;
        *out = c->stream;
        return ACL_SUCCESS;
    }
    if ((*out = handle_get(handle, KIND_STREAM)))
        return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not a stream, or a destroyed one", handle);
}

/* Converts a priority. AscendCL's are 0 (most urgent) .. 7; higher numbers count as 7. weir's range
 * is -8 .. 7. */
static int weir_priority(uint32_t priority)
{
    return priority > 7 ? 7 : (int)priority;
}

aclError stream_create(struct context *c, uint32_t priority, uint32_t flags, struct stream **out)
{
    struct stream *s = calloc(1, sizeof *s);
    char name[32];
    weir_status st;

    *out = NULL;
    if (!s)
        return fail(ACL_ERROR_BAD_ALLOC, "a stream on device %d", c->device->id);
    s->context = c;
    s->is_default = !c->stream;
    s->id = (int32_t)next_id();
    s->priority = priority;
    s->flags = flags;
    s->failure_mode = ACL_STOP_ON_FAILURE;
    s->limit = (weir_cores){-1, -1};
    pthread_mutex_init(&s->lock, NULL);
    snprintf(name, sizeof name, "acl %d", s->id);
    if (s->is_default && c->primary)
        s->weir = weir_stream_default(c->device->dev);
    else if ((st = weir_stream_create(
                  c->device->dev,
                  &(weir_stream_options){.priority = weir_priority(priority), .name = name},
                  &s->weir))) {
        fail_status(st, "a stream");
        goto free_stream;
    }
    if (!(s->handle = handle_new(KIND_STREAM, s))) {
        fail(ACL_ERROR_BAD_ALLOC, "a stream on device %d", c->device->id);
        goto destroy;
    }
    *out = s;
    return ACL_SUCCESS;

destroy:
    if (s->weir != weir_stream_default(c->device->dev))
        weir_stream_destroy(s->weir);
free_stream:
    pthread_mutex_destroy(&s->lock);
    free(s);
    return aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
}

void stream_free(struct stream *s)
{
    capture_abandon(s);
    gate_free(s->gate);
    if (s->weir != weir_stream_default(s->context->device->dev))
        weir_stream_destroy(s->weir);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

EXPORT bool weir_cann_is_capturing(aclrtStream stream)
{
    struct stream *s = handle_get(stream, KIND_STREAM);
    struct context *c;

    if (!stream && !context_current(&c))
        s = c->stream;
    return s && capture_active(s->capture);
}

EXPORT aclError weir_cann_enter(aclrtStream stream, struct weir_cann_launch *launch)
{
    weir_cores limit;
    struct stream *s;
    weir_status st;
    aclError err;

    if ((err = stream_get(stream, &s)))
        return err;
    source_note();
    launch->stream = s->weir;
    launch->previous = NULL;
    launch->capture = NULL;
    launch->scopes = 0;
    if (capture_active(s->capture))
        return capture_enter(s, launch);
    launch->previous = weir_stream_current(s->context->device->dev);
    if (launch->previous != s->weir && (st = weir_stream_set_current(s->weir)))
        return fail_status(st, "a stream");
    limit = limit_in_use(s);
    if (limit.cube < 0 && limit.vector < 0)
        return ACL_SUCCESS;
    if ((st = weir_scope_push_cores(limit))) {
        weir_stream_set_current(launch->previous);
        return fail_status(st, "the core limit in use");
    }
    launch->kinds[launch->scopes++] = WEIR_SCOPE_CORES;
    return ACL_SUCCESS;
}

EXPORT void weir_cann_leave(struct weir_cann_launch *launch)
{
    while (launch->scopes)
        weir_scope_pop(launch->kinds[--launch->scopes]);
    if (launch->capture)
        capture_leave(launch);
    else if (launch->previous != launch->stream)
        weir_stream_set_current(launch->previous);
}

aclError stream_check_eager(const char *function, struct stream *s)
{
    if (!capture_active(s->capture))
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_API_NOT_SUPPORT,
                             "stream %d is being captured: the host cannot wait for it", s->id);
}

/* Converts the status of a wait, and reports failed work to the program's exception callback. */
static aclError waited(const char *function, struct stream *s, weir_status st)
{
    aclError err = fail_status(st, function);

    if (err)
        exception_report(s->id, s->context->device->id, err);
    return err;
}

/* ---- public ---- */

EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    struct context *c;
    struct stream *s;
    aclError err;

    NEED(stream);
    *stream = NULL;
    if ((err = context_current(&c)) || (err = stream_create(c, priority, flag, &s)))
        return err;
    *stream = s->handle;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtCreateStream(aclrtStream *stream)
{
    return aclrtCreateStreamWithConfig(stream, 0, 0);
}

EXPORT aclError aclrtDestroyStream(aclrtStream stream)
{
    struct stream *s = handle_get(stream, KIND_STREAM);

    NEED(stream);
    if (!s)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is not a stream, or a destroyed one", stream);
    if (s->is_default)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "a context's default stream is destroyed with the context");
    if (!handle_take(stream, KIND_STREAM))
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "%p is destroyed already", stream);
    stream_free(s);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    return aclrtDestroyStream(stream);
}

EXPORT aclError aclrtSynchronizeStream(aclrtStream stream)
{
    struct stream *s;
    aclError err;

    if ((err = stream_get(stream, &s)) || (err = stream_check_eager(__func__, s)) ||
        (err = launch_check(__func__)))
        return err;
    return waited(__func__, s, weir_stream_sync(s->weir));
}

EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    struct stream *s;
    weir_status st;
    aclError err;

    if (timeout < -1)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "timeout is %d ms", timeout);
    if ((err = stream_get(stream, &s)) || (err = stream_check_eager(__func__, s)) ||
        (err = launch_check(__func__)))
        return err;
    if (timeout < 0)
        return waited(__func__, s, weir_stream_sync(s->weir));
    st = weir_stream_sync_for(s->weir, (int64_t)timeout * 1000000);
    if (st == WEIR_ETIMEDOUT)
        return FAIL(ACL_ERROR_RT_WAIT_TIMEOUT, "%s", weir_last_error());
    return waited(__func__, s, st);
}

EXPORT aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    struct stream *s;
    weir_status st;
    bool done;
    aclError err;

    NEED(status);
    if ((err = stream_get(stream, &s)) || (err = stream_check_eager(__func__, s)))
        return err;
    if ((st = weir_stream_query(s->weir, &done)))
        return fail_status(st, __func__);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    struct stream *s;
    aclError err;

    NEED(streamId);
    if ((err = stream_get(stream, &s)))
        return err;
    *streamId = s->id;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    struct stream *s;
    aclError err;

    NEED(priority);
    if ((err = stream_get(stream, &s)))
        return err;
    *priority = s->priority;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    struct stream *s;
    aclError err;

    NEED(flags);
    if ((err = stream_get(stream, &s)))
        return err;
    *flags = s->flags;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority)
{
    NEED(leastPriority);
    NEED(greatestPriority);
    *leastPriority = 7;
    *greatestPriority = 0;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    struct stream *s;
    aclError err;

    if (mode > ACL_STOP_ON_FAILURE)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "mode %llu is neither 0 nor 1",
                    (unsigned long long)mode);
    NEED(stream);
    if ((err = stream_get(stream, &s)))
        return err;
    s->failure_mode = mode;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    struct stream *s;
    aclError err;

    if (flag > 1)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag %u is neither 0 nor 1", flag);
    if ((err = stream_get(stream, &s)))
        return err;
    s->overflow = flag;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag)
{
    struct stream *s;
    aclError err;

    NEED(flag);
    if ((err = stream_get(stream, &s)))
        return err;
    *flag = s->overflow;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    NEED(streamCount);
    *streamCount = 1024; /* weir has no bound of its own */
    return ACL_SUCCESS;
}

EXPORT aclError aclrtStreamAbort(aclrtStream stream)
{
    struct stream *s;
    aclError err = stream_get(stream, &s);

    if (err)
        return err;
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "work that is queued on stream %d cannot be cancelled", s->id);
}
