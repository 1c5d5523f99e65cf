/* Contexts: the device and the default stream of the calling thread. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <unistd.h>

static _Thread_local void *current;                      /* a handle */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* primary contexts */
static _Atomic int sat_mode = ACL_RT_OVERFLOW_MODE_INFNAN;
static _Atomic int64_t sys_params[8];

void context_forget(void)
{
    current = NULL;
    pthread_mutex_init(&lock, NULL);
}

bool context_set(void)
{
    return current;
}

aclError context_current(struct context **out)
{
    if ((*out = handle_get(current, KIND_CONTEXT)))
        return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_CONTEXT_NULL, current ? "the thread's context has been destroyed"
                                                   : "call aclrtSetDevice in this thread first");
}

aclError context_create(struct device *device, bool primary, struct context **out)
{
    struct context *c = calloc(1, sizeof *c);
    aclError err;

    *out = NULL;
    if (!c)
        return fail(ACL_ERROR_BAD_ALLOC, "a context on device %d", device->id);
    c->device = device;
    c->primary = primary;
    pthread_mutex_init(&c->lock, NULL);
    if (!(c->handle = handle_new(KIND_CONTEXT, c))) {
        err = fail(ACL_ERROR_BAD_ALLOC, "a context on device %d", device->id);
        goto free_context;
    }
    if ((err = stream_create(c, 0, 0, &c->stream)))
        goto drop_handle;
    *out = c;
    return ACL_SUCCESS;

drop_handle:
    handle_take(c->handle, KIND_CONTEXT);
free_context:
    pthread_mutex_destroy(&c->lock);
    free(c);
    return err;
}

/* Removes the context from streams that were created in it and still exist. */
static void drop_stream(void *object, void *user)
{
    struct stream *s = object;

    if (s->context == user && handle_take(s->handle, KIND_STREAM))
        stream_free(s);
}

void context_destroy(struct context *c)
{
    handle_each(KIND_STREAM, drop_stream, c);
    weir_stream_destroy(c->copies);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

aclError context_copies(struct context *c, weir_stream **out)
{
    weir_status st = WEIR_OK;

    pthread_mutex_lock(&c->lock);
    if (!c->copies)
        st = weir_stream_create(c->device->dev, &(weir_stream_options){.name = "copies"},
                                &c->copies);
    *out = c->copies;
    pthread_mutex_unlock(&c->lock);
    return fail_status(st, "a stream for copies");
}

EXPORT aclError weir_cann_device(weir_device **out)
{
    struct context *c;
    aclError err = context_current(&c);

    *out = err ? NULL : c->device->dev;
    return err;
}

/* ---- public ---- */

EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    struct context *c;
    struct device *d;
    aclError err;

    if ((err = device_get(deviceId, &d)))
        return err;
    pthread_mutex_lock(&lock);
    if (!d->primary)
        err = context_create(d, true, &d->primary);
    c = d->primary;
    if (!err)
        d->primary_refs++;
    pthread_mutex_unlock(&lock);
    if (!err)
        current = c->handle;
    return err;
}

static aclError reset(const char *function, int32_t id, bool force)
{
    struct context *gone = NULL;
    struct device *d;
    aclError err;

    if (id < 0 || (uint32_t)id >= device_count())
        return weir_cann_fail_in(function, ACL_ERROR_RT_INVALID_DEVICEID,
                                 "device %d: there are %u, from 0 on", id, device_count());
    if (!(d = device_opened(id)) || !d->primary)
        return weir_cann_fail_in(function, ACL_ERROR_RT_CONTEXT_NULL, "device %d is not set", id);
    err = fail_status(weir_device_sync(d->dev), function);
    pthread_mutex_lock(&lock);
    if (d->primary && (--d->primary_refs <= 0 || force)) {
        gone = d->primary;
        d->primary = NULL;
        d->primary_refs = 0;
        handle_take(gone->handle, KIND_CONTEXT);
    }
    pthread_mutex_unlock(&lock);
    if (gone) {
        if (current == gone->handle)
            current = NULL;
        context_destroy(gone);
    }
    return err;
}

EXPORT aclError aclrtResetDevice(int32_t deviceId)
{
    return reset(__func__, deviceId, false);
}

EXPORT aclError aclrtResetDeviceForce(int32_t deviceId)
{
    return reset(__func__, deviceId, true);
}

EXPORT aclError aclrtGetDevice(int32_t *deviceId)
{
    struct context *c;
    aclError err;

    NEED(deviceId);
    if ((err = context_current(&c)))
        return err;
    *deviceId = c->device->id;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    struct context *c;
    struct device *d;
    aclError err;

    NEED(context);
    if ((err = device_get(deviceId, &d)) || (err = context_create(d, false, &c)))
        return err;
    *context = current = c->handle;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtDestroyContext(aclrtContext context)
{
    struct context *c = handle_get(context, KIND_CONTEXT);

    NEED(context);
    if (!c)
        return FAIL(ACL_ERROR_RT_CONTEXT_NULL, "%p is not a context", context);
    if (c->primary)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID,
                    "%p is the context of device %d: aclrtResetDevice ends it", context,
                    c->device->id);
    if (!handle_take(context, KIND_CONTEXT))
        return FAIL(ACL_ERROR_RT_CONTEXT_NULL, "%p is destroyed already", context);
    if (current == context)
        current = NULL;
    context_destroy(c);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetCurrentContext(aclrtContext context)
{
    NEED(context);
    if (!handle_get(context, KIND_CONTEXT))
        return FAIL(ACL_ERROR_RT_CONTEXT_NULL, "%p is not a context", context);
    current = context;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetCurrentContext(aclrtContext *context)
{
    struct context *c;
    aclError err;

    NEED(context);
    *context = NULL;
    if ((err = context_current(&c)))
        return err;
    *context = current;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSynchronizeDevice(void)
{
    struct context *c;
    aclError err = context_current(&c);

    if (err || (err = launch_check(__func__)))
        return err;
    callback_await_threads(INT64_MAX);
    return fail_status(weir_device_sync(c->device->dev), __func__);
}

static void sync_stream(void *object, void *user)
{
    struct stream *s = object;
    struct {
        struct device *device;
        int64_t ns;
        weir_status st;
    } *wait = user;

    if (s->context->device == wait->device && !wait->st && !capture_active(s->capture))
        wait->st = weir_stream_sync_for(s->weir, wait->ns);
}

EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    struct context *c;
    aclError err = context_current(&c);
    struct {
        struct device *device;
        int64_t ns;
        weir_status st;
    } wait;

    if (err || (err = launch_check(__func__)))
        return err;
    if (timeout < -1)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "timeout is %d ms", timeout);
    if (timeout < 0)
        return aclrtSynchronizeDevice();
    callback_await_threads((int64_t)timeout * 1000000);
    wait.device = c->device;
    wait.ns = (int64_t)timeout * 1000000;
    wait.st = WEIR_OK;
    handle_each(KIND_STREAM, sync_stream, &wait);
    return fail_status(wait.st, __func__);
}

EXPORT aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    NEED(pid);
    *pid = (int32_t)getpid();
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    if ((unsigned)mode >= ACL_RT_OVERFLOW_MODE_UNDEF)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "mode %d is neither 0 nor 1", (int)mode);
    sat_mode = mode;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    NEED(mode);
    *mode = (aclrtFloatOverflowMode)sat_mode;
    return ACL_SUCCESS;
}

static aclError param_set(const char *function, aclSysParamOpt opt, int64_t value)
{
    if ((unsigned)opt >= sizeof sys_params / sizeof *sys_params)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "option %d is not known",
                                 (int)opt);
    sys_params[opt] = value;
    return ACL_SUCCESS;
}

static aclError param_get(const char *function, aclSysParamOpt opt, int64_t *value)
{
    if (!value || (unsigned)opt >= sizeof sys_params / sizeof *sys_params)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 value ? "option %d is not known" : "value of option %d is NULL",
                                 (int)opt);
    *value = sys_params[opt];
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    return param_get(__func__, opt, value);
}
EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    return param_set(__func__, opt, value);
}
EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    return param_get(__func__, opt, value);
}
EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    return param_set(__func__, opt, value);
}
