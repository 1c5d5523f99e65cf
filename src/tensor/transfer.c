/* Bytes between tensors and the host. */
#include "tensor/tensor.h"

#include <string.h>

/* Up to this many host bytes are copied into the command itself. */
enum { INLINE_BYTES = 1024 };

static void copy_dim(const struct weir__copy *a, int dim, char *dst, const char *src)
{
    size_t size = a->elem;
    size_t to = (size_t)a->dst_stride[dim] * size, from = (size_t)a->src_stride[dim] * size;
    bool last = dim == a->ndim - 1;

    if (last && to == size && from == size) {
        memcpy(dst, src, (size_t)a->shape[dim] * size);
        return;
    }
    for (int64_t i = 0; i < a->shape[dim]; i++, dst += to, src += from)
        if (last)
            memcpy(dst, src, size);
        else
            copy_dim(a, dim + 1, dst, src);
}

static weir_status copy_kernel(const void *args, const weir_block *block)
{
    const struct weir__copy *a = args;

    (void)block;
    copy_dim(a, 0, a->dst, a->src ? a->src : (const char *)(a + 1));
    return WEIR_OK;
}

/* Describes the copy between two views of one shape, whose dims are collapsed as far as the strides
 * allow. */
static void describe(struct weir__copy *a, const struct weir__view *to,
                     const struct weir__view *from)
{
    a->dst = to->data;
    a->src = from->data;
    a->elem = (uint32_t)weir_dtype_size(to->dtype);
    a->ndim = to->ndim;
    memcpy(a->shape, to->shape, sizeof a->shape);
    memcpy(a->dst_stride, to->stride, sizeof a->dst_stride);
    memcpy(a->src_stride, from->stride, sizeof a->src_stride);
}

weir_status weir__queue_copy(weir_stream *s, const struct weir__view *dst,
                             const struct weir__view *src, int way, const void *host, size_t bytes,
                             weir_tensor *const *tensors, size_t ntensors, size_t nused)
{
    static const struct weir__code code = {.kind = WEIR__CODE_COPY};
    _Alignas(16) unsigned char storage[sizeof(struct weir__copy) + INLINE_BYTES];
    struct weir__copy *a = (struct weir__copy *)storage;
    struct weir__view to = *dst, from = *src;
    size_t inlined = src->data ? 0 : bytes;
    struct weir__access accesses[2];
    weir_buffer *buffers[2];
    struct weir__kernel k = {
        .name = "copy",
        .fn = copy_kernel,
        .code = &code,
        .args = a,
        .args_size = (uint32_t)(sizeof *a + inlined),
        .engine = WEIR_ENGINE_SDMA,
        .blocks = 1,
        .phases = 1,
        .cores = 1,
        .work_ns = (uint32_t)weir__min((int64_t)(bytes / 8), UINT32_MAX - 1),
        .bytes = 2 * (float)bytes,
    };

    if (!bytes)
        return WEIR_OK;
    weir__view_collapse((struct weir__view *[]){&to, &from}, 2);
    describe(a, &to, &from);
    a->direction = way;
    if (inlined)
        memcpy(a + 1, host, inlined);
    for (size_t i = 0; i < ntensors; i++) {
        buffers[i] = tensors[i]->buffer;
        accesses[i] = (struct weir__access){tensors[i], tensors[i]->view.data == dst->data};
    }
    if (weir__race_on())
        return weir__submit_checked(s, &k, buffers, nused, accesses, (int)ntensors);
    return weir__submit_using(s, &k, buffers, nused, false);
}

static weir_status check_size(const weir_tensor *t, size_t bytes)
{
    size_t have = (size_t)weir__view_numel(&t->view) * weir_dtype_size(t->view.dtype);

    if (bytes == have)
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL, "%s has %zu bytes, not %zu", weir__view_text(&t->view).text,
                      have, bytes);
}

static weir_status check_transfer(const weir_tensor *t, const void *host, size_t bytes,
                                  bool to_host)
{
    const char *what = to_host ? "read" : "write";
    weir_status st;

    if ((st = weir__tensor_check_bytes(t, what)) || (st = check_size(t, bytes)))
        return st;
    return host || !bytes ? WEIR_OK : weir__fail(WEIR_EINVAL, "%s: the host memory is NULL", what);
}

/* `host` is contiguous memory with the tensor's shape. *seq is the command's number. */
static weir_status transfer(weir_tensor *t, void *host, size_t bytes, bool to_host, bool copy_now,
                            uint64_t *seq)
{
    struct weir__view view;
    weir_stream *s;
    weir_status st;

    if ((st = check_transfer(t, host, bytes, to_host)))
        return st;
    s = weir_stream_current(t->dev);
    view = t->view;
    weir__view_set_contiguous(&view);
    view.data = copy_now ? NULL : host;
    weir__device_lock(s->dev);
    st = weir__queue_copy(s, to_host ? &view : &t->view, to_host ? &t->view : &view,
                          to_host ? WEIR__COPY_TO_HOST : WEIR__COPY_FROM_HOST, host, bytes, &t, 1,
                          1);
    *seq = weir__stream_submitted(s);
    if (!st && copy_now) /* the call counts as completed when it returns, so later users on all
                          * streams must wait for the copy */
        weir__buffer_publish(t->buffer, s);
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev);
    return st;
}

weir_status weir_tensor_write_async(weir_tensor *t, const void *data, size_t bytes)
{
    uint64_t seq;

    WEIR__NEED(t, "tensor");
    return transfer(t, (void *)data, bytes, false, false, &seq);
}

weir_status weir_tensor_read_async(weir_tensor *t, void *data, size_t bytes)
{
    uint64_t seq;

    WEIR__NEED(t, "tensor");
    return transfer(t, data, bytes, true, false, &seq);
}

/* A queued copy cannot be cancelled, and the caller may reuse the memory once this returns. So if
 * the thread's hook may end a wait, the interruptible wait comes before the copy. */
static weir_status transfer_and_wait(weir_tensor *t, void *host, size_t bytes, bool to_host)
{
    struct weir__mark before;
    weir_stream *s;
    uint64_t seq;
    weir_status st;

    if ((st = check_transfer(t, host, bytes, to_host))) /* fails before it waits */
        return st;
    s = weir_stream_current(t->dev);
    if (weir__wait_has_hook()) {
        if ((st = weir__stream_mark(s, &before)))
            return st;
        st = weir__stream_await(s, before.seq, WEIR_TIMEOUT_DEVICE, true);
        if (st && s->dev->driver->done(s) < before.seq)
            return st;
    }
    if ((st = transfer(t, host, bytes, to_host, false, &seq)))
        return st;
    weir__wait_shield(1);
    st = weir__stream_sync_seq(s, seq, WEIR_TIMEOUT_DEVICE, true);
    weir__wait_shield(-1);
    return st;
}

/* Whether every use queued so far has completed, and no wait is attached to the buffer. (L) */
static bool is_idle(const weir_buffer *b)
{
    const struct weir__pool *pool = b->pool;

    if (!weir__pool_over(pool, b->owner, b->own_seq) ||
        (b->after_seq && !weir__pool_over(pool, b->after_slot, b->after_seq)))
        return false;
    for (uint32_t i = 0; i < b->nothers; i++)
        if (!weir__pool_over(pool, b->others[i].slot, b->others[i].seq))
            return false;
    return true;
}

/* For a new tensor: the host copies the bytes itself if it can access them and no queued work uses
 * them, so that nothing has to wait for the current stream. (An older tensor may be used by work
 * that weir does not see.) Not in virtual time, where a copy takes time; and not under the race
 * checker, whose verdict must not depend on timing. */
static bool write_now(weir_tensor *t, const void *data, size_t bytes)
{
    weir_device *dev = t->dev;
    struct weir__view to = t->view, from = t->view;
    struct weir__copy copy;
    const unsigned needed = WEIR_FEATURE_HOST_MEMORY | WEIR_FEATURE_REAL_TIME;
    bool idle;

    if ((dev->props.features & needed) != needed || weir__race_on())
        return false;
    weir__device_lock(dev);
    idle = is_idle(t->buffer);
    weir__device_unlock(dev);
    if (!idle || !bytes)
        return idle;
    weir__view_set_contiguous(&from);
    from.data = (void *)data;
    weir__view_collapse((struct weir__view *[]){&to, &from}, 2);
    describe(&copy, &to, &from);
    copy_dim(&copy, 0, copy.dst, copy.src);
    return true;
}

weir_status weir_tensor_write(weir_tensor *t, const void *data, size_t bytes)
{
    uint64_t seq;

    WEIR__NEED(t, "tensor");
    if (bytes <= INLINE_BYTES)
        return transfer(t, (void *)data, bytes, false, true, &seq);
    return transfer_and_wait(t, (void *)data, bytes, false);
}

/* Waits for the uses so far, except those on `but`. With `cleared`, ignores errors of destroyed
 * streams: destroying a stream clears its error. */
static weir_status await_uses(weir_tensor *t, const weir_stream *but, bool cleared)
{
    weir_device *dev = t->dev;
    weir_status first = WEIR_OK;

    /* Waiting releases the lock, so each round reads the list again; completed uses cost little. */
    for (uint32_t i = 0;; i++) {
        struct weir__use use;
        weir_stream *s;
        bool ignored;
        weir_status st;

        weir__device_lock(dev);
        if (i > t->buffer->nothers) {
            weir__device_unlock(dev);
            break;
        }
        use =
            i ? t->buffer->others[i - 1] : (struct weir__use){t->buffer->owner, t->buffer->own_seq};
        s = use.seq ? dev->streams[use.slot] : NULL;
        ignored = cleared && s && !s->live;
        weir__device_unlock(dev);
        if (!s || s == but)
            continue;
        st = weir__stream_sync_seq(s, use.seq, WEIR_TIMEOUT_DEVICE, true);
        if (st == WEIR_ETIMEDOUT || st == WEIR_EINTERRUPTED)
            return st;
        first = first || ignored ? first : st;
    }
    return first;
}

weir_status weir_tensor_sync(weir_tensor *t)
{
    WEIR__NEED(t, "tensor");

    weir_status st = weir__tensor_check_bytes(t, "sync");

    return st ? st : await_uses(t, NULL, false);
}

weir_status weir_tensor_read(weir_tensor *t, void *data, size_t bytes)
{
    weir_status st;

    WEIR__NEED(t, "tensor");
    /* The copy is ordered after the current stream, but another stream may have written the
     * values. */
    if ((st = check_transfer(t, data, bytes, true)) ||
        (st = await_uses(t, weir_stream_current(t->dev), true)))
        return st;
    return transfer_and_wait(t, data, bytes, true);
}

weir_status weir_tensor_signal_native(weir_tensor *t, void *native)
{
    WEIR__NEED(t, "tensor");

    weir_status st = weir__tensor_check_bytes(t, "an order outside weir");
    weir_device *dev;

    if (st)
        return st;
    dev = t->dev;
    if (!dev->driver->native)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s has no native streams; only cuda has: use weir_tensor_sync",
                          dev->props.name);
    weir__device_lock(dev);
    for (uint32_t i = 0; i <= t->buffer->nothers && !st; i++) {
        struct weir__use use =
            i ? t->buffer->others[i - 1] : (struct weir__use){t->buffer->owner, t->buffer->own_seq};

        if (use.seq)
            st = dev->driver->native->signal((struct weir__mark){dev->streams[use.slot], use.seq},
                                             native);
    }
    weir__device_unlock(dev);
    return st;
}

weir_status weir_tensor_from(weir_stream *s, weir_dtype dtype, int ndim, const int64_t *shape,
                             const void *data, weir_tensor **out)
{
    WEIR__NEED(out, "out");

    weir_status st = weir_tensor_empty(s, dtype, ndim, shape, out);
    weir_stream *before;
    size_t bytes;

    if (st)
        return st;
    bytes = (size_t)weir_tensor_numel(*out) * weir_dtype_size(dtype);
    if (!(st = check_transfer(*out, data, bytes, false)) && !write_now(*out, data, bytes)) {
        before = weir_stream_current((*out)->dev);
        if (s)
            weir_stream_set_current(s);
        st = weir_tensor_write(*out, data, bytes);
        weir_stream_set_current(before);
    }
    if (st) {
        weir_tensor_release(*out);
        *out = NULL;
    }
    return st;
}
