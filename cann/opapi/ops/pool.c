/* Pooling, im2col and resizing, on the host in f32 or f64. */
#include "run.h"

enum pool { POOL_MAX, POOL_AVERAGE };

struct pool_params {
    enum pool kind;
    weir_dtype dtype;
    bool count_padding;
    int64_t planes, h, w, oh, ow;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t divisor;
};

/* Finds where window `o` begins and ends; returns the number of elements that count. */
static int64_t window(const struct pool_params *p, int d, int64_t o, int64_t n, int64_t *begin,
                      int64_t *end)
{
    int64_t first = o * p->stride[d] - p->padding[d];
    int64_t past = first + p->kernel[d], limit = n + p->padding[d];

    *begin = first;
    *end = past;
    return (past < limit ? past : limit) - first;
}

#define POOL(type)                                                                            \
    for (int64_t s = 0; s < p->planes; s++)                                                   \
        for (int64_t oy = 0; oy < p->oh; oy++)                                                \
            for (int64_t ox = 0; ox < p->ow; ox++) {                                          \
                const type *x = (const type *)h->in[0] + s * p->h * p->w;                     \
                int64_t at = (s * p->oh + oy) * p->ow + ox, y0, y1, x0, x1, best = -1;        \
                int64_t rows = window(p, 0, oy, p->h, &y0, &y1);                              \
                int64_t all = rows * window(p, 1, ox, p->w, &x0, &x1), inside = 0;            \
                double sum = 0;                                                               \
                type most = 0;                                                                \
                for (int64_t ky = 0; ky < p->kernel[0]; ky++)                                 \
                    for (int64_t kx = 0; kx < p->kernel[1]; kx++) {                           \
                        int64_t iy = y0 + ky * p->dilation[0], ix = x0 + kx * p->dilation[1]; \
                        if (iy < 0 || ix < 0 || iy >= p->h || ix >= p->w)                     \
                            continue;                                                         \
                        type v = x[iy * p->w + ix];                                           \
                        sum += (double)v;                                                     \
                        inside++;                                                             \
                        if (best < 0 || v > most || v != v) {                                 \
                            most = v;                                                         \
                            best = iy * p->w + ix;                                            \
                        }                                                                     \
                    }                                                                         \
                if (p->kind == POOL_MAX) {                                                    \
                    ((type *)h->out[0])[at] = best < 0 ? (type)-INFINITY : most;              \
                    ((int64_t *)h->out[1])[at] = best < 0 ? 0 : best;                         \
                } else {                                                                      \
                    int64_t n = p->divisor ? p->divisor : p->count_padding ? all : inside;    \
                    ((type *)h->out[0])[at] = (type)(n ? sum / (double)n : 0);                \
                }                                                                             \
            }

static weir_status run_pool(const struct host *h)
{
    const struct pool_params *p = h->params;

    if (p->dtype == WEIR_F32)
        POOL(float)
    else
        POOL(double)
    return WEIR_OK;
}

/* Pools x; returns the values, and for a maximum their indices in *places. `out` has the result's
 * height and width. */
static tensor *pooled(struct call *c, struct pool_params *p, tensor *x, tensor *out,
                      tensor **places)
{
    struct host_out o[2];
    tensor *got[2] = {0};

    x = wide(c, x);
    if (c->err || !x || !out)
        return NULL;
    if (rank(x) < 2 || rank(out) != rank(x))
        return call_fail(c, "a pool of %d dims has a result of %d dims", rank(x), rank(out));
    p->dtype = type(x);
    p->h = size(x, -2);
    p->w = size(x, -1);
    p->oh = size(out, -2);
    p->ow = size(out, -1);
    p->planes = p->h * p->w > 0 ? numel(x) / (p->h * p->w) : 0;
    o[0] = out_like(out, type(x));
    o[1] = out_like(out, WEIR_I64);
    host_run(c, "Pool2d", run_pool, p, sizeof *p, &x, 1, o, p->kind == POOL_MAX ? 2 : 1, got);
    if (places)
        *places = got[1];
    return got[0];
}

/* self, kernel, stride, padding, ceil, count_padding, divisor, cube, out */
void run_avg_pool(struct call *c)
{
    struct pool_params p = {.kind = POOL_AVERAGE,
                            .count_padding = integer(c, 5) != 0,
                            .divisor = integer(c, 6),
                            .dilation = {1, 1}};

    for (int d = 0; d < 2; d++) {
        p.kernel[d] = nth(c, 1, d, 1);
        p.stride[d] = nth(c, 2, d, p.kernel[d]);
        p.padding[d] = nth(c, 3, d, 0);
    }
    give(c, pooled(c, &p, in(c, 0), in(c, 8), NULL));
}

/* self, kernel, stride, padding, dilation, ceil, out, places */
static void max_pool(struct call *c, int padding, int dilation, int out, int places)
{
    struct pool_params p = {.kind = POOL_MAX};
    tensor *at = NULL;

    for (int d = 0; d < 2; d++) {
        p.kernel[d] = nth(c, 1, d, 1);
        p.stride[d] = nth(c, 2, d, p.kernel[d]);
        p.padding[d] = nth(c, padding, d, 0);
        p.dilation[d] = nth(c, dilation, d, 1);
    }
    put(c, out, pooled(c, &p, in(c, 0), in(c, out), &at));
    if (places >= 0)
        put(c, places, at);
}

void run_max_pool_indices(struct call *c)
{
    max_pool(c, 3, 4, 6, 7);
}

/* self, kernel, stride, auto_pads, padding, dilation, ceil, out */
void run_max_pool(struct call *c)
{
    max_pool(c, 4, 5, 7, -1);
}

/* grad, self, indices, kernel, stride, padding, dilation, ceil, out */
void run_max_pool_indices_backward(struct call *c)
{
    tensor *g = wide(c, in(c, 0)), *x = in(c, 1), *at = cast(c, in(c, 2), WEIR_I64), *dx;
    int64_t hw = rank(x) > 1 ? size(x, -2) * size(x, -1) : 0;
    int64_t to[2] = {hw ? numel(x) / hw : 0, hw}, from[2];

    if (c->err || !hw)
        return;
    from[0] = to[0];
    from[1] = to[0] ? numel(g) / to[0] : 0;
    dx = full(c, type(g), 2, to, 0);
    op_scatter_add(c, dx, 1, contiguous(c, reshape(c, at, 2, from)),
                   contiguous(c, reshape(c, g, 2, from)));
    give(c, dx);
}

/* ---- adaptive pooling ---- */

/* A matrix [o, n] with 1 / length in row i inside window i: a product with it takes the means. */
static tensor *adaptive(struct call *c, int64_t n, int64_t o)
{
    tensor *i = arange(c, WEIR_I64, n, 0, 1), *at = unsqueeze(c, arange(c, WEIR_I64, o, 0, 1), 1);
    tensor *out = full(c, WEIR_I64, 0, NULL, (double)o), *begin, *end, *hit;

    begin = math2(c, MATH_FLOOR_DIVIDE, op_muls(c, at, (double)n), out);
    end = op_neg(c, math2(c, MATH_FLOOR_DIVIDE, op_muls(c, op_adds(c, at, 1), -(double)n), out));
    hit = op_minimum(c, op_ge(c, i, begin), op_lt(c, i, end));
    return op_div(c, wide(c, hit), wide(c, op_sub(c, end, begin)));
}

/* self, output_size, out */
void run_adaptive_avg_pool(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *out = in(c, 2), *y;

    if (c->err || !numel(out))
        return;
    y = op_matmul(c, adaptive(c, size(x, -2), size(out, -2)), x);
    give(c, op_matmul(c, y, transpose(c, adaptive(c, size(x, -1), size(out, -1)), 0, 1)));
}

/* grad, self, out */
void run_adaptive_avg_pool_backward(struct call *c)
{
    tensor *g = wide(c, in(c, 0)), *x = in(c, 1), *y;

    if (c->err || !numel(x))
        return;
    y = op_matmul(c, transpose(c, adaptive(c, size(x, -2), size(g, -2)), 0, 1), g);
    give(c, op_matmul(c, y, adaptive(c, size(x, -1), size(g, -1))));
}

/* ---- im2col ---- */

struct columns_params {
    size_t elem;
    int64_t n, channels, h, w, oh, ow;
    int64_t kernel[2], dilation[2], padding[2], stride[2];
};

static weir_status run_columns(const struct host *h)
{
    const struct columns_params *p = h->params;
    const char *x = h->in[0];
    char *y = h->out[0];

    for (int64_t s = 0; s < p->n * p->channels; s++)
        for (int64_t ky = 0; ky < p->kernel[0]; ky++)
            for (int64_t kx = 0; kx < p->kernel[1]; kx++)
                for (int64_t oy = 0; oy < p->oh; oy++)
                    for (int64_t ox = 0; ox < p->ow; ox++, y += p->elem) {
                        int64_t iy = oy * p->stride[0] - p->padding[0] + ky * p->dilation[0];
                        int64_t ix = ox * p->stride[1] - p->padding[1] + kx * p->dilation[1];

                        if (iy < 0 || ix < 0 || iy >= p->h || ix >= p->w)
                            memset(y, 0, p->elem);
                        else
                            memcpy(y, x + ((s * p->h + iy) * p->w + ix) * (int64_t)p->elem,
                                   p->elem);
                    }
    return WEIR_OK;
}

/* self, kernel, dilation, padding, stride, out [n, channels * kh * kw, places] */
void run_im2col(struct call *c)
{
    tensor *x = in(c, 0), *out = NULL;
    struct columns_params p = {.elem = weir_dtype_size(type(x))};
    struct host_out o = {type(x), 3, {0}};

    if (c->err)
        return;
    if (rank(x) == 3)
        x = unsqueeze(c, x, 0);
    if (rank(x) != 4) {
        (void)call_fail(c, "self has %d dims, it needs 4", rank(x));
        return;
    }
    p.n = size(x, 0);
    p.channels = size(x, 1);
    p.h = size(x, 2);
    p.w = size(x, 3);
    for (int d = 0; d < 2; d++) {
        int64_t n = d ? p.w : p.h;

        p.kernel[d] = nth(c, 1, d, 1);
        p.dilation[d] = nth(c, 2, d, 1);
        p.padding[d] = nth(c, 3, d, 0);
        p.stride[d] = nth(c, 4, d, 1);
        *(d ? &p.ow : &p.oh) =
            (n + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1;
    }
    o.shape[0] = p.n;
    o.shape[1] = p.channels * p.kernel[0] * p.kernel[1];
    o.shape[2] = p.oh * p.ow;
    host_run(c, "Im2Col", run_columns, &p, sizeof p, &x, 1, &o, 1, &out);
    give(c, out);
}

/* ---- resizing ---- */

/* The source index of each of `o` elements: floor(i * n / o), or with a given scale. */
static tensor *nearest(struct call *c, int64_t n, int64_t o, double scale)
{
    tensor *i = arange(c, WEIR_F32, o, 0, 1);
    double step = scale > 0 ? 1 / scale : (double)n / (double)o;

    i = math1(c, MATH_FLOOR, op_muls(c, i, step));
    return cast(c, op_clamp(c, i, 0, (double)n - 1), WEIR_I64);
}

/* self, output_size [, scale_h, scale_w], out */
void run_upsample_nearest(struct call *c)
{
    tensor *x = in(c, 0);
    bool scaled = c->row->count > 3;
    tensor *out = in(c, c->row->count - 1);

    if (c->err || !numel(out))
        return;
    for (int d = 2; d < rank(x) && !c->err; d++)
        x = op_index_select(c, x, d, nearest(c, size(x, d), size(out, d), scaled ? real(c, d) : 0));
    give(c, x);
}

/* [o, n]: the weights of linear interpolation */
static tensor *linear_weights(struct call *c, int64_t n, int64_t o, bool corners, double scale)
{
    double step = corners     ? (o > 1 ? (double)(n - 1) / (double)(o - 1) : 0)
                  : scale > 0 ? 1 / scale
                              : (double)n / (double)o;
    tensor *at = arange(c, WEIR_F32, o, 0, 1), *d;

    at = corners ? op_muls(c, at, step)
                 : op_maximums(c, op_subs(c, op_muls(c, op_adds(c, at, 0.5), step), 0.5), 0);
    at = op_clamp(c, at, 0, (double)n - 1);
    d = op_abs(c, op_sub(c, unsqueeze(c, at, 1), arange(c, WEIR_F32, n, 0, 1)));
    return op_relu(c, op_rsubs(c, 1, d));
}

/* self, output_size, align_corners, scale_h, scale_w, out */
void run_upsample_bilinear(struct call *c)
{
    tensor *x = wide(c, in(c, 0)), *out = in(c, 5), *y;
    bool corners = integer(c, 2) != 0;

    if (c->err || !numel(out))
        return;
    y = op_matmul(c, linear_weights(c, size(x, -2), size(out, -2), corners, real(c, 3)), x);
    give(c,
         op_matmul(c, y,
                   transpose(c, linear_weights(c, size(x, -1), size(out, -1), corners, real(c, 4)),
                             0, 1)));
}

/* grad, output_size, input_size, align_corners, scale_h, scale_w, out */
void run_upsample_bilinear_backward(struct call *c)
{
    tensor *g = wide(c, in(c, 0)), *out = in(c, 6), *y;
    bool corners = integer(c, 3) != 0;

    if (c->err || !numel(out))
        return;
    y = op_matmul(
        c, transpose(c, linear_weights(c, size(out, -2), size(g, -2), corners, real(c, 4)), 0, 1),
        g);
    give(c, op_matmul(c, y, linear_weights(c, size(out, -1), size(g, -1), corners, real(c, 5))));
}
