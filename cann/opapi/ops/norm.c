/* Softmax and normalisations. */
#include "run.h"

static tensor *x_of(struct call *c, int i)
{
    return given(c, i) ? wide(c, in(c, i)) : NULL;
}

/* self, dim, out */
void run_softmax(struct call *c)
{
    tensor *x = in(c, 0);

    if (out_type(c, 2) == WEIR_F32)
        x = cast(c, x, WEIR_F32);
    give(c, op_softmax(c, is_float(x) ? x : wide(c, x), wrap_dim(c, x, integer(c, 1))));
}

tensor *op_log_softmax(struct call *c, tensor *x, int dim)
{
    tensor *d;

    if (!x || !rank(x))
        return x ? full_like(c, x, type(x), 0) : NULL;
    d = op_sub(c, x, op_max(c, x, &dim, 1, true));
    return op_sub(c, d, op_log(c, op_sum(c, op_exp(c, d), &dim, 1, true)));
}

void run_log_softmax(struct call *c)
{
    tensor *x = x_of(c, 0);

    give(c, op_log_softmax(c, x, wrap_dim(c, x, integer(c, 1))));
}

/* y (g - sum(g y)) */
static tensor *softmax_gradient(struct call *c, tensor *g, tensor *y, int dim)
{
    tensor *gy = op_mul(c, g, y);

    if (!rank(y))
        return y ? full_like(c, y, type(y), 0) : NULL;
    return op_sub(c, gy, op_mul(c, y, op_sum(c, gy, &dim, 1, true)));
}

/* grad, output, dim, out */
void run_softmax_backward(struct call *c)
{
    tensor *y = x_of(c, 1);

    give(c, softmax_gradient(c, x_of(c, 0), y, wrap_dim(c, y, integer(c, 2))));
}

void run_log_softmax_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *y = x_of(c, 1);
    int dim = wrap_dim(c, y, integer(c, 2));

    give(c, rank(y) ? op_sub(c, g, op_mul(c, op_exp(c, y), op_sum(c, g, &dim, 1, true)))
                    : (y ? full_like(c, y, type(y), 0) : NULL));
}

/* x, mask (true means masked), scale, fixed_triu, out */
void run_scaled_masked_softmax(struct call *c)
{
    tensor *x = op_muls(c, x_of(c, 0), real(c, 2)), *m = op_truth(c, in(c, 1));

    if (integer(c, 3)) {
        tensor *d = op_sub(c, arange(c, WEIR_I64, size(x, -1), 0, 1),
                           unsqueeze(c, arange(c, WEIR_I64, size(x, -2), 0, 1), 1));

        m = op_gts(c, d, 0);
    }
    x = op_where(c, m, full(c, type(x), 0, NULL, -10000), x);
    give(c, op_softmax(c, x, rank(x) - 1));
}

/* grad, y, mask, scale, fixed_triu, out */
void run_scaled_masked_softmax_backward(struct call *c)
{
    tensor *y = x_of(c, 1), *d = softmax_gradient(c, x_of(c, 0), y, rank(y) - 1), *m;

    m = op_truth(c, in(c, 2));
    if (integer(c, 4))
        m = op_gts(c,
                   op_sub(c, arange(c, WEIR_I64, size(y, -1), 0, 1),
                          unsqueeze(c, arange(c, WEIR_I64, size(y, -2), 0, 1), 1)),
                   0);
    give(c, op_where(c, m, full(c, type(d), 0, NULL, 0), op_muls(c, d, real(c, 3))));
}

/* ---- layer norm ---- */

/* Reshapes x to [rows, columns]: the last `count` dims become one row. */
static tensor *rows_of(struct call *c, tensor *x, int count)
{
    int64_t to[2] = {1, 1};

    for (int i = 0; i < rank(x); i++)
        to[i >= rank(x) - count] *= shape(x)[i];
    return reshape(c, x, 2, to);
}

static const int last = 1, first = 0;

struct moments {
    tensor *mean, *rstd, *centred;
};

static struct moments moments_of(struct call *c, tensor *x, double eps)
{
    struct moments m;

    m.mean = op_mean(c, x, &last, 1, true);
    m.centred = op_sub(c, x, m.mean);
    m.rstd =
        op_rsqrt(c, op_adds(c, op_mean(c, op_mul(c, m.centred, m.centred), &last, 1, true), eps));
    return m;
}

/* input, normalized_shape, weight, bias, eps, out, mean, rstd */
void run_layer_norm(struct call *c)
{
    int n = c->args[1].ints ? (int)c->args[1].ints->size : 1;
    tensor *x = in(c, 0), *rows, *w = NULL, *b = NULL, *y = NULL;

    if (c->err)
        return;
    if (n < 1 || n > rank(x)) {
        (void)call_fail(c, "normalized_shape has %d dims, input %d", n, rank(x));
        return;
    }
    rows = rows_of(c, x, n);
    if (given(c, 2))
        w = flat(c, cast(c, in(c, 2), type(x)));
    if (given(c, 3))
        b = flat(c, cast(c, in(c, 3), type(x)));
    if (c->err || !numel(x))
        return;
    if (!call_ok(c, weir_layer_norm(rows, w, b, real(c, 4), &y)))
        return;
    put(c, 5, like(c, own(c, y), x));
    if (given(c, 6) || given(c, 7)) {
        struct moments m = moments_of(c, wide(c, rows), real(c, 4));

        put(c, 6, m.mean);
        put(c, 7, m.rstd);
    }
}

/* The gradient of (x - mean) * rstd, where `g` is the gradient of its result. */
static tensor *through(struct call *c, tensor *g, tensor *normal, tensor *rstd)
{
    tensor *a = op_mean(c, g, &last, 1, true);
    tensor *b = op_mean(c, op_mul(c, g, normal), &last, 1, true);

    return op_mul(c, rstd, op_sub(c, op_sub(c, g, a), op_mul(c, normal, b)));
}

static bool asked(const struct call *c, int mask, int k, int out)
{
    const aclBoolArray *a = c->args[mask].bools;

    return c->args[out].tensor && (!a || ((uint64_t)k < a->size && a->value[k]));
}

/* grad, input, normalized_shape, mean, rstd, weight, bias, mask, dx, dweight, dbias */
void run_layer_norm_backward(struct call *c)
{
    int n = c->args[2].ints ? (int)c->args[2].ints->size : 1;
    tensor *g = rows_of(c, x_of(c, 0), n), *x = rows_of(c, x_of(c, 1), n);
    tensor *mean = cast(c, x_of(c, 3), type(x)), *rstd = cast(c, x_of(c, 4), type(x)), *normal;
    int64_t column[2] = {size(x, 0), 1};

    normal = op_mul(c, op_sub(c, x, reshape(c, mean, 2, column)), reshape(c, rstd, 2, column));
    if (asked(c, 7, 0, 8)) {
        tensor *gw = given(c, 5) ? op_mul(c, g, flat(c, x_of(c, 5))) : g;

        put(c, 8, through(c, gw, normal, reshape(c, rstd, 2, column)));
    }
    if (asked(c, 7, 1, 9))
        put(c, 9, op_sum(c, op_mul(c, g, normal), &first, 1, false));
    if (asked(c, 7, 2, 10))
        put(c, 10, op_sum(c, g, &first, 1, false));
}

/* x1, x2, gamma, beta, bias, eps, additional_out, y, mean, rstd, x */
void run_add_layer_norm(struct call *c)
{
    tensor *x = op_add(c, x_of(c, 0), x_of(c, 1)), *rows;
    struct moments m;

    if (given(c, 4))
        x = op_add(c, x, x_of(c, 4));
    rows = rows_of(c, x, rank(in(c, 2)));
    m = moments_of(c, rows, real(c, 5));
    put(c, 7,
        like(c,
             op_add(c, op_mul(c, op_mul(c, m.centred, m.rstd), flat(c, x_of(c, 2))),
                    flat(c, x_of(c, 3))),
             x));
    put(c, 8, m.mean);
    put(c, 9, m.rstd);
    if (integer(c, 6))
        put(c, 10, x);
}

/* ---- root mean square norm ---- */

static tensor *rms(struct call *c, tensor *rows, double eps)
{
    return op_rsqrt(c, op_adds(c, op_mean(c, op_mul(c, rows, rows), &last, 1, true), eps));
}

/* x, gamma, eps, y, rstd */
void run_rms_norm(struct call *c)
{
    tensor *x = in(c, 0), *w = in(c, 1), *rows, *y = NULL;

    if (c->err || !numel(x))
        return;
    rows = rows_of(c, x, rank(w));
    w = flat(c, cast(c, w, type(x)));
    if (c->err || !call_ok(c, weir_rms_norm(rows, w, real(c, 2), &y)))
        return;
    put(c, 3, like(c, own(c, y), x));
    if (given(c, 4))
        put(c, 4, rms(c, wide(c, rows), real(c, 2)));
}

/* x, gamma, eps, y, rstd: multiplies by 1 + gamma */
void run_gemma_rms_norm(struct call *c)
{
    tensor *x = x_of(c, 0), *w = x_of(c, 1), *rows = rows_of(c, x, rank(w)),
           *r = rms(c, rows, real(c, 2));

    put(c, 3, like(c, op_mul(c, op_mul(c, rows, r), op_adds(c, flat(c, w), 1)), x));
    put(c, 4, r);
}

/* x1, x2, gamma, eps, y, rstd, x: x may be written to 1, and the sum is rounded before its norm */
static void add_rms_norm(struct call *c, int y, int rstd, int sum)
{
    tensor *x = cast(c, op_add(c, wide(c, in(c, 0)), wide(c, in(c, 1))), type(in(c, 0)));
    tensor *w = in(c, 2), *rows = rows_of(c, wide(c, x), rank(w)), *r = rms(c, rows, real(c, 3));

    put(c, y, like(c, op_mul(c, op_mul(c, rows, r), flat(c, wide(c, w))), x));
    if (rstd >= 0)
        put(c, rstd, r);
    put(c, sum, x);
}

void run_add_rms_norm(struct call *c)
{
    add_rms_norm(c, 4, 5, 6);
}

/* x1 (becomes y), x2 (becomes the sum), gamma, eps, rstd */
void run_inplace_add_rms_norm(struct call *c)
{
    add_rms_norm(c, 0, 4, 1);
}

/* x1, x2, gamma, eps, y as f32, y, rstd, x */
void run_add_rms_norm_cast(struct call *c)
{
    tensor *x = cast(c, op_add(c, wide(c, in(c, 0)), wide(c, in(c, 1))), type(in(c, 0)));
    tensor *w = in(c, 2), *rows = rows_of(c, wide(c, x), rank(w)), *r = rms(c, rows, real(c, 3));
    tensor *y = like(c, op_mul(c, op_mul(c, rows, r), flat(c, wide(c, w))), x);

    y = cast(c, y, type(x));
    put(c, 4, y);
    put(c, 5, y);
    put(c, 6, r);
    put(c, 7, x);
}

/* dy, x, rstd, gamma, dx, dgamma */
void run_rms_norm_grad(struct call *c)
{
    tensor *w = x_of(c, 3), *g = rows_of(c, x_of(c, 0), rank(w)),
           *x = rows_of(c, x_of(c, 1), rank(w));
    int64_t column[2] = {size(x, 0), 1};
    tensor *r = reshape(c, x_of(c, 2), 2, column), *normal = op_mul(c, x, r), *gw;

    gw = op_mul(c, g, flat(c, w));
    put(c, 4,
        op_mul(
            c, r,
            op_sub(c, gw, op_mul(c, normal, op_mean(c, op_mul(c, gw, normal), &last, 1, true)))));
    put(c, 5, op_sum(c, op_mul(c, g, normal), &first, 1, false));
}

/* ---- group and batch norm ---- */

/* Reshapes a value per channel so that it broadcasts with [n, channels, ...]. */
static tensor *per_channel(struct call *c, tensor *w, const tensor *x)
{
    int64_t to[MAX_DIMS];

    for (int i = 0; i < rank(x); i++)
        to[i] = i == 1 ? size(x, 1) : 1;
    return w ? reshape(c, w, rank(x), to) : NULL;
}

/* Common code of all group norms; sets mean and rstd to [n, group]. */
static tensor *group_norm(struct call *c, tensor *x, int64_t groups, double eps, int weight,
                          int bias, tensor **mean, tensor **rstd)
{
    int64_t to[2] = {size(x, 0) * groups, groups ? numel(x) / (size(x, 0) * groups) : 0};
    struct moments m = moments_of(c, reshape(c, x, 2, to), eps);
    tensor *y = like(c, op_mul(c, m.centred, m.rstd), x);

    if (given(c, weight))
        y = op_mul(c, y, per_channel(c, x_of(c, weight), x));
    if (given(c, bias))
        y = op_add(c, y, per_channel(c, x_of(c, bias), x));
    *mean = m.mean;
    *rstd = m.rstd;
    return y;
}

/* input, weight, bias, n, channels, hxw, group, eps, out, mean, rstd */
void run_group_norm(struct call *c)
{
    tensor *x = x_of(c, 0), *mean, *rstd, *y;

    if (c->err || !numel(x))
        return;
    y = group_norm(c, x, integer(c, 6), real(c, 7), 1, 2, &mean, &rstd);
    put(c, 8, y);
    put(c, 9, mean);
    put(c, 10, rstd);
}

/* input, weight, bias, group, eps, out, mean, rstd */
void run_group_norm_silu(struct call *c)
{
    tensor *x = x_of(c, 0), *mean, *rstd, *y;

    if (c->err || !numel(x))
        return;
    y = group_norm(c, x, integer(c, 3), real(c, 4), 1, 2, &mean, &rstd);
    put(c, 5, op_silu(c, y));
    put(c, 6, mean);
    put(c, 7, rstd);
}

/* grad, input, mean, rstd, gamma, n, channels, hxw, group, mask, dx, dgamma, dbeta */
void run_group_norm_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *x = x_of(c, 1), *normal, *r, *gw;
    int64_t groups = integer(c, 8), rows[2], column[2];
    int64_t by_channel[3] = {integer(c, 5), integer(c, 6), integer(c, 7)};
    const int dims[2] = {0, 2};

    if (c->err || !numel(x))
        return;
    rows[0] = column[0] = by_channel[0] * groups;
    rows[1] = numel(x) / rows[0];
    column[1] = 1;
    r = reshape(c, x_of(c, 3), 2, column);
    normal = op_mul(c, op_sub(c, reshape(c, x, 2, rows), reshape(c, x_of(c, 2), 2, column)), r);
    gw = given(c, 4) ? op_mul(c, g, per_channel(c, x_of(c, 4), g)) : g;
    if (asked(c, 9, 0, 10))
        put(c, 10, through(c, reshape(c, gw, 2, rows), normal, r));
    if (asked(c, 9, 1, 11))
        put(c, 11,
            op_sum(c, op_mul(c, reshape(c, g, 3, by_channel), reshape(c, normal, 3, by_channel)),
                   dims, 2, false));
    if (asked(c, 9, 2, 12))
        put(c, 12, op_sum(c, reshape(c, g, 3, by_channel), dims, 2, false));
}

/* Lists all dims but the channels; returns their number. */
static int not_channels(const tensor *x, int *dims)
{
    int n = 0;

    for (int i = 0; i < rank(x); i++)
        if (i != 1)
            dims[n++] = i;
    return n;
}

/* input, weight, bias, running_mean, running_var, training, momentum, eps, out, mean, invstd */
void run_batch_norm(struct call *c)
{
    tensor *x = x_of(c, 0), *mean, *var, *rstd, *y;
    int dims[MAX_DIMS], n = not_channels(x, dims);
    double momentum = real(c, 6), count;

    if (c->err || !numel(x))
        return;
    count = (double)(numel(x) / size(x, 1));
    if (integer(c, 5)) {
        tensor *d;

        mean = op_mean(c, x, dims, n, true);
        d = op_sub(c, x, mean);
        var = op_mean(c, op_mul(c, d, d), dims, n, true);
        if (given(c, 3))
            put(c, 3,
                op_add(c, op_muls(c, x_of(c, 3), 1 - momentum),
                       op_muls(c, flat(c, mean), momentum)));
        if (given(c, 4))
            put(c, 4,
                op_add(c, op_muls(c, x_of(c, 4), 1 - momentum),
                       op_muls(c, flat(c, var), momentum * count / (count - 1))));
    } else {
        mean = per_channel(c, x_of(c, 3), x);
        var = per_channel(c, x_of(c, 4), x);
    }
    rstd = op_rsqrt(c, op_adds(c, var, real(c, 7)));
    y = op_mul(c, op_sub(c, x, mean), rstd);
    if (given(c, 1))
        y = op_mul(c, y, per_channel(c, x_of(c, 1), x));
    if (given(c, 2))
        y = op_add(c, y, per_channel(c, x_of(c, 2), x));
    put(c, 8, y);
    if (integer(c, 5)) {
        put(c, 9, flat(c, mean));
        put(c, 10, flat(c, rstd));
    }
}

/* grad, input, weight, running_mean, running_var, mean, invstd, training, eps, mask, dx, dw, db */
void run_batch_norm_backward(struct call *c)
{
    tensor *g = x_of(c, 0), *x = x_of(c, 1), *mean, *rstd, *normal, *dx, *sum_g, *sum_gn;
    int dims[MAX_DIMS], n = not_channels(x, dims);
    double count;

    if (c->err || !numel(x))
        return;
    count = (double)(numel(x) / size(x, 1));
    if (integer(c, 7)) {
        mean = per_channel(c, x_of(c, 5), x);
        rstd = per_channel(c, x_of(c, 6), x);
    } else {
        mean = per_channel(c, x_of(c, 3), x);
        rstd = op_rsqrt(c, op_adds(c, per_channel(c, x_of(c, 4), x), real(c, 8)));
    }
    normal = op_mul(c, op_sub(c, x, mean), rstd);
    sum_g = op_sum(c, g, dims, n, true);
    sum_gn = op_sum(c, op_mul(c, g, normal), dims, n, true);
    dx = g;
    if (integer(c, 7))
        dx = op_sub(c, op_sub(c, g, op_divs(c, sum_g, count)),
                    op_mul(c, normal, op_divs(c, sum_gn, count)));
    dx = op_mul(c, dx, rstd);
    if (given(c, 2))
        dx = op_mul(c, dx, per_channel(c, x_of(c, 2), x));
    if (asked(c, 9, 0, 10))
        put(c, 10, dx);
    if (asked(c, 9, 1, 11))
        put(c, 11, flat(c, sum_gn));
    if (asked(c, 9, 2, 12))
        put(c, 12, flat(c, sum_g));
}
