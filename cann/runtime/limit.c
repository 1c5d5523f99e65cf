/* Core limits. A stream's limit overrides the device's, which overrides the number of cores; and a
 * thread may use the limit of another stream. */
#include "runtime/runtime.h"

static _Thread_local void *in_use; /* handle of the stream whose limit the thread uses */

/* On a device with shared cores, weir's limits for both engines must be equal: one number counts
 * for both. */
weir_cores limit_in_use(const struct stream *stream)
{
    struct stream *s = in_use && in_use != stream->handle ? handle_get(in_use, KIND_STREAM) : NULL;
    weir_cores limit = {-1, -1};

    if (!s)
        return limit;
    pthread_mutex_lock(&s->lock);
    limit = s->limit;
    pthread_mutex_unlock(&s->lock);
    return limit;
}

static int *part(weir_cores *cores, aclrtDevResLimitType type)
{
    return type == ACL_RT_DEV_RES_CUBE_CORE     ? &cores->cube
           : type == ACL_RT_DEV_RES_VECTOR_CORE ? &cores->vector
                                                : NULL;
}

static aclError check_type(const char *function, aclrtDevResLimitType type)
{
    if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE)
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                             "type %d is neither 0 (cube) nor 1 (vector)", (int)type);
}

/* Checks a count. torch_npu may pass more cores than exist: that means all of them. */
static aclError as_count(const char *function, struct device *d, aclrtDevResLimitType type,
                         uint32_t value, weir_cores *out)
{
    weir_cores all = d->props.cores;
    int most = *part(&all, type);

    *out = (weir_cores){-1, -1};
    if (!value || value > (uint32_t)most)
        return weir_cann_fail_in(
            function, ACL_ERROR_RT_PARAM_INVALID, "%u %s cores are out of range: %s has 1..%d",
            value, type == ACL_RT_DEV_RES_CUBE_CORE ? "cube" : "vector", d->props.name, most);
    *part(out, type) = (int)value;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value)
{
    weir_cores limit;
    struct device *d;
    aclError err;

    if ((err = check_type(__func__, type)) || (err = device_get(deviceId, &d)) ||
        (err = as_count(__func__, d, type, value, &limit)))
        return err;
    return fail_status(weir_device_set_limit(d->dev, limit), __func__);
}

EXPORT aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value)
{
    weir_cores limit;
    struct device *d;
    aclError err;

    NEED(value);
    if ((err = check_type(__func__, type)) || (err = device_get(deviceId, &d)))
        return err;
    limit = weir_device_get_limit(d->dev);
    *value = (uint32_t)*part(&limit, type);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtResetDeviceResLimit(int32_t deviceId)
{
    struct device *d;
    aclError err = device_get(deviceId, &d);

    return err ? err : fail_status(weir_device_set_limit(d->dev, d->props.cores), __func__);
}

EXPORT aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                       uint32_t value)
{
    weir_cores limit;
    struct stream *s;
    weir_status st;
    aclError err;

    if ((err = check_type(__func__, type)) || (err = stream_get(stream, &s)) ||
        (err = as_count(__func__, s->context->device, type, value, &limit)))
        return err;
    pthread_mutex_lock(&s->lock);
    if (!(st = weir_stream_set_limit(s->weir, limit)))
        *part(&s->limit, type) = (int)value;
    pthread_mutex_unlock(&s->lock);
    return fail_status(st, __func__);
}

EXPORT aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                       uint32_t *value)
{
    weir_cores limit;
    struct stream *s;
    aclError err;

    NEED(value);
    if ((err = check_type(__func__, type)) || (err = stream_get(stream, &s)))
        return err;
    limit = weir_stream_get_limit(s->weir);
    *value = (uint32_t)*part(&limit, type);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtResetStreamResLimit(aclrtStream stream)
{
    struct stream *s;
    aclError err = stream_get(stream, &s);

    if (err)
        return err;
    pthread_mutex_lock(&s->lock);
    s->limit = (weir_cores){-1, -1};
    weir_stream_reset_limit(s->weir);
    pthread_mutex_unlock(&s->lock);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtUseStreamResInCurrentThread(aclrtStream stream)
{
    struct stream *s;
    aclError err = stream_get(stream, &s);

    if (err)
        return err;
    in_use = s->handle;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream)
{
    struct stream *s;
    aclError err = stream_get(stream, &s);

    if (err)
        return err;
    if (in_use == s->handle)
        in_use = NULL;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    struct stream *s = handle_get(in_use, KIND_STREAM);
    struct context *c;
    weir_cores limit;
    aclError err;

    NEED(value);
    if ((err = check_type(__func__, type)))
        return err;
    if (s) {
        limit = weir_stream_get_limit(s->weir);
    } else {
        if ((err = context_current(&c)))
            return err;
        limit = weir_device_get_limit(c->device->dev);
    }
    *value = (uint32_t)*part(&limit, type);
    return ACL_SUCCESS;
}
