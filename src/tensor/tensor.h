/* Tensors inside the library: a view of a buffer that other tensors may share. */
#ifndef WEIR_TENSOR_TENSOR_H
#define WEIR_TENSOR_TENSOR_H

#include "device/device.h"
#include "tensor/view.h"

struct weir_tensor {
    weir_tensor *next_spare; /* first, as weir_device.spare_tensors wants it */
    _Atomic int refs;
    weir_device *dev;
    weir_buffer *buffer; /* buffer->refs tensors share it */
    struct weir__view view;
};

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

/* Queues a kernel that uses these buffers: their fences are set. (L) */
weir_status weir__submit_using(weir_stream *s, const struct weir__kernel *kernel,
                               weir_buffer *const *buffers, size_t n);

#endif
