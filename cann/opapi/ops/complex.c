/* Arithmetic with complex numbers, which weir lacks. The real and imaginary parts are strided
 * tensors of reals: every second element of the operand's memory. If an operand is complex, one of
 * these functions runs instead of the row's own. */
#include "run.h"

struct z {
    tensor *re, *im; /* im is NULL if it is all 0 */
};

static bool is_complex(const aclTensor *t)
{
    return t && type_is_complex(t->type);
}

static bool is_tensor(const struct call *c, int i)
{
    char kind = c->row->operands[i].kind;

    return kind == OPERAND_T || kind == OPERAND_O || kind == OPERAND_X;
}

/* Returns the type in which the parts are computed. */
static weir_dtype part_type(const struct call *c)
{
    for (int i = 0; i < c->row->count; i++)
        if (is_tensor(c, i) && c->args[i].tensor &&
            (c->args[i].tensor->type == ACL_COMPLEX128 || c->args[i].tensor->type == ACL_DOUBLE))
            return WEIR_F64;
    return WEIR_F32;
}

static tensor *part_of(struct call *c, const aclTensor *t, bool imaginary)
{
    weir_dtype dtype = t->type == ACL_COMPLEX128 ? WEIR_F64 : WEIR_F32;
    int64_t stride[MAX_DIMS], first = 2 * t->offset + imaginary;
    bool any = true;
    tensor *x = NULL;

    if (c->err)
        return NULL;
    for (int i = 0; i < t->ndim; i++) {
        stride[i] = 2 * t->stride[i];
        any &= t->shape[i] != 0;
    }
    if (!any) /* an empty tensor has no memory */
        return empty(c, dtype, t->ndim, t->shape);
    if (weir_cann_tensor(t->data + first * (int64_t)weir_dtype_size(dtype), dtype, t->ndim,
                         t->shape, stride, &x)) {
        c->err = ACLNN_ERR_PARAM_INVALID;
        return NULL;
    }
    return own(c, x);
}

static struct z number_of(struct call *c, double re, double im)
{
    weir_dtype dtype = part_type(c);

    return (struct z){full(c, dtype, 0, NULL, re), im == 0 ? NULL : full(c, dtype, 0, NULL, im)};
}

/* Returns an operand, which may be a complex or real tensor, or a scalar. */
static struct z operand(struct call *c, int i)
{
    const aclTensor *t = c->args[i].tensor;
    const aclScalar *s = c->args[i].scalar;

    if (c->row->operands[i].kind == OPERAND_S)
        return number_of(c, s->number, type_is_complex(s->type) ? s->imaginary : 0);
    if (!is_complex(t))
        return (struct z){cast(c, in(c, i), part_type(c)), NULL};
    return (struct z){part_of(c, t, false), part_of(c, t, true)};
}

static tensor *imaginary(struct call *c, struct z x)
{
    return x.im ? x.im : x.re ? full_like(c, x.re, type(x.re), 0) : NULL;
}

/* Writes a result. Both parts are computed before either is written, as the operand may be an input
 * too. */
static void put_complex(struct call *c, int i, struct z x)
{
    const aclTensor *t = c->args[i].tensor;
    tensor *im;

    if (!is_complex(t)) { /* drops the imaginary part, as PyTorch does (with a warning) */
        put(c, i, x.re);
        return;
    }
    im = imaginary(c, x);
    put_tensor(c, part_of(c, t, false), x.re);
    put_tensor(c, part_of(c, t, true), im);
}

static void give_complex(struct call *c, struct z x)
{
    put_complex(c, result(c), x);
}

/* ---- arithmetic ---- */

static struct z plus(struct call *c, struct z a, struct z b)
{
    return (struct z){op_add(c, a.re, b.re),
                      a.im && b.im ? op_add(c, a.im, b.im)
                      : a.im       ? op_add(c, a.im, full_like(c, b.re, type(b.re), 0))
                      : b.im       ? op_add(c, b.im, full_like(c, a.re, type(a.re), 0))
                                   : NULL};
}

static struct z minus_of(struct call *c, struct z x)
{
    return (struct z){op_neg(c, x.re), x.im ? op_neg(c, x.im) : NULL};
}

/* A product of reals: elementwise, or of matrices. */
typedef tensor *(*product_fn)(struct call *c, tensor *a, tensor *b);

static struct z times(struct call *c, struct z a, struct z b, product_fn by)
{
    struct z out = {by(c, a.re, b.re), NULL};

    if (a.im && b.im)
        out.re = op_sub(c, out.re, by(c, a.im, b.im));
    if (b.im)
        out.im = by(c, a.re, b.im);
    if (a.im)
        out.im = out.im ? op_add(c, out.im, by(c, a.im, b.re)) : by(c, a.im, b.re);
    return out;
}

/* Divides. Both operands are scaled by the divisor's larger part, so that its square does not
 * overflow. */
static struct z over(struct call *c, struct z a, struct z b)
{
    tensor *scale, *square, *re, *im;

    if (!b.im)
        return (struct z){op_div(c, a.re, b.re), a.im ? op_div(c, a.im, b.re) : NULL};
    scale = op_maximum(c, op_abs(c, b.re), op_abs(c, b.im));
    b.re = op_div(c, b.re, scale);
    b.im = op_div(c, b.im, scale);
    square = op_add(c, op_mul(c, b.re, b.re), op_mul(c, b.im, b.im));
    a.re = op_div(c, a.re, scale);
    a.im = op_div(c, imaginary(c, a), scale);
    re = op_add(c, op_mul(c, a.re, b.re), op_mul(c, a.im, b.im));
    im = op_sub(c, op_mul(c, a.im, b.re), op_mul(c, a.re, b.im));
    return (struct z){op_div(c, re, square), op_div(c, im, square)};
}

static struct z scaled(struct call *c, struct z x, int scalar)
{
    const aclScalar *s = c->args[scalar].scalar;

    if (!s || (s->number == 1 && !(type_is_complex(s->type) && s->imaginary != 0)))
        return x;
    return times(c, x, operand(c, scalar), op_mul);
}

static void complex_add(struct call *c)
{
    give_complex(c, plus(c, operand(c, 0), scaled(c, operand(c, 1), 2)));
}

static void complex_sub(struct call *c)
{
    give_complex(c, plus(c, operand(c, 0), minus_of(c, scaled(c, operand(c, 1), 2))));
}

static void complex_rsub(struct call *c)
{
    give_complex(c, plus(c, operand(c, 1), minus_of(c, scaled(c, operand(c, 0), 2))));
}

static void complex_mul(struct call *c)
{
    give_complex(c, times(c, operand(c, 0), operand(c, 1), op_mul));
}

static void complex_div(struct call *c)
{
    give_complex(c, over(c, operand(c, 0), operand(c, 1)));
}

static void complex_neg(struct call *c)
{
    give_complex(c, minus_of(c, operand(c, 0)));
}

static void complex_reciprocal(struct call *c)
{
    give_complex(c, over(c, number_of(c, 1, 0), operand(c, 0)));
}

static struct z turned(struct call *c, tensor *length, tensor *angle)
{
    return (struct z){op_mul(c, length, math1(c, MATH_COS, angle)),
                      op_mul(c, length, math1(c, MATH_SIN, angle))};
}

static void complex_exp(struct call *c)
{
    struct z x = operand(c, 0);

    give_complex(c, x.im ? turned(c, op_exp(c, x.re), x.im) : (struct z){op_exp(c, x.re), NULL});
}

static void complex_abs(struct call *c)
{
    struct z x = operand(c, 0);

    put(c, result(c), math2(c, MATH_HYPOT, x.re, imaginary(c, x)));
}

/* lengths, angles, out */
void run_polar(struct call *c)
{
    give_complex(c, turned(c, wide(c, in(c, 0)), wide(c, in(c, 1))));
}

/* real parts, imaginary parts, out */
void run_complex(struct call *c)
{
    give_complex(c, (struct z){in(c, 0), in(c, 1)});
}

/* ---- comparisons and choices ---- */

static tensor *equal(struct call *c)
{
    struct z a = operand(c, 0), b = operand(c, 1);
    tensor *re = op_eq(c, a.re, b.re), *im = op_eq(c, imaginary(c, a), imaginary(c, b));

    return op_mul(c, cast(c, re, WEIR_U8), cast(c, im, WEIR_U8));
}

static void complex_eq(struct call *c)
{
    put(c, result(c), op_truth(c, equal(c)));
}

static void complex_ne(struct call *c)
{
    put(c, result(c), op_not(c, equal(c)));
}

static struct z choice(struct call *c, tensor *condition, struct z a, struct z b)
{
    tensor *re = op_where(c, condition, a.re, b.re);

    if (!a.im && !b.im)
        return (struct z){re, NULL};
    return (struct z){re, op_where(c, condition, imaginary(c, a), imaginary(c, b))};
}

static void complex_where(struct call *c)
{
    give_complex(c, choice(c, in(c, 0), operand(c, 1), operand(c, 2)));
}

static void complex_masked_fill(struct call *c)
{
    give_complex(c, choice(c, in(c, 1), operand(c, 2), operand(c, 0)));
}

/* ---- sums and products of matrices ---- */

static void reduce(struct call *c, tensor *(*by)(struct call *, tensor *, const int *, int, bool))
{
    struct z x = operand(c, 0);
    int dims[MAX_DIMS], n = dims_of(c, x.re, 1, dims);
    bool keep = integer(c, 2);

    give_complex(c,
                 (struct z){by(c, x.re, dims, n, keep), x.im ? by(c, x.im, dims, n, keep) : NULL});
}

static void complex_sum(struct call *c)
{
    reduce(c, op_sum);
}

static void complex_mean(struct call *c)
{
    reduce(c, op_mean);
}

static void complex_matmul(struct call *c)
{
    give_complex(c, times(c, operand(c, 0), operand(c, 1), op_matmul));
}

/* self, mat1, mat2, beta, alpha */
static void complex_addmm(struct call *c)
{
    struct z product = scaled(c, times(c, operand(c, 1), operand(c, 2), op_matmul), 4);
    const aclScalar *beta = c->args[3].scalar;

    if (beta->number != 0 || (type_is_complex(beta->type) && beta->imaginary != 0))
        product = plus(c, scaled(c, operand(c, 0), 3), product); /* if beta is 0, self is ignored */
    give_complex(c, product);
}

/* ---- other types, other values ---- */

static void complex_cast(struct call *c)
{
    give_complex(c, operand(c, 0));
}

static void complex_copy(struct call *c)
{
    give_complex(c, operand(c, 1));
}

static void complex_one(struct call *c)
{
    give_complex(c, number_of(c, 1, 0));
}

static void complex_zero(struct call *c)
{
    give_complex(c, number_of(c, 0, 0));
}

run_fn *complex_run(const struct row *row)
{
    static const struct {
        run_fn *real, *complex;
    } rows[] = {
        {run_add, complex_add},
        {run_sub, complex_sub},
        {run_rsub, complex_rsub},
        {run_mul, complex_mul},
        {run_div, complex_div},
        {run_neg, complex_neg},
        {run_reciprocal, complex_reciprocal},
        {run_exp, complex_exp},
        {run_abs, complex_abs},
        {run_polar, run_polar},
        {run_complex, run_complex},
        {run_eq, complex_eq},
        {run_ne, complex_ne},
        {run_where, complex_where},
        {run_masked_fill, complex_masked_fill},
        {run_reduce_sum, complex_sum},
        {run_mean, complex_mean},
        {run_matmul, complex_matmul},
        {run_addmm, complex_addmm},
        {run_cast, complex_cast},
        {run_copy, complex_copy},
        {run_fill, complex_copy},
        {run_one, complex_one},
        {run_zero, complex_zero},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].real == row->run)
            return rows[i].complex;
    return NULL;
}
