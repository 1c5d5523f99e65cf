/* Creates, shares and inspects tensors. */
#include "tensor/tensor.h"
#include "check/race/footprint.h"
#include "tensor/infer.h"
#include "tensor/recipe.h"
#include "weir/view.h"

#include <string.h>

static const char *const names[WEIR_DTYPE_COUNT] = {
#define ROW(id, bytes, text) [WEIR_##id] = text,
    WEIR_DTYPE_LIST(ROW)
#undef ROW
};

const uint8_t weir__dtype_bytes[WEIR_DTYPE_COUNT] = {
#define ROW(id, bytes, text) [WEIR_##id] = bytes,
    WEIR_DTYPE_LIST(ROW)
#undef ROW
};

const char *weir_dtype_name(weir_dtype dtype)
{
    return (unsigned)dtype < WEIR_DTYPE_COUNT ? names[dtype] : "?";
}

size_t weir_dtype_size(weir_dtype dtype)
{
    return weir__dtype_size(dtype);
}

bool weir_dtype_is_float(weir_dtype dtype)
{
    return dtype <= WEIR_F64;
}

weir_status weir__tensor_check_bytes(const weir_tensor *t, const char *what)
{
    if (!t)
        return weir__fail(WEIR_EINVAL, "%s: the tensor is NULL; check the call that creates it",
                          what);
    if (!t->graph)
        return WEIR_OK;
    return weir__fail(WEIR_ESTATE,
                      "%s: the tensor %s belongs to a graph and has no bytes of its own", what,
                      weir__view_text(&t->view).text);
}

weir_status weir__buffer_await(const weir_buffer *b, weir_stream *s)
{
    struct weir__mark mark;
    weir_status st;

    if (!b->after_seq)
        return WEIR_OK;
    mark = (struct weir__mark){s->dev->streams[b->after_slot], b->after_seq};
    if (weir__stream_is_after(s, mark, WEIR__WAIT_ERRORS))
        return WEIR_OK;
    if ((st = weir__clock_reserve(&s->clock, b->after_slot + 1)) ||
        (st = weir__stream_wait_mark(s, mark, NULL, WEIR__WAIT_ERRORS)))
        return st;
    if (s->clock.seq[b->after_slot] < b->after_seq)
        s->clock.seq[b->after_slot] = b->after_seq;
    return WEIR_OK;
}

weir_status weir__submit_using(weir_stream *s, const struct weir__kernel *kernel,
                               weir_buffer *const *buffers, size_t n, bool alone)
{
    uint64_t *fences[16], **fence = fences;
    weir_status st = WEIR_OK;

    if (n > weir__countof(fences) && !(fence = weir__calloc(n, sizeof *fence)))
        return weir__fail_nomem("recording the uses of operator '%s'", kernel->name);
    /* A buffer listed twice gets its fence twice, which is harmless. */
    for (size_t i = 0; i < n && !st; i++)
        if (weir__unlikely(buffers[i]->after_seq) && !alone &&
            (st = weir__buffer_await(buffers[i], s)))
            break;
        else if (!(fence[i] = weir__pool_fence(buffers[i], s->slot)))
            st = weir__fail_nomem("recording a use on stream '%s'", s->name);
    if (!st && !(st = weir__stream_submit(s, kernel)))
        for (size_t i = 0; i < n; i++)
            *fence[i] = weir__stream_submitted(s);
    if (fence != fences)
        weir__free(fence);
    return st;
}

/* ---- views ---- */

weir_status weir__view_init(struct weir__view *view, weir_dtype dtype, int ndim,
                            const int64_t *shape)
{
    weir_status st;

    if (ndim > 0 && (st = weir__need(shape, "the shape of a tensor")))
        return st;
    if ((st = weir__shape_check("tensor", dtype, ndim, shape)))
        return st;
    view->data = NULL;
    view->dtype = dtype;
    view->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        view->shape[i] = shape[i];
    weir__view_set_contiguous(view);
    return WEIR_OK;
}

void weir__view_span(const struct weir__view *v, const char **first, const char **last)
{
    int64_t reach = 0;

    for (int i = 0; i < v->ndim; i++) {
        if (!v->shape[i]) {
            *first = *last = v->data;
            return;
        }
        reach += (v->shape[i] - 1) * v->stride[i]; /* strides are never negative */
    }
    *first = v->data;
    /* In a graph, data is an offset, so it must not be used in pointer arithmetic. */
    *last = (char *)((uintptr_t)v->data + (size_t)(reach + 1) * weir__dtype_size(v->dtype));
}

void weir__view_footprint(const struct weir__view *v, struct weir__footprint *f)
{
    weir__footprint_init(f, (uintptr_t)v->data, (uint32_t)weir__dtype_size(v->dtype), v->ndim,
                         v->shape, v->stride);
}

/* Whether the views have the same elements, of the same size, in the same places; the stride of a
 * dim of size 1 does not matter. */
static bool is_same(const struct weir__view *a, const struct weir__view *b)
{
    bool same = a->data == b->data && a->ndim == b->ndim &&
                weir__dtype_size(a->dtype) == weir__dtype_size(b->dtype);

    for (int d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d] && (a->shape[d] == 1 || a->stride[d] == b->stride[d]);
    return same;
}

weir_status weir__check_writable(const char *what, const struct weir__view *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (!v->stride[d] && v->shape[d] > 1 && weir__view_numel(v))
            return weir__fail(
                WEIR_EINVAL,
                "%s: the output %s is an expanded view in which several elements share memory",
                what, weir__view_text(v).text);
    return WEIR_OK;
}

weir_status weir__check_views(const char *what, const struct weir__view *written,
                              const struct weir__view *read, bool same)
{
    struct weir__footprint wrote, reads;

    if (same && is_same(written, read))
        return WEIR_OK;
    weir__view_footprint(written, &wrote);
    weir__view_footprint(read, &reads);
    if (!weir__footprint_overlaps(&wrote, &reads))
        return WEIR_OK;
    return weir__fail(WEIR_EINVAL, "%s: the output %s overlaps the input %s%s", what,
                      weir__view_text(written).text, weir__view_text(read).text,
                      same ? ", but is not the same view" : "");
}

weir_status weir__check_overlap(const char *what, const weir_tensor *written,
                                const weir_tensor *read, bool same)
{
    /* Memory from outside may have two handles with different buffers; memory of the pool has
     * one. */
    if (read->buffer != written->buffer && read->buffer->state != WEIR__EXTERNAL &&
        written->buffer->state != WEIR__EXTERNAL)
        return WEIR_OK;
    return weir__check_views(what, &written->view, &read->view, same);
}

/* ---- public ---- */

weir_status weir__tensor_resolve(weir_stream **s)
{
    weir_device *dev;
    weir_status st;

    if (*s)
        return WEIR_OK;
    if ((st = weir_device_default(&dev)))
        return st;
    *s = weir_stream_current(dev);
    return WEIR_OK;
}

weir_status weir_tensor_empty(weir_stream *s, weir_dtype dtype, int ndim, const int64_t *shape,
                              weir_tensor **out)
{
    struct weir__view view;
    weir_status st;
    bool alone;

    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = weir__tensor_resolve(&s)) || (st = weir__view_init(&view, dtype, ndim, shape)))
        return st;
    alone = weir__stream_lock(s);
    if (weir__unlikely(alone)) {
        if ((*out = weir__tensor_alloc_alone(s, &view))) {
            weir__stream_unlock(s, true);
            return WEIR_OK;
        }
        weir__stream_lock_device(s, &alone);
    }
    st = weir__tensor_alloc(s, &view, out);
    /* The bytes are free for this stream only: for other streams the allocation counts as a
     * write. */
    if (!st && weir__race_on())
        weir__race_note(s, "allocation", &(struct weir__access){*out, true}, 1);
    weir__device_unlock(s->dev);
    s->dev->driver->kick(s->dev); /* memory order may have queued a wait */
    return st;
}

static bool fits_memory(const struct weir__view *v)
{
    int64_t reach = 1, step;

    for (int i = 0; i < v->ndim; i++)
        if (v->shape[i] > 1 && (__builtin_mul_overflow(v->shape[i] - 1, v->stride[i], &step) ||
                                __builtin_add_overflow(reach, step, &reach)))
            return false;
    return !__builtin_mul_overflow(reach, (int64_t)weir__dtype_size(v->dtype), &reach);
}

/* Sets the caller's strides; NULL keeps the contiguous ones. */
static weir_status set_strides(struct weir__view *v, const int64_t *strides)
{
    for (int i = 0; i < v->ndim && strides; i++) {
        if (strides[i] < 0)
            return weir__fail(WEIR_ESHAPE, "stride %lld of dim %d is negative",
                              (long long)strides[i], i);
        v->stride[i] = strides[i];
    }
    if (!fits_memory(v))
        return weir__fail(WEIR_ESHAPE, "the strides of %s reach beyond the address space",
                          weir__view_text(v).text);
    return WEIR_OK;
}

static weir_status check_reach(weir_device *dev, const struct weir__view *view, const void *data)
{
    if (!weir__view_numel(view))
        return WEIR_OK;
    if (!data)
        return weir__fail(WEIR_EINVAL, "the memory of a wrapped %s is NULL",
                          weir__view_text(view).text);
    if (dev->props.features & WEIR_FEATURE_HOST_MEMORY)
        return WEIR_OK;
    if (dev->driver->native && dev->driver->native->reaches(dev, data))
        return WEIR_OK;
    return weir__fail(WEIR_EUNSUPPORTED, "%s cannot access the memory at %p: copy it to the device",
                      dev->props.name, data);
}

weir_status weir_tensor_wrap(weir_stream *s, weir_dtype dtype, int ndim, const int64_t *shape,
                             const int64_t *strides, void *data, void (*release)(void *user),
                             void *user, weir_tensor **out)
{
    struct weir__view view;
    const char *first, *last;
    weir_tensor *t;
    weir_status st;

    WEIR__NEED(out, "out");
    *out = NULL;
    if ((st = weir__tensor_resolve(&s)) || (st = weir__view_init(&view, dtype, ndim, shape)))
        return st;
    if ((st = check_reach(s->dev, &view, data)))
        return st;
    if ((st = set_strides(&view, strides)))
        return st;
    view.data = data;
    weir__view_span(&view, &first, &last);
    weir__device_lock(s->dev);
    if (!(t = weir__tensor_new(s->dev)))
        st = weir__fail_nomem("making a tensor on %s", s->dev->props.name);
    else if ((st = weir__pool_wrap(&s->dev->pool, s->slot, data, (size_t)(last - first), release,
                                   user, &t->buffer)))
        weir__tensor_drop(t);
    else {
        atomic_init(&t->buffer->refs, 1);
        t->view = view;
        *out = t;
    }
    weir__device_unlock(s->dev);
    return st;
}

/* The common case of a view of bytes with strides, in one pass. Returns false for anything large,
 * empty, wrong or unusual: view_checked handles it and reports errors. */
static bool view_usual(const struct weir__view *from, size_t offset, weir_dtype dtype, int ndim,
                       const int64_t *shape, const int64_t *strides, struct weir__view *v)
{
    const uint64_t most = 1u << 30;
    uint64_t elements = 1, reach = 1, room;

    if (from->dtype != WEIR_U8 || from->ndim != 1 || (from->stride[0] != 1 && from->shape[0] > 1) ||
        (unsigned)dtype >= WEIR_DTYPE_COUNT || (unsigned)ndim > WEIR_MAX_DIMS || !strides)
        return false;
    for (int i = 0; i < ndim; i++) {
        uint64_t size = (uint64_t)shape[i], stride = (uint64_t)strides[i];

        if (!size || size > most || stride > most || (elements *= size) > most ||
            (reach += (size - 1) * stride) > most)
            return false;
        v->shape[i] = shape[i];
        v->stride[i] = strides[i];
    }
    room = (uint64_t)from->shape[0];
    if (offset > room || reach * weir__dtype_bytes[dtype] > room - offset)
        return false;
    v->dtype = dtype;
    v->ndim = ndim;
    v->data = from->data + offset;
    return !((uintptr_t)v->data & (weir__dtype_bytes[dtype] - 1));
}

static weir_status view_checked(const struct weir__view *from, size_t offset, weir_dtype dtype,
                                int ndim, const int64_t *shape, const int64_t *strides,
                                struct weir__view *v)
{
    const char *first, *last;
    size_t bytes, reach;
    weir_status st;

    if ((st = weir__view_init(v, dtype, ndim, shape)) || (st = set_strides(v, strides)))
        return st;
    if (!weir__view_is_contiguous(from))
        return weir__fail(WEIR_ESHAPE, "view: %s is not contiguous", weir__view_text(from).text);
    bytes = (size_t)weir__view_numel(from) * weir_dtype_size(from->dtype);
    weir__view_span(v, &first, &last);
    reach = (size_t)((uintptr_t)last - (uintptr_t)first);
    if (offset > bytes || reach > bytes - offset)
        return weir__fail(WEIR_ERANGE, "view: %s from byte %zu on does not lie within %s",
                          weir__view_text(v).text, offset, weir__view_text(from).text);
    v->data = from->data + offset;
    if ((uintptr_t)v->data % weir_dtype_size(dtype))
        return weir__fail(WEIR_EINVAL, "view: %s at %p is not aligned", weir__view_text(v).text,
                          (void *)v->data);
    return WEIR_OK;
}

weir_status weir_tensor_view(weir_tensor *from, size_t offset, weir_dtype dtype, int ndim,
                             const int64_t *shape, const int64_t *strides, weir_tensor **out)
{
    WEIR__NEED(out, "out");

    struct weir__view view;
    weir_tensor *t;
    weir_status st;

    *out = NULL;
    if ((st = weir__tensor_check_bytes(from, "view")))
        return st;
    if (!view_usual(&from->view, offset, dtype, ndim, shape, strides, &view) &&
        (st = view_checked(&from->view, offset, dtype, ndim, shape, strides, &view)))
        return st;
    if (!(t = weir__tensor_new_view(from)))
        return weir__fail_nomem("making a view on %s", from->dev->props.name);
    t->view = view;
    *out = t;
    return WEIR_OK;
}

weir_device *weir_tensor_device(const weir_tensor *t)
{
    return t ? t->dev : NULL;
}
weir_dtype weir_tensor_dtype(const weir_tensor *t)
{
    return t ? t->view.dtype : WEIR_DTYPE_COUNT;
}
int weir_tensor_ndim(const weir_tensor *t)
{
    return t ? t->view.ndim : 0;
}
const int64_t *weir_tensor_shape(const weir_tensor *t)
{
    return t ? t->view.shape : NULL;
}
const int64_t *weir_tensor_strides(const weir_tensor *t)
{
    return t ? t->view.stride : NULL;
}
int64_t weir_tensor_numel(const weir_tensor *t)
{
    return t ? weir__view_numel(&t->view) : 0;
}
bool weir_tensor_is_contiguous(const weir_tensor *t)
{
    return t ? weir__view_is_contiguous(&t->view) : false;
}
void *weir_tensor_data(const weir_tensor *t)
{
    return t ? t->graph ? NULL : t->view.data : NULL;
}

weir_status weir_tensor_used_on(weir_tensor *t, weir_stream *s)
{
    WEIR__NEED(t, "tensor");
    WEIR__NEED(s, "stream");

    weir_status st = weir__tensor_check_bytes(t, "used_on");

    return st ? st : weir_buffer_used_on(t->buffer, s);
}
