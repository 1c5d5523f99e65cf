/* The table of operators: for each, how to make a random call and what it must give.
 *
 * A new operator is a row in one of the opcases_*.c files and a name in OP_CASES:
 * every suite that goes over all operators then covers it.
 */
#ifndef TESTS_CONFORMANCE_OPS_OPCASES_H
#define TESTS_CONFORMANCE_OPS_OPCASES_H

#include "conformance/conformance.h"

/* clang-format off */
#define OP_CASES(X)                                                            \
    X(neg) X(abs) X(exp) X(log) X(sqrt) X(rsqrt) X(sigmoid) X(tanh) X(relu)    \
    X(gelu) X(silu) X(sin) X(cos) X(bitwise_not)                               \
    X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum)                   \
    X(bitwise_and) X(bitwise_or) X(bitwise_xor)                                \
    X(bitwise_left_shift) X(bitwise_right_shift)                               \
    X(bitwise_and_scalar) X(bitwise_or_scalar) X(bitwise_xor_scalar)           \
    X(bitwise_left_shift_scalar) X(bitwise_right_shift_scalar)                 \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge)                                        \
    X(add_scalar) X(sub_scalar) X(mul_scalar) X(div_scalar) X(pow_scalar)      \
    X(maximum_scalar) X(minimum_scalar)                                        \
    X(eq_scalar) X(ne_scalar) X(lt_scalar) X(le_scalar) X(gt_scalar)           \
    X(ge_scalar)                                                               \
    X(clamp) X(where) X(swiglu)                                                \
    X(cast) X(fill) X(arange) X(copy) X(contiguous) X(copy_into) X(concat)     \
    X(matmul) X(matmul_bias) X(linear) X(grouped_matmul) X(conv2d)             \
    X(attention)                                                               \
    X(sum) X(mean) X(max) X(min) X(argmax) X(softmax) X(layer_norm)            \
    X(rms_norm) X(cumsum) X(cumprod) X(cummax) X(cummin)                       \
    X(embedding) X(gather) X(index_select) X(scatter_add) X(scatter) X(topk)   \
    X(sort)                                                                    \
    X(argsort) X(nonzero) X(moe_gating) X(rotary)                              \
    X(expert_choice) X(expert_order) X(expert_sum)                             \
    X(random_uniform) X(random_normal)
/* clang-format on */

#define TYPE(t) (1u << WEIR_##t)
#define TYPES_FLOAT (TYPE(F32) | TYPE(F16) | TYPE(BF16) | TYPE(F64))
#define TYPES_INTEGER (TYPE(I64) | TYPE(I32) | TYPE(I8) | TYPE(U8))
#define TYPES_BITS (TYPES_INTEGER | TYPE(BOOL))
#define TYPES_NUMBER (TYPES_FLOAT | TYPES_INTEGER)
#define TYPES_ALL (TYPES_NUMBER | TYPE(BOOL))

enum { CALL_INPUTS = 6, CALL_OUTPUTS = 3 };

/* One call of an operator on host arrays. */
struct call {
    const struct op_case *op;
    struct rng rng;
    int64_t budget; /* elements that its largest array may have, roughly */
    int nin, nout;
    struct array in[CALL_INPUTS];   /* without values where optional and absent */
    struct array out[CALL_OUTPUTS]; /* set by the reference */
    double real[2];
    int64_t whole[WEIR_MAX_DIMS];
    bool flag[2];
    double terms; /* how many roundings an element goes through; set by the reference */
};

enum {
    OP_EXACT = 1 << 0,     /* the reference's value in the nearest value of the type */
    OP_IN_PLACE = 1 << 1,  /* the result is in[0] */
    OP_SPECIAL = 1 << 2,   /* infinities and NaN go in, too */
    OP_ROUNDS = 1 << 3,    /* every step on the way is rounded into the type */
    OP_NO_VALUES = 1 << 4, /* no reference: random numbers have cases of their own */
};

typedef weir_status (*unary_fn)(weir_tensor *x, weir_tensor **out);
typedef weir_status (*unary_into_fn)(weir_tensor *x, weir_tensor *out);
typedef weir_status (*binary_fn)(weir_tensor *a, weir_tensor *b, weir_tensor **out);
typedef weir_status (*binary_into_fn)(weir_tensor *a, weir_tensor *b, weir_tensor *out);
typedef weir_status (*scalar_fn)(weir_tensor *a, double b, weir_tensor **out);
typedef weir_status (*scalar_into_fn)(weir_tensor *a, double b, weir_tensor *out);
typedef weir_status (*reduce_fn)(weir_tensor *x, const int *dims, int ndims, bool keepdim,
                                 weir_tensor **out);

struct op_case {
    const char *name;
    unsigned types, flags;
    double low, high; /* of float inputs; 0, 0 means -4..4 */
    /* A random call with inputs of that type. */
    void (*make)(struct call *c, weir_dtype dtype);
    weir_status (*run)(const struct call *c, weir_tensor *const *in, weir_tensor **out);
    /* NULL where there is no such form. */
    weir_status (*run_into)(const struct call *c, weir_tensor *const *in, weir_tensor *out);
    void (*reference)(struct call *c);
    /* What rows of one kind share. */
    unary_fn unary;
    unary_into_fn unary_into;
    binary_fn binary;
    binary_into_fn binary_into;
    scalar_fn scalar;
    scalar_into_fn scalar_into;
    reduce_fn reduce;
    double (*one)(double x);
    double (*two)(double a, double b);
};

/* Ended by a row without a name. */
extern const struct op_case opcases_elementwise[], opcases_move[], opcases_matrix[],
    opcases_reduce[], opcases_index[], opcases_grouped[], opcases_experts[];
const struct op_case *op_case_find(const char *name);

/* A random call of that many elements at most; salt tells calls apart. */
void call_make(struct call *c, const struct op_case *op, weir_dtype dtype, uint64_t salt,
               int64_t budget);
void call_free(struct call *c);
/* Inputs on the device, each in a layout of its own. */
void call_upload(const struct call *c, weir_stream *stream, weir_tensor **in);
void call_release(int n, weir_tensor **tensors);

/* ---- for the rows ---- */

/* Between low_ndim and high_ndim dims, few of size 0 or 1. */
int random_shape(struct call *c, int low_ndim, int high_ndim, int64_t *shape);
/* Adds an input of random values within the row's range. */
void add_input(struct call *c, weir_dtype dtype, int ndim, const int64_t *shape);
/* Adds an input of integers. */
void add_indices(struct call *c, int ndim, const int64_t *shape, int64_t limit);
/* Room for the errors of sums of large terms. */
void add_reach(struct array *a);

#endif
