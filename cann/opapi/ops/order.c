/* Running sums and products, sorting, and order statistics. */
#include "run.h"

/* ---- running sums and products, on the host ---- */

enum scan_kind { SCAN_SUM, SCAN_PRODUCT, SCAN_MAX, SCAN_MIN, REDUCE_PRODUCT };

struct scan_params {
    enum scan_kind kind;
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

/* Computes in f32, f64 or i64; returns the values, and the indices of the extremes in *places. */
static tensor *scan(struct call *c, enum scan_kind kind, tensor *x, int dim, tensor **places)
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

/* Writes the k-th element of the sorted rows, counted from 0. */
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

/* self, out: the lower of two middle elements; NaN if self contains NaN */
void run_median(struct call *c)
{
    tensor *x = flat(c, in(c, 0)), *values, *indices, *m;
    int64_t n = numel(x);

    op_sort(c, x, 0, false, &values, &indices);
    m = slice(c, values, 0, (n - 1) / 2, (n - 1) / 2 + 1, 1);
    if (is_float(x)) { /* NaN is sorted last */
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
