/* What elementwise operators share: checks, and the arguments of the walker. */
#ifndef WEIR_OPS_ELEMENTWISE_H
#define WEIR_OPS_ELEMENTWISE_H

#include "ops/host/math/elementwise.h"
#include "ops/op.h"

/* Which types an operator takes. */
enum weir__types {
    WEIR__TYPES_FLOAT,  /* f32 f16 bf16 f64 */
    WEIR__TYPES_NUMBER, /* and i64 i32 i8 u8 */
    WEIR__TYPES_ALL,    /* and bool */
    WEIR__TYPES_INTEGER,
    WEIR__TYPES_BITS, /* integers and bool */
};

/* WEIR_EDTYPE naming the operator, what it takes and what it got. */
weir_status weir__check_type(const char *op, const struct weir__view *x, enum weir__types types);
/* WEIR_EDTYPE showing both operands. */
weir_status weir__check_same_type(const char *op, const struct weir__view *a,
                                  const struct weir__view *b);
/* The dim a possibly negative one means.
 * returns  WEIR_ERANGE naming the range. */
weir_status weir__check_dim(const char *op, int64_t dim, const struct weir__view *x, int *out);

/* What the type makes of the value. */
double weir__rounded(double value, weir_dtype dtype);
/* `value` in the type's own bytes, as constants of the walker are.
 * returns  WEIR_ERANGE where an integer type has no such value. */
weir_status weir__constant(const char *op, double value, weir_dtype dtype, void *out);
/* The same, with the nearest value the type has. */
void weir__constant_saturated(double value, weir_dtype dtype, void *out);

/* Fills work for `out = fn(in...)`, each input broadcast to out's shape; a NULL
 * input is constant[0]. Rows reach fn in the operands' compute types, or untouched
 * if `raw`. Without fn, in[0] is converted to out's type. `ns_per_kilo` is what a
 * thousand elements cost beside memory traffic. */
struct weir__ew_call {
    weir__ew_fn fn;
    int code; /* fn's, for devices that compile */
    const struct weir__view *out;
    const struct weir__view *in[WEIR__EW_MAX_IN];
    int nin;
    bool raw;
    int ns_per_kilo;
    double constant[2];
};
weir_status weir__ew_prepare(const struct weir__ew_call *c, unsigned cores,
                             struct weir__work *work);

/* The `place` of rows whose arguments are weir__ew_prepare's. */
void weir__ew_place(void *args, int operand, char *data);
/* The parts of an operator that works along `dim` and those behind it: what is before it. */
int64_t weir__parts_before(const struct weir__view *v, int dim);

/* Orders the dims of n views of one shape so that views[0] is walked through
 * memory, and collapses them. */
void weir__views_order(struct weir__view *const *views, int n);

/* From this many bytes on, an output is written past the caches. */
int64_t weir__nontemporal_bytes(void);

bool weir__same_shape(const struct weir__view *a, const struct weir__view *b);

/* out[0] takes in[0]'s type and shape. */
void weir__infer_like(struct weir__call *call);

/* flops per element, and every operand moved once. */
void weir__ew_cost(const struct weir__call *call, double flops, struct weir__cost *cost);

/* Of operators between two tensors, or a tensor and a number. */
struct weir__value_params {
    double value; /* the second operand where there is no second input */
};

#endif
