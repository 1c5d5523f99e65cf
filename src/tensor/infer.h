/* Shapes that operators infer, checked against overflow in one place. */
#ifndef WEIR_TENSOR_INFER_H
#define WEIR_TENSOR_INFER_H

#include "tensor/op.h"

/* Calls the row's shape rule, and checks its integers and results. */
weir_status weir__op_infer(struct weir__call *call);

/* returns  WEIR_EDTYPE or WEIR_ESHAPE naming `what` unless the tensor's bytes, with sizes of 0
 *          taken as 1, fit in 63 bits. */
weir_status weir__shape_check(const char *what, weir_dtype dtype, int ndim, const int64_t *shape);

#endif
