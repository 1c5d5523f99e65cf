/* Rows of the matrix operators. */
#include "conformance/ops/opcases.h"

#include <math.h>
#include <stdlib.h>

static int64_t random_size(struct call *c, int64_t most)
{
    int64_t size = rng_chance(&c->rng, 15) ? 1 : rng_int(&c->rng, 1, most);

    return c->budget < 10000 && rng_chance(&c->rng, 1) ? 0 : size;
}

/* An optional input that may be absent. */
static void add_optional(struct call *c, weir_dtype dtype, int64_t n)
{
    if (rng_chance(&c->rng, 50))
        add_input(c, dtype, 1, &n);
    else
        c->nin++;
}

/* ---- matmul ---- */

/* What products of the type are added up in. */
static weir_dtype sum_type(weir_dtype dtype)
{
    return dtype == WEIR_I8 ? WEIR_I32 : dtype;
}

static void make_matmul(struct call *c, weir_dtype dtype)
{
    int64_t most = c->budget > 10000 ? 200 : 40;
    int64_t m = random_size(c, most), k = random_size(c, most), n = random_size(c, most);
    int64_t a[WEIR_MAX_DIMS], b[WEIR_MAX_DIMS];
    int lead_a = 0, lead_b = 0, kind = (int)rng_int(&c->rng, 0, 9);

    if (kind == 0) { /* a is a row */
        add_input(c, dtype, 1, &k);
        add_input(c, dtype, 2, (int64_t[]){k, n});
    } else if (kind == 1) { /* b is a column */
        add_input(c, dtype, 2, (int64_t[]){m, k});
        add_input(c, dtype, 1, &k);
    } else if (kind == 2) {
        add_input(c, dtype, 1, &k);
        add_input(c, dtype, 1, &k);
    } else {
        int lead = kind < 6 ? 0 : (int)rng_int(&c->rng, 1, 3);
        int64_t batch[3];

        for (int d = 0; d < lead; d++)
            batch[d] = rng_int(&c->rng, 1, 3);
        for (int d = rng_chance(&c->rng, 30); d < lead; d++)
            a[lead_a++] = rng_chance(&c->rng, 25) ? 1 : batch[d];
        for (int d = rng_chance(&c->rng, 30); d < lead; d++)
            b[lead_b++] = rng_chance(&c->rng, 25) ? 1 : batch[d];
        a[lead_a] = m;
        a[lead_a + 1] = k;
        b[lead_b] = k;
        b[lead_b + 1] = n;
        add_input(c, dtype, lead_a + 2, a);
        add_input(c, dtype, lead_b + 2, b);
    }
}

static void make_matmul_bias(struct call *c, weir_dtype dtype)
{
    make_matmul(c, dtype);
    add_optional(c, sum_type(dtype), c->in[1].ndim > 1 ? c->in[1].shape[c->in[1].ndim - 1] : 1);
}

static weir_status run_matmul(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_matmul(in[0], in[1], out);
}

static weir_status run_matmul_into(const struct call *c, weir_tensor *const *in, weir_tensor *out)
{
    (void)c;
    return weir_matmul_into(in[0], in[1], out);
}

static weir_status run_matmul_bias(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_matmul_bias(in[0], in[1], in[2], out);
}

/* x with a dim of size 1 put in at `dim`. */
static struct array with_dim(const struct array *x, int dim)
{
    struct array y = *x;

    y.ndim++;
    for (int d = dim; d < x->ndim; d++)
        y.shape[d + 1] = x->shape[d];
    y.shape[dim] = 1;
    return y;
}

/* out[..., m, n] = a[..., m, k] b[..., k, n] + bias[n], out's shape being known. */
static void multiply(const struct array *a, const struct array *b, const struct array *bias,
                     struct array *out)
{
    int nd = out->ndim;
    int64_t index[WEIR_MAX_DIMS] = {0}, k = a->shape[a->ndim - 1];

    add_reach(out);
    for (int64_t i = 0; i < array_numel(out); i++, step_index(nd, out->shape, index)) {
        int64_t m = index[nd - 2], n = index[nd - 1];
        long double sum = 0;
        double reach = 0;

        for (int64_t j = 0; j < k; j++) {
            double x, y;

            index[nd - 1] = j;
            x = a->at[array_place(a, nd, index)];
            index[nd - 2] = j;
            index[nd - 1] = n;
            y = b->at[array_place(b, nd, index)];
            index[nd - 2] = m;
            sum += (long double)x * y;
            reach += fabs(x * y);
        }
        if (bias && bias->at) {
            sum += bias->at[n];
            reach += fabs(bias->at[n]);
        }
        out->at[i] = (double)sum;
        out->reach[i] = reach;
    }
}

static void reference_matmul(struct call *c)
{
    struct array a = c->in[0], b = c->in[1], *out = &c->out[0];
    bool row = a.ndim == 1, column = b.ndim == 1;
    int64_t shape[WEIR_MAX_DIMS];
    int nd;

    if (row)
        a = with_dim(&a, 0);
    if (column)
        b = with_dim(&b, 1);
    nd = a.ndim > b.ndim ? a.ndim : b.ndim;
    for (int d = 3; d <= nd; d++) {
        int64_t x = d <= a.ndim ? a.shape[a.ndim - d] : 1,
                y = d <= b.ndim ? b.shape[b.ndim - d] : 1;

        shape[nd - d] = x == 1 ? y : x;
    }
    shape[nd - 2] = a.shape[a.ndim - 2];
    shape[nd - 1] = b.shape[b.ndim - 1];
    array_init(out, sum_type(a.dtype), nd, shape);
    multiply(&a, &b, c->nin > 2 ? &c->in[2] : NULL, out);
    if (row) {
        out->shape[nd - 2] = out->shape[nd - 1];
        out->ndim--;
    }
    if (column)
        out->ndim--;
    c->terms = (double)a.shape[a.ndim - 1] + 1;
}

/* ---- linear ---- */

static void make_linear(struct call *c, weir_dtype dtype)
{
    int64_t most = c->budget > 10000 ? 200 : 40, shape[4];
    int64_t k = random_size(c, most), n = random_size(c, most);
    int ndim = (int)rng_int(&c->rng, 1, 4);

    for (int d = 0; d < ndim - 1; d++)
        shape[d] = random_size(c, c->budget > 10000 ? 30 : 7);
    shape[ndim - 1] = k;
    add_input(c, dtype, ndim, shape);
    add_input(c, dtype, 2, (int64_t[]){n, k});
    add_optional(c, sum_type(dtype), n);
}

static weir_status run_linear(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    (void)c;
    return weir_linear(in[0], in[1], in[2], out);
}

static void reference_linear(struct call *c)
{
    const struct array *x = &c->in[0], *w = &c->in[1];
    int64_t shape[WEIR_MAX_DIMS], k = w->shape[1], n = w->shape[0];
    struct array *out = &c->out[0];

    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = n;
    array_init(out, sum_type(x->dtype), x->ndim, shape);
    add_reach(out);
    for (int64_t i = 0; i < array_numel(out); i++) {
        long double sum = c->in[2].at ? c->in[2].at[i % n] : 0;
        double reach = fabs((double)sum);

        for (int64_t j = 0; j < k; j++) {
            double term = x->at[i / n * k + j] * w->at[i % n * k + j];

            sum += term;
            reach += fabs(term);
        }
        out->at[i] = (double)sum;
        out->reach[i] = reach;
    }
    c->terms = (double)k + 1;
}

/* ---- conv2d: whole is stride, padding, dilation, groups ---- */

static void make_conv2d(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    int64_t groups = rng_chance(r, 70) ? 1 : rng_int(r, 2, 4);
    int64_t in = rng_int(r, 1, c->budget > 10000 ? 16 : 5), out = rng_int(r, 1, 12), kernel[2],
            size[2];

    for (int i = 0; i < 2; i++) {
        int64_t reach;

        c->whole[i] = rng_int(r, 1, 3);
        c->whole[2 + i] = rng_int(r, 0, 3);
        c->whole[4 + i] = rng_chance(r, 70) ? 1 : rng_int(r, 2, 3);
        kernel[i] = rng_int(r, 1, 4);
        reach = (kernel[i] - 1) * c->whole[4 + i] + 1;
        size[i] = rng_int(r, 1, c->budget > 10000 ? 40 : 12);
        if (size[i] + 2 * c->whole[2 + i] < reach)
            size[i] = reach;
    }
    c->whole[6] = groups;
    add_input(c, dtype, 4, (int64_t[]){rng_int(r, 1, 3), in * groups, size[0], size[1]});
    add_input(c, dtype, 4, (int64_t[]){out * groups, in, kernel[0], kernel[1]});
    add_optional(c, dtype, out * groups);
}

static weir_status run_conv2d(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    const int64_t *w = c->whole;
    weir_conv2d_options o = {{w[0], w[1]}, {w[2], w[3]}, {w[4], w[5]}, w[6]};

    return weir_conv2d(in[0], in[1], in[2], &o, out);
}

/* One element of the output: all taps of one filter at one place. */
static double convolve(const struct call *c, const int64_t *at, double *reach)
{
    const struct array *x = &c->in[0], *w = &c->in[1];
    int64_t filters = w->shape[0] / c->whole[6], group = at[1] / filters;
    long double sum = c->in[2].at ? c->in[2].at[at[1]] : 0;

    *reach = fabs((double)sum);
    for (int64_t ch = 0; ch < w->shape[1]; ch++)
        for (int64_t i = 0; i < w->shape[2]; i++)
            for (int64_t j = 0; j < w->shape[3]; j++) {
                int64_t row = at[2] * c->whole[0] - c->whole[2] + i * c->whole[4];
                int64_t col = at[3] * c->whole[1] - c->whole[3] + j * c->whole[5];
                double term;

                if (row < 0 || row >= x->shape[2] || col < 0 || col >= x->shape[3])
                    continue;
                term = x->at[array_place(x, 4,
                                         (int64_t[]){at[0], group * w->shape[1] + ch, row, col})] *
                       w->at[array_place(w, 4, (int64_t[]){at[1], ch, i, j})];
                sum += term;
                *reach += fabs(term);
            }
    return (double)sum;
}

static void reference_conv2d(struct call *c)
{
    const struct array *x = &c->in[0], *w = &c->in[1];
    int64_t shape[4] = {x->shape[0], w->shape[0], 0, 0}, index[4] = {0};
    struct array *out = &c->out[0];

    for (int i = 0; i < 2; i++)
        shape[2 + i] = (x->shape[2 + i] + 2 * c->whole[2 + i] -
                        ((w->shape[2 + i] - 1) * c->whole[4 + i] + 1)) /
                           c->whole[i] +
                       1;
    array_init(out, x->dtype, 4, shape);
    add_reach(out);
    for (int64_t i = 0; i < array_numel(out); i++, step_index(4, shape, index))
        out->at[i] = convolve(c, index, &out->reach[i]);
    c->terms = (double)(w->shape[1] * w->shape[2] * w->shape[3]) + 1;
}

/* ---- attention ---- */

static void make_attention(struct call *c, weir_dtype dtype)
{
    struct rng *r = &c->rng;
    bool large = c->budget > 10000;
    int ndim = (int)rng_int(r, 2, 5);
    int64_t d = rng_int(r, 1, large ? 64 : 20), dv = rng_int(r, 1, large ? 64 : 20);
    int64_t lq = rng_int(r, 1, large ? 150 : 20), lk = rng_int(r, 1, large ? 300 : 30);
    bool even = rng_chance(r, 50); /* rows that tensor cores take */
    int64_t heads = rng_int(r, 1, 3), share = rng_chance(r, 50) ? 1 : rng_int(r, 2, 3);
    int64_t shape[5] = {rng_int(r, 1, 2), rng_int(r, 1, 2), heads * share, lq, d};
    int64_t *q = shape + 5 - ndim, mask[5];

    if (even)
        shape[4] = d = 8 * rng_int(r, 1, large ? 9 : 3);
    if (even)
        dv = 8 * rng_int(r, 1, large ? 9 : 3);
    c->flag[0] = rng_chance(r, 40);
    if (c->flag[0] && lk < lq) /* every query has a key */
        shape[3] = lq = lk;
    c->real[0] = rng_chance(r, 50) ? 0 : rng_real(r, 0.1, 0.5);
    c->flag[1] = ndim > 2 && rng_chance(r, 40);
    add_input(c, dtype, ndim, q);
    shape[2] = heads;
    shape[3] = lk;
    add_input(c, dtype, ndim, q);
    shape[4] = dv;
    add_input(c, dtype, ndim, q);
    shape[2] = heads * share;
    shape[3] = lq;
    shape[4] = lk;
    if (rng_chance(r, 40)) {
        c->nin++;
        return;
    }
    for (int i = 0; i < ndim; i++)
        mask[i] = rng_chance(r, 30) ? 1 : q[i];
    if (rng_chance(r, 50)) {
        add_input(c, dtype, ndim, mask);
    } else {
        struct array *m = &c->in[c->nin];

        add_input(c, WEIR_BOOL, ndim, mask);
        /* The first key always takes part. */
        for (int64_t i = 0; i < array_numel(m); i += mask[ndim - 1])
            m->at[i] = 1;
    }
}

static weir_status run_attention(const struct call *c, weir_tensor *const *in, weir_tensor **out)
{
    weir_attention_options o = {
        .scale = c->real[0], .causal = c->flag[0], .rows_first = c->flag[1]};
    int nd = c->in[0].ndim, dims[WEIR_MAX_DIMS];
    weir_tensor *made;
    weir_status st;

    if (!o.rows_first)
        return weir_attention(in[0], in[1], in[2], in[3], &o, out);
    if ((st = weir_attention(in[0], in[1], in[2], in[3], &o, &made)))
        return st;
    for (int d = 0; d < nd; d++)
        dims[d] = d == nd - 3 ? nd - 2 : d == nd - 2 ? nd - 3 : d;
    st = weir_tensor_permute(made, dims, out);
    weir_tensor_release(made);
    return st;
}

/* The weights of one query's keys. */
static void weigh(const struct call *c, const int64_t *at, double *weight, double *steep)
{
    const struct array *q = &c->in[0], *k = &c->in[1], *mask = &c->in[3];
    int nd = q->ndim;
    int64_t d = q->shape[nd - 1], lq = q->shape[nd - 2], lk = k->shape[nd - 2];
    int64_t share = nd > 2 ? q->shape[nd - 3] / k->shape[nd - 3] : 1;
    double scale = c->real[0] != 0 ? c->real[0] : 1 / sqrt((double)d), top = -INFINITY;
    long double sum = 0;

    *steep = 0;
    for (int64_t j = 0; j < lk; j++) {
        int64_t qi[WEIR_MAX_DIMS], ki[WEIR_MAX_DIMS];
        double dot = 0, reach = 0;

        memcpy(qi, at, sizeof qi);
        memcpy(ki, at, sizeof ki);
        ki[nd - 2] = j;
        if (nd > 2)
            ki[nd - 3] /= share;
        for (int64_t i = 0; i < d; i++) {
            double term;

            qi[nd - 1] = ki[nd - 1] = i;
            term = q->at[array_place(q, nd, qi)] * k->at[array_place(k, nd, ki)] * scale;
            dot += term;
            reach += fabs(term);
        }
        if (mask->at) {
            qi[nd - 1] = j;
            double m = mask->at[array_place(mask, nd, qi)];

            dot = mask->dtype != WEIR_BOOL ? dot + m : m != 0 ? dot : -INFINITY;
            reach += mask->dtype != WEIR_BOOL ? fabs(m) : 0;
        }
        if (c->flag[0] && j > at[nd - 2] + lk - lq)
            dot = -INFINITY;
        weight[j] = dot;
        top = fmax(top, dot);
        *steep = fmax(*steep, reach);
    }
    for (int64_t j = 0; j < lk; j++)
        sum += weight[j] = exp(weight[j] - top);
    for (int64_t j = 0; j < lk; j++)
        weight[j] = (double)(weight[j] / sum);
}

static void reference_attention(struct call *c)
{
    const struct array *q = &c->in[0], *v = &c->in[2];
    int nd = q->ndim;
    int64_t shape[WEIR_MAX_DIMS], index[WEIR_MAX_DIMS] = {0}, lk = v->shape[nd - 2];
    int64_t share = nd > 2 ? q->shape[nd - 3] / v->shape[nd - 3] : 1;
    double *weight = malloc((size_t)lk * sizeof *weight), steep = 0, rounding;
    struct array *out = &c->out[0];

    CHECK(weight);
    memcpy(shape, q->shape, sizeof shape);
    shape[nd - 1] = v->shape[nd - 1];
    array_init(out, q->dtype, nd, shape);
    add_reach(out);
    c->terms = (double)(lk + q->shape[nd - 1]);
    /* Weights may be rounded into the type: so much in units that the tolerance counts in. */
    rounding = (q->dtype == WEIR_F16    ? 0x1p-11
                : q->dtype == WEIR_BF16 ? 0x1p-8
                                        : 0) /
               (0x1p-23 * 4 * sqrt(c->terms + 1));
    for (int64_t i = 0; i < array_numel(out); i++, step_index(nd, shape, index)) {
        int64_t vi[WEIR_MAX_DIMS];

        if (index[nd - 1] == 0)
            weigh(c, index, weight, &steep);
        memcpy(vi, index, sizeof vi);
        if (nd > 2)
            vi[nd - 3] /= share;
        for (int64_t j = 0; j < lk; j++) {
            vi[nd - 2] = j;
            double term = weight[j] * v->at[array_place(v, nd, vi)];

            out->at[i] += term;
            /* An error in a score is one of its weight's size in the weight. */
            out->reach[i] += fabs(term) * (2 + 2 * steep + rounding);
        }
    }
    free(weight);
}

#define TYPES_MATMUL (TYPES_FLOAT | TYPE(I8) | TYPE(I32) | TYPE(I64))

const struct op_case opcases_matrix[] = {
    {.name = "matmul",
     .types = TYPES_MATMUL,
     .make = make_matmul,
     .run = run_matmul,
     .run_into = run_matmul_into,
     .reference = reference_matmul},
    {.name = "matmul_bias",
     .types = TYPES_MATMUL,
     .make = make_matmul_bias,
     .run = run_matmul_bias,
     .reference = reference_matmul},
    {.name = "linear",
     .types = TYPES_MATMUL,
     .make = make_linear,
     .run = run_linear,
     .reference = reference_linear},
    {.name = "conv2d",
     .types = TYPES_FLOAT,
     .make = make_conv2d,
     .run = run_conv2d,
     .reference = reference_conv2d},
    {.name = "attention",
     .types = TYPES_FLOAT,
     .low = -2,
     .high = 2,
     .make = make_attention,
     .run = run_attention,
     .reference = reference_attention},
    {.name = NULL},
};
