/* Reading by index, and operators whose result's size depends on values. */
#include "index.h"

/* weight, indices, out */
void run_embedding(struct call *c)
{
    give(c, op_embedding(c, in(c, 0), in(c, 1)));
}

/* grad, indices, num_weights, padding_idx, scale_by_freq, out */
void run_embedding_backward(struct call *c)
{
    tensor *g = in(c, 0), *i = flat(c, cast(c, in(c, 1), WEIR_I64)), *w, *rows;
    int64_t n = integer(c, 2), d = size(g, -1), to[2] = {numel(i), d}, table[2] = {n, d};

    if (c->err)
        return;
    g = reshape(c, wide(c, g), 2, to);
    w = full(c, type(g), 2, table, 0);
    if (integer(c, 3) >= 0)
        g = op_where(c, unsqueeze(c, op_eqs(c, i, (double)integer(c, 3)), 1),
                     full(c, type(g), 0, NULL, 0), g);
    if (integer(c, 4)) { /* divide each row by how often it was read */
        tensor *ones = full_like(c, i, WEIR_F32, 1), *count = full(c, WEIR_F32, 1, &n, 0);

        op_scatter_add(c, count, 0, i, ones);
        g = op_div(c, g, unsqueeze(c, op_index_select(c, count, 0, i), 1));
    }
    rows = contiguous(c, expand(c, unsqueeze(c, i, 1), 2, to));
    if (numel(g))
        op_scatter_add(c, w, 0, rows, contiguous(c, g));
    give(c, w);
}

/* x cut to the index's sizes in the other dims: gather requires equal sizes */
static tensor *fitted(struct call *c, tensor *x, const tensor *index, int dim)
{
    for (int d = 0; d < rank(x) && d < rank(index); d++)
        if (d != dim && size(index, d) < size(x, d))
            x = slice(c, x, d, 0, size(index, d), 1);
    return x;
}

/* self, dim, index, out */
void run_gather(struct call *c)
{
    tensor *x = in(c, 0), *index = in(c, 2);
    int dim = wrap_dim(c, x, integer(c, 1));

    if (!rank(x))
        x = flat(c, x);
    if (!rank(index))
        index = flat(c, index);
    if (numel(index))
        give(c, op_gather(c, fitted(c, x, index, dim), dim, index));
}

/* self, dim, index, out: slices; an index of any rank takes the dim's place */
void run_index_select(struct call *c)
{
    tensor *x = in(c, 0), *index = in(c, 2);
    int dim = wrap_dim(c, x, integer(c, 1));

    if (!rank(x))
        x = flat(c, x);
    give(c, op_index_select(c, x, dim, flat(c, index)));
}

/* self, index, out: indexes self as one row; negative indices count from the end */
void run_take(struct call *c)
{
    tensor *x = flat(c, in(c, 0)), *index = cast(c, in(c, 1), WEIR_I64);

    index = op_where(c, op_lts(c, index, 0), op_adds(c, index, (double)numel(x)), index);
    give(c, op_index_select(c, x, 0, flat(c, index)));
}

/* ---- x[i, :, j] ---- */

struct picked pick(struct call *c, tensor *x, int list)
{
    struct picked p = {.first = -1, .adjacent = true};
    int last = -1;

    for (int d = 0; d < rank(x) && !c->err; d++) {
        tensor *i = d < items(c, list) ? item(c, list, d) : NULL;

        if (!numel(i)) /* an empty index selects all of the dim */
            continue;
        i = cast(c, i, WEIR_I64);
        i = op_where(c, op_lts(c, i, 0), op_adds(c, i, (double)size(x, d)), i);
        p.adjacent = p.adjacent && (last < 0 || last == d - 1);
        p.first = p.first < 0 ? d : p.first;
        last = d;
        p.order[p.indexed++] = d;
        p.place = p.place ? op_add(c, op_muls(c, p.place, (double)size(x, d)), i) : i;
    }
    for (int d = 0, k = p.indexed; d < rank(x); d++) {
        bool taken = false;

        for (int i = 0; i < p.indexed; i++)
            taken = taken || p.order[i] == d;
        if (!taken) {
            p.rest_shape[p.rest++] = size(x, d);
            p.order[k++] = d;
        }
    }
    return p;
}

/* [places, rest...], self's dims in the order of the indices */
tensor *rows_of(struct call *c, tensor *x, const struct picked *p)
{
    int64_t to[MAX_DIMS] = {1};

    if (c->err)
        return NULL;
    for (int i = 0; i < p->indexed; i++)
        to[0] *= size(x, p->order[i]);
    memcpy(to + 1, p->rest_shape, (size_t)p->rest * sizeof *to);
    return reshape(c, permute(c, x, p->order), 1 + p->rest, to);
}

/* Sets `dims` to the order of the result's dims, as numbers of dims of [index..., rest...]. */
int result_order(const struct picked *p, int *dims)
{
    int n = rank(p->place), at = p->adjacent ? p->first : 0, k = 0;

    for (int i = 0; i < at; i++)
        dims[k++] = n + i;
    for (int i = 0; i < n; i++)
        dims[k++] = i;
    for (int i = at; i < p->rest; i++)
        dims[k++] = n + i;
    return k;
}

/* self, indices, out */
void run_index(struct call *c)
{
    tensor *x = in(c, 0), *y;
    struct picked p;
    int dims[MAX_DIMS * 2], n;

    if (c->err || !numel(in(c, 2)))
        return;
    p = pick(c, x, 1);
    if (!p.indexed) {
        give(c, x);
        return;
    }
    y = op_embedding(c, rows_of(c, x, &p), p.place);
    if (c->err)
        return;
    n = result_order(&p, dims);
    give(c, n ? permute(c, y, dims) : y);
}

/* ---- results whose size depends on values: the host waits for them ---- */

void put_found(struct call *c, int i, tensor *x)
{
    aclTensor *out = (aclTensor *)(uintptr_t)c->args[i].tensor;
    int64_t step = 1;

    if (c->err || !x)
        return;
    out->ndim = rank(x);
    for (int d = rank(x) - 1; d >= 0; d--) {
        out->shape[d] = shape(x)[d];
        out->stride[d] = step;
        step *= shape(x)[d];
    }
    put(c, i, x);
}

/* self, out [count, dims] */
void run_nonzero(struct call *c)
{
    tensor *x = in(c, 0), *y = NULL;

    if (c->err)
        return;
    if (c->capturing) {
        (void)call_fail(c, "its result's size depends on values: it cannot be captured");
        return;
    }
    if (call_ok(c, weir_nonzero(x, &y)))
        put_found(c, 1, own(c, y));
}

/* The same, [dims, count] */
void run_nonzero_turned(struct call *c)
{
    tensor *x = in(c, 0), *y = NULL;

    if (c->err)
        return;
    if (c->capturing) {
        (void)call_fail(c, "its result's size depends on values: it cannot be captured");
        return;
    }
    if (call_ok(c, weir_nonzero(x, &y)))
        put_found(c, 1, transpose(c, own(c, y), 0, 1));
}

/* self, mask, out */
void run_masked_select(struct call *c)
{
    tensor *x = in(c, 0), *mask = op_truth(c, in(c, 1)), *y = NULL;

    broadcast(c, &x, &mask);
    if (c->err)
        return;
    if (c->capturing) {
        (void)call_fail(c, "its result's size depends on values: it cannot be captured");
        return;
    }
    if (call_ok(c, weir_nonzero(flat(c, mask), &y)))
        put_found(c, 2, op_index_select(c, flat(c, x), 0, flat(c, own(c, y))));
}
