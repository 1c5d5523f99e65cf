/* Operators that work row by row along one dim. */
#ifndef WEIR_OPS_ROWS_H
#define WEIR_OPS_ROWS_H

#include "ops/elementwise.h"
#include "ops/host/row.h"

/* The rows of `in` and `out` along `dim`, in row-major order; out may have
 * another size there, or be NULL. */
void weir__rows_init(struct weir__rows *rows, const struct weir__view *in,
                     const struct weir__view *out, int dim);

/* out[0] like in[0], for operators that keep type and shape. */
void weir__infer_like(struct weir__call *call);

#endif
