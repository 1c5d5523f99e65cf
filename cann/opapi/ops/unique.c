/* Unique values and histograms. */
#include "run.h"

struct rows_params {
    weir_dtype dtype;
    int64_t count, width;
};

/* Compares two numbers for sorting; NaN is last. */
static int compare_doubles(double a, double b)
{
    if (a != a || b != b)
        return (a != a) - (b != b);
    return (a > b) - (a < b);
}

static int compare_rows(const struct rows_params *p, const void *data, int64_t a, int64_t b)
{
    for (int64_t i = 0; i < p->width; i++) {
        int64_t at = a * p->width + i, other = b * p->width + i;
        int order;

        if (p->dtype == WEIR_I64) {
            int64_t u = ((const int64_t *)data)[at], v = ((const int64_t *)data)[other];

            order = (u > v) - (u < v);
        } else if (p->dtype == WEIR_F64) {
            order = compare_doubles(((const double *)data)[at], ((const double *)data)[other]);
        } else {
            order = compare_doubles((double)((const float *)data)[at],
                                    (double)((const float *)data)[other]);
        }
        if (order)
            return order;
    }
    return 0;
}

/* Sorts order[0..n) by merging; `spare` is scratch space. */
static void sort_rows(const struct rows_params *p, const void *data, int64_t *order, int64_t *spare,
                      int64_t n)
{
    int64_t half = n / 2, a = 0, b = half;

    if (n < 2)
        return;
    sort_rows(p, data, order, spare, half);
    sort_rows(p, data, order + half, spare, n - half);
    memcpy(spare, order, (size_t)n * sizeof *order);
    for (int64_t i = 0; i < n; i++) {
        bool first = b == n || (a < half && compare_rows(p, data, spare[a], spare[b]) <= 0);

        order[i] = spare[first ? a++ : b++];
    }
}

/* Sorts the rows of a matrix lexicographically; the sort is stable. */
static weir_status order_of_rows(const struct host *h)
{
    const struct rows_params *p = h->params;
    int64_t *order = h->out[0];

    for (int64_t i = 0; i < p->count; i++)
        order[i] = i;
    sort_rows(p, h->in[0], order, h->out[1], p->count);
    return WEIR_OK;
}

static tensor *row_order(struct call *c, tensor *x)
{
    struct rows_params p;
    struct host_out outs[2];
    tensor *got[2] = {0};

    x = is_float(x) ? wide(c, x) : cast(c, x, WEIR_I64);
    if (!x)
        return NULL;
    p = (struct rows_params){type(x), size(x, 0), size(x, 1)};
    outs[0] = outs[1] = (struct host_out){WEIR_I64, 1, {p.count}};
    host_run(c, "RowOrder", order_of_rows, &p, sizeof p, &x, 1, outs, 2, got);
    return got[0];
}

static tensor *ones(struct call *c, weir_dtype dtype, int64_t n)
{
    return full(c, dtype, 1, &n, 1);
}

/* Finds the unique rows of a matrix: the rows that differ from the one before (y), the index of
 * each row's value among them (inverse), and how often each occurs (counts). If `sorted`, the rows
 * are sorted first. `turn` converts the unique rows to the shape of `shaped` along `dim`. */
static void unique_rows(struct call *c, tensor *rows, bool sorted, int y, int inverse, int counts,
                        tensor *(*turn)(struct call *, tensor *, const tensor *, int),
                        const tensor *shaped, int dim)
{
    tensor *order = NULL, *differs, *start, *number, *found = NULL, *end;
    int64_t n = size(rows, 0), k;
    int other = 1;

    if (sorted) {
        order = row_order(c, rows);
        rows = op_index_select(c, rows, 0, order);
    }
    if (c->err)
        return;
    differs = ones(c, WEIR_BOOL, n < 1 ? n : 1);
    if (n > 1) {
        tensor *change = op_ne(c, slice(c, rows, 0, 1, n, 1), slice(c, rows, 0, 0, n - 1, 1));

        change = size(rows, 1) == 1 ? flat(c, change) : op_max(c, change, &other, 1, false);
        differs = concat(c, (tensor *[]){differs, change}, 2, 0);
    }
    if (c->err || !call_ok(c, weir_nonzero(differs, &found)))
        return;
    start = flat(c, own(c, found));
    k = numel(start);
    put_found(c, y, turn(c, op_index_select(c, rows, 0, start), shaped, dim));
    if (inverse >= 0 && given(c, inverse) && n) {
        number = op_subs(c, op_cumsum(c, cast(c, differs, WEIR_I64), 0), 1);
        if (sorted) {
            tensor *back = full(c, WEIR_I64, 1, &n, 0);

            op_scatter_add(c, back, 0, order, number);
            number = back;
        }
        if (numel(in(c, inverse)) == n)
            put(c, inverse, like(c, number, in(c, inverse)));
    }
    if (counts < 0 || !given(c, counts) || !k || numel(in(c, counts)) < k)
        return;
    end = full(c, WEIR_I64, 1, &(int64_t){1}, (double)n);
    if (k > 1)
        end = concat(c, (tensor *[]){slice(c, start, 0, 1, k, 1), end}, 2, 0);
    put_found(c, counts, op_sub(c, end, start));
}

static bool may_depend_on_values(struct call *c)
{
    if (c->capturing)
        (void)call_fail(c, "its result's size depends on values: it cannot be captured");
    return !c->err;
}

/* Reshapes x to [n, 1]. */
static tensor *column(struct call *c, tensor *x)
{
    x = type(x) == WEIR_BOOL ? cast(c, x, WEIR_U8) : x;
    return unsqueeze(c, flat(c, x), 1);
}

static tensor *turn_flat(struct call *c, tensor *x, const tensor *shaped, int dim)
{
    (void)shaped, (void)dim;
    return flat(c, x);
}

/* Reshapes [kept, rest] to the shape of `shaped`, with size `kept` in `dim`. */
static tensor *turn_dim(struct call *c, tensor *x, const tensor *shaped, int dim)
{
    int64_t dims[MAX_DIMS] = {size(x, 0)};
    int back[MAX_DIMS];

    for (int d = 0; d < rank(shaped); d++) {
        if (d != dim)
            dims[d < dim ? d + 1 : d] = size(shaped, d);
        back[d] = d == dim ? 0 : d < dim ? d + 1 : d;
    }
    return permute(c, reshape(c, x, rank(shaped), dims), back);
}

/* Reshapes x to [size of the dim, rest]. */
static tensor *rows_along(struct call *c, tensor *x, int dim)
{
    int dims[MAX_DIMS] = {dim};
    int64_t matrix[2] = {size(x, dim), 1};

    for (int d = 0; d < rank(x); d++)
        if (d != dim) {
            dims[d < dim ? d + 1 : d] = d;
            matrix[1] *= size(x, d);
        }
    x = type(x) == WEIR_BOOL ? cast(c, x, WEIR_U8) : x;
    return reshape(c, permute(c, x, dims), 2, matrix);
}

/* self, sorted, return_inverse, y, inverse */
void run_unique(struct call *c)
{
    if (may_depend_on_values(c))
        unique_rows(c, column(c, in(c, 0)), true, 3, integer(c, 2) ? 4 : -1, -1, turn_flat, NULL,
                    0);
}

/* self, sorted, return_inverse, return_counts, y, inverse, counts */
void run_unique2(struct call *c)
{
    if (may_depend_on_values(c))
        unique_rows(c, column(c, in(c, 0)), true, 4, integer(c, 2) || integer(c, 3) ? 5 : -1,
                    integer(c, 3) ? 6 : -1, turn_flat, NULL, 0);
}

/* self, return_inverse, return_counts, dim (1000: all), y, inverse, counts */
void run_unique_consecutive(struct call *c)
{
    tensor *x = in(c, 0);
    int inverse = integer(c, 1) ? 5 : -1, counts = integer(c, 2) ? 6 : -1, dim;

    if (!may_depend_on_values(c))
        return;
    if (integer(c, 3) == 1000) {
        unique_rows(c, column(c, x), false, 4, inverse, counts, turn_flat, NULL, 0);
        return;
    }
    dim = wrap_dim(c, x, integer(c, 3));
    if (!c->err)
        unique_rows(c, rows_along(c, x, dim), false, 4, inverse, counts, turn_dim, x, dim);
}

/* self, sorted, return_inverse, dim, y, inverse, counts */
void run_unique_dim(struct call *c)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 3));

    if (may_depend_on_values(c))
        unique_rows(c, rows_along(c, x, dim), true, 4, 5, 6, turn_dim, x, dim);
}

/* self, bins, min, max, out: if min and max are equal, those of the values are used; values outside
 * of [min, max] are not counted */
void run_histc(struct call *c)
{
    tensor *x = wide(c, flat(c, in(c, 0))), *low, *high, *at, *inside, *bins;
    int64_t n = integer(c, 1);

    if (c->err)
        return;
    if (n < 1) {
        (void)call_fail(c, "%lld bins: there must be at least one", (long long)n);
        return;
    }
    bins = full(c, WEIR_I64, 1, &n, 0);
    if (!numel(x)) {
        give(c, bins);
        return;
    }
    low = full(c, type(x), 0, NULL, number(c, 2, 0));
    high = full(c, type(x), 0, NULL, number(c, 3, 0));
    if (number(c, 2, 0) == number(c, 3, 0)) {
        tensor *same;

        low = op_min(c, x, NULL, 0, false);
        high = op_max(c, x, NULL, 0, false);
        same = op_eq(c, low, high);
        low = op_where(c, same, op_subs(c, low, 1), low);
        high = op_where(c, same, op_adds(c, high, 1), high);
    }
    inside = op_minimum(c, op_ge(c, x, low), op_le(c, x, high));
    at = op_div(c, op_muls(c, op_sub(c, x, low), (double)n), op_sub(c, high, low));
    at = op_where(c, inside, at, full_like(c, at, type(at), 0));
    at = op_clamp(c, math1(c, MATH_FLOOR, at), 0, (double)(n - 1));
    op_scatter_add(c, bins, 0, cast(c, at, WEIR_I64), cast(c, inside, WEIR_I64));
    give(c, bins);
}

/* self, weights, minlength, out */
void run_bincount(struct call *c)
{
    tensor *x = cast(c, flat(c, in(c, 0)), WEIR_I64), *weights = in(c, 1), *out = in(c, 3), *bins;

    if (c->err)
        return;
    weights = weights ? wide(c, flat(c, weights)) : ones(c, WEIR_I64, numel(x));
    bins = full(c, type(weights), 1, shape(out), 0);
    if (numel(x))
        op_scatter_add(c, bins, 0, x, weights);
    put(c, 3, bins);
}
