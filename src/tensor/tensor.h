/* Tensors inside the library: a view of a buffer that other tensors may share. */
#ifndef WEIR_TENSOR_TENSOR_H
#define WEIR_TENSOR_TENSOR_H

#include "check/race/footprint.h"
#include "device/device.h"
#include "tensor/view.h"

struct weir_tensor {
    weir_tensor *next_spare; /* must be first, for weir_device.spare_tensors */
    _Atomic int refs;
    weir_device *dev;
    weir_buffer *buffer; /* shared by buffer->refs tensors; NULL for a graph's tensor */
    struct weir__view view;
    uint64_t graph; /* id of the graph whose value it is; 0 for a tensor with bytes */
    int value;      /* for a graph's tensor: the number of the value; view.data is then the offset
                     * in it */
    bool dynamic;   /* its graph has dynamic inputs, so views of it have recipes */
    struct weir__recipe *recipe; /* NULL for a whole value (tensor/recipe.h) */
};

/* returns  WEIR_ESTATE naming `what` if the tensor belongs to a graph and has no bytes. */
weir_status weir__tensor_check_bytes(const weir_tensor *tensor, const char *what);

/* Replaces NULL by the current stream of the default device. */
weir_status weir__tensor_resolve(weir_stream **s);

/* A record with one handle and no buffer yet; NULL when out of memory. (L) */
weir_tensor *weir__tensor_new(weir_device *dev);
/* A record with one handle that shares the buffer of `from`; NULL when out of memory. The caller
 * holds no lock. */
weir_tensor *weir__tensor_new_view(const weir_tensor *from);
/* Frees the record; drops a reference to its buffer, if it has one. (L) */
void weir__tensor_drop(weir_tensor *tensor);
/* A contiguous tensor of view->dtype and shape with memory on `s`. (L) */
weir_status weir__tensor_alloc(weir_stream *s, const struct weir__view *view, weir_tensor **out);

/* The same under the lock of `s` alone (device/device.h). NULL if that needs the device lock;
 * nothing has changed then. */
weir_tensor *weir__tensor_alloc_alone(weir_stream *s, const struct weir__view *view);
/* Frees a tensor that weir__tensor_alloc_alone has just made; `s` has been locked since. */
void weir__tensor_drop_alone(weir_stream *s, weir_tensor *tensor);

/* Fills dtype, shape and contiguous strides, data NULL.
 * returns  WEIR_ESHAPE or WEIR_EDTYPE as weir_tensor_empty. */
weir_status weir__view_init(struct weir__view *view, weir_dtype dtype, int ndim,
                            const int64_t *shape);
/* The range of bytes from the first to the end of the last element of the view. */
void weir__view_span(const struct weir__view *view, const char **first, const char **last);

/* The bytes that the view accesses. */
void weir__view_footprint(const struct weir__view *view, struct weir__footprint *footprint);

/* returns  WEIR_EINVAL if several elements of the written view share memory. */
weir_status weir__check_writable(const char *what, const struct weir__view *written);
/* Checks that the written view shares no memory with the read one. With `same` it may also be the
 * very same view: for operators that read an element before they write it, and no other.
 * returns  WEIR_EINVAL naming `what` and both. */
weir_status weir__check_views(const char *what, const struct weir__view *written,
                              const struct weir__view *read, bool same);
/* The same for tensors. */
weir_status weir__check_overlap(const char *what, const weir_tensor *written,
                                const weir_tensor *read, bool same);

/* Makes `s` wait for the work that wait_tensor or a write from the host attached to the buffer.
 * (L) */
weir_status weir__buffer_await(const weir_buffer *buffer, weir_stream *s);

/* Orders every later use of the buffer, on any stream, after everything queued on `s`. (L) */
static inline void weir__buffer_publish(weir_buffer *buffer, const weir_stream *s)
{
    buffer->after_slot = s->slot;
    buffer->after_seq = weir__stream_submitted(s);
}

/* True if the lock of `s` alone is enough for a launch that uses these buffers: nothing has to be
 * queued before it, and the stream is already recorded in every buffer. */
bool weir__launch_fits(const weir_stream *s, weir_buffer *const *buffers, size_t n);

/* Queues a kernel that uses these buffers and sets their fences. (L), or `alone` the lock of `s`
 * after weir__launch_fits, which has found that nothing must be waited for. */
weir_status weir__submit_using(weir_stream *s, const struct weir__kernel *kernel,
                               weir_buffer *const *buffers, size_t n, bool alone);

/* Queues dst <- src on `s`. Either may be host memory, as `way` (of struct weir__copy) says. If
 * src->data is NULL, the call copies `bytes` from `host` now. The tensor that holds dst's data is
 * written; the first `nused` tensors are of this device. (L) */
weir_status weir__queue_copy(weir_stream *s, const struct weir__view *dst,
                             const struct weir__view *src, int way, const void *host, size_t bytes,
                             weir_tensor *const *tensors, size_t ntensors, size_t nused);

/* ---- the race checker (race.c): under the device lock, while weir__race_on ---- */

struct weir__access {
    const weir_tensor *tensor;
    bool writes;
};

/* Before an operator with these accesses is queued.
 * returns  WEIR_ERACE in error mode; the errors of autosync's waits. */
weir_status weir__race_check(weir_stream *s, const char *op, const struct weir__access *accesses,
                             int n);
/* Call it after the operator is queued, as the stream's last command. */
void weir__race_note(weir_stream *s, const char *op, const struct weir__access *accesses, int n);
/* weir__submit_using between weir__race_check and weir__race_note. */
weir_status weir__submit_checked(weir_stream *s, const struct weir__kernel *kernel,
                                 weir_buffer *const *buffers, size_t nbuffers,
                                 const struct weir__access *accesses, int n);

#endif
