/* Creating, copying and rearranging tensors. */
#include <stdlib.h>

#include "run.h"

/* ---- fills and copies ---- */

/* self, dtype, out */
void run_cast(struct call *c)
{
    give(c, in(c, 0));
}

/* self (written), source */
void run_copy(struct call *c)
{
    put(c, 0, in(c, 1));
}

static void fill(struct call *c, tensor *out, double value)
{
    if (out && numel(out))
        (void)call_ok(c, weir_fill(out, value));
}

void run_zero(struct call *c)
{
    fill(c, in(c, 0), 0);
}

void run_one(struct call *c)
{
    fill(c, in(c, 0), 1);
}

/* self, a scalar */
void run_fill(struct call *c)
{
    const aclScalar *s = c->args[1].scalar;
    tensor *x = in(c, 0);

    if (x && is_float(x))
        fill(c, x, s->number);
    else
        put(c, 0, literal(c, s, type(x)));
}

/* self, a tensor with one value */
void run_fill_tensor(struct call *c)
{
    put(c, 0, reshape(c, in(c, 1), 0, NULL));
}

/* self, mask, value */
void run_masked_fill(struct call *c)
{
    tensor *x = in(c, 0), *v;

    v = c->row->operands[2].kind == OPERAND_S ? literal(c, c->args[2].scalar, type(x))
                                              : cast(c, in(c, 2), type(x));
    give(c, op_where(c, in(c, 1), v, x));
}

/* ---- ranges ---- */

/* start, end, step, out: the size of out is the number of elements */
void run_arange(struct call *c)
{
    weir_dtype t = out_type(c, 3);
    const aclScalar *start = c->args[0].scalar, *step = c->args[2].scalar;
    int64_t n = numel(in(c, 3));
    /* Computed in f64 or i64, as steps in a half would not be exact. */
    weir_dtype made =
        weir_dtype_is_float(t) && !(start->whole && step->whole) ? WEIR_F64 : WEIR_I64;

    if (fabs(start->number) + fabs(step->number) * (double)n > 9e15)
        made = WEIR_F64;
    put(c, 3, arange(c, made, n, start->number, step->number));
}

/* start, end, steps, out */
void run_linspace(struct call *c)
{
    double a = number(c, 0, 0), b = number(c, 1, 0);
    int64_t n = integer(c, 2);
    weir_dtype t =
        weir_dtype_is_float(out_type(c, 3)) && out_type(c, 3) != WEIR_F64 ? WEIR_F32 : WEIR_F64;
    double step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    tensor *i = arange(c, WEIR_F64, n, 0, 1), *low, *high;

    /* each element is computed from the nearer end */
    low = op_adds(c, op_muls(c, i, step), a);
    high = op_rsubs(c, b, op_muls(c, op_rsubs(c, (double)(n - 1), i), step));
    give(c, cast(c, n > 1 ? op_where(c, op_lts(c, i, (double)(n / 2)), low, high) : low, t));
}

/* n, m, out */
void run_eye(struct call *c)
{
    tensor *row = unsqueeze(c, arange(c, WEIR_I64, integer(c, 0), 0, 1), 1);

    give(c, op_eq(c, row, arange(c, WEIR_I64, integer(c, 1), 0, 1)));
}

/* ---- triangles ---- */

static void triangle(struct call *c, bool lower)
{
    tensor *x = in(c, 0), *d;

    if (rank(x) < 2) {
        (void)call_fail(c, "self has %d dims, it needs 2", rank(x));
        return;
    }
    d = op_sub(c, arange(c, WEIR_I64, size(x, -1), 0, 1),
               unsqueeze(c, arange(c, WEIR_I64, size(x, -2), 0, 1), 1));
    d = lower ? op_les(c, d, (double)integer(c, 1)) : op_ges(c, d, (double)integer(c, 1));
    give(c, op_where(c, d, x, full(c, type(x), 0, NULL, 0)));
}

/* self, diagonal [, out] */
void run_tril(struct call *c)
{
    triangle(c, true);
}

void run_triu(struct call *c)
{
    triangle(c, false);
}

/* self, out: the sum of the diagonal */
void run_trace(struct call *c)
{
    tensor *x = in(c, 0), *on;

    if (rank(x) != 2) {
        (void)call_fail(c, "self has %d dims, it needs 2", rank(x));
        return;
    }
    on = op_eq(c, unsqueeze(c, arange(c, WEIR_I64, size(x, 0), 0, 1), 1),
               arange(c, WEIR_I64, size(x, 1), 0, 1));
    give(c, op_sum(c, op_where(c, on, x, full(c, type(x), 0, NULL, 0)), NULL, 0, false));
}

/* ---- joining and cutting ---- */

/* tensors, dim, out; empty tensors of one dim are ignored */
void run_cat(struct call *c)
{
    int n = items(c, 0), k = 0, dim = 0;
    weir_dtype t = out_type(c, 2);
    tensor *few[64], **xs = n <= 64 ? few : calloc((size_t)n, sizeof *xs);

    if (!xs) {
        (void)call_fail(c, "out of host memory");
        return;
    }
    for (int i = 0; i < n && !c->err; i++) {
        tensor *x = item(c, 0, i);

        if (!x || (!numel(x) && rank(x) == 1))
            continue;
        if (!k)
            dim = wrap_dim(c, x, integer(c, 1));
        xs[k++] = cast(c, x, t);
    }
    if (k && !c->err)
        give(c, k == 1 ? xs[0] : concat(c, xs, k, dim));
    if (xs != few)
        free(xs);
}

/* tensors, dim, out */
void run_stack(struct call *c)
{
    int n = items(c, 0);
    int64_t dim = integer(c, 1);
    weir_dtype t = out_type(c, 2);
    tensor *few[64], **xs = n <= 64 ? few : calloc((size_t)n, sizeof *xs);

    if (!xs || !n) {
        (void)call_fail(c, n ? "out of host memory" : "no tensors");
        return;
    }
    for (int i = 0; i < n && !c->err; i++)
        xs[i] = unsqueeze(c, cast(c, item(c, 0, i), t), (int)dim);
    if (!c->err)
        give(c, concat(c, xs, n, (int)(dim < 0 ? dim + rank(xs[0]) : dim)));
    if (xs != few)
        free(xs);
}

/* self, sizes, dim, outs */
void run_split(struct call *c)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 2));
    int64_t at = 0;

    for (int i = 0; i < items(c, 3) && !c->err; i++) {
        int64_t n =
            c->args[1].ints && (uint64_t)i < c->args[1].ints->size ? c->args[1].ints->value[i] : 0;

        put_item(c, 3, i, slice(c, x, dim, at, at + n, 1));
        at += n;
    }
}

/* self, dim, start, end, step, out */
void run_slice(struct call *c)
{
    tensor *x = in(c, 0);

    give(c,
         slice(c, x, wrap_dim(c, x, integer(c, 1)), integer(c, 2), integer(c, 3), integer(c, 4)));
}

/* ---- permuting ---- */

/* self, dims, out */
void run_permute(struct call *c)
{
    int dims[MAX_DIMS];
    tensor *x = in(c, 0);

    if (!x || !c->args[1].ints || (int)c->args[1].ints->size != rank(x)) {
        (void)call_fail(c, "dims must name each of the %d dims", rank(x));
        return;
    }
    for (int i = 0; i < rank(x); i++)
        dims[i] = wrap_dim(c, x, c->args[1].ints->value[i]);
    give(c, rank(x) ? permute(c, x, dims) : x);
}

/* self, dims, out */
void run_flip(struct call *c)
{
    tensor *x = in(c, 0);
    int dims[MAX_DIMS], n = dims_of(c, x, 1, dims);

    for (int i = 0; i < n && !c->err; i++)
        x = op_index_select(
            c, x, dims[i], arange(c, WEIR_I64, size(x, dims[i]), (double)size(x, dims[i]) - 1, -1));
    give(c, x);
}

static tensor *roll(struct call *c, tensor *x, int dim, int64_t shift)
{
    int64_t n = size(x, dim), by = n ? ((shift % n) + n) % n : 0;
    tensor *both[2];

    if (!by)
        return x;
    both[0] = slice(c, x, dim, n - by, n, 1);
    both[1] = slice(c, x, dim, 0, n - by, 1);
    return concat(c, both, 2, dim);
}

/* self, shifts, dims, out; without dims it is rolled as one row */
void run_roll(struct call *c)
{
    tensor *x = in(c, 0), *shaped = x;
    int dims[MAX_DIMS], n = dims_of(c, x, 2, dims);

    if (!numel(x))
        return;
    if (!n)
        x = like(c, roll(c, flat(c, x), 0, nth(c, 1, 0, 0)), shaped);
    for (int i = 0; i < n && !c->err; i++)
        x = roll(c, x, dims[i], nth(c, 1, i, 0));
    give(c, x);
}

/* ---- repeating ---- */

/* self, repeats, out */
void run_repeat(struct call *c)
{
    tensor *x = in(c, 0);
    int n = c->args[1].ints ? (int)c->args[1].ints->size : 0;
    int64_t split[MAX_DIMS * 2], full_shape[MAX_DIMS * 2];
    int k = 0;

    if (c->err || !numel(in(c, 2)))
        return;
    for (int i = 0; i < n; i++) { /* [r, s] for each dim, then r * s */
        int at = i - (n - rank(x));
        int64_t s = at < 0 ? 1 : shape(x)[at], r = c->args[1].ints->value[i];

        if (r != 1 || k == 0) {
            split[k] = 1;
            full_shape[k++] = r;
        }
        split[k] = full_shape[k] = s;
        k++;
    }
    if (k > MAX_DIMS) { /* too many dims at once: repeat dim by dim */
        int64_t to[MAX_DIMS];

        for (int i = 0; i < n; i++)
            to[i] = i < n - rank(x) ? 1 : shape(x)[i - (n - rank(x))];
        x = reshape(c, x, n, to);
        for (int i = 0; i < n && !c->err; i++)
            for (int64_t r = 1, want = c->args[1].ints->value[i]; r < want && !c->err;) {
                int64_t unit = to[i], more = want - r < r ? want - r : r;
                tensor *both[2] = {x, slice(c, x, i, 0, more * unit, 1)};

                x = concat(c, both, 2, i);
                r += more;
            }
        give(c, x);
        return;
    }
    x = expand(c, reshape(c, x, k, split), k, full_shape);
    give(c, reshape(c, contiguous(c, x), rank(in(c, 2)), shape(in(c, 2))));
}

/* self, repeats, dim, output_size, out: each element `repeats` times */
void run_repeat_interleave_int_dim(struct call *c)
{
    tensor *x = in(c, 0);
    int dim = wrap_dim(c, x, integer(c, 2));
    int64_t to[MAX_DIMS + 1];

    x = unsqueeze(c, x, dim + 1);
    if (c->err)
        return;
    memcpy(to, shape(x), (size_t)rank(x) * sizeof *to);
    to[dim + 1] = integer(c, 1);
    give(c, expand(c, x, rank(x), to));
}

/* self, repeats, output_size, out */
void run_repeat_interleave_int(struct call *c)
{
    tensor *x = unsqueeze(c, flat(c, in(c, 0)), 1);
    int64_t to[2] = {size(x, 0), integer(c, 1)};

    if (!c->err)
        give(c, expand(c, x, 2, to));
}

/* ---- padding ---- */

/* Returns the padding of a dim before or after it. The array has pairs, starting with the last
 * dim. */
static int64_t pad_of(const struct call *c, int n, int dim, bool after)
{
    int k = 2 * (n - 1 - dim) + after;

    return (uint64_t)k < c->args[1].ints->size ? c->args[1].ints->value[k] : 0;
}

/* self, pad, value, out; negative padding cuts */
void run_constant_pad(struct call *c)
{
    tensor *x = in(c, 0), *whole, *part;
    int n = rank(x);
    int64_t to[MAX_DIMS];

    if (c->err)
        return;
    for (int d = 0; d < n; d++) {
        int64_t before = pad_of(c, n, d, false), after = pad_of(c, n, d, true);

        if (before < 0 || after < 0)
            x = slice(c, x, d, before < 0 ? -before : 0,
                      after < 0 ? size(x, d) + after : size(x, d), 1);
    }
    if (c->err)
        return;
    for (int d = 0; d < n; d++) {
        int64_t before = pad_of(c, n, d, false), after = pad_of(c, n, d, true);

        to[d] = size(x, d) + (before > 0 ? before : 0) + (after > 0 ? after : 0);
    }
    part = whole = copy(c, expand(c, literal(c, c->args[2].scalar, type(x)), n, to));
    for (int d = 0; d < n && !c->err; d++) {
        int64_t before = pad_of(c, n, d, false);

        part =
            slice(c, part, d, before > 0 ? before : 0, (before > 0 ? before : 0) + size(x, d), 1);
    }
    if (numel(x))
        put_tensor(c, part, x);
    give(c, whole);
}

/* self, pad, out: selects the elements along each dim by their source index */
static void edge_pad(struct call *c, bool reflect)
{
    tensor *x = in(c, 0);
    int n = rank(x), dims = c->args[1].ints ? (int)c->args[1].ints->size / 2 : 0;

    for (int d = n - dims; d < n && !c->err; d++) {
        int64_t before = pad_of(c, n, d, false), after = pad_of(c, n, d, true), s = size(x, d);
        tensor *i = arange(c, WEIR_I64, s + before + after, -(double)before, 1);

        if (reflect) {
            /* |i|, then reflected at the far end */
            i = op_abs(c, i);
            i = op_rsubs(c, (double)(s - 1), op_abs(c, op_rsubs(c, (double)(s - 1), i)));
        } else {
            i = op_clamp(c, i, 0, (double)(s - 1));
        }
        x = op_index_select(c, x, d, i);
    }
    give(c, x);
}

void run_reflection_pad(struct call *c)
{
    edge_pad(c, true);
}

void run_replication_pad(struct call *c)
{
    edge_pad(c, false);
}

/* self, classes, on, off, axis, out */
void run_one_hot(struct call *c)
{
    tensor *x = in(c, 0), *classes = arange(c, type(x), integer(c, 1), 0, 1), *hit;
    int64_t axis = integer(c, 4);
    int dims[MAX_DIMS], n = rank(x) + 1;

    hit = op_eq(c, unsqueeze(c, x, -1), classes);
    if (axis >= 0 && axis < n - 1 && !c->err) {
        for (int i = 0, k = 0; i < n; i++)
            dims[i] = i == axis ? n - 1 : k++;
        hit = permute(c, hit, dims);
    }
    give(c, op_where(c, hit, reshape(c, in(c, 2), 0, NULL), reshape(c, in(c, 3), 0, NULL)));
}
