/* Convolutions of one and two dims, composed of weir's conv2d. */
#include "run.h"

/* The parameters of a convolution. One dim is treated as two, of which the first has size 1. */
struct geometry {
    int64_t stride[2], padding[2], dilation[2], extra[2];
    int64_t groups;
};

static struct geometry geometry_of(struct call *c, int dims, int stride, int padding, int dilation,
                                   int extra, int64_t groups)
{
    struct geometry g = {{1, 1}, {0, 0}, {1, 1}, {0, 0}, groups > 0 ? groups : 1};

    for (int i = 0; i < dims; i++) {
        int at = 2 - dims + i;

        g.stride[at] = nth(c, stride, i, 1);
        g.padding[at] = nth(c, padding, i, 0);
        g.dilation[at] = nth(c, dilation, i, 1);
        g.extra[at] = extra < 0 ? 0 : nth(c, extra, i, 0);
    }
    return g;
}

static tensor *conv(struct call *c, tensor *x, tensor *w, tensor *bias, const struct geometry *g)
{
    weir_conv2d_options o = {
        .stride = {g->stride[0], g->stride[1]},
        .padding = {g->padding[0], g->padding[1]},
        .dilation = {g->dilation[0], g->dilation[1]},
        .groups = g->groups,
    };
    tensor *y = NULL;

    return !c->err && x && w && call_ok(c, weir_conv2d(x, w, bias, &o, &y)) ? own(c, y) : NULL;
}

/* Inserts zeros between the elements of [h, w], and `after` zeros at the end. */
static tensor *stuffed(struct call *c, tensor *x, const int64_t *step, const int64_t *after)
{
    int64_t to[4] = {size(x, 0), size(x, 1), (size(x, 2) - 1) * step[0] + 1 + after[0],
                     (size(x, 3) - 1) * step[1] + 1 + after[1]};
    tensor *y = full(c, type(x), 4, to, 0);

    put_tensor(
        c, slice(c, slice(c, y, 2, 0, to[2] - after[0], step[0]), 3, 0, to[3] - after[1], step[1]),
        x);
    return y;
}

static tensor *flipped(struct call *c, tensor *w)
{
    for (int d = 2; d < 4 && !c->err; d++)
        w = op_index_select(c, w, d, arange(c, WEIR_I64, size(w, d), (double)size(w, d) - 1, -1));
    return w;
}

/* The transposed convolution: x [n, i, h, w], w [i, o / groups, kh, kw]. */
static tensor *conv_transposed(struct call *c, tensor *x, tensor *w, tensor *bias,
                               const struct geometry *g)
{
    struct geometry plain = {{1, 1}, {0, 0}, {g->dilation[0], g->dilation[1]}, {0, 0}, g->groups};
    int64_t i = size(w, 0), o = size(w, 1), cut[2] = {0, 0}, after[2];
    int64_t by_group[5] = {g->groups, i / g->groups, o, size(w, 2), size(w, 3)};
    int64_t turned[4] = {g->groups * o, i / g->groups, size(w, 2), size(w, 3)};
    tensor *y;

    for (int d = 0; d < 2; d++) {
        int64_t pad = g->dilation[d] * (size(w, 2 + d) - 1) - g->padding[d];

        plain.padding[d] = pad < 0 ? 0 : pad;
        cut[d] = pad < 0 ? -pad : 0;
        after[d] = g->extra[d];
    }
    /* [groups, o, i / groups, kh, kw], flipped */
    w = transpose(c, reshape(c, w, 5, by_group), 1, 2);
    w = flipped(c, reshape(c, w, 4, turned));
    y = conv(c, stuffed(c, x, g->stride, after), w, bias, &plain);
    for (int d = 0; d < 2 && !c->err; d++)
        if (cut[d])
            y = slice(c, y, 2 + d, cut[d], size(y, 2 + d) - cut[d], 1);
    return y;
}

/* Adds a dim of size 1 to a tensor with one spatial dim. */
static tensor *planar(struct call *c, tensor *x)
{
    if (c->err || !x)
        return NULL;
    if (rank(x) == 3)
        return unsqueeze(c, x, 2);
    return rank(x) == 4 ? x : call_fail(c, "a tensor of %d dims: 3 and 4 are supported", rank(x));
}

/* input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out, cube */
void run_convolution(struct call *c)
{
    tensor *x = in(c, 0), *w = in(c, 1), *bias = NULL, *y;
    struct geometry g;

    if (c->err)
        return;
    g = geometry_of(c, rank(x) == 3 ? 1 : 2, 3, 4, 5, 7, integer(c, 8));
    if (given(c, 2) && numel(in(c, 2)))
        bias = flat(c, cast(c, in(c, 2), type(x)));
    w = cast(c, w, type(x));
    y = integer(c, 6) ? conv_transposed(c, planar(c, x), planar(c, w), bias, &g)
                      : conv(c, planar(c, x), planar(c, w), bias, &g);
    give(c, y);
}

/* The gradient of the weight: a convolution of x by g, over the batch. [o, i / groups, kh, kw] */
static tensor *weight_gradient(struct call *c, tensor *x, tensor *dy, const struct geometry *g,
                               int64_t kh, int64_t kw)
{
    struct geometry by = {{g->dilation[0], g->dilation[1]},
                          {g->padding[0], g->padding[1]},
                          {g->stride[0], g->stride[1]},
                          {0, 0},
                          1};
    int64_t i = size(x, 1) / g->groups, o = size(dy, 1) / g->groups;
    tensor *parts[64];

    if (g->groups > 64)
        return call_fail(c, "the gradient for %lld groups is not supported", (long long)g->groups);
    for (int64_t k = 0; k < g->groups && !c->err; k++) {
        tensor *xs = transpose(c, slice(c, x, 1, k * i, (k + 1) * i, 1), 0, 1);
        tensor *gs = transpose(c, slice(c, dy, 1, k * o, (k + 1) * o, 1), 0, 1);
        tensor *w = conv(c, xs, gs, NULL, &by); /* [i, o, kh.., kw..] */

        w = slice(c, slice(c, w, 2, 0, kh, 1), 3, 0, kw, 1);
        parts[k] = transpose(c, w, 0, 1);
    }
    if (c->err)
        return NULL;
    return g->groups == 1 ? parts[0] : concat(c, parts, (int)g->groups, 0);
}

/* grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
 * mask, cube, dx, dw, db */
void run_convolution_backward(struct call *c)
{
    tensor *dy = wide(c, in(c, 0)), *x = wide(c, in(c, 1)), *w = wide(c, in(c, 2));
    const aclBoolArray *mask = c->args[10].bools;
    int line = rank(x) == 3;
    struct geometry g;
    static const int others[] = {0, 2, 3};

    if (c->err)
        return;
    g = geometry_of(c, line ? 1 : 2, 4, 5, 6, 8, integer(c, 9));
    dy = planar(c, dy);
    x = planar(c, x);
    w = planar(c, w);
    if (c->err)
        return;
    if (given(c, 12) && (!mask || (mask->size > 0 && mask->value[0]))) {
        if (integer(c, 7)) {
            put(c, 12, conv(c, dy, w, NULL, &g));
        } else { /* the size of x says how many elements the stride did not reach */
            for (int d = 0; d < 2; d++)
                g.extra[d] =
                    size(x, 2 + d) - ((size(dy, 2 + d) - 1) * g.stride[d] - 2 * g.padding[d] +
                                      g.dilation[d] * (size(w, 2 + d) - 1) + 1);
            put(c, 12, conv_transposed(c, dy, w, NULL, &g));
        }
    }
    if (given(c, 13) && (!mask || (mask->size > 1 && mask->value[1])))
        put(c, 13,
            integer(c, 7) ? weight_gradient(c, dy, x, &g, size(w, 2), size(w, 3))
                          : weight_gradient(c, x, dy, &g, size(w, 2), size(w, 3)));
    if (given(c, 14) && (!mask || (mask->size > 2 && mask->value[2])))
        put(c, 14, op_sum(c, dy, others, 3, false));
}
