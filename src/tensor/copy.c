/* Copies from tensor to tensor, on one device or between two.
 *
 * Between two, one stream runs the copy: the destination's, or that of a GPU, which reaches the
 * host's memory and is not reached from there. It waits for the other one before, and the other one
 * for it afterwards, so that both tensors may be freed at once. Errors go both ways with that. */
#include "tensor/tensor.h"

#include <string.h>

#include "device/relay.h"

struct side {
    weir_tensor *tensor;
    weir_stream *stream;
};

static weir_status check_fit(const weir_tensor *dst, const weir_tensor *src)
{
    if (dst->view.dtype == src->view.dtype && dst->view.ndim == src->view.ndim &&
        !memcmp(dst->view.shape, src->view.shape, (size_t)src->view.ndim * sizeof(int64_t)))
        return WEIR_OK;
    return weir__fail(dst->view.dtype != src->view.dtype ? WEIR_EDTYPE : WEIR_ESHAPE,
                      "copy: the destination is %s, the source %s",
                      weir__view_text(&dst->view).text, weir__view_text(&src->view).text);
}

static size_t size_of(const weir_tensor *t)
{
    return (size_t)weir__view_numel(&t->view) * weir_dtype_size(t->view.dtype);
}

static bool has_host_memory(const weir_device *dev)
{
    return dev->dlpack.type == WEIR__DLPACK_CPU;
}

/* ---- order between two devices ---- */

/* The mark, or where the drivers differ the relay that stands for it. */
static weir_status mark_end(weir_stream *from, const weir_stream *to, struct weir__mark *mark,
                            struct weir__relay **relay)
{
    *relay = NULL;
    return from->dev->driver == to->dev->driver ? weir__stream_mark(from, mark)
                                                : weir__relay_send(from, relay, mark);
}

/* (L) */
static weir_status queue_wait(weir_stream *s, struct weir__mark mark, struct weir__relay *relay)
{
    const struct weir__driver *driver = s->dev->driver;
    weir_status st;

    if (relay) {
        st = driver->cross->wait_relay(s, relay);
    } else {
        atomic_fetch_add(&mark.stream->dev->visitors, 1); /* the wait itself takes it back */
        if ((st = driver->wait(s, mark, WEIR__WAIT_ERRORS)))
            atomic_fetch_sub(&mark.stream->dev->visitors, 1);
    }
    if (st)
        return st;
    s->clock.seq[s->slot]++;
    if (weir__race_on())
        weir__race_see_wait(weir__stream_race(s),
                            (struct weir__race_stream){&mark.stream->race, mark.seq,
                                                       mark.stream->name,
                                                       mark.stream->dev->props.name},
                            mark.seq);
    return WEIR_OK;
}

/* `s` goes on after everything on `other`, which is another device's; a buffer that the other's
 * work uses counts as used by `s` until then. Clocks reach over one device only, so the pool
 * learns nothing else. */
static weir_status wait_abroad(weir_stream *s, weir_stream *other, weir_buffer *used)
{
    struct weir__relay *relay;
    struct weir__mark mark;
    uint64_t *fence = NULL;
    weir_status st;

    if ((st = mark_end(other, s, &mark, &relay)))
        return st;
    weir__device_lock(s->dev);
    if (!(st = weir__stream_queue_deferred(s)) && used &&
        !(fence = weir__pool_fence(used, s->slot)))
        st = weir__fail_nomem("recording a use on stream '%s'", s->name);
    if (!st)
        st = queue_wait(s, mark, relay);
    if (!st && fence)
        *fence = weir__stream_submitted(s);
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    if (st && relay)
        weir__relay_drop(relay);
    return st;
}

/* ---- ways to copy ---- */

/* `runner` has the stream that copies. */
static weir_status run_copy(const struct side *runner, const struct side *other,
                            const weir_tensor *dst, const weir_tensor *src)
{
    weir_tensor *const tensors[] = {runner->tensor, other->tensor};
    const weir_device *dev = runner->stream->dev, *there = other->tensor->dev;
    int way = has_host_memory(dev) || !has_host_memory(there) ? WEIR__COPY_DEVICE
              : runner->tensor == src                         ? WEIR__COPY_TO_HOST
                                                              : WEIR__COPY_FROM_HOST;
    weir_status st;

    weir__device_lock(runner->stream->dev);
    st = weir__queue_copy(runner->stream, &dst->view, &src->view, way, NULL, size_of(src), tensors,
                          2, dev == there ? 2 : 1);
    weir__device_unlock(runner->stream->dev);
    dev->driver->kick(runner->stream->dev);
    return st;
}

/* What wait_tensor said of the other tensor counts on its own device. *idle: nothing is left on
 * its stream that the copy would have to wait for. */
static weir_status prepare_other(const struct side *other, bool *idle)
{
    weir_stream *s = other->stream;
    weir_status st;

    weir__device_lock(s->dev);
    if (!(st = weir__buffer_await(other->tensor->buffer, s)))
        st = weir__stream_queue_deferred(s);
    *idle = !st && s->dev->driver->done(s) >= weir__stream_submitted(s) &&
            atomic_load(&s->failed_at) == WEIR__NEVER_FAILED && !weir__race_on();
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    return st;
}

/* The other's stream goes on after the copy, so its memory may be freed at once. If even that
 * cannot be queued, the host waits. */
static weir_status copy_in_order(const struct side *runner, const struct side *other,
                                 const weir_tensor *dst, const weir_tensor *src)
{
    bool alike = runner->stream->dev->driver == other->stream->dev->driver, idle;
    weir_status st;

    if ((st = prepare_other(other, &idle)) ||
        ((alike || !idle) && (st = wait_abroad(runner->stream, other->stream, NULL))) ||
        (st = run_copy(runner, other, dst, src)))
        return st;
    if ((st = wait_abroad(other->stream, runner->stream, other->tensor->buffer)))
        weir_stream_sync(runner->stream);
    return st;
}

/* A device in virtual time goes on only while the host waits for it. */
static weir_status copy_and_wait(const struct side *runner, const struct side *other,
                                 const weir_tensor *dst, const weir_tensor *src)
{
    bool idle;
    weir_status st;

    if ((st = prepare_other(other, &idle)) || (st = weir_stream_sync(other->stream)) ||
        (st = run_copy(runner, other, dst, src)))
        return st;
    weir__wait_shield(1); /* the other tensor is the caller's once this returns */
    st = weir_stream_sync(runner->stream);
    weir__wait_shield(-1);
    return st;
}

static void free_bounce(void *memory, weir_status status)
{
    (void)status;
    weir__free(memory);
}

static weir_status copy_part(const struct side *side, const struct weir__view *dst,
                             const struct weir__view *src, int way)
{
    weir_device *dev = side->stream->dev;
    weir_status st;

    weir__device_lock(dev);
    st = weir__queue_copy(side->stream, dst, src, way, NULL, size_of(side->tensor), &side->tensor,
                          1, 1);
    weir__device_unlock(dev);
    dev->driver->kick(dev);
    return st;
}

/* Two GPUs that do not reach each other: from the one into memory of the host, from there into
 * the other. */
static weir_status copy_through_host(const struct side *to, const struct side *from)
{
    struct weir__view between = from->tensor->view;
    weir_status st;

    if (!size_of(from->tensor)) /* nothing but the order of any other copy */
        return (st = wait_abroad(to->stream, from->stream, NULL))
                   ? st
                   : wait_abroad(from->stream, to->stream, NULL);
    weir__view_set_contiguous(&between);
    if (!(between.data = weir__malloc(size_of(from->tensor))))
        return weir__fail_nomem("copying %zu bytes through the host", size_of(from->tensor));
    if ((st = copy_part(from, &between, &from->tensor->view, WEIR__COPY_TO_HOST))) {
        weir__free(between.data);
        return st;
    }
    if (!(st = wait_abroad(to->stream, from->stream, NULL)) &&
        !(st = copy_part(to, &to->tensor->view, &between, WEIR__COPY_FROM_HOST)) &&
        !(st = weir_stream_callback(to->stream, free_bounce, between.data)))
        return wait_abroad(from->stream, to->stream, NULL); /* as for any other copy */
    /* Nobody frees it before both are through with it. */
    weir__wait_shield(1);
    if (weir_stream_sync(from->stream) != WEIR_ETIMEDOUT &&
        weir_stream_sync(to->stream) != WEIR_ETIMEDOUT)
        weir__free(between.data);
    weir__wait_shield(-1);
    return st;
}

weir_status weir_tensor_copy(weir_tensor *dst, weir_tensor *src)
{
    const struct weir__driver_cross *cross;
    struct side to, from;
    bool by_source;
    weir_status st;

    WEIR__NEED(dst, "dst");
    WEIR__NEED(src, "src");
    if ((st = weir__tensor_check_bytes(dst, "copy")) ||
        (st = weir__tensor_check_bytes(src, "copy")) || (st = check_fit(dst, src)))
        return st;
    to = (struct side){dst, weir_stream_current(dst->dev)};
    from = (struct side){src, weir_stream_current(src->dev)};
    if (src->dev == dst->dev)
        return (st = weir__check_overlap("copy", dst, src, true)) ? st
                                                                  : run_copy(&to, &from, dst, src);
    by_source = has_host_memory(dst->dev) && !has_host_memory(src->dev);
    if (src->dev->driver != dst->dev->driver) {
        bool waits = !src->dev->driver->cross || !dst->dev->driver->cross;

        return (waits ? copy_and_wait : copy_in_order)(by_source ? &from : &to,
                                                       by_source ? &to : &from, dst, src);
    }
    cross = dst->dev->driver->cross;
    if (cross && cross->reaches_device && !cross->reaches_device(dst->dev, src->dev))
        return copy_through_host(&to, &from);
    return copy_in_order(&to, &from, dst, src);
}
