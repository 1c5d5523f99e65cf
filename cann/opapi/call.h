/* One call of an operator: its operands as weir tensors, and the functions that operators are
 * composed of.
 *
 * The call owns every tensor that a function below returns, and releases it at its end. After a
 * failure, or if an argument is NULL, each function returns NULL and does nothing. So compositions
 * need no checks, and the call fails with the first error. Operands of different types are promoted
 * as in PyTorch. */
#ifndef WEIR_OPAPI_CALL_H
#define WEIR_OPAPI_CALL_H

#include <math.h>
#include <string.h>

#include "executor.h"

typedef weir_tensor tensor;

struct call {
    const struct row *row;
    const union arg *args;
    weir_device *dev;
    weir_stream *stream;
    aclrtStream handle; /* the handle of `stream` */
    bool capturing;
    aclnnStatus err;
    int nmade, cap;
    tensor **made;          /* the tensors to release at the end */
    struct narrow *narrows; /* operands of 16 bits (narrow.h) */
    tensor *few[24];
    struct weir_cann_launch *launch; /* NULL if it could not be entered again (call_inside) */
};

/* Makes the call fail; the message starts with the operator's name. Returns NULL. */
tensor *call_fail(struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes the call fail if `status` is an error. True if the call has not failed. */
bool call_ok(struct call *c, weir_status status);
/* If the stream is captured, code between these two runs outside of the launch: it may allocate
 * memory and call other libraries, which enter the capture themselves. */
void call_outside(struct call *c);
void call_inside(struct call *c);
/* Makes the call own a tensor. */
tensor *own(struct call *c, tensor *t);

/* ---- operands, by their index ---- */
tensor *in(struct call *c, int i); /* NULL if an optional operand is absent */
/* Several at once, which is cheaper; false after a failure. */
bool ins(struct call *c, const int *which, int n, tensor **out);
tensor *item(struct call *c, int i, int k); /* tensor k of a list */
tensor *view_of(struct call *c, const aclTensor *t);
static inline int items(const struct call *c, int i)
{
    return c->args[i].tensors ? (int)c->args[i].tensors->size : 0;
}
static inline bool given(const struct call *c, int i)
{
    return c->args[i].object != NULL;
}
static inline int64_t integer(const struct call *c, int i)
{
    return c->args[i].i;
}
static inline double real(const struct call *c, int i)
{
    return c->args[i].f;
}
/* Returns a scalar operand as a number, or `otherwise` if it is absent. */
static inline double number(const struct call *c, int i, double otherwise)
{
    return c->args[i].scalar ? c->args[i].scalar->number : otherwise;
}
static inline const char *text(const struct call *c, int i)
{
    return c->args[i].text ? c->args[i].text : "";
}
static inline bool text_is(const struct call *c, int i, const char *what)
{
    return strcmp(text(c, i), what) == 0;
}
/* Returns integer k of an array, or `otherwise` if the array is absent or too short. The element of
 * an array of one applies to all k. */
int64_t nth(const struct call *c, int i, int k, int64_t otherwise);
/* Return the type that an aclDataType operand names, or that an output has. */
weir_dtype type_arg(struct call *c, int i);
weir_dtype out_type(struct call *c, int i);

/* Writes x to the operand: casts it to the operand's type, reshapes it if only sizes of 1 differ,
 * and broadcasts it. Does nothing if the operand is absent. */
void put(struct call *c, int i, tensor *x);
void put_item(struct call *c, int i, int k, tensor *x);
void put_tensor(struct call *c, tensor *out, tensor *x);

/* ---- shape and type ---- */
static inline int rank(const tensor *x)
{
    return x ? weir_tensor_ndim(x) : 0;
}
static inline weir_dtype type(const tensor *x)
{
    return x ? weir_tensor_dtype(x) : WEIR_F32;
}
static inline int64_t size(const tensor *x, int dim)
{
    return x ? weir_tensor_shape(x)[dim < 0 ? dim + weir_tensor_ndim(x) : dim] : 0;
}
static inline int64_t numel(const tensor *x)
{
    return x ? weir_tensor_numel(x) : 0;
}
static inline const int64_t *shape(const tensor *x)
{
    static const int64_t none[MAX_DIMS];

    return x ? weir_tensor_shape(x) : none;
}
static inline bool is_float(const tensor *x)
{
    return weir_dtype_is_float(type(x));
}
static inline bool is_half(const tensor *x)
{
    return type(x) == WEIR_F16 || type(x) == WEIR_BF16;
}
/* Converts a dim that may be negative and checks it against the rank. A tensor without dims has
 * dim 0. */
int wrap_dim(struct call *c, const tensor *x, int64_t dim);

weir_dtype promoted(weir_dtype a, weir_dtype b);
tensor *cast(struct call *c, tensor *x, weir_dtype dtype);
/* Converts x to the type that compositions compute in: a float of at least 32 bits; integers and
 * bool become f32. */
tensor *wide(struct call *c, tensor *x);
/* Converts bool to i32 for sums and products; other types stay. */
tensor *countable(struct call *c, tensor *x);

tensor *reshape(struct call *c, tensor *x, int ndim, const int64_t *shape); /* copies if needed */
tensor *flat(struct call *c, tensor *x);
tensor *like(struct call *c, tensor *x,
             const tensor *shaped); /* reshape to the shape of `shaped` */
tensor *permute(struct call *c, tensor *x, const int *dims);
tensor *transpose(struct call *c, tensor *x, int a, int b);
tensor *slice(struct call *c, tensor *x, int dim, int64_t start, int64_t stop, int64_t step);
tensor *expand(struct call *c, tensor *x, int ndim, const int64_t *shape);
tensor *unsqueeze(struct call *c, tensor *x, int dim);
tensor *squeeze(struct call *c, tensor *x, int dim);
tensor *contiguous(struct call *c, tensor *x);
tensor *copy(struct call *c, tensor *x);
tensor *concat(struct call *c, tensor **xs, int n, int dim);

/* ---- new tensors ---- */
tensor *empty(struct call *c, weir_dtype dtype, int ndim, const int64_t *shape);
tensor *full(struct call *c, weir_dtype dtype, int ndim, const int64_t *shape, double value);
tensor *full_like(struct call *c, tensor *x, weir_dtype dtype, double value);
tensor *arange(struct call *c, weir_dtype dtype, int64_t n, double start, double step);
tensor *from_host(struct call *c, weir_dtype dtype, int ndim, const int64_t *shape,
                  const void *data);
/* A scalar operand as a tensor without dims. */
tensor *literal(struct call *c, const aclScalar *s, weir_dtype dtype);

/* ---- arithmetic ---- */
#define CALL_UNARY(X) \
    X(neg) X(abs) X(exp) X(log) X(sqrt) X(rsqrt) X(sigmoid) X(tanh) X(relu) X(gelu) X(silu)
#define CALL_BINARY(X) X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum)
#define CALL_COMPARE(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define DECLARE(name) tensor *op_##name(struct call *c, tensor *x);
CALL_UNARY(DECLARE)
#undef DECLARE
#define DECLARE(name)                                        \
    tensor *op_##name(struct call *c, tensor *a, tensor *b); \
    tensor *op_##name##s(struct call *c, tensor *a, double b);
CALL_BINARY(DECLARE)
CALL_COMPARE(DECLARE)
#undef DECLARE
tensor *op_clamp(struct call *c, tensor *x, double low, double high);
tensor *op_where(struct call *c, tensor *condition, tensor *a, tensor *b);
tensor *op_not(struct call *c, tensor *x);             /* of bool */
tensor *op_truth(struct call *c, tensor *x);           /* x != 0 as bool */
tensor *op_rsubs(struct call *c, double a, tensor *x); /* a - x */
tensor *op_rdivs(struct call *c, double a, tensor *x); /* a / x */

tensor *op_sum(struct call *c, tensor *x, const int *dims, int n, bool keep);
tensor *op_mean(struct call *c, tensor *x, const int *dims, int n, bool keep);
tensor *op_max(struct call *c, tensor *x, const int *dims, int n, bool keep);
tensor *op_min(struct call *c, tensor *x, const int *dims, int n, bool keep);
tensor *op_softmax(struct call *c, tensor *x, int dim);
tensor *op_argmax(struct call *c, tensor *x, int dim, bool keep);
tensor *op_matmul(struct call *c, tensor *a, tensor *b);
/* Multiplies rows of x by the weight of their group. `ends` is read on the device; bias may be
 * NULL. */
tensor *op_grouped_matmul(struct call *c, tensor *x, tensor *weight, tensor *ends, tensor *bias);
tensor *op_gather(struct call *c, tensor *x, int dim, tensor *index);
tensor *op_index_select(struct call *c, tensor *x, int dim, tensor *index);
tensor *op_embedding(struct call *c, tensor *table, tensor *indices);
/* Adds into x, in place. */
void op_scatter_add(struct call *c, tensor *x, int dim, tensor *index, tensor *source);
void op_sort(struct call *c, tensor *x, int dim, bool descending, tensor **values,
             tensor **indices);

/* ---- functions on the host engine, for which weir has no operator ---- */

/* The arguments of such a function. Inputs and outputs are contiguous. */
struct host {
    const void *params;
    void *const *in;
    void *const *out;
};
typedef weir_status (*host_fn)(const struct host *h);

struct host_out {
    weir_dtype dtype;
    int ndim;
    int64_t shape[MAX_DIMS];
};
/* Queues `fn`. Copies the params; the results go to out[0..nout-1]. Inputs may be strided. `name`
 * must be a static string. */
void host_run(struct call *c, const char *name, host_fn fn, const void *params, size_t bytes,
              tensor **inputs, int nin, const struct host_out *outs, int nout, tensor **out);
/* The same with one result, which has the shape of `x`. */
tensor *host_like(struct call *c, const char *name, host_fn fn, const void *params, size_t bytes,
                  tensor **inputs, int nin, tensor *x, weir_dtype dtype);
struct host_out out_like(const tensor *x, weir_dtype dtype);

#endif
