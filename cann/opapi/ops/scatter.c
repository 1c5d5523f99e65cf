/* Writing by index. */
#include "index.h"

/* ---- scatter: on the host ---- */

enum scatter_kind { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

struct scatter_params {
    enum scatter_kind kind;
    weir_dtype dtype;
    size_t elem;
    int ndim, dim;
    bool include_self, mean;
    int64_t self[MAX_DIMS], index[MAX_DIMS],
        source[MAX_DIMS]; /* sizes; if those of source are all 0, it is one value */
};

/* Returns the element of self for position `at` of the index; -1 if it is out of range. */
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

/* Writes the elements of source to self at the index; source may be a tensor without dims. */
static tensor *scatter(struct call *c, tensor *x, int64_t dim64, tensor *index, tensor *source,
                       enum scatter_kind kind)
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
    static const enum scatter_kind kinds[] = {SCATTER_SET, SCATTER_ADD, SCATTER_MUL};
    tensor *x = in(c, 0), *source;
    int64_t kind = integer(c, 4);

    if (kind < 0 || kind > 2) {
        (void)call_fail(c, "reduction %lld is not one of 0, 1, 2", (long long)kind);
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

/* Expands an index along one dim, [1, .., n, .., 1], to the shape of source. */
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
    if (c->err || !p.indexed) /* nothing to write */
        return;
    /* expand the values to the result's shape, then permute them to [index..., rest...] */
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
    /* permute back to self's order of dims */
    for (int i = 0; i < rank(x); i++)
        whole[i] = size(x, p.order[i]);
    rows = reshape(c, rows, rank(x), whole);
    for (int i = 0; i < rank(x); i++)
        back[p.order[i]] = i;
    put(c, 0, rows ? permute(c, rows, back) : NULL);
}

/* self, index, source, accumulate: indexes self as one row */
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

/* self, dim, index, source, reduction, include_self [, out]: 1 sum, 2 product, 3 max, 4 min */
void run_scatter_reduce(struct call *c)
{
    static const enum scatter_kind kinds[] = {SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX,
                                              SCATTER_MIN};
    tensor *x = in(c, 0), *index = in(c, 2), *base = x;
    int64_t kind = integer(c, 4);

    if (kind < 0 || kind >= (int64_t)(sizeof kinds / sizeof *kinds)) {
        (void)call_fail(c, "reduction %lld is not supported", (long long)kind);
        return;
    }
    if (!integer(c, 5) && kind) { /* self is not included: start from the neutral element */
        double first = kind == 1 ? 0 : kind == 2 ? 1 : kind == 3 ? -INFINITY : INFINITY;

        if (!is_float(x) && kind > 2) {
            (void)call_fail(c, "integers are only supported with self");
            return;
        }
        base = scatter(c, x, integer(c, 1), index, full(c, type(x), 0, NULL, first), SCATTER_SET);
    }
    give(c, scatter(c, base, integer(c, 1), index, in(c, 3), kinds[kind]));
}

/* ---- masked scatter ---- */

struct masked_params {
    int64_t n, given; /* elements of self, of the source */
    size_t elem;
};

/* in: self, mask (of as many elements), source */
static weir_status run_masked_scatter_host(const struct host *h)
{
    const struct masked_params *p = h->params;
    const unsigned char *mask = h->in[1];
    char *out = h->out[0];
    int64_t used = 0;

    memcpy(out, h->in[0], (size_t)p->n * p->elem);
    for (int64_t i = 0; i < p->n; i++) {
        if (!mask[i])
            continue;
        if (used == p->given)
            return WEIR_ERANGE;
        memcpy(out + i * (int64_t)p->elem, (const char *)h->in[2] + used++ * (int64_t)p->elem,
               p->elem);
    }
    return WEIR_OK;
}

/* self, mask, source */
void run_masked_scatter(struct call *c)
{
    tensor *self = in(c, 0), *mask = op_truth(c, in(c, 1)), *source = in(c, 2), *inputs[3];
    struct masked_params p = {numel(self), numel(source), 0};

    if (c->err || !numel(self))
        return;
    if (type(source) != type(self)) {
        (void)call_fail(c, "the source is of another type than self");
        return;
    }
    p.elem = weir_dtype_size(type(self));
    inputs[0] = self;
    inputs[1] = expand(c, mask, rank(self), shape(self));
    inputs[2] = p.given ? source : NULL;
    if (!c->err)
        put(c, 0,
            host_like(c, "MaskedScatter", run_masked_scatter_host, &p, sizeof p, inputs, 3, self,
                      type(self)));
}
