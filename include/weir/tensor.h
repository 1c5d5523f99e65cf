/* Tensors: typed, strided views of device memory.
 *
 * A tensor is a counted handle. Views share the bytes. Everything that touches
 * bytes is queued on a stream and returns at once; only reading into host
 * memory and printing wait.
 *
 * The caller orders work across streams (events, weir_stream_wait_stream, weir_wait_tensor), with
 * two exceptions:
 * - a tensor filled from the host (weir_tensor_from, weir_tensor_write) or by weir_arange is ready
 *   for every stream when the call returns;
 * - weir_tensor_read and weir_tensor_format wait for every use of the tensor queued so far, on
 *   every stream.
 * weir_fill, random numbers and the _async calls run on the current stream, as operators do.
 * weir_wait_tensor(t, t) makes a tensor that they filled ready for every stream.
 */
#ifndef WEIR_TENSOR_H
#define WEIR_TENSOR_H

#include "memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_MAX_DIMS 8

/* name, bytes, text */
#define WEIR_DTYPE_LIST(X) \
    X(F32, 4, "f32")       \
    X(F16, 2, "f16")       \
    X(BF16, 2, "bf16")     \
    X(F64, 8, "f64")       \
    X(I64, 8, "i64")       \
    X(I32, 4, "i32")       \
    X(I8, 1, "i8")         \
    X(U8, 1, "u8")         \
    X(BOOL, 1, "bool")

typedef enum weir_dtype {
#define WEIR_DTYPE_ENUM(name, bytes, text) WEIR_##name,
    WEIR_DTYPE_LIST(WEIR_DTYPE_ENUM)
#undef WEIR_DTYPE_ENUM
        WEIR_DTYPE_COUNT
} weir_dtype;

typedef struct weir_tensor weir_tensor;

WEIR_API const char *weir_dtype_name(weir_dtype dtype);
WEIR_API size_t weir_dtype_size(weir_dtype dtype);
WEIR_API bool weir_dtype_is_float(weir_dtype dtype);

/* An uninitialised contiguous tensor whose memory is allocated in the order of `stream`; NULL means
 * the current stream of the default device.
 * returns  WEIR_ESHAPE for negative sizes, more than 8 dims or an overflow.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_empty(weir_stream *stream, weir_dtype dtype,
                                                     int ndim, const int64_t *shape,
                                                     weir_tensor **out);

/* As weir_tensor_empty, filled from `data` (contiguous). The bytes are read before the call
 * returns, and the tensor is ready for every stream. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_from(weir_stream *stream, weir_dtype dtype, int ndim,
                                                    const int64_t *shape, const void *data,
                                                    weir_tensor **out);

/* Wraps memory without a copy: host memory on devices that can read it; on `cuda` memory of that
 * GPU, or pinned memory that CUDA knows. `release` is called once, when the last handle is released
 * and every queued use has completed; it may be NULL. Strides are in elements; NULL means
 * contiguous.
 * returns  WEIR_EUNSUPPORTED for memory that the device cannot reach. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_wrap(weir_stream *stream, weir_dtype dtype, int ndim,
                                                    const int64_t *shape, const int64_t *strides,
                                                    void *data, void (*release)(void *user),
                                                    void *user, weir_tensor **out);

/* Adds and removes a handle. Releasing the last one frees the bytes in stream
 * order: queued work that uses them is safe. NULL is fine.
 * threads  any. */
WEIR_API weir_tensor *weir_tensor_retain(weir_tensor *tensor);
WEIR_API void weir_tensor_release(weir_tensor *tensor);

/* threads  any, for all of these. */
WEIR_API weir_device *weir_tensor_device(const weir_tensor *tensor);
WEIR_API weir_dtype weir_tensor_dtype(const weir_tensor *tensor);
WEIR_API int weir_tensor_ndim(const weir_tensor *tensor);
WEIR_API const int64_t *weir_tensor_shape(const weir_tensor *tensor);
WEIR_API const int64_t *weir_tensor_strides(const weir_tensor *tensor); /* in elements */
WEIR_API int64_t weir_tensor_numel(const weir_tensor *tensor);
WEIR_API bool weir_tensor_is_contiguous(const weir_tensor *tensor);
/* The first element's address on the device. Call weir_tensor_sync before using it on the host. */
WEIR_API void *weir_tensor_data(const weir_tensor *tensor);

/* ---- views: no copy, no work ---- */

/* Elements start, start+step, ... below stop of one dim; negative start and stop
 * count from the end, as in Python; step is positive. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_slice(weir_tensor *tensor, int dim, int64_t start,
                                                     int64_t stop, int64_t step, weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_transpose(weir_tensor *tensor, int dim0, int dim1,
                                                         weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_permute(weir_tensor *tensor, const int *dims,
                                                       weir_tensor **out);
/* Squeeze drops a dim of size 1. Unsqueeze adds one before `dim`, which may be the number of dims.
 * In a graph both follow dynamic sizes.
 * returns  WEIR_ESHAPE if the dim's size is not 1; WEIR_ERANGE for a dim that does not exist. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_squeeze(weir_tensor *tensor, int dim,
                                                       weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_unsqueeze(weir_tensor *tensor, int dim,
                                                         weir_tensor **out);
/* One size may be -1.
 * returns  WEIR_ESHAPE if the strides cannot express the shape: call weir_contiguous first. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_reshape(weir_tensor *tensor, int ndim,
                                                       const int64_t *shape, weir_tensor **out);
/* Sizes of 1 grow, new dims come in front; -1 keeps a size. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_expand(weir_tensor *tensor, int ndim,
                                                      const int64_t *shape, weir_tensor **out);

/* ---- bytes to and from the host ---- */

/* Copies between a tensor and contiguous host memory.
 * Write has read `data` when it returns. It is ordered with the current stream, and work queued
 * later on any stream sees the new values. The caller must order the write after work of other
 * streams that still uses the old values.
 * Read waits until every use queued so far, on any stream, has completed and `data` holds the
 * values.
 * returns  WEIR_EINVAL if `bytes` is not the tensor's size; the error of a stream that it waits
 *          for; WEIR_EINTERRUPTED with nothing copied; WEIR_ETIMEDOUT if the copy is still queued:
 *          `data` must then stay valid. */
WEIR_API weir_status weir_tensor_write(weir_tensor *tensor, const void *data, size_t bytes);
WEIR_API weir_status weir_tensor_read(weir_tensor *tensor, void *data, size_t bytes);

/* The same without waiting, as work of the current stream. `data` must stay valid until the copy
 * completes. The caller orders other streams. */
WEIR_API weir_status weir_tensor_write_async(weir_tensor *tensor, const void *data, size_t bytes);
WEIR_API weir_status weir_tensor_read_async(weir_tensor *tensor, void *data, size_t bytes);

/* Waits until every use of the tensor's bytes queued so far, on any stream, has completed: then the
 * host may read and write them where the device has host memory.
 * returns  the first error of a stream it waits for; WEIR_ESTATE for a tensor of a graph.
 * threads  any. */
WEIR_API weir_status weir_tensor_sync(weir_tensor *tensor);

/* Orders everything queued from now on on a native stream (see weir_stream_native) after every use
 * of the tensor's bytes queued so far, on any stream.
 * returns  WEIR_EUNSUPPORTED on devices without native streams.
 * threads  any. */
WEIR_API weir_status weir_tensor_signal_native(weir_tensor *tensor, void *native);

/* Copies values to a tensor of the same shape and type, on the same or another device. It is queued
 * on the current streams of both, which wait for each other's work so far and take over its error.
 * Both tensors may be released at once. The call waits only if one device runs in virtual time and
 * the other is of another kind; it then returns the error of the stream it waited for.
 * threads  any. */
WEIR_API weir_status weir_tensor_copy(weir_tensor *dst, weir_tensor *src);

/* Notes that `stream` uses the tensor, for work that is not submitted through weir. */
WEIR_API weir_status weir_tensor_used_on(weir_tensor *tensor, weir_stream *stream);

/* A text for people, long tensors shortened; waits for the values. Free with free().
 * returns  NULL on an error, see weir_last_error. */
WEIR_API char *weir_tensor_format(weir_tensor *tensor);

/* ---- DLPack ----
 * `DLManagedTensor *` and `DLManagedTensorVersioned *` behind void pointers, so
 * that no DLPack header is needed here. Importing takes ownership of the struct:
 * weir calls its deleter once, when the last handle is released and every queued use has completed.
 * On an error the caller still owns it. Exporting keeps the tensor alive until the consumer calls
 * the deleter; the consumer must order its reads after the stream that is current here. On `cuda`
 * (kDLCUDA) the memory is reused only after the work that weir's native streams and CUDA's default
 * stream have when the deleter is called: a consumer that uses other streams must order them before
 * one of those. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_from_dlpack(weir_stream *stream, void *managed,
                                                           weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_from_dlpack_versioned(weir_stream *stream,
                                                                     void *managed,
                                                                     weir_tensor **out);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_to_dlpack(weir_tensor *tensor, void **managed);
WEIR_API WEIR_MUST_USE weir_status weir_tensor_to_dlpack_versioned(weir_tensor *tensor,
                                                                   void **managed);
/* The DLPack device of the device's tensors: type kDLCPU (1) or kDLCUDA (2), and its number. */
WEIR_API void weir_device_dlpack(const weir_device *dev, int32_t *type, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
