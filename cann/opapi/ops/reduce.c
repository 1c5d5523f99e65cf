/* Sums, extremes and statistics along dims. */
#include "run.h"

int dims_of(struct call *c, tensor *x, int i, int *dims)
{
    const aclIntArray *a = c->args[i].ints;
    int n = 0;

    if (!a || !rank(x))
        return 0;
    for (uint64_t k = 0; k < a->size && n < MAX_DIMS; k++)
        dims[n++] = wrap_dim(c, x, a->value[k]);
    return n;
}

/* Returns how many elements a reduction over these dims combines. */
int64_t elements_along(const tensor *x, const int *dims, int n)
{
    int64_t count = 1;

    if (!n)
        return numel(x);
    for (int i = 0; i < n; i++)
        count *= size(x, dims[i]);
    return count;
}

/* self, dims, keepdim, dtype, out */
void run_reduce_sum(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);
    weir_dtype t = type_arg(c, 3);

    n = dims_of(c, x, 1, dims);
    if (weir_dtype_is_float(t))
        x = cast(c, x, t);
    give(c, op_sum(c, x, dims, n, integer(c, 2) != 0));
}

void run_reduce_nansum(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);

    n = dims_of(c, x, 1, dims);
    if (is_float(x))
        x = op_where(c, op_ne(c, x, x), full(c, type(x), 0, NULL, 0), x);
    give(c, op_sum(c, x, dims, n, integer(c, 2) != 0));
}

void run_mean(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);
    weir_dtype t = type_arg(c, 3);

    n = dims_of(c, x, 1, dims);
    give(c, op_mean(c, weir_dtype_is_float(t) ? cast(c, x, t) : wide(c, x), dims, n,
                    integer(c, 2) != 0));
}

/* ---- extremes ---- */

void run_max(struct call *c)
{
    give(c, op_max(c, in(c, 0), NULL, 0, false));
}

void run_min(struct call *c)
{
    give(c, op_min(c, in(c, 0), NULL, 0, false));
}

/* self, dims, keepdim, out */
void run_amax(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);

    n = dims_of(c, x, 1, dims);
    give(c, op_max(c, x, dims, n, integer(c, 2) != 0));
}

void run_amin(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);

    n = dims_of(c, x, 1, dims);
    give(c, op_min(c, x, dims, n, integer(c, 2) != 0));
}

/* self, dims, keepdim, min, max */
void run_aminmax(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);

    n = dims_of(c, x, 1, dims);
    put(c, 3, op_min(c, x, dims, n, integer(c, 2) != 0));
    put(c, 4, op_max(c, x, dims, n, integer(c, 2) != 0));
}

void run_aminmax_dim(struct call *c)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 1)), n = rank(x) ? 1 : 0;

    put(c, 3, op_min(c, x, &dim, n, integer(c, 2) != 0));
    put(c, 4, op_max(c, x, &dim, n, integer(c, 2) != 0));
}

void run_aminmax_all(struct call *c)
{
    tensor *x = in(c, 0);

    put(c, 1, op_min(c, x, NULL, 0, false));
    put(c, 2, op_max(c, x, NULL, 0, false));
}

/* Negates x, so that the minimum becomes the maximum. The least i64 cannot be negated and stays. */
static tensor *reversed(struct call *c, tensor *x)
{
    if (is_float(x))
        return op_neg(c, x);
    return op_rsubs(c, -1, cast(c, x, type(x) == WEIR_I64 ? WEIR_I64 : WEIR_I32));
}

/* self, dim, keepdim, out */
static void arg(struct call *c, bool least)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 1));

    if (least)
        x = reversed(c, x);
    give(c, op_argmax(c, x, dim, integer(c, 2) != 0));
}

void run_argmax(struct call *c)
{
    arg(c, false);
}

void run_argmin(struct call *c)
{
    arg(c, true);
}

/* self, dim, keepdim, values, indices */
static void extreme_dim(struct call *c, bool least)
{
    tensor *x = in(c, 0), *index;
    int dim = wrap_dim(c, x, integer(c, 1));

    if (rank(x)) {
        index = op_argmax(c, least ? reversed(c, x) : x, dim, true);
        put(c, 3, op_gather(c, x, dim, index));
        put(c, 4, index);
    } else {
        put(c, 3, x);
        put(c, 4, full(c, WEIR_I64, 0, NULL, 0));
    }
}

void run_max_dim(struct call *c)
{
    extreme_dim(c, false);
}

void run_min_dim(struct call *c)
{
    extreme_dim(c, true);
}

/* ---- all and any: self, dims, keepdim, out ---- */

static void quantify(struct call *c, bool all)
{
    int dims[MAX_DIMS], n;
    tensor *x = op_truth(c, in(c, 0));

    if (c->err)
        return;
    n = dims_of(c, x, 1, dims);
    if (!elements_along(x, dims, n))
        put(c, 3, full(c, WEIR_BOOL, 0, NULL, all));
    else
        put(c, 3,
            all ? op_min(c, x, dims, n, integer(c, 2) != 0)
                : op_max(c, x, dims, n, integer(c, 2) != 0));
}

void run_all(struct call *c)
{
    quantify(c, true);
}

void run_any(struct call *c)
{
    quantify(c, false);
}

/* self, other, out: one bool */
void run_equal(struct call *c)
{
    tensor *x = in(c, 0), *y = in(c, 1);

    if (c->err)
        return;
    if (rank(x) != rank(y) || memcmp(shape(x), shape(y), (size_t)rank(x) * sizeof(int64_t)))
        give(c, full(c, WEIR_BOOL, 0, NULL, 0));
    else if (!numel(x))
        give(c, full(c, WEIR_BOOL, 0, NULL, 1));
    else
        give(c, op_min(c, op_eq(c, x, y), NULL, 0, false));
}

/* ---- norms, variances, log-sum-exp ---- */

tensor *op_norm(struct call *c, tensor *x, double p, const int *dims, int n, bool keep)
{
    x = op_abs(c, wide(c, x));
    if (p == INFINITY)
        return op_max(c, x, dims, n, keep);
    if (p == -INFINITY)
        return op_min(c, x, dims, n, keep);
    if (p == 0)
        return cast(c, op_sum(c, cast(c, op_nes(c, x, 0), type(x)), dims, n, keep), type(x));
    if (p == 1)
        return op_sum(c, x, dims, n, keep);
    if (p == 2)
        return op_sqrt(c, op_sum(c, op_mul(c, x, x), dims, n, keep));
    return op_pows(c, op_sum(c, op_pows(c, x, p), dims, n, keep), 1 / p);
}

/* self, p, dims, keepdim, out */
void run_norm(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = in(c, 0);

    n = dims_of(c, x, 2, dims);
    give(c, op_norm(c, x, number(c, 1, 2), dims, n, integer(c, 3) != 0));
}

/* The variance: the sum of squared distances divided by the count minus `correction`. */
static tensor *variance(struct call *c, tensor *x, const int *dims, int n, double correction,
                        bool keep)
{
    int64_t count = elements_along(x, dims, n);
    tensor *d = op_sub(c, x, op_mean(c, x, dims, n, true));
    double of = (double)count - correction;

    return op_divs(c, op_sum(c, op_mul(c, d, d), dims, n, keep), of > 0 ? of : 0);
}

/* Lists all dims if none are named: op_mean keeps only dims that are listed. */
static int every_dim(const tensor *x, int *dims, int n)
{
    if (n)
        return n;
    for (; n < rank(x); n++)
        dims[n] = n;
    return n;
}

/* self, dims, correction, keepdim, out [, mean] */
static void spread(struct call *c, bool root)
{
    int dims[MAX_DIMS], n;
    tensor *x = wide(c, in(c, 0)), *v;
    bool keep = integer(c, 3) != 0;

    if (c->err)
        return;
    n = every_dim(x, dims, dims_of(c, x, 1, dims));
    v = variance(c, x, dims, n, (double)integer(c, 2), keep);
    put(c, 4, root ? op_sqrt(c, v) : v);
    if (c->row->count > 5)
        put(c, 5, op_mean(c, x, dims, n, keep));
}

void run_var(struct call *c)
{
    spread(c, false);
}

void run_std(struct call *c)
{
    spread(c, true);
}

/* self, dims, keepdim, out */
void run_logsumexp(struct call *c)
{
    int dims[MAX_DIMS], n;
    tensor *x = wide(c, in(c, 0)), *most, *sum;
    bool keep = integer(c, 2) != 0;

    if (c->err)
        return;
    n = every_dim(x, dims, dims_of(c, x, 1, dims));
    most = op_max(c, x, dims, n, true);
    most = op_where(c, op_finite(c, most), most, full(c, type(x), 0, NULL, 0));
    sum = op_log(c, op_sum(c, op_exp(c, op_sub(c, x, most)), dims, n, keep));
    give(c, op_add(c, sum, like(c, most, sum)));
}
