/* Conv2D: shapes, cutting, and calls of the host's convolution. */
#include <string.h>

#include "ops/call/registry.h"
#include "ops/gpu/gpu.h"
#include "ops/host/conv/conv.h"
#include "ops/product/gemm_grid.h"
#include "tensor/infer.h"

struct args {
    struct weir__conv conv;
    int64_t images; /* a GPU's kernel reads the fields up to here */
    void (*run)(const struct weir__conv *c, const struct weir__conv_part *part, void *local);
    struct weir__grid grid; /* batch: images x groups; m: outputs of a group; n: output rows, or
                             * columns if there is one row */
};

/* Replaces zeros that mean 1, and also strides and dilations that are never used, so that the rest
 * is bounded by the image. */
static weir_conv2d_options normalised(const weir_conv2d_options *given, const int64_t *kernel,
                                      const int64_t *outputs)
{
    weir_conv2d_options o = *given;

    for (int i = 0; i < 2; i++) {
        o.stride[i] = o.stride[i] ? o.stride[i] : 1;
        o.dilation[i] = o.dilation[i] ? o.dilation[i] : 1;
        if (outputs && outputs[i] == 1)
            o.stride[i] = 1;
        if (kernel && kernel[i] == 1)
            o.dilation[i] = 1;
    }
    o.groups = o.groups ? o.groups : 1;
    return o;
}

static weir_status check_types(const struct weir__call *call)
{
    const struct weir__view *x = call->in[0];

    if (!weir_dtype_is_float(x->dtype))
        return weir__fail(WEIR_EDTYPE, "Conv2D: x is %s, not of a float type",
                          weir__view_text(x).text);
    for (int i = 1; i < call->nin; i++)
        if (call->in[i] && call->in[i]->dtype != x->dtype)
            return weir__fail(WEIR_EDTYPE, "Conv2D: operands differ in type: %s and %s",
                              weir__view_text(x).text, weir__view_text(call->in[i]).text);
    return WEIR_OK;
}

static weir_status check_options(const weir_conv2d_options *o)
{
    for (int i = 0; i < 2; i++)
        if (o->stride[i] < 1 || o->dilation[i] < 1 || o->padding[i] < 0)
            return weir__fail(WEIR_EINVAL,
                              "Conv2D: stride %lld, dilation %lld and padding %lld: the first two "
                              "must be positive, the last not negative",
                              (long long)o->stride[i], (long long)o->dilation[i],
                              (long long)o->padding[i]);
    if (o->groups < 1)
        return weir__fail(WEIR_EINVAL, "Conv2D: %lld groups are out of range: at least 1",
                          (long long)o->groups);
    return WEIR_OK;
}

static weir_status check_shapes(const struct weir__call *call, int64_t groups)
{
    const struct weir__view *x = call->in[0], *weight = call->in[1];
    const struct weir__view *bias = call->nin > 2 ? call->in[2] : NULL;

    if (x->ndim != 4 || weight->ndim != 4)
        return weir__fail(WEIR_ESHAPE,
                          "Conv2D: x must be [n, c, h, w] and weight [o, c / groups, kh, kw]: "
                          "they are %s and %s",
                          weir__view_text(x).text, weir__view_text(weight).text);
    if (x->shape[1] % groups || weight->shape[1] != x->shape[1] / groups ||
        weight->shape[0] % groups)
        return weir__fail(WEIR_ESHAPE,
                          "Conv2D: channels do not fit: x is %s, weight is %s, with %lld groups",
                          weir__view_text(x).text, weir__view_text(weight).text, (long long)groups);
    if (weight->shape[2] < 1 || weight->shape[3] < 1)
        return weir__fail(WEIR_ESHAPE, "Conv2D: the weight %s has an empty kernel",
                          weir__view_text(weight).text);
    if (bias && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))
        return weir__fail(WEIR_ESHAPE, "Conv2D: the bias must be [%lld], not %s",
                          (long long)weight->shape[0], weir__view_text(bias).text);
    return WEIR_OK;
}

static weir_status infer(struct weir__call *call)
{
    const struct weir__view *x = call->in[0], *weight = call->in[1];
    const weir_conv2d_options o = normalised(call->params, NULL, NULL);
    struct weir__view *out = &call->out[0];
    int64_t padded[4] = {1, x->shape[1]};
    weir_status st;

    if ((st = check_types(call)) || (st = check_options(&o)) || (st = check_shapes(call, o.groups)))
        return st;
    out->dtype = x->dtype;
    out->ndim = 4;
    out->shape[0] = x->shape[0];
    out->shape[1] = weight->shape[0];
    for (int i = 0; i < 2; i++) {
        int64_t side = x->shape[2 + i], reach;

        if (side > INT32_MAX - 2 * o.padding[i])
            return weir__fail(WEIR_ESHAPE,
                              "Conv2D: %s with a padding of %lld has more than 2147483647 rows or "
                              "columns",
                              weir__view_text(x).text, (long long)o.padding[i]);
        side += 2 * o.padding[i];
        if (__builtin_mul_overflow(weight->shape[2 + i] - 1, o.dilation[i], &reach))
            reach = INT64_MAX - 1;
        if (++reach > side)
            return weir__fail(WEIR_ESHAPE,
                              "Conv2D: the kernel of %s reaches over %lld of %s, which has only "
                              "%lld with padding",
                              weir__view_text(weight).text, (long long)reach,
                              weir__view_text(x).text, (long long)side);
        padded[2 + i] = side;
        out->shape[2 + i] = (side - reach) / o.stride[i] + 1;
    }
    /* Kernels use element offsets in a padded image. */
    return weir__shape_check("Conv2D: an image with its padding", WEIR_F64, 4, padded);
}

static void cost(const struct weir__call *call, struct weir__cost *cost)
{
    const struct weir__view *weight = call->in[1], *out = &call->out[0];
    double elements = (double)weir__view_numel(out);

    cost->flops = 2.0 * elements * (double)(weight->shape[1] * weight->shape[2] * weight->shape[3]);
    for (int i = 0; i < call->nin; i++)
        if (call->in[i])
            elements += (double)weir__view_numel(call->in[i]);
    cost->bytes = elements * (double)weir_dtype_size(out->dtype);
}

static weir_status run_block(const void *pointer, const weir_block *block)
{
    const struct args *args = pointer;
    const struct weir__part part = weir__grid_part(&args->grid, block->index);

    if (part.m.begin >= part.m.end || part.n.begin >= part.n.end)
        return WEIR_OK;
    args->run(&args->conv,
              &(struct weir__conv_part){part.batch.begin, part.batch.end, part.m.begin, part.m.end,
                                        part.n.begin, part.n.end},
              block->local);
    return WEIR_OK;
}

/* Counts n in output rows instead of output elements, if there are several. */
static struct weir__grid by_rows(struct weir__grid grid, int64_t oh, int64_t ow)
{
    if (oh == 1)
        return grid;
    grid.n = oh;
    grid.n_step = weir__max(1, weir__div_up(grid.n_step, weir__max(ow, 1)));
    if (grid.batch && grid.m && oh)
        grid.blocks = (unsigned)(weir__div_up(grid.batch, grid.batch_step) *
                                 weir__div_up(grid.m, grid.m_step) * weir__div_up(oh, grid.n_step));
    return grid;
}

static struct weir__conv describe(const struct weir__call *call)
{
    const struct weir__view *x = call->in[0], *weight = call->in[1], *out = &call->out[0];
    const struct weir__view *bias = call->nin > 2 ? call->in[2] : NULL;
    const weir_conv2d_options o = normalised(call->params, weight->shape + 2, out->shape + 2);
    struct weir__conv c = {.x = x->data,
                           .weight = weight->data,
                           .out = out->data,
                           .dtype = x->dtype,
                           .groups = o.groups,
                           .channels = weight->shape[1],
                           .outputs = weight->shape[0] / o.groups,
                           .h = x->shape[2],
                           .w = x->shape[3],
                           .kh = weight->shape[2],
                           .kw = weight->shape[3],
                           .oh = out->shape[2],
                           .ow = out->shape[3]};

    memcpy(c.stride, o.stride, sizeof c.stride);
    memcpy(c.padding, o.padding, sizeof c.padding);
    memcpy(c.dilation, o.dilation, sizeof c.dilation);
    memcpy(c.x_step, x->stride, sizeof c.x_step);
    memcpy(c.weight_step, weight->stride, sizeof c.weight_step);
    if (bias) {
        c.bias = bias->data;
        c.bias_step = bias->stride[0];
    }
    return c;
}

static size_t scratch(const struct weir__call *call)
{
    struct weir__conv c;

    if (!call->for_gpu)
        return 0;
    c = describe(call);
    return weir__gpu_conv_scratch(&c);
}

static weir_status prepare(const struct weir__call *call, struct weir__work *work)
{
    const struct weir__view *x = call->in[0], *weight = call->in[1];
    struct args *args = (struct args *)work->args;
    struct weir__conv *c = &args->conv;

    *args = (struct args){.conv = describe(call), .images = x->shape[0]};
    args->run = x->dtype == WEIR_F64        ? WEIR__ISA_PICK(weir__conv_f64)
                : weir__conv_takes_pairs(c) ? WEIR__ISA_PICK(weir__conv_bf16)
                                            : WEIR__ISA_PICK(weir__conv_f32);
    if (!weir__conv_weight_is_matrix(c) && c->channels * c->kh * c->kw > WEIR__CONV_MOST_TAPS)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "Conv2D: a weight as large as %s must be contiguous in its last 3 dims",
                          weir__view_text(weight).text);
    args->grid = by_rows(weir__grid_make(&weir__grid_floats, x->shape[0] * c->groups, c->outputs,
                                         c->oh * c->ow, c->channels * c->kh * c->kw,
                                         call->for_gpu ? 1 : call->cores),
                         c->oh, c->ow);
    work->fn = run_block;
    work->code = weir__gpu_conv(c, args->images, call->for_gpu ? call->scratch : NULL);
    work->blocks = args->grid.blocks;
    work->phases = c->packed ? 2 : 1;
    work->args_size = sizeof *args;
    return WEIR_OK;
}

static const struct weir__op_field fields[] = {
    {"stride", WEIR__FIELD_INT, offsetof(weir_conv2d_options, stride), 2},
    {"padding", WEIR__FIELD_INT, offsetof(weir_conv2d_options, padding), 2},
    {"dilation", WEIR__FIELD_INT, offsetof(weir_conv2d_options, dilation), 2},
    {"groups", WEIR__FIELD_INT, offsetof(weir_conv2d_options, groups), 1},
};

const struct weir__op weir__op_conv2d = {
    .name = "Conv2D",
    .summary = "two-dimensional convolution of [n, c, h, w], plus an optional bias",
    .engine = WEIR_ENGINE_CUBE,
    .nin_min = 2,
    .nin_max = 3,
    .nout = 1,
    .params_size = sizeof(weir_conv2d_options),
    .fields = fields,
    .nfields = weir__countof(fields),
    .infer = infer,
    .cost = cost,
    .scratch = scratch,
    .prepare = prepare,
};

weir_status weir_conv2d(weir_tensor *x, weir_tensor *weight, weir_tensor *bias,
                        const weir_conv2d_options *options, weir_tensor **out)
{
    static const weir_conv2d_options plain;

    return weir__op_run(&weir__op_conv2d, options ? options : &plain,
                        (weir_tensor *const[]){x, weight, bias}, 3, out);
}
