/* Operators called by name (aclopCompileAndExecute), implemented by aclnn operators: those for
 * which MindSpore has no aclnn call. Names, operands and attributes follow its adapters to the
 * graph engine (Apache-2.0). */
#include <string.h>

#include "acl/acl_op.h"
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_ops.h"
#include "cann.h"

enum { MOST = 8 }; /* tensors of a call */

/* The tensors of a call; created for it and destroyed after it. */
struct operands {
    const struct weir_cann_named *op;
    aclTensor *all[MOST];
    int n;
};

static aclError wrong(const struct weir_cann_named *op, const char *what)
{
    return weir_cann_fail(ACL_ERROR_INVALID_PARAM, "%s by name: %s", op->name, what);
}

static bool is_plain(aclFormat format)
{
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCL ||
           format == ACL_FORMAT_NC;
}

/* Makes a tensor of a description and a buffer, with the shape `dims` or, if that is NULL, its own.
 * Sets the error and returns NULL if the description is invalid. */
static aclTensor *tensor(struct operands *o, const aclTensorDesc *desc, const aclDataBuffer *buffer,
                         const int64_t *dims, int ndims)
{
    int64_t own[MOST];
    aclTensor *t;

    if (!is_plain(aclGetTensorDescFormat(desc))) {
        weir_cann_fail(ACL_ERROR_FORMAT_NOT_MATCH,
                       "%s by name: format %d is not supported: weir has row-major tensors only",
                       o->op->name, (int)aclGetTensorDescFormat(desc));
        return NULL;
    }
    if (!dims) {
        ndims = (int)aclGetTensorDescNumDims(desc);
        if (ndims > MOST) {
            wrong(o->op, "a tensor of more than 8 dims");
            return NULL;
        }
        for (int i = 0; i < ndims; i++)
            own[i] = aclGetTensorDescDim(desc, (size_t)i);
        dims = own;
    }
    if (aclGetTensorDescSize(desc) > aclGetDataBufferSizeV2(buffer)) {
        wrong(o->op, "a buffer is smaller than its tensor");
        return NULL;
    }
    t = aclCreateTensor(dims, (uint64_t)ndims, aclGetTensorDescType(desc), NULL, 0, ACL_FORMAT_ND,
                        dims, (uint64_t)ndims, aclGetDataBufferAddr(buffer));
    if (t)
        o->all[o->n++] = t;
    return t;
}

static aclTensor *input(struct operands *o, int i)
{
    return tensor(o, o->op->from[i], o->op->sources[i], NULL, 0);
}

static aclTensor *output(struct operands *o, int i)
{
    return tensor(o, o->op->to[i], o->op->targets[i], NULL, 0);
}

/* True if an input is given. Optional inputs that are left out have a description without a
 * type. */
static bool has_input(const struct weir_cann_named *op, int i)
{
    return i < op->inputs && op->from[i] && op->sources[i] &&
           aclGetTensorDescType(op->from[i]) != ACL_DT_UNDEFINED;
}

/* Reads an attribute of four numbers and returns the last two, for height and width; `otherwise` if
 * the attribute was not set. */
static bool planar(const struct weir_cann_named *op, const char *name, int64_t otherwise,
                   int64_t out[2])
{
    int n;
    const int64_t *values = weir_cann_attr_ints(op->attr, name, &n);

    out[0] = out[1] = otherwise;
    if (!values)
        return true;
    if (n != 4)
        return false;
    out[0] = values[2];
    out[1] = values[3];
    return true;
}

/* x, filter, bias, offset_w -> y; strides, dilations [n, c, h, w], pads [top, bottom, left, right]
 */
static aclError conv2d(struct operands *o)
{
    const struct weir_cann_named *op = o->op;
    aclTensor *x = input(o, 0), *w = op->inputs > 1 ? input(o, 1) : NULL, *bias = NULL, *y;
    const char *format = weir_cann_attr_text(op->attr, "data_format");
    int64_t stride[2], dilation[2], padding[2] = {0, 0};
    aclIntArray *strides, *dilations, *paddings;
    aclOpExecutor *executor;
    const int64_t *ints;
    uint64_t bytes;
    aclError err;
    int n;

    if (op->inputs < 2)
        return wrong(op, "it takes a tensor and a filter");
    if (has_input(op, 2) && !(bias = input(o, 2)))
        return ACL_ERROR_INVALID_PARAM;
    if (has_input(op, 3))
        return wrong(op, "offsets of weights are not supported");
    if (!x || !w || !(y = output(o, 0)))
        return ACL_ERROR_INVALID_PARAM;
    if (format && strcmp(format, "NCHW") != 0)
        return weir_cann_fail(ACL_ERROR_FORMAT_NOT_MATCH,
                              "Conv2D by name: data_format %s, not NCHW", format);
    if (!planar(op, "strides", 1, stride) || !planar(op, "dilations", 1, dilation))
        return wrong(op, "strides and dilations have 4 values");
    if ((ints = weir_cann_attr_ints(op->attr, "pads", &n))) {
        if (n != 4 || ints[0] != ints[1] || ints[2] != ints[3])
            return wrong(op, "padding that differs from side to side is not supported");
        padding[0] = ints[0];
        padding[1] = ints[2];
    }
    ints = weir_cann_attr_ints(op->attr, "groups", &n);
    strides = aclCreateIntArray(stride, 2);
    dilations = aclCreateIntArray(dilation, 2);
    paddings = aclCreateIntArray(padding, 2);
    err = aclnnConvolutionGetWorkspaceSize(x, w, bias, strides, paddings, dilations, false, NULL,
                                           ints ? ints[0] : 1, y, 0, &bytes, &executor);
    if (!err)
        err = aclnnConvolution(NULL, 0, executor, op->stream);
    aclDestroyIntArray(strides);
    aclDestroyIntArray(dilations);
    aclDestroyIntArray(paddings);
    return err;
}

/* x, bias -> y: adds the bias along the channels, dim 1 */
static aclError bias_add(struct operands *o)
{
    const struct weir_cann_named *op = o->op;
    const char *format = weir_cann_attr_text(op->attr, "data_format");
    int64_t dims[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
    aclTensor *x = input(o, 0), *y = output(o, 0), *bias;
    aclOpExecutor *executor;
    size_t ndims = aclGetTensorDescNumDims(op->from[0]);
    float unit = 1;
    aclScalar *one;
    uint64_t bytes;
    aclError err;

    if (op->inputs != 2)
        return wrong(op, "it takes a tensor and a bias");
    if (!x || !y)
        return ACL_ERROR_INVALID_PARAM;
    if (aclGetTensorDescNumDims(op->from[1]) != 1 || ndims < 2)
        return wrong(op, "the bias has one dim and the tensor two or more");
    if (format && !strcmp(format, "NHWC"))
        dims[ndims - 1] = aclGetTensorDescDim(op->from[1], 0);
    else
        dims[1] = aclGetTensorDescDim(op->from[1], 0);
    if (!(bias = tensor(o, op->from[1], op->sources[1], dims, (int)ndims)))
        return ACL_ERROR_INVALID_PARAM;
    if (!(one = aclCreateScalar(&unit, ACL_FLOAT)))
        return ACL_ERROR_BAD_ALLOC;
    err = aclnnAddGetWorkspaceSize(x, bias, one, y, &bytes, &executor);
    if (!err)
        err = aclnnAdd(NULL, 0, executor, op->stream);
    aclDestroyScalar(one);
    return err;
}

/* x -> the sum over all dims but the channels */
static aclError bias_add_grad(struct operands *o)
{
    const struct weir_cann_named *op = o->op;
    int64_t dims[MOST], n = 0, channels;
    size_t ndims = aclGetTensorDescNumDims(op->from[0]);
    const char *format = weir_cann_attr_text(op->attr, "data_format");
    aclTensor *x = input(o, 0), *y = output(o, 0);
    aclOpExecutor *executor;
    aclIntArray *over;
    uint64_t bytes;
    aclError err;

    if (!x || !y)
        return ACL_ERROR_INVALID_PARAM;
    if (ndims < 2)
        return wrong(op, "the tensor has two dims or more");
    channels = format && !strcmp(format, "NHWC") ? (int64_t)ndims - 1 : 1;
    for (int64_t i = 0; i < (int64_t)ndims; i++)
        if (i != channels)
            dims[n++] = i;
    if (!(over = aclCreateIntArray(dims, (uint64_t)n))) /* NULL would mean all dims */
        return ACL_ERROR_BAD_ALLOC;
    err = aclnnReduceSumGetWorkspaceSize(x, over, false, aclGetTensorDescType(op->to[0]), y, &bytes,
                                         &executor);
    if (!err)
        err = aclnnReduceSum(NULL, 0, executor, op->stream);
    aclDestroyIntArray(over);
    return err;
}

static const struct {
    const char *name;
    aclError (*run)(struct operands *o);
} table[] = {
    {"BiasAdd", bias_add},
    {"BiasAddGrad", bias_add_grad},
    {"Conv2D", conv2d},
};

bool weir_cann_serves_named(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return true;
    return false;
}

aclError weir_cann_serve_named(const struct weir_cann_named *op)
{
    struct operands o = {.op = op};
    aclError err = ACL_ERROR_OP_NOT_FOUND;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, op->name))
            err = table[i].run(&o);
    while (o.n)
        aclDestroyTensor(o.all[--o.n]);
    return err;
}
