/* The functions that rows of the table name, and their common helpers.
 *
 * The comment above a function run_X lists its operands in the order of its row in
 * aclnnop/rows.h. */
#ifndef WEIR_OPAPI_RUN_H
#define WEIR_OPAPI_RUN_H

#include "aclnnop/map.h"
#include "call.h"
#include "hostmath.h"

#define WEIR_ACLNN_ROW(name, run, types, ...) void run(struct call *c);
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW

/* Returns the index of the first operand that is written; `give` writes it. */
int result(const struct call *c);
void give(struct call *c, tensor *x);
/* The same for promoted results: fails if a float result would be written to an integer in
 * place. */
void give_promoted(struct call *c, tensor *x);

/* Converts a scalar operand to a tensor without dims. Its type is such that an operation with x
 * promotes as in PyTorch. */
tensor *beside(struct call *c, int i, tensor *x);
/* True if that scalar may be passed to weir as a number, because x keeps its type. */
bool plain(const struct call *c, int i, const tensor *x);
/* Converts integers to floats for a division. */
tensor *divisible(struct call *c, tensor *x);
/* Returns operand 1, a tensor or a scalar, for an operation with x. */
tensor *second(struct call *c, tensor *x);
/* Reads the dims of an array operand, converts negative ones, and returns their number; an empty
 * array means all dims. */
int dims_of(struct call *c, tensor *x, int i, int *dims);
int64_t elements_along(const tensor *x, const int *dims, int n);
/* Splits x into two halves along a dim. */
void halves(struct call *c, tensor *x, int64_t dim, tensor **first, tensor **other);

/* Writes `x` to an output that may be larger, and sets the output's shape to that of `x`. */
void put_found(struct call *c, int i, tensor *x);

tensor *op_sign(struct call *c, tensor *x);
tensor *op_finite(struct call *c, tensor *x);
tensor *op_lerp(struct call *c, tensor *a, tensor *b, tensor *w);
tensor *op_gelu_tanh(struct call *c, tensor *x);
tensor *op_norm(struct call *c, tensor *x, double p, const int *dims, int n, bool keep);
tensor *op_cumsum(struct call *c, tensor *x, int dim); /* in f32, f64 or i64 */
tensor *op_log_softmax(struct call *c, tensor *x, int dim);

#endif
