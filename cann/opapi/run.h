/* The functions that rows name, and what they share across files. */
#ifndef WEIR_OPAPI_RUN_H
#define WEIR_OPAPI_RUN_H

#include "aclnnop/map.h"
#include "call.h"
#include "hostmath.h"

#define WEIR_ACLNN_ROW(name, run, types, ...) void run(struct call *c);
#include "aclnnop/rows.h"
#undef WEIR_ACLNN_ROW

/* The operand that is written first, and writing it. */
int result(const struct call *c);
void give(struct call *c, tensor *x);
/* The same for what is promoted: in place, a float does not become an integer. */
void give_promoted(struct call *c, tensor *x);

/* A scalar operand beside x, as a tensor without dims, in a type that takes x where PyTorch
 * would. */
tensor *beside(struct call *c, int i, tensor *x);
/* Whether that scalar may be given to weir as a number: x keeps its type. */
bool plain(const struct call *c, int i, const tensor *x);
/* Integers as floats, to be divided. */
tensor *divisible(struct call *c, tensor *x);
/* Operand 1 beside x: a tensor or a scalar. */
tensor *second(struct call *c, tensor *x);
/* The dims of an array operand, wrapped; gives how many; none means all. */
int dims_of(struct call *c, tensor *x, int i, int *dims);
int64_t elements_along(const tensor *x, const int *dims, int n);
/* The two halves along a dim. */
void halves(struct call *c, tensor *x, int64_t dim, tensor **first, tensor **other);

/* Writes `x` to an output that has room for more, and says in it how much there is. */
void put_found(struct call *c, int i, tensor *x);

tensor *op_sign(struct call *c, tensor *x);
tensor *op_finite(struct call *c, tensor *x);
tensor *op_lerp(struct call *c, tensor *a, tensor *b, tensor *w);
tensor *op_gelu_tanh(struct call *c, tensor *x);
tensor *op_norm(struct call *c, tensor *x, double p, const int *dims, int n, bool keep);
tensor *op_cumsum(struct call *c, tensor *x, int dim); /* in f32, f64 or i64 */
tensor *op_log_softmax(struct call *c, tensor *x, int dim);

#endif
