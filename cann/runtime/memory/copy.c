/* Copies and fills. Synchronous ones run on a stream of their own. As on the hardware, they are
 * ordered only after work that the host has waited for; the race checker reports other overlaps. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    const char *function;
    char *dst;
    const char *src;
    size_t count;
    aclrtMemcpyKind kind;
};

static bool is_device(const void *address)
{
    struct allocation a;

    return allocation_find(address, &a) && a.bytes;
}

static aclError check(struct copy *c, size_t room)
{
    if (!c->dst || !c->src)
        return weir_cann_fail_in(c->function, ACL_ERROR_INVALID_PARAM, "%s is NULL",
                                 c->dst ? "src" : "dst");
    if ((unsigned)c->kind > ACL_MEMCPY_DEFAULT)
        return weir_cann_fail_in(c->function, ACL_ERROR_INVALID_PARAM, "kind %d is not one of 0..4",
                                 (int)c->kind);
    if (c->count > room)
        return weir_cann_fail_in(c->function, ACL_ERROR_INVALID_PARAM,
                                 "%zu bytes do not fit into destMax, %zu", c->count, room);
    if (c->kind == ACL_MEMCPY_DEFAULT)
        c->kind = (is_device(c->src) ? 2 : 0) + (is_device(c->dst) ? 1 : 0);
    return ACL_SUCCESS;
}

/* Wraps host memory as a tensor. A captured copy reads or writes it at each run of the graph. */
static weir_status wrap_host(const void *address, size_t count, weir_stream *s, weir_tensor **out)
{
    int64_t shape = (int64_t)count;

    return weir_tensor_wrap(s, WEIR_U8, 1, &shape, NULL, (void *)(uintptr_t)address, NULL, NULL,
                            out);
}

struct host_args {
    char *dst;
    const char *src;
    size_t count;
};

static weir_status run_host_copy(const void *args, const weir_block *block)
{
    const struct host_args *a = args;

    (void)block;
    memmove(a->dst, a->src, a->count);
    return WEIR_OK;
}

static void copy_when_called(void *user, weir_status status)
{
    const struct host_args *a = user;

    if (!status)
        memmove(a->dst, a->src, a->count);
    free(user);
}

/* Copies in a callback, for devices that cannot run host functions as operators. */
static weir_status queue_callback(weir_stream *s, const struct host_args *args)
{
    struct host_args *kept = malloc(sizeof *kept);
    weir_status st;

    if (!kept)
        return WEIR_ENOMEM;
    *kept = *args;
    if ((st = weir_stream_callback(s, copy_when_called, kept)))
        free(kept);
    return st;
}

static weir_status queue_host(weir_stream *s, const struct copy *c)
{
    struct host_args args = {c->dst, c->src, c->count};
    weir_device_props props;

    weir_device_get_props(weir_stream_device(s), &props, sizeof props);
    if (!(props.features & WEIR_FEATURE_HOST_MEMORY))
        return queue_callback(s, &args);
    return weir_launch_submit(s, &(weir_launch){.name = "host copy",
                                                .fn = run_host_copy,
                                                .args = &args,
                                                .args_size = sizeof args,
                                                .engine = WEIR_ENGINE_HOST});
}

/* Queues or captures the copy on `s`, which is the thread's current stream. */
static aclError queue(const struct copy *c, weir_stream *s, bool captured)
{
    bool from = c->kind & 2, to = c->kind & 1;
    weir_tensor *src = NULL, *dst = NULL;
    weir_status st = WEIR_OK;
    aclError err;

    if (!from && !to && !captured)
        return fail_status(queue_host(s, c), c->function);
    if ((from && (err = allocation_bytes(c->function, c->src, c->count, &src))) ||
        (to && (err = allocation_bytes(c->function, c->dst, c->count, &dst))))
        goto release;
    if (!src && captured)
        st = wrap_host(c->src, c->count, s, &src);
    if (!dst && !st && captured)
        st = wrap_host(c->dst, c->count, s, &dst);
    if (!st)
        st = !src   ? weir_tensor_write_async(dst, c->src, c->count)
             : !dst ? weir_tensor_read_async(src, c->dst, c->count)
             : weir_tensor_device(src) != weir_tensor_device(dst) ? weir_tensor_copy(dst, src)
                                                                  : weir_copy_into(src, dst);
    err = fail_status(st, c->function);
release:
    weir_tensor_release(src);
    weir_tensor_release(dst);
    return err;
}

static aclError copy_async(struct copy *c, size_t room, aclrtStream stream)
{
    struct weir_cann_launch l;
    aclError err;

    if ((err = check(c, room)) || (err = weir_cann_enter(stream, &l)))
        return weir_cann_launched(err);
    if (c->count)
        err = queue(c, l.stream, l.capture);
    weir_cann_leave(&l);
    return weir_cann_launched(err);
}

/* Runs the copy on the context's stream for copies and waits for it. */
static aclError copy_now(struct copy *c, size_t room)
{
    weir_stream *copies, *previous;
    struct context *context;
    aclError err;

    if ((err = check(c, room)) || (err = launch_check(c->function)) ||
        (err = context_current(&context)) || (err = context_copies(context, &copies)) || !c->count)
        return err;
    if (!(c->kind & 3)) {
        memmove(c->dst, c->src, c->count);
        return ACL_SUCCESS;
    }
    previous = weir_stream_current(context->device->dev);
    if ((err = fail_status(weir_stream_set_current(copies), c->function)))
        return err;
    if (!(err = queue(c, copies, false)))
        err = fail_status(weir_stream_sync(copies), c->function);
    weir_stream_set_current(previous);
    return err;
}

EXPORT aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                            aclrtMemcpyKind kind)
{
    return copy_now(&(struct copy){__func__, dst, src, count, kind}, destMax);
}

EXPORT aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                 aclrtMemcpyKind kind, aclrtStream stream)
{
    return copy_async(&(struct copy){__func__, dst, src, count, kind}, destMax, stream);
}

EXPORT aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src,
                                              size_t count, aclrtMemcpyKind kind,
                                              aclrtStream stream)
{
    return copy_async(&(struct copy){__func__, dst, src, count, kind}, destMax, stream);
}

static aclError check_2d(const char *function, size_t dpitch, size_t spitch, size_t width)
{
    if (width <= dpitch && width <= spitch)
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                             "rows of %zu bytes overlap: the pitches are %zu and %zu", width,
                             dpitch, spitch);
}

EXPORT aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, aclrtMemcpyKind kind)
{
    aclError err = check_2d(__func__, dpitch, spitch, width);

    NEED(dst);
    NEED(src);
    for (size_t i = 0; i < height && !err; i++)
        err = copy_now(&(struct copy){__func__, (char *)dst + i * dpitch,
                                      (const char *)src + i * spitch, width, kind},
                       width);
    return err;
}

EXPORT aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                   size_t width, size_t height, aclrtMemcpyKind kind,
                                   aclrtStream stream)
{
    aclError err = check_2d(__func__, dpitch, spitch, width);
    struct stream *s;

    NEED(dst);
    NEED(src);
    if (!err)
        err = stream_get(stream, &s);
    for (size_t i = 0; i < height && !err; i++)
        err = copy_async(&(struct copy){__func__, (char *)dst + i * dpitch,
                                        (const char *)src + i * spitch, width, kind},
                         width, stream);
    return err;
}

static aclError fill(const char *function, void *address, int32_t value, size_t count)
{
    weir_tensor *bytes;
    aclError err;

    if ((err = allocation_bytes(function, address, count, &bytes)))
        return err;
    err = fail_status(weir_fill(bytes, (unsigned char)value), function);
    weir_tensor_release(bytes);
    return err;
}

static aclError check_fill(const char *function, void *address, size_t room, size_t count)
{
    if (!address)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    if (count > room)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 "%zu bytes do not fit into maxCount, %zu", count, room);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    weir_stream *copies, *previous;
    struct context *c;
    aclError err;

    if ((err = check_fill(__func__, devPtr, maxCount, count)) || (err = context_current(&c)) ||
        (err = context_copies(c, &copies)) || !count)
        return err;
    if (!is_device(devPtr)) {
        memset(devPtr, value, count);
        return ACL_SUCCESS;
    }
    previous = weir_stream_current(c->device->dev);
    if ((err = fail_status(weir_stream_set_current(copies), __func__)))
        return err;
    if (!(err = fill(__func__, devPtr, value, count)))
        err = fail_status(weir_stream_sync(copies), __func__);
    weir_stream_set_current(previous);
    return err;
}

EXPORT aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                                 aclrtStream stream)
{
    struct weir_cann_launch l;
    aclError err;

    if ((err = check_fill(__func__, devPtr, maxCount, count)))
        return err;
    if ((err = weir_cann_enter(stream, &l)))
        return err;
    if (count)
        err = fill(__func__, devPtr, value, count);
    weir_cann_leave(&l);
    return err;
}

EXPORT aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream)
{
    struct stream *s;
    weir_tensor *bytes;
    aclError err;

    (void)cmoType;
    NEED(src);
    if ((err = stream_get(stream, &s)) || (err = allocation_bytes(__func__, src, size, &bytes)))
        return err;
    weir_tensor_release(bytes);
    return ACL_SUCCESS;
}
