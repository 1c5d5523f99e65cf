/* Sums, extremes, statistics, running sums and order along dims. */
#include "run.h"

/* The dims of an array operand, wrapped; none means all. Gives how many. */
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

/* How many elements a reduction over these dims takes together. */
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

/* Turned round, so that the least is the greatest; the least i64 has no counterpart and stays. */
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

/* The variance by the mean of squared distances, with what is taken from the count. */
static tensor *variance(struct call *c, tensor *x, const int *dims, int n, double correction,
                        bool keep)
{
    int64_t count = elements_along(x, dims, n);
    tensor *d = op_sub(c, x, op_mean(c, x, dims, n, true));
    double of = (double)count - correction;

    return op_divs(c, op_sum(c, op_mul(c, d, d), dims, n, keep), of > 0 ? of : 0);
}

/* op_mean keeps dims only if it is told them: all of them, if none are named. */
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

/* ---- running sums and products, on the host ---- */

enum scan { SCAN_SUM, SCAN_PRODUCT, SCAN_MAX, SCAN_MIN, REDUCE_PRODUCT };

struct scan_params {
    enum scan kind;
    weir_dtype dtype;
    int64_t outer, n, inner;
};

#define SCAN(type)                                                                       \
    for (int64_t o = 0; o < p->outer; o++)                                               \
        for (int64_t i = 0; i < p->inner; i++) {                                         \
            const type *x = (const type *)h->in[0] + (o * p->n * p->inner + i);          \
            type *y = (type *)h->out[0] + (reduce ? o : o * p->n) * p->inner + i;        \
            int64_t *at = index ? (int64_t *)h->out[1] + o * p->n * p->inner + i : NULL; \
            type run = p->kind == SCAN_PRODUCT || reduce ? 1 : 0;                        \
            int64_t best = 0;                                                            \
            for (int64_t k = 0; k < p->n; k++) {                                         \
                type v = x[k * p->inner];                                                \
                switch (p->kind) {                                                       \
                case SCAN_SUM:                                                           \
                    run = (type)(run + v);                                               \
                    break;                                                               \
                case SCAN_PRODUCT:                                                       \
                case REDUCE_PRODUCT:                                                     \
                    run = (type)(run * v);                                               \
                    break;                                                               \
                case SCAN_MAX:                                                           \
                    if (k == 0 || v >= run || v != v) {                                  \
                        run = v;                                                         \
                        best = k;                                                        \
                    }                                                                    \
                    break;                                                               \
                case SCAN_MIN:                                                           \
                    if (k == 0 || v <= run || v != v) {                                  \
                        run = v;                                                         \
                        best = k;                                                        \
                    }                                                                    \
                    break;                                                               \
                }                                                                        \
                if (!reduce)                                                             \
                    y[k * p->inner] = run;                                               \
                if (at)                                                                  \
                    at[k * p->inner] = best;                                             \
            }                                                                            \
            if (reduce)                                                                  \
                *y = run;                                                                \
        }

static weir_status run_scan(const struct host *h)
{
    const struct scan_params *p = h->params;
    bool reduce = p->kind == REDUCE_PRODUCT, index = p->kind == SCAN_MAX || p->kind == SCAN_MIN;

    if (p->dtype == WEIR_F32)
        SCAN(float)
    else if (p->dtype == WEIR_F64)
        SCAN(double)
    else
        SCAN(int64_t)
    return WEIR_OK;
}

/* Computes in f32, f64 or i64; gives the values, and the places of the extremes. */
static tensor *scan(struct call *c, enum scan kind, tensor *x, int dim, tensor **places)
{
    struct scan_params p = {kind, WEIR_I64, 1, 1, 1};
    struct host_out outs[2];
    tensor *got[2] = {0};
    int nout = places ? 2 : 1;

    x = is_float(x) ? wide(c, x) : cast(c, x, WEIR_I64);
    if (!x)
        return NULL;
    p.dtype = type(x);
    for (int i = 0; i < rank(x); i++)
        *(i < dim ? &p.outer : i == dim ? &p.n : &p.inner) *= shape(x)[i];
    outs[0] = out_like(x, type(x));
    outs[1] = out_like(x, WEIR_I64);
    if (kind == REDUCE_PRODUCT && rank(x))
        outs[0].shape[dim] = 1;
    host_run(c, "Scan", run_scan, &p, sizeof p, &x, 1, outs, nout, got);
    if (places)
        *places = got[1];
    return got[0];
}

tensor *op_cumsum(struct call *c, tensor *x, int dim)
{
    return x ? scan(c, SCAN_SUM, x, dim, NULL) : NULL;
}

/* self, dim, dtype, out */
void run_cumsum(struct call *c)
{
    tensor *x = in(c, 0);
    weir_dtype t = type_arg(c, 2);

    if (weir_dtype_is_float(t))
        x = cast(c, x, t);
    give(c, scan(c, SCAN_SUM, x, wrap_dim(c, x, integer(c, 1)), NULL));
}

/* self, dim (a scalar), dtype, out */
void run_cumprod(struct call *c)
{
    tensor *x = in(c, 0);
    weir_dtype t = type_arg(c, 2);

    if (weir_dtype_is_float(t))
        x = cast(c, x, t);
    give(c, scan(c, SCAN_PRODUCT, x, wrap_dim(c, x, (int64_t)number(c, 1, 0)), NULL));
}

/* self, dim, values, indices */
void run_cummax(struct call *c)
{
    tensor *x = in(c, 0), *at = NULL;

    put(c, 2, scan(c, SCAN_MAX, x, wrap_dim(c, x, integer(c, 1)), &at));
    put(c, 3, at);
}

void run_cummin(struct call *c)
{
    tensor *x = in(c, 0), *at = NULL;

    put(c, 2, scan(c, SCAN_MIN, x, wrap_dim(c, x, integer(c, 1)), &at));
    put(c, 3, at);
}

/* self, dtype, out */
void run_prod(struct call *c)
{
    tensor *x = cast(c, in(c, 0), type_arg(c, 1));

    give(c, scan(c, REDUCE_PRODUCT, flat(c, x), 0, NULL));
}

/* self, dim, keepdim, dtype, out */
void run_prod_dim(struct call *c)
{
    tensor *x = cast(c, in(c, 0), type_arg(c, 3));

    give(c, scan(c, REDUCE_PRODUCT, x, wrap_dim(c, x, integer(c, 1)), NULL));
}

/* ---- order ---- */

/* self, stable, dim, descending, values, indices */
void run_sort(struct call *c)
{
    tensor *x = in(c, 0), *values, *indices;

    op_sort(c, x, wrap_dim(c, x, integer(c, 2)), integer(c, 3) != 0, &values, &indices);
    put(c, 4, values);
    put(c, 5, indices);
}

/* self, dim, descending, out */
void run_argsort(struct call *c)
{
    tensor *x = in(c, 0), *values, *indices;

    op_sort(c, x, wrap_dim(c, x, integer(c, 1)), integer(c, 2) != 0, &values, &indices);
    give(c, indices);
}

/* self, k, dim, largest, sorted, values, indices */
void run_topk(struct call *c)
{
    tensor *x = in(c, 0), *values = NULL, *indices = NULL;
    int dim = wrap_dim(c, x, integer(c, 2));

    if (c->err)
        return;
    if (!rank(x))
        x = flat(c, x);
    if (x && call_ok(c, weir_topk(x, integer(c, 1), dim, integer(c, 3) != 0, &values, &indices))) {
        put(c, 5, own(c, values));
        put(c, 6, own(c, indices));
    }
}

/* The k-th of sorted rows, counted from 0. */
static void at_rank(struct call *c, tensor *x, int dim, int64_t k, int out_values, int out_indices)
{
    tensor *values, *indices;

    if (!rank(x))
        x = flat(c, x);
    op_sort(c, x, dim, false, &values, &indices);
    put(c, out_values, slice(c, values, dim, k, k + 1, 1));
    if (out_indices)
        put(c, out_indices, slice(c, indices, dim, k, k + 1, 1));
}

/* self, k, dim, keepdim, values, indices */
void run_kthvalue(struct call *c)
{
    tensor *x = in(c, 0);

    at_rank(c, x, wrap_dim(c, x, integer(c, 2)), integer(c, 1) - 1, 4, 5);
}

/* self, out: the lower one of two in the middle; NaN if there is one */
void run_median(struct call *c)
{
    tensor *x = flat(c, in(c, 0)), *values, *indices, *m;
    int64_t n = numel(x);

    op_sort(c, x, 0, false, &values, &indices);
    m = slice(c, values, 0, (n - 1) / 2, (n - 1) / 2 + 1, 1);
    if (is_float(x)) { /* sorted, NaN comes last */
        tensor *last = slice(c, values, 0, n - 1, n, 1);

        m = op_where(c, op_ne(c, last, last), last, m);
    }
    give(c, m);
}

/* self, dim, keepdim, values, indices */
void run_median_dim(struct call *c)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 1));

    at_rank(c, x, dim, ((rank(x) ? size(x, dim) : 1) - 1) / 2, 3, 4);
}
