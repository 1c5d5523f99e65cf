/* Operators that are short compositions of others. */
#include "run.h"

void run_add_relu(struct call *c)
{
    tensor *x = in(c, 0), *y = in(c, 1);

    if (number(c, 2, 1) != 1)
        y = op_mul(c, is_half(y) ? wide(c, y) : y, beside(c, 2, y));
    give(c, op_relu(c, op_add(c, is_half(x) ? wide(c, x) : x, y)));
}

/* self, eps (none if below 0), out */
void run_logit(struct call *c)
{
    tensor *x = wide(c, in(c, 0));
    double eps = real(c, 1);

    if (eps >= 0)
        x = op_clamp(c, x, eps, 1 - eps);
    give(c, op_log(c, op_div(c, x, op_rsubs(c, 1, x))));
}

/* self, grad, eps, out */
void run_logit_grad(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *g = wide(c, in(c, 1)), *d, *inside;
    double eps = real(c, 2), low = eps < 0 ? 0 : eps;

    d = op_div(c, g, op_mul(c, x, op_rsubs(c, 1, x)));
    inside = op_minimum(c, op_ges(c, x, low), op_les(c, x, 1 - low));
    give(c, op_where(c, inside, d, full(c, type(d), 0, NULL, eps < 0 ? NAN : 0)));
}

/* element, test, unique, invert, out */
void run_isin_scalar(struct call *c)
{
    tensor *x = in(c, 0), *t = beside(c, 1, x);

    give(c, integer(c, 3) ? op_ne(c, x, t) : op_eq(c, x, t));
}

void run_isin_tensor(struct call *c)
{
    tensor *t = in(c, 1), *hit = op_eq(c, t, beside(c, 0, t));

    hit = numel(t) ? op_max(c, hit, NULL, 0, false) : full(c, WEIR_BOOL, 0, NULL, 0);
    give(c, integer(c, 3) ? op_not(c, hit) : hit);
}

/* self, mask, scale, out */
void run_masked_scale(struct call *c)
{
    give(c, op_muls(c, op_mul(c, wide(c, in(c, 0)), wide(c, in(c, 1))), real(c, 2)));
}

/* self, value, wrap */
void run_fill_diagonal(struct call *c)
{
    tensor *x = in(c, 0), *at, *on;
    int64_t step = 0, n = numel(x), end;

    if (c->err || !n)
        return;
    if (rank(x) < 2) {
        (void)call_fail(c, "self has %d dims, it needs 2", rank(x));
        return;
    }
    for (int d = 0; d < rank(x); d++) {
        int64_t inner = 1;

        for (int k = d + 1; k < rank(x); k++)
            inner *= size(x, k);
        step += inner;
    }
    /* a tall matrix is filled again below, if it wraps */
    end = !integer(c, 2) && rank(x) == 2 && size(x, 0) > size(x, 1) ? size(x, 1) * size(x, 1) : n;
    at = arange(c, WEIR_I64, n, 0, 1);
    on = op_eqs(c, math2(c, MATH_REMAINDER, at, full(c, WEIR_I64, 0, NULL, (double)step)), 0);
    on = op_minimum(c, on, op_lts(c, at, (double)end));
    put(c, 0, op_where(c, like(c, on, x), literal(c, c->args[1].scalar, type(x)), x));
}

/* ---- repeats given by a tensor; the result's size is their sum ---- */

/* For each place p of the result, the index of its element: the number of running sums <= p. */
static tensor *places(struct call *c, tensor *repeats, int64_t total)
{
    int64_t n = numel(repeats);
    tensor *r = flat(c, cast(c, repeats, WEIR_I64)), *sums, *p;
    const int last = 1;

    /* a product with a triangle of ones gives the running sums */
    sums = op_ge(c, unsqueeze(c, arange(c, WEIR_I64, n, 0, 1), 1), arange(c, WEIR_I64, n, 0, 1));
    sums = op_sum(c, op_mul(c, cast(c, sums, WEIR_I64), r), &last, 1, false);
    p = unsqueeze(c, arange(c, WEIR_I64, total, 0, 1), 1);
    return op_sum(c, op_ge(c, p, sums), &last, 1, false);
}

static void repeat(struct call *c, tensor *x, int dim, tensor *repeats, int out)
{
    tensor *to = in(c, out);
    int64_t total = rank(to) ? size(to, dim) : 1;

    if (c->err || !numel(to))
        return;
    if (numel(repeats) == 1) { /* one value applies to all elements */
        int64_t n = size(x, dim);
        tensor *p = math2(c, MATH_FLOOR_DIVIDE, arange(c, WEIR_I64, total, 0, 1),
                          full(c, WEIR_I64, 0, NULL, n ? (double)(total / n) : 1));

        put(c, out, op_index_select(c, x, dim, p));
        return;
    }
    put(c, out, op_index_select(c, x, dim, places(c, repeats, total)));
}

/* self, repeats, size, out */
void run_repeat_interleave(struct call *c)
{
    repeat(c, flat(c, in(c, 0)), 0, in(c, 1), 3);
}

/* self, repeats, dim, size, out */
void run_repeat_interleave_dim(struct call *c)
{
    tensor *x = in(c, 0);

    repeat(c, x, wrap_dim(c, x, integer(c, 2)), in(c, 1), 4);
}

/* repeats, size, out */
void run_repeat_interleave_places(struct call *c)
{
    tensor *to = in(c, 2);

    if (numel(to))
        give(c, places(c, in(c, 0), numel(to)));
}

/* ---- searches in sorted sequences ---- */

/* sorted [.., n], values [.., m]: for each value, how many of sorted are below it, or not above */
static tensor *rank_of(struct call *c, tensor *sorted, tensor *x, bool right)
{
    tensor *s = unsqueeze(c, sorted, rank(sorted) - 1), *v = unsqueeze(c, x, rank(x)), *hit;
    int last;

    if (c->err)
        return NULL;
    hit = right ? op_le(c, s, v) : op_lt(c, s, v);
    last = rank(hit) - 1;
    return op_sum(c, hit, &last, 1, false);
}

/* sorted, values or a scalar, out_int32, right, sorter, out */
void run_search_sorted(struct call *c)
{
    tensor *s = in(c, 0), *x, *y;

    if (given(c, 4) && numel(in(c, 4)))
        s = op_gather(c, s, rank(s) - 1, in(c, 4));
    x = c->row->operands[1].kind == OPERAND_S ? flat(c, beside(c, 1, s)) : in(c, 1);
    if (c->err || !numel(in(c, 5)))
        return;
    if (rank(s) == 1) /* one sequence for all values */
        y = rank_of(c, s, flat(c, x), integer(c, 3) != 0);
    else
        y = rank_of(c, s, x, integer(c, 3) != 0);
    give(c, y);
}

/* self, boundaries, out_int32, right, out */
void run_bucketize(struct call *c)
{
    tensor *x = in(c, 0);

    if (numel(x))
        give(c, rank_of(c, in(c, 1), flat(c, x), integer(c, 3) != 0));
}

/* ---- training ---- */

/* grad, self, target, reduction, log_target, out */
void run_kl_div_target_backward(struct call *c)
{
    tensor *g = wide(c, in(c, 0)), *x = wide(c, in(c, 1)), *t = wide(c, in(c, 2)), *d;

    if (integer(c, 4))
        d = op_mul(c, op_exp(c, t), op_adds(c, op_sub(c, t, x), 1));
    else
        d = op_where(c, op_eqs(c, t, 0), full(c, type(t), 0, NULL, 0),
                     op_adds(c, op_sub(c, op_log(c, t), x), 1));
    if (integer(c, 3) == 1 && numel(x))
        g = op_divs(c, g, (double)numel(x));
    give(c, op_mul(c, g, d));
}

/* scale, tracker, found_inf, growth, backoff, interval, new scale, new tracker */
void run_amp_update_scale(struct call *c)
{
    tensor *scale = wide(c, in(c, 0)), *tracker = cast(c, in(c, 1), WEIR_I32), *one, *grown;
    tensor *found = op_truth(c, in(c, 2)), *full_house, *zero = full(c, WEIR_I32, 0, NULL, 0);

    one = op_adds(c, tracker, 1);
    full_house = op_eqs(c, one, (double)integer(c, 5));
    grown = op_muls(c, scale, real(c, 3));
    /* the scale stops growing before it becomes infinite */
    grown = op_where(c, op_minimum(c, full_house, op_finite(c, grown)), grown, scale);
    put(c, 6, op_where(c, found, op_muls(c, scale, real(c, 4)), grown));
    put(c, 7, op_where(c, op_maximum(c, found, full_house), zero, one));
}
