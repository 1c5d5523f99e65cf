/* Reading and writing by index. */
#include "run.h"

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
    if (integer(c, 4)) { /* each row by how often it was read */
        tensor *ones = full_like(c, i, WEIR_F32, 1), *count = full(c, WEIR_F32, 1, &n, 0);

        op_scatter_add(c, count, 0, i, ones);
        g = op_div(c, g, unsqueeze(c, op_index_select(c, count, 0, i), 1));
    }
    rows = contiguous(c, expand(c, unsqueeze(c, i, 1), 2, to));
    if (numel(g))
        op_scatter_add(c, w, 0, rows, contiguous(c, g));
    give(c, w);
}

/* x cut to the index's sizes in the other dims, which gather wants equal */
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

/* self, index, out: of self as one row; negative ones count from the end */
void run_take(struct call *c)
{
    tensor *x = flat(c, in(c, 0)), *index = cast(c, in(c, 1), WEIR_I64);

    index = op_where(c, op_lts(c, index, 0), op_adds(c, index, (double)numel(x)), index);
    give(c, op_index_select(c, x, 0, flat(c, index)));
}

/* ---- x[i, :, j] ---- */

/* What a list of indices means: the dims they are for come first, as one dim. */
struct picked {
    tensor *place;       /* in that dim, of the indices' shape */
    int order[MAX_DIMS]; /* self's dims: those indexed, then the rest */
    int indexed;         /* how many are */
    int64_t rest_shape[MAX_DIMS];
    int rest;
    bool adjacent; /* so the indices' dims go where the first was */
    int first;
};

static struct picked pick(struct call *c, tensor *x, int list)
{
    struct picked p = {.first = -1, .adjacent = true};
    int last = -1;

    for (int d = 0; d < rank(x) && !c->err; d++) {
        tensor *i = d < items(c, list) ? item(c, list, d) : NULL;

        if (!numel(i)) /* stands for all of the dim */
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
static tensor *rows_of(struct call *c, tensor *x, const struct picked *p)
{
    int64_t to[MAX_DIMS] = {1};

    if (c->err)
        return NULL;
    for (int i = 0; i < p->indexed; i++)
        to[0] *= size(x, p->order[i]);
    memcpy(to + 1, p->rest_shape, (size_t)p->rest * sizeof *to);
    return reshape(c, permute(c, x, p->order), 1 + p->rest, to);
}

/* Where the indices' dims go in the result: dims of [index..., rest...] in the result's order. */
static int result_order(const struct picked *p, int *dims)
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

/* ---- scatter: on the host ---- */

enum scatter { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

struct scatter_params {
    enum scatter kind;
    weir_dtype dtype;
    size_t elem;
    int ndim, dim;
    bool include_self, mean;
    int64_t self[MAX_DIMS], index[MAX_DIMS],
        source[MAX_DIMS]; /* sizes; source's all 0: one value */
};

/* The element of self that position `at` of the index means, -1 if it is out of range. */
static int64_t target(const struct scatter_params *p, const int64_t *at, int64_t index)
{
    int64_t to = 0;

    if (index < 0 || index >= p->self[p->dim])
        return -1;
    for (int d = 0; d < p->ndim; d++)
        to = to * p->self[d] + (d == p->dim ? index : at[d]);
    return to;
}

#define COMBINE(type)                                          \
    {                                                          \
        type *y = h->out[0];                                   \
        const type *v = (const type *)h->in[2] + from;         \
        switch (p->kind) {                                     \
        case SCATTER_ADD:                                      \
            y[to] = (type)(y[to] + *v);                        \
            break;                                             \
        case SCATTER_MUL:                                      \
            y[to] = (type)(y[to] * *v);                        \
            break;                                             \
        case SCATTER_MAX:                                      \
            y[to] = y[to] > *v || y[to] != y[to] ? y[to] : *v; \
            break;                                             \
        case SCATTER_MIN:                                      \
            y[to] = y[to] < *v || y[to] != y[to] ? y[to] : *v; \
            break;                                             \
        case SCATTER_SET:                                      \
            break;                                             \
        }                                                      \
    }

/* in: self, index (i64), source. Elements are written in the index's order. */
static weir_status run_scatter_host(const struct host *h)
{
    const struct scatter_params *p = h->params;
    const int64_t *index = h->in[1];
    int64_t n = 1, count = 1, at[MAX_DIMS] = {0}, one = 1;

    for (int d = 0; d < p->ndim; d++) {
        n *= p->self[d];
        count *= p->index[d];
        one *= p->source[d] ? 0 : 1;
    }
    memcpy(h->out[0], h->in[0], (size_t)n * p->elem);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = 0, to = target(p, at, index[i]);

        if (to < 0)
            return WEIR_ERANGE;
        for (int d = 0; d < p->ndim; d++)
            from = one ? 0 : from * p->source[d] + at[d];
        if (p->kind == SCATTER_SET)
            memcpy((char *)h->out[0] + to * (int64_t)p->elem,
                   (const char *)h->in[2] + from * (int64_t)p->elem, p->elem);
        else if (p->dtype == WEIR_F32)
            COMBINE(float)
        else if (p->dtype == WEIR_F64)
            COMBINE(double)
        else
            COMBINE(int64_t)
        for (int d = p->ndim - 1; d >= 0 && ++at[d] == p->index[d]; d--)
            at[d] = 0;
    }
    return WEIR_OK;
}

/* self with source's elements at the index; source may be without dims. */
static tensor *scatter(struct call *c, tensor *x, int64_t dim64, tensor *index, tensor *source,
                       enum scatter kind)
{
    struct scatter_params p = {.kind = kind, .ndim = rank(x) ? rank(x) : 1};
    weir_dtype back = type(x), t;
    tensor *shaped = x, *all[3];

    p.dim = wrap_dim(c, x, dim64);
    if (c->err || !x || !index || !source)
        return NULL;
    t = kind == SCATTER_SET ? back
        : is_float(x)       ? (back == WEIR_F64 ? WEIR_F64 : WEIR_F32)
                            : WEIR_I64;
    if (!rank(x))
        x = flat(c, x);
    if (!rank(index))
        index = flat(c, index);
    if (rank(index) != rank(x) || (rank(source) && rank(source) != rank(x) && numel(source) != 1))
        return call_fail(c, "index has %d dims, source %d, self %d", rank(index), rank(source),
                         rank(x));
    if (!numel(index))
        return shaped;
    p.dtype = t;
    p.elem = weir_dtype_size(t);
    for (int d = 0; d < p.ndim; d++) {
        p.self[d] = size(x, d);
        p.index[d] = size(index, d);
        p.source[d] = rank(source) == p.ndim ? size(source, d) : 0;
        if ((d != p.dim && p.index[d] > p.self[d]) || (p.source[d] && p.index[d] > p.source[d]))
            return call_fail(c,
                             "index has size %lld in dim %d, which is more than self or source "
                             "has",
                             (long long)p.index[d], d);
    }
    all[0] = cast(c, x, t);
    all[1] = cast(c, index, WEIR_I64);
    all[2] = cast(c, source, t);
    return like(
        c, cast(c, host_like(c, "Scatter", run_scatter_host, &p, sizeof p, all, 3, x, t), back),
        shaped);
}

/* self, dim, index, source or value, reduction (0 none, 1 add, 2 multiply) [, out] */
void run_scatter(struct call *c)
{
    static const enum scatter kinds[] = {SCATTER_SET, SCATTER_ADD, SCATTER_MUL};
    tensor *x = in(c, 0), *source;
    int64_t kind = integer(c, 4);

    if (kind < 0 || kind > 2) {
        (void)call_fail(c, "reduction %lld is none of 0, 1, 2", (long long)kind);
        return;
    }
    source =
        c->row->operands[3].kind == OPERAND_S ? literal(c, c->args[3].scalar, type(x)) : in(c, 3);
    give(c, scatter(c, x, integer(c, 1), in(c, 2), source, kinds[kind]));
}

/* self, dim, index, source, out */
void run_scatter_add(struct call *c)
{
    give(c, scatter(c, in(c, 0), integer(c, 1), in(c, 2), in(c, 3), SCATTER_ADD));
}

/* An index of one dim as one of all elements: [1, .., n, .., 1] expanded to source. */
static tensor *spread_index(struct call *c, tensor *index, tensor *source, int dim)
{
    int64_t to[MAX_DIMS];

    for (int d = 0; d < rank(source); d++)
        to[d] = d == dim ? numel(index) : 1;
    return expand(c, reshape(c, index, rank(source), to), rank(source), shape(source));
}

/* self, dim, index, source, alpha, out */
void run_index_add(struct call *c)
{
    tensor *x = in(c, 0), *source = in(c, 3), *index = in(c, 2);
    int dim = wrap_dim(c, x, integer(c, 1));

    if (number(c, 4, 1) != 1)
        source = op_mul(c, is_half(source) ? wide(c, source) : source, beside(c, 4, source));
    if (!rank(source))
        source = flat(c, source);
    give(c, scatter(c, x, dim, spread_index(c, index, source, dim), source, SCATTER_ADD));
}

/* self, dim, index, source [, out] */
void run_index_copy(struct call *c)
{
    tensor *x = in(c, 0), *source = in(c, 3);
    int dim = wrap_dim(c, x, integer(c, 1));

    if (!rank(source))
        source = flat(c, source);
    give(c, scatter(c, x, dim, spread_index(c, in(c, 2), source, dim), cast(c, source, type(x)),
                    SCATTER_SET));
}

/* self, dim, index (a tensor or integers), value [, out] */
void run_index_fill(struct call *c)
{
    tensor *x = in(c, 0), *index, *value, *hit, *places;
    int dim = wrap_dim(c, x, integer(c, 1));
    int64_t to[MAX_DIMS], n;

    if (c->row->operands[2].kind == OPERAND_N) {
        n = (int64_t)c->args[2].ints->size;
        index = from_host(c, WEIR_I64, 1, &n, c->args[2].ints->value);
    } else {
        index = flat(c, cast(c, in(c, 2), WEIR_I64));
    }
    if (c->err)
        return;
    if (!numel(index)) {
        give(c, x);
        return;
    }
    value = c->row->operands[3].kind == OPERAND_S ? literal(c, c->args[3].scalar, type(x))
                                                  : cast(c, in(c, 3), type(x));
    n = rank(x) ? size(x, dim) : 1;
    index = op_where(c, op_lts(c, index, 0), op_adds(c, index, (double)n), index);
    places = unsqueeze(c, arange(c, WEIR_I64, n, 0, 1), 1);
    hit = op_max(c, op_eq(c, places, index), (const int[]){1}, 1, false);
    for (int d = 0; d < rank(x); d++)
        to[d] = d == dim ? n : 1;
    give(c, op_where(c, reshape(c, hit, rank(x), to), reshape(c, value, 0, NULL), x));
}

/* self, indices, values, accumulate, unsafe: self[indices] = values */
void run_index_put(struct call *c)
{
    tensor *x = in(c, 0), *values = in(c, 2), *rows, *flat_rows, *places;
    struct picked p;
    int64_t whole[MAX_DIMS], rest = 1, count, to[2];
    int dims[MAX_DIMS * 2], back[MAX_DIMS], n;

    if (c->err || !numel(values))
        return;
    p = pick(c, x, 1);
    if (c->err || !p.indexed) /* empty indices write nothing */
        return;
    /* values in the result's shape, then turned to [index..., rest...] */
    n = result_order(&p, dims);
    for (int i = 0; i < n; i++)
        whole[i] = dims[i] < rank(p.place) ? shape(p.place)[dims[i]]
                                           : p.rest_shape[dims[i] - rank(p.place)];
    for (int i = 0; i < n; i++)
        back[dims[i]] = i;
    values = expand(c, cast(c, values, type(x)), n, whole);
    if (n)
        values = permute(c, values, back);
    for (int i = 0; i < p.rest; i++)
        rest *= p.rest_shape[i];
    count = numel(p.place);
    to[0] = count;
    to[1] = rest;
    values = reshape(c, values, 2, to);
    rows = rows_of(c, x, &p);
    if (c->err)
        return;
    whole[0] = size(rows, 0);
    whole[1] = rest;
    flat_rows = reshape(c, rows, 2, whole);
    places = expand(c, unsqueeze(c, flat(c, p.place), 1), 2, to);
    rows = scatter(c, flat_rows, 0, places, values, integer(c, 3) ? SCATTER_ADD : SCATTER_SET);
    /* back to self's own order of dims */
    for (int i = 0; i < rank(x); i++)
        whole[i] = size(x, p.order[i]);
    rows = reshape(c, rows, rank(x), whole);
    for (int i = 0; i < rank(x); i++)
        back[p.order[i]] = i;
    put(c, 0, rows ? permute(c, rows, back) : NULL);
}

/* self, index, source, accumulate: of self as one row */
void run_put(struct call *c)
{
    tensor *x = in(c, 0), *row = flat(c, x), *index = flat(c, cast(c, in(c, 1), WEIR_I64));

    index = op_where(c, op_lts(c, index, 0), op_adds(c, index, (double)numel(x)), index);
    put(c, 0,
        like(
            c,
            scatter(c, row, 0, index, flat(c, in(c, 2)), integer(c, 3) ? SCATTER_ADD : SCATTER_SET),
            x));
}

/* self, indices [.., k], updates: rows of self by k coordinates */
void run_scatter_nd_update(struct call *c)
{
    tensor *x = in(c, 0), *index = cast(c, in(c, 1), WEIR_I64), *place = NULL, *values, *places;
    int64_t k = size(index, -1), rows = 1, rest = 1, to[2];

    if (c->err || !numel(index))
        return;
    for (int d = 0; d < rank(x); d++)
        *(d < k ? &rows : &rest) *= size(x, d);
    for (int64_t d = 0; d < k && !c->err; d++) {
        tensor *i = slice(c, index, rank(index) - 1, d, d + 1, 1);

        place = place ? op_add(c, op_muls(c, place, (double)size(x, (int)d)), i) : i;
    }
    to[0] = numel(place);
    to[1] = rest;
    values = reshape(c, cast(c, in(c, 2), type(x)), 2, to);
    places = expand(c, unsqueeze(c, flat(c, place), 1), 2, to);
    to[0] = rows;
    put(c, 0, like(c, scatter(c, reshape(c, x, 2, to), 0, places, values, SCATTER_SET), x));
}

/* ---- what depends on values: the host waits for it ---- */

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

/* self, dim, index, source, reduction, include_self [, out]: 1 sum, 2 product, 3 max, 4 min */
void run_scatter_reduce(struct call *c)
{
    static const enum scatter kinds[] = {SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX,
                                         SCATTER_MIN};
    tensor *x = in(c, 0), *index = in(c, 2), *base = x;
    int64_t kind = integer(c, 4);

    if (kind < 0 || kind >= (int64_t)(sizeof kinds / sizeof *kinds)) {
        (void)call_fail(c, "reduction %lld is not supported", (long long)kind);
        return;
    }
    if (!integer(c, 5) && kind) { /* what is written begins anew */
        double first = kind == 1 ? 0 : kind == 2 ? 1 : kind == 3 ? -INFINITY : INFINITY;

        if (!is_float(x) && kind > 2) {
            (void)call_fail(c, "integers are only supported with self");
            return;
        }
        base = scatter(c, x, integer(c, 1), index, full(c, type(x), 0, NULL, first), SCATTER_SET);
    }
    give(c, scatter(c, base, integer(c, 1), index, in(c, 3), kinds[kind]));
}
