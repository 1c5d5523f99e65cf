/* Typed views by byte offset, for programs that hold addresses inside a larger allocation.
 */
#ifndef WEIR_VIEW_H
#define WEIR_VIEW_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Another type, shape and strides over the bytes of a contiguous tensor, beginning `offset` bytes
 * into it; strides are in elements, NULL means contiguous. The view keeps the tensor's bytes alive;
 * the race checker treats both as the same memory.
 * returns  WEIR_ERANGE for a view that reaches outside the tensor; WEIR_EINVAL for an address that
 *          is not a multiple of the type's size; WEIR_ESHAPE for a tensor that is not contiguous,
 *          and as weir_tensor_wrap; WEIR_ESTATE for a tensor of a graph.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_tensor_view(weir_tensor *tensor, size_t offset,
                                                    weir_dtype dtype, int ndim,
                                                    const int64_t *shape, const int64_t *strides,
                                                    weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
