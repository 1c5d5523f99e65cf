/* Tensors inside the library: a view of a buffer that other tensors may share. */
#ifndef WEIR_TENSOR_TENSOR_H
#define WEIR_TENSOR_TENSOR_H

#include "check/race/footprint.h"
#include "device/device.h"
#include "tensor/view.h"

struct weir_tensor {
    weir_tensor *next_spare; /* first, as weir_device.spare_tensors wants it */
    _Atomic int refs;
    weir_device *dev;
    weir_buffer *buffer; /* buffer->refs tensors share it; NULL if it is a graph's */
    struct weir__view view;
    uint64_t graph; /* id of the graph it is a value of, 0 for a tensor with bytes: then */
    int value;      /* this is which, and view.data is the offset in it */
    bool dynamic;   /* views of it have recipes: its graph has dynamic inputs */
    struct weir__recipe *recipe; /* NULL for a whole value (tensor/recipe.h) */
};

/* returns  WEIR_ESTATE naming `what` if the tensor is a graph's and has no bytes. */
weir_status weir__tensor_check_bytes(const weir_tensor *tensor, const char *what);

/* NULL becomes the current stream of the default device. */
weir_status weir__tensor_resolve(weir_stream **s);

/* A record with one handle and no buffer yet; NULL when out of memory. (L) */
weir_tensor *weir__tensor_new(weir_device *dev);
/* Gives the record back; its buffer, if it has one, loses a reference. (L) */
void weir__tensor_drop(weir_tensor *tensor);
/* A contiguous tensor of view->dtype and shape with memory on `s`. (L) */
weir_status weir__tensor_alloc(weir_stream *s, const struct weir__view *view, weir_tensor **out);

/* Fills dtype, shape and contiguous strides, data NULL.
 * returns  WEIR_ESHAPE or WEIR_EDTYPE as weir_tensor_empty. */
weir_status weir__view_init(struct weir__view *view, weir_dtype dtype, int ndim,
                            const int64_t *shape);
/* Bytes from the first to the last element that the view can touch. */
void weir__view_span(const struct weir__view *view, const char **first, const char **last);

/* Which bytes it touches. */
void weir__view_footprint(const struct weir__view *view, struct weir__footprint *footprint);

/* returns  WEIR_EINVAL if several elements of the view, which is written, are one. */
weir_status weir__check_writable(const char *what, const struct weir__view *written);
/* A view that is written must share nothing with one that is read; or be the very same, for those
 * who read an element before they write it and no other (`same`).
 * returns  WEIR_EINVAL naming `what` and both. */
weir_status weir__check_views(const char *what, const struct weir__view *written,
                              const struct weir__view *read, bool same);
/* The same of tensors. */
weir_status weir__check_overlap(const char *what, const weir_tensor *written,
                                const weir_tensor *read, bool same);

/* Makes `s` wait for what wait_tensor or a write of the host said of the buffer. (L) */
weir_status weir__buffer_await(const weir_buffer *buffer, weir_stream *s);

/* Whoever uses the buffer from now on, on any stream, comes after what `s` has queued. (L) */
static inline void weir__buffer_publish(weir_buffer *buffer, const weir_stream *s)
{
    buffer->after_slot = s->slot;
    buffer->after_seq = weir__stream_submitted(s);
}

/* Queues a kernel that uses these buffers: their fences are set. (L) */
weir_status weir__submit_using(weir_stream *s, const struct weir__kernel *kernel,
                               weir_buffer *const *buffers, size_t n);

/* Queues dst <- src on `s`, which may be places of the host as `way` (of struct weir__copy) says; a
 * source of NULL data takes `bytes` from `host` now. Of the tensors the one with dst's data is
 * written; the first `nused` are of this device. (L) */
weir_status weir__queue_copy(weir_stream *s, const struct weir__view *dst,
                             const struct weir__view *src, int way, const void *host, size_t bytes,
                             weir_tensor *const *tensors, size_t ntensors, size_t nused);

/* ---- the race checker (race.c): under the device lock, while weir__race_on ---- */

struct weir__access {
    const weir_tensor *tensor;
    bool writes;
};

/* Before an operator with these accesses is queued.
 * returns  WEIR_ERACE in error mode; what the waits of autosync return. */
weir_status weir__race_check(weir_stream *s, const char *op, const struct weir__access *accesses,
                             int n);
/* It is the stream's last command now. */
void weir__race_note(weir_stream *s, const char *op, const struct weir__access *accesses, int n);
/* weir__submit_using between the two. */
weir_status weir__submit_checked(weir_stream *s, const struct weir__kernel *kernel,
                                 weir_buffer *const *buffers, size_t nbuffers,
                                 const struct weir__access *accesses, int n);

#endif
