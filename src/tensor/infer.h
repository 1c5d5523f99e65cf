/* Shapes that operators infer, checked against overflow in one place. */
#ifndef WEIR_TENSOR_INFER_H
#define WEIR_TENSOR_INFER_H

#include "tensor/op.h"

/* The row's shape rule, with its integers and results checked. */
weir_status weir__op_infer(struct weir__call *call);

/* returns  WEIR_EDTYPE or WEIR_ESHAPE naming `what` unless such a tensor, each size of 0 taken as
 * 1, has a number of bytes that fits in 63 bits. */
weir_status weir__shape_check(const char *what, weir_dtype dtype, int ndim, const int64_t *shape);

#endif
