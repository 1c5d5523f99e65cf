/* The functions for compositions (call.h): each calls one or two operators of weir. */
#include "call.h"

/* ---- types ---- */

static int kind_of(weir_dtype t)
{
    return t == WEIR_BOOL ? 0 : weir_dtype_is_float(t) ? 2 : 1;
}

weir_dtype promoted(weir_dtype a, weir_dtype b)
{
    if (a == b)
        return a;
    if (kind_of(a) != kind_of(b))
        return kind_of(a) > kind_of(b) ? a : b;
    if (kind_of(a) == 2) {
        if (a == WEIR_F64 || b == WEIR_F64)
            return WEIR_F64;
        return WEIR_F32; /* f32 with a half, or f16 with bf16 */
    }
    if (a == WEIR_I64 || b == WEIR_I64)
        return WEIR_I64;
    return WEIR_I32; /* i32 with a narrower type, or i8 with u8, as weir has no i16 */
}

tensor *cast(struct call *c, tensor *x, weir_dtype dtype)
{
    tensor *out = NULL;

    if (c->err || !x)
        return NULL;
    if (type(x) == dtype)
        return x;
    return call_ok(c, weir_cast(x, dtype, &out)) ? own(c, out) : NULL;
}

tensor *wide(struct call *c, tensor *x)
{
    return x && type(x) == WEIR_F64 ? x : cast(c, x, WEIR_F32);
}

tensor *countable(struct call *c, tensor *x)
{
    return x && type(x) == WEIR_BOOL ? cast(c, x, WEIR_I32) : x;
}

/* ---- shapes ---- */

#define GIVE(call) (!c->err && x && call_ok(c, call) ? own(c, out) : NULL)

tensor *contiguous(struct call *c, tensor *x)
{
    tensor *out = NULL;

    if (x && weir_tensor_is_contiguous(x))
        return x;
    return GIVE(weir_contiguous(x, &out));
}

tensor *copy(struct call *c, tensor *x)
{
    tensor *out = NULL;

    return GIVE(weir_copy(x, &out));
}

tensor *reshape(struct call *c, tensor *x, int ndim, const int64_t *to)
{
    tensor *out = NULL;

    if (c->err || !x)
        return NULL;
    if (rank(x) == ndim && (!ndim || !memcmp(shape(x), to, (size_t)ndim * sizeof *to)))
        return x;
    if (weir_tensor_reshape(x, ndim, to, &out) == WEIR_OK)
        return own(c, out);
    x = contiguous(c, x);
    return GIVE(weir_tensor_reshape(x, ndim, to, &out));
}

tensor *flat(struct call *c, tensor *x)
{
    int64_t n = numel(x);

    return reshape(c, x, 1, &n);
}

tensor *like(struct call *c, tensor *x, const tensor *shaped)
{
    return reshape(c, x, rank(shaped), shape(shaped));
}

tensor *permute(struct call *c, tensor *x, const int *dims)
{
    tensor *out = NULL;

    return GIVE(weir_tensor_permute(x, dims, &out));
}

tensor *transpose(struct call *c, tensor *x, int a, int b)
{
    tensor *out = NULL;

    return GIVE(weir_tensor_transpose(x, a, b, &out));
}

tensor *slice(struct call *c, tensor *x, int dim, int64_t start, int64_t stop, int64_t step)
{
    tensor *out = NULL;

    return GIVE(weir_tensor_slice(x, dim, start, stop, step, &out));
}

tensor *expand(struct call *c, tensor *x, int ndim, const int64_t *to)
{
    tensor *out = NULL;

    return GIVE(weir_tensor_expand(x, ndim, to, &out));
}

tensor *unsqueeze(struct call *c, tensor *x, int dim)
{
    int64_t to[MAX_DIMS + 1];
    int n = rank(x);

    if (c->err || !x)
        return NULL;
    dim = dim < 0 ? dim + n + 1 : dim;
    if (n >= MAX_DIMS)
        return call_fail(c, "a tensor of %d dims needs one more: weir has no tensors of so many",
                         n);
    for (int i = 0; i <= n; i++)
        to[i] = i == dim ? 1 : shape(x)[i - (i > dim)];
    return reshape(c, x, n + 1, to);
}

tensor *squeeze(struct call *c, tensor *x, int dim)
{
    int64_t to[MAX_DIMS];
    int n = rank(x);

    if (c->err || !x)
        return NULL;
    dim = dim < 0 ? dim + n : dim;
    for (int i = 0; i < n - 1; i++)
        to[i] = shape(x)[i + (i >= dim)];
    return reshape(c, x, n - 1, to);
}

tensor *concat(struct call *c, tensor **xs, int n, int dim)
{
    enum { AT_ONCE = 64 };
    tensor *x = xs[0], *out = NULL, *parts[AT_ONCE];
    int nparts = 0;

    for (int i = 0; i < n; i++)
        if (!xs[i])
            return NULL;
    if (n <= AT_ONCE)
        return GIVE(weir_concat(xs, n, dim, &out));
    for (int at = 0; at < n && nparts < AT_ONCE; at += AT_ONCE)
        parts[nparts++] = concat(c, xs + at, n - at < AT_ONCE ? n - at : AT_ONCE, dim);
    return concat(c, parts, nparts, dim);
}

/* ---- new tensors ---- */

tensor *empty(struct call *c, weir_dtype dtype, int ndim, const int64_t *to)
{
    tensor *out = NULL;

    return !c->err && call_ok(c, weir_tensor_empty(c->stream, dtype, ndim, to, &out)) ? own(c, out)
                                                                                      : NULL;
}

tensor *from_host(struct call *c, weir_dtype dtype, int ndim, const int64_t *to, const void *data)
{
    tensor *out = NULL;

    return !c->err && call_ok(c, weir_tensor_from(c->stream, dtype, ndim, to, data, &out))
               ? own(c, out)
               : NULL;
}

/* Makes a filled tensor as a range with step 0: in a capture, the tensor must be the result of an
 * operator of the graph. */
tensor *full(struct call *c, weir_dtype dtype, int ndim, const int64_t *to, double value)
{
    weir_dtype made = dtype == WEIR_BOOL ? WEIR_U8 : dtype;
    tensor *x = arange(c, made, 1, value, 0);

    x = reshape(c, cast(c, x, dtype), 0, NULL);
    return copy(c, expand(c, x, ndim, to));
}

tensor *full_like(struct call *c, tensor *x, weir_dtype dtype, double value)
{
    return x ? full(c, dtype, rank(x), shape(x), value) : NULL;
}

tensor *arange(struct call *c, weir_dtype dtype, int64_t n, double start, double step)
{
    tensor *out = NULL;

    return !c->err && call_ok(c, weir_arange(c->stream, dtype, n, start, step, &out)) ? own(c, out)
                                                                                      : NULL;
}

tensor *literal(struct call *c, const aclScalar *s, weir_dtype dtype)
{
    tensor *x = s->whole ? from_host(c, WEIR_I64, 0, NULL, &s->integer)
                         : from_host(c, WEIR_F64, 0, NULL, &s->number);

    return cast(c, x, dtype);
}

/* ---- arithmetic ---- */

#define UNARY(name)                              \
    tensor *op_##name(struct call *c, tensor *x) \
    {                                            \
        tensor *out = NULL;                      \
        return GIVE(weir_##name(x, &out));       \
    }
CALL_UNARY(UNARY)

/* Casts both operands to the type that the operator computes in. */
static bool meet(struct call *c, tensor **a, tensor **b, bool compare)
{
    weir_dtype t;

    if (c->err || !*a || !*b)
        return false;
    t = promoted(type(*a), type(*b));
    if (t == WEIR_BOOL && !compare)
        t = WEIR_I32;
    *a = cast(c, *a, t);
    *b = cast(c, *b, t);
    return *a && *b;
}

/* Casts x to a type that can represent `value`, if its own cannot. */
static tensor *reach(struct call *c, tensor *x, double value)
{
    if (!x || is_float(x))
        return x;
    if (value != trunc(value) || !(fabs(value) < 9e15))
        return cast(c, x, WEIR_F32);
    if (type(x) == WEIR_BOOL)
        return cast(c, x, value < 0 || value > 1 ? WEIR_I64 : WEIR_I32);
    if ((type(x) == WEIR_U8 && (value < 0 || value > 255)) ||
        (type(x) == WEIR_I8 && fabs(value) > 127))
        x = cast(c, x, WEIR_I32);
    return x && type(x) == WEIR_I32 && fabs(value) > 2147483647 ? cast(c, x, WEIR_I64) : x;
}

#define BINARY(name, compare)                                            \
    tensor *op_##name(struct call *c, tensor *a, tensor *b)              \
    {                                                                    \
        tensor *out = NULL;                                              \
        if (!meet(c, &a, &b, compare))                                   \
            return NULL;                                                 \
        return call_ok(c, weir_##name(a, b, &out)) ? own(c, out) : NULL; \
    }                                                                    \
    tensor *op_##name##s(struct call *c, tensor *x, double b)            \
    {                                                                    \
        tensor *out = NULL;                                              \
        x = reach(c, x, b);                                              \
        return GIVE(weir_##name##_scalar(x, b, &out));                   \
    }
#define ARITHMETIC(name) BINARY(name, false)
#define COMPARISON(name) BINARY(name, true)
CALL_BINARY(ARITHMETIC)
CALL_COMPARE(COMPARISON)

tensor *op_clamp(struct call *c, tensor *x, double low, double high)
{
    tensor *out = NULL;

    return GIVE(weir_clamp(x, low, high, &out));
}

tensor *op_where(struct call *c, tensor *condition, tensor *a, tensor *b)
{
    tensor *out = NULL, *x = condition;

    if (!meet(c, &a, &b, true))
        return NULL;
    condition = op_truth(c, condition);
    return condition ? GIVE(weir_where(condition, a, b, &out)) : NULL;
}

tensor *op_truth(struct call *c, tensor *x)
{
    return x && type(x) != WEIR_BOOL ? op_nes(c, x, 0) : x;
}

tensor *op_not(struct call *c, tensor *x)
{
    return op_eqs(c, cast(c, op_truth(c, x), WEIR_U8), 0);
}

tensor *op_rsubs(struct call *c, double a, tensor *x)
{
    return op_adds(c, op_neg(c, countable(c, x)), a);
}

tensor *op_rdivs(struct call *c, double a, tensor *x)
{
    return op_div(c, full(c, type(x), 0, NULL, a), x);
}

/* ---- reductions and the rest ---- */

#define REDUCE(name)                                                                \
    tensor *op_##name(struct call *c, tensor *x, const int *dims, int n, bool keep) \
    {                                                                               \
        tensor *out = NULL;                                                         \
        return GIVE(weir_##name(x, dims, n, keep, &out));                           \
    }
REDUCE(sum)
REDUCE(mean)
REDUCE(max)
REDUCE(min)

/* Gives a tensor without dims one dim of size 1, which these operators need. */
static tensor *at_least_1d(struct call *c, tensor *x)
{
    const int64_t one = 1;

    return rank(x) ? x : reshape(c, x, 1, &one);
}

tensor *op_softmax(struct call *c, tensor *x, int dim)
{
    tensor *shaped = x, *out = NULL;

    x = at_least_1d(c, x);
    return like(c, GIVE(weir_softmax(x, dim, &out)), shaped);
}

tensor *op_argmax(struct call *c, tensor *x, int dim, bool keep)
{
    tensor *out = NULL;

    x = at_least_1d(c, x);
    return GIVE(weir_argmax(x, dim, keep, &out));
}

tensor *op_grouped_matmul(struct call *c, tensor *x, tensor *weight, tensor *ends, tensor *bias)
{
    tensor *out;

    return weight && ends ? GIVE(weir_grouped_matmul(x, weight, ends, bias, &out)) : NULL;
}

tensor *op_matmul(struct call *c, tensor *a, tensor *b)
{
    tensor *out = NULL;

    if (!meet(c, &a, &b, false))
        return NULL;
    if (type(a) == WEIR_I8 || type(a) == WEIR_U8) {
        a = cast(c, a, WEIR_I32);
        b = cast(c, b, WEIR_I32);
    }
    if (c->err)
        return NULL;
    return call_ok(c, weir_matmul(a, b, &out)) ? own(c, out) : NULL;
}

tensor *op_gather(struct call *c, tensor *x, int dim, tensor *index)
{
    tensor *out = NULL;

    return index ? GIVE(weir_gather(x, dim, index, &out)) : NULL;
}

tensor *op_index_select(struct call *c, tensor *x, int dim, tensor *index)
{
    tensor *out = NULL;

    return index ? GIVE(weir_index_select(x, dim, index, &out)) : NULL;
}

tensor *op_embedding(struct call *c, tensor *x, tensor *indices)
{
    tensor *out = NULL;

    return indices ? GIVE(weir_embedding(x, indices, &out)) : NULL;
}

void op_scatter_add(struct call *c, tensor *x, int dim, tensor *index, tensor *source)
{
    if (!c->err && x && index && source)
        (void)call_ok(c, weir_scatter_add(x, dim, index, source));
}

void op_sort(struct call *c, tensor *x, int dim, bool descending, tensor **values, tensor **indices)
{
    *values = *indices = NULL;
    x = at_least_1d(c, x);
    if (c->err || !x || !call_ok(c, weir_sort(x, dim, descending, values, indices)))
        return;
    *values = own(c, *values);
    *indices = own(c, *indices);
}
