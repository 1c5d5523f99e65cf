/* What elementwise operators share: checks, and the arguments of the walker. */
#ifndef WEIR_OPS_ELEMENTWISE_H
#define WEIR_OPS_ELEMENTWISE_H

#include "ops/host/math/elementwise.h"
#include "ops/op.h"

/* The types that an operator takes. */
enum weir__types {
    WEIR__TYPES_FLOAT,  /* f32 f16 bf16 f64 */
    WEIR__TYPES_NUMBER, /* and i64 i32 i8 u8 */
    WEIR__TYPES_ALL,    /* and bool */
    WEIR__TYPES_INTEGER,
    WEIR__TYPES_BITS, /* integers and bool */
};

/* WEIR_EDTYPE naming the operator, the types it takes and the type it got. */
weir_status weir__check_type(const char *op, const struct weir__view *x, enum weir__types types);
/* WEIR_EDTYPE showing both operands. */
weir_status weir__check_same_type(const char *op, const struct weir__view *a,
                                  const struct weir__view *b);
/* The dim in 0..ndim-1 for a possibly negative one.
 * returns  WEIR_ERANGE naming the range. */
weir_status weir__check_dim(const char *op, int64_t dim, const struct weir__view *x, int *out);

/* The value, rounded to the type. */
double weir__rounded(double value, weir_dtype dtype);
/* `value` as bytes of the type, the form of the walker's constants.
 * returns  WEIR_ERANGE if an integer type cannot represent it. */
weir_status weir__constant(const char *op, double value, weir_dtype dtype, void *out);
/* The same, with the nearest value of the type. */
void weir__constant_saturated(double value, weir_dtype dtype, void *out);

/* Fills work for `out = fn(in...)`. Each input is broadcast to out's shape; a NULL input is
 * constant[0]. fn receives rows in the operands' compute types, or unconverted if `raw`. Without
 * fn, in[0] is converted to out's type. `ns_per_kilo` is the time per thousand elements besides
 * memory traffic. */
struct weir__ew_call {
    weir__ew_fn fn;
    int code; /* fn's code, for devices that compile */
    const struct weir__view *out;
    const struct weir__view *in[WEIR__EW_MAX_IN];
    int nin;
    bool raw;
    int ns_per_kilo;
    double constant[2];
};
weir_status weir__ew_prepare(const struct weir__ew_call *c, unsigned cores,
                             struct weir__work *work);

/* The `place` of rows that weir__ew_prepare prepares. */
void weir__ew_place(void *args, int operand, char *data);
/* The number of parts of an operator that works along `dim` and later dims: the product of the
 * earlier ones. */
int64_t weir__parts_before(const struct weir__view *v, int dim);

/* Orders the dims of n views of one shape by views[0]'s order in memory, and collapses them. */
void weir__views_order(struct weir__view *const *views, int n);

/* Outputs of at least this many bytes are written past the caches. */
int64_t weir__nontemporal_bytes(void);

bool weir__same_shape(const struct weir__view *a, const struct weir__view *b);

/* Gives out[0] the type and shape of in[0]. */
void weir__infer_like(struct weir__call *call);

/* The cost of `flops` per element, with every operand moved once. */
void weir__ew_cost(const struct weir__call *call, double flops, struct weir__cost *cost);

/* For operators of two tensors, or of a tensor and a number. */
struct weir__value_params {
    double value; /* the second operand if there is no second input */
};

#endif
