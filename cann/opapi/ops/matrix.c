/* Matrix products. The operand `cube` selects how cube cores may round; weir ignores it. */
#include "run.h"

/* True for the types that weir's matmul supports. */
static bool multiplies(const tensor *x)
{
    return is_float(x) || type(x) == WEIR_I32 || type(x) == WEIR_I64;
}

/* Multiplies; operands of one dim follow NumPy's rule. */
static tensor *product(struct call *c, tensor *a, tensor *b)
{
    bool row = rank(a) == 1, column = rank(b) == 1;
    tensor *y;

    if (c->err || !a || !b)
        return NULL;
    if (!rank(a) || !rank(b))
        return call_fail(c, "an operand has no dims");
    y = op_matmul(c, row ? unsqueeze(c, a, 0) : a, column ? unsqueeze(c, b, 1) : b);
    if (row)
        y = squeeze(c, y, -2);
    return column ? squeeze(c, y, -1) : y;
}

/* a, b, out, cube: written directly if there is nothing to cast */
void run_matmul(struct call *c)
{
    tensor *a = in(c, 0), *b = in(c, 1), *out = in(c, 2);

    if (c->err)
        return;
    if (rank(a) > 1 && rank(b) > 1 && numel(a) && numel(b) && type(a) == type(b) &&
        type(a) == type(out) && multiplies(a))
        (void)call_ok(c, weir_matmul_into(a, b, out));
    else if (numel(out) && !numel(a))
        give(c, full(c, type(a), 0, NULL, 0));
    else
        give(c, product(c, a, b));
}

/* weir's matrix products need no special layout: nothing to do */
void run_same_layout(struct call *c)
{
    (void)in(c, 0);
}

/* Returns alpha or beta; for integer tensors truncated, as in PyTorch. */
static double factor(struct call *c, int i)
{
    double value = number(c, i, 1);

    return weir_dtype_is_float(out_type(c, 0)) ? value : trunc(value);
}

/* beta * self + alpha * p, in the type of the product */
static tensor *blend(struct call *c, tensor *self, tensor *p, double beta, double alpha)
{
    if (alpha != 1)
        p = op_muls(c, is_half(p) ? wide(c, p) : p, alpha);
    if (beta == 0)
        return p;
    if (beta != 1)
        self = op_muls(c, is_half(self) ? wide(c, self) : self, beta);
    return op_add(c, p, self);
}

/* self, a, b, beta, alpha, out, cube; halves are summed before they are rounded */
void run_addmm(struct call *c)
{
    double beta = factor(c, 3), alpha = factor(c, 4);
    tensor *self = in(c, 0), *a = in(c, 1), *b = in(c, 2), *out = in(c, result(c)), *y = NULL;

    if (c->err)
        return;
    /* weir_matmul_bias adds a bias with one element per column */
    if (beta == 1 && alpha == 1 && rank(self) == 1 && multiplies(a) && type(self) == type(a) &&
        type(a) == type(b) && size(self, 0) == size(b, -1) && numel(a) && numel(b)) {
        if (call_ok(c, weir_matmul_bias(a, b, self, &y)))
            give(c, own(c, y));
        return;
    }
    if (!numel(a) && numel(out)) {
        give(c, beta == 0 ? full(c, type(self), 0, NULL, 0) : op_muls(c, self, beta));
        return;
    }
    give(c, blend(c, self, product(c, a, b), beta, alpha));
}

/* self, a, b, beta, alpha, out, cube: the sum over the batch */
void run_addbmm(struct call *c)
{
    const int batch = 0;
    tensor *p = op_sum(c, wide(c, product(c, in(c, 1), in(c, 2))), &batch, 1, false);

    give(c, blend(c, in(c, 0), p, factor(c, 3), factor(c, 4)));
}

/* self, mat, vec, alpha, beta, out, cube */
void run_addmv(struct call *c)
{
    give(c, blend(c, in(c, 0), product(c, in(c, 1), in(c, 2)), factor(c, 4), factor(c, 3)));
}

/* self, vec1, vec2, beta, alpha, out */
void run_addr(struct call *c)
{
    tensor *p = op_mul(c, unsqueeze(c, in(c, 1), 1), in(c, 2));

    give(c, blend(c, in(c, 0), p, factor(c, 3), factor(c, 4)));
}

/* self, other, dim, out: cross products of vectors with 3 elements */
void run_cross(struct call *c)
{
    tensor *out = in(c, 3), *a, *b, *x[3], *y[3], *parts[3];
    int dim = wrap_dim(c, out, integer(c, 2));

    if (c->err || !numel(out))
        return;
    if (!rank(out) || size(out, dim) != 3) {
        (void)call_fail(c, "dim %d does not have 3 elements", dim);
        return;
    }
    a = expand(c, in(c, 0), rank(out), shape(out));
    b = expand(c, in(c, 1), rank(out), shape(out));
    if (is_half(a))
        a = wide(c, a), b = wide(c, b);
    for (int i = 0; i < 3; i++) {
        x[i] = slice(c, a, dim, i, i + 1, 1);
        y[i] = slice(c, b, dim, i, i + 1, 1);
    }
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;

        parts[i] = op_sub(c, op_mul(c, x[j], y[k]), op_mul(c, x[k], y[j]));
    }
    put(c, 3, concat(c, parts, 3, dim));
}

/* a, b, out */
void run_dot(struct call *c)
{
    tensor *a = in(c, 0);

    give(c, op_sum(c, op_mul(c, is_half(a) ? wide(c, a) : a, in(c, 1)), NULL, 0, false));
}

/* x, x2, bias, x3, kind ("", "add", "mul", "gelu_erf", "gelu_tanh", "relu"), cube, out */
void run_fused_matmul(struct call *c)
{
    tensor *y = product(c, in(c, 0), in(c, 1));

    if (given(c, 2))
        y = op_add(c, y, in(c, 2));
    if (text_is(c, 4, "add"))
        y = op_add(c, y, in(c, 3));
    else if (text_is(c, 4, "mul"))
        y = op_mul(c, y, in(c, 3));
    else if (text_is(c, 4, "gelu_erf"))
        y = op_gelu(c, y);
    else if (text_is(c, 4, "gelu_tanh"))
        y = op_gelu_tanh(c, wide(c, y));
    else if (text_is(c, 4, "relu"))
        y = op_relu(c, y);
    else if (text(c, 4)[0])
        (void)call_fail(c, "the fused type '%s' is not known", text(c, 4));
    give(c, y);
}

/* b, a, upper, transpose, unitriangular, x, m: a x = b by substitution */
struct solve_params {
    bool upper, transposed, unit;
    weir_dtype dtype;
    int64_t batch, n, k;
};

#define SOLVE(type)                                                                      \
    for (int64_t s = 0; s < p->batch; s++) {                                             \
        const type *b = (const type *)h->in[0] + s * p->n * p->k;                        \
        const type *a = (const type *)h->in[1] + s * p->n * p->n;                        \
        type *x = (type *)h->out[0] + s * p->n * p->k;                                   \
        bool down = p->upper == p->transposed; /* from the first row on */               \
        for (int64_t step = 0; step < p->n; step++) {                                    \
            int64_t i = down ? step : p->n - 1 - step;                                   \
            for (int64_t j = 0; j < p->k; j++) {                                         \
                double sum = (double)b[i * p->k + j];                                    \
                for (int64_t m = down ? 0 : i + 1; m < (down ? i : p->n); m++)           \
                    sum -= (double)(p->transposed ? a[m * p->n + i] : a[i * p->n + m]) * \
                           (double)x[m * p->k + j];                                      \
                x[i * p->k + j] = (type)(p->unit ? sum : sum / (double)a[i * p->n + i]); \
            }                                                                            \
        }                                                                                \
    }

static weir_status solve(const struct host *h)
{
    const struct solve_params *p = h->params;

    if (p->dtype == WEIR_F32)
        SOLVE(float)
    else
        SOLVE(double)
    return WEIR_OK;
}

void run_triangular_solve(struct call *c)
{
    tensor *b = wide(c, in(c, 0)), *a = wide(c, in(c, 1)), *both[2] = {b, a};
    struct solve_params p = {
        integer(c, 2) != 0, integer(c, 3) != 0, integer(c, 4) != 0, type(b), 1, 0, 0};

    if (c->err)
        return;
    if (rank(b) < 2 || rank(a) != rank(b) || size(a, -1) != size(a, -2) ||
        size(a, -1) != size(b, -2)) {
        (void)call_fail(c, "a must be square matrices with b's rows, of the same rank");
        return;
    }
    p.n = size(b, -2);
    p.k = size(b, -1);
    for (int i = 0; i < rank(b) - 2; i++) {
        if (shape(a)[i] != shape(b)[i]) {
            (void)call_fail(c, "the batches of a and b differ");
            return;
        }
        p.batch *= shape(b)[i];
    }
    put(c, 5, host_like(c, "TriangularSolve", solve, &p, sizeof p, both, 2, b, type(b)));
    put(c, 6, a);
}
