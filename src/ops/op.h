/* Runs an operator given by its row. */
#ifndef WEIR_OPS_OP_H
#define WEIR_OPS_OP_H

#include "tensor/op.h"
#include "tensor/tensor.h"
#include "weir/ops.h"

/* Runs the operator on the current stream of the inputs' device. New tensors go to out[0..nout-1];
 * on an error these are NULL and nothing is queued. */
weir_status weir__op_run(const struct weir__op *op, const void *params, weir_tensor *const *in,
                         int nin, weir_tensor **out);

/* The same, writing to existing tensors of exactly the inferred shape and type. */
weir_status weir__op_run_into(const struct weir__op *op, const void *params, weir_tensor *const *in,
                              int nin, weir_tensor *const *out);

/* concat.c: whether the operator is a Concat of tensors of `ndim` dims along `dim`. */
bool weir__is_concat(const struct weir__op *op, const void *params, int ndim, int dim);

#endif
