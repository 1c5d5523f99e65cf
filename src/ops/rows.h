/* Operators that work row by row along one dim. */
#ifndef WEIR_OPS_ROWS_H
#define WEIR_OPS_ROWS_H

#include "ops/elementwise.h"
#include "ops/host/row.h"

/* The rows of `in` and `out` along `dim`, in row-major order; out may have
 * another size there. */
void weir__rows_init(struct weir__rows *rows, const struct weir__view *in,
                     const struct weir__view *out, int dim);

#endif
