/* For operators that work row by row along one dim. */
#ifndef WEIR_OPS_ROWS_H
#define WEIR_OPS_ROWS_H

#include "ops/elementwise.h"
#include "ops/host/row.h"

/* The rows of `in` and `out` along `dim`, in row-major order. out may have another size there. */
void weir__rows_init(struct weir__rows *rows, const struct weir__view *in,
                     const struct weir__view *out, int dim);

/* Runs an operator with outputs values and indices, and releases those that the caller did not ask
 * for: either pointer may be NULL. */
weir_status weir__rows_run_two(const struct weir__op *op, const void *params, weir_tensor *x,
                               weir_tensor **values, weir_tensor **indices);

#endif
