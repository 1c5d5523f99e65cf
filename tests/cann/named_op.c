/* Operators by name, of before aclnn: what torch_npu and MindSpore ask for where they have no aclnn
 * call. */
#include "acl/acl_op.h"
#include "helpers.h"

static aclError identity(aclFormat from, aclFormat to, int64_t out, void *source, void *target,
                         aclrtStream s)
{
    int64_t n = 4;
    const aclTensorDesc *in_desc[] = {aclCreateTensorDesc(ACL_FLOAT, 1, &n, from)};
    const aclTensorDesc *out_desc[] = {aclCreateTensorDesc(ACL_FLOAT, 1, &out, to)};
    const aclDataBuffer *in[] = {aclCreateDataBuffer(source, 16)};
    aclDataBuffer *result[] = {aclCreateDataBuffer(target, 16)};
    aclError err = aclopCompileAndExecute("Identity", 1, in_desc, in, 1, out_desc, result, NULL,
                                          ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, s);

    aclDestroyTensorDesc(in_desc[0]);
    aclDestroyTensorDesc(out_desc[0]);
    aclDestroyDataBuffer(in[0]);
    aclDestroyDataBuffer(result[0]);
    return err;
}

TEST(named_op, identity_copies_between_formats_of_equal_layout)
{
    void *from, *to;
    aclrtStream s;

    t_begin();
    s = t_stream();
    from = t_device(16);
    to = t_device(16);
    CHECK_ACL(aclrtMemset(from, 16, 5, 16));
    CHECK_ACL(aclrtMemset(to, 16, 0, 16));
    CHECK_ACL(identity(ACL_FORMAT_NCHW, ACL_FORMAT_ND, 4, from, to, s));
    CHECK_ACL(aclrtSynchronizeStream(s));
    CHECK_EQ(t_byte((char *)to + 15), 5);
    CHECK_EQ(identity(ACL_FORMAT_NCHW, ACL_FORMAT_FRACTAL_NZ, 4, from, to, s),
             ACL_ERROR_FORMAT_NOT_MATCH);
    CHECK_EQ(identity(ACL_FORMAT_ND, ACL_FORMAT_ND, 3, from, to, s), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclopCompileAndExecute("Identity", 0, NULL, NULL, 0, NULL, NULL, NULL, ACL_ENGINE_SYS,
                                    ACL_COMPILE_SYS, NULL, s),
             ACL_ERROR_INVALID_PARAM);
    t_end();
}

/* A tensor of floats in device memory, described. */
struct operand {
    aclTensorDesc *desc;
    aclDataBuffer *buffer;
    float *memory;
    size_t bytes;
};

static struct operand operand(int ndims, const int64_t *dims, const float *values)
{
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, ndims, dims, ACL_FORMAT_NCHW);
    size_t bytes = aclGetTensorDescSize(desc);
    struct operand o = {desc, NULL, t_device(bytes), bytes};

    o.buffer = aclCreateDataBuffer(o.memory, bytes);
    if (values)
        CHECK_ACL(aclrtMemcpy(o.memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    return o;
}

static void drop(struct operand *o)
{
    aclDestroyTensorDesc(o->desc);
    CHECK_ACL(aclDestroyDataBuffer(o->buffer));
    CHECK_ACL(aclrtFree(o->memory));
}

static aclError run(const char *name, int n, const struct operand *in, const struct operand *out,
                    aclopAttr *attr)
{
    aclTensorDesc *from[4], *to[] = {out->desc};
    aclDataBuffer *sources[4], *targets[] = {out->buffer};

    for (int i = 0; i < n; i++) {
        from[i] = in[i].desc;
        sources[i] = in[i].buffer;
    }
    return aclopCompileAndExecuteV2(name, n, from, sources, 1, to, targets, attr, ACL_ENGINE_SYS,
                                    ACL_COMPILE_SYS, NULL, NULL);
}

static void read(const struct operand *o, float *values)
{
    CHECK_ACL(aclrtSynchronizeStream(NULL));
    CHECK_ACL(aclrtMemcpy(values, o->bytes, o->memory, o->bytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

static aclopAttr *convolution(const int64_t *strides, const int64_t *pads, const char *format)
{
    aclopAttr *attr = aclopCreateAttr();

    CHECK(attr != NULL);
    CHECK_ACL(aclopSetAttrListInt(attr, "strides", 4, strides));
    CHECK_ACL(aclopSetAttrListInt(attr, "pads", 4, pads));
    CHECK_ACL(aclopSetAttrListInt(attr, "dilations", 4, (int64_t[]){1, 1, 1, 1}));
    CHECK_ACL(aclopSetAttrInt(attr, "groups", 1));
    CHECK_ACL(aclopSetAttrString(attr, "data_format", format));
    return attr;
}

/* 3 x 3 numbers 0..8 and a 2 x 2 filter of ones, with a bias of 100 */
TEST(named_op, conv2d_follows_its_attributes)
{
    static const float numbers[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, ones[4] = {1, 1, 1, 1}, more = 100;
    const int64_t x[] = {1, 1, 3, 3}, w[] = {1, 1, 2, 2}, b[] = {1}, y[] = {1, 1, 2, 2};
    const int64_t step[] = {1, 1, 1, 1}, two[] = {1, 1, 2, 2}, none[4] = {0}, all[] = {1, 1, 1, 1},
                  uneven[] = {0, 1, 0, 1};
    struct operand in[3], out;
    aclopAttr *attr;
    float got[4];

    t_begin();
    in[0] = operand(4, x, numbers);
    in[1] = operand(4, w, ones);
    in[2] = operand(1, b, &more);
    out = operand(4, y, NULL);
    attr = convolution(step, none, "NCHW");
    CHECK_ACL(run("Conv2D", 2, in, &out, attr));
    read(&out, got);
    CHECK_NEAR(got[0], 0 + 1 + 3 + 4, 0);
    CHECK_NEAR(got[3], 4 + 5 + 7 + 8, 0);
    CHECK_ACL(aclopSetAttrListInt(attr, "strides", 4, two)); /* the latest counts */
    CHECK_ACL(aclopSetAttrListInt(attr, "pads", 4, all));
    CHECK_ACL(run("Conv2D", 3, in, &out, attr));
    read(&out, got);
    CHECK_NEAR(got[0], 100 + 0, 0);
    CHECK_NEAR(got[3], 100 + 4 + 5 + 7 + 8, 0);
    aclopDestroyAttr(attr);
    attr = convolution(two, uneven, "NCHW");
    CHECK_EQ(run("Conv2D", 2, in, &out, attr), ACL_ERROR_INVALID_PARAM);
    CHECK_STR(aclGetRecentErrMsg(), "differs from side to side");
    aclopDestroyAttr(attr);
    attr = convolution(step, none, "NHWC");
    CHECK_EQ(run("Conv2D", 2, in, &out, attr), ACL_ERROR_FORMAT_NOT_MATCH);
    aclopDestroyAttr(attr);
    CHECK_EQ(run("Conv2D", 1, in, &out, NULL), ACL_ERROR_INVALID_PARAM);
    for (int i = 0; i < 3; i++)
        drop(&in[i]);
    drop(&out);
    t_end();
}

TEST(named_op, a_bias_is_added_per_channel_and_its_gradient_is_a_sum_per_channel)
{
    static const float numbers[6] = {0, 1, 2, 3, 4, 5}, bias[3] = {10, 20, 30};
    const int64_t x[] = {2, 3}, b[] = {3};
    struct operand in[2], out, sum;
    float got[6];

    t_begin();
    in[0] = operand(2, x, numbers);
    in[1] = operand(1, b, bias);
    out = operand(2, x, NULL);
    sum = operand(1, b, NULL);
    CHECK_ACL(run("BiasAdd", 2, in, &out, NULL));
    read(&out, got);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(got[i], i + bias[i % 3], 0);
    CHECK_ACL(run("BiasAddGrad", 1, in, &sum, NULL));
    read(&sum, got);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(got[i], 2 * i + 3, 0);
    CHECK_EQ(run("BiasAdd", 1, in, &out, NULL), ACL_ERROR_INVALID_PARAM);
    drop(&in[0]);
    drop(&in[1]);
    drop(&out);
    drop(&sum);
    t_end();
}

TEST(named_op, allocators_for_workspaces_are_accepted_and_never_called)
{
    aclrtAllocatorDesc desc;
    aclrtStream s;

    t_begin();
    s = t_stream();
    CHECK((desc = aclrtAllocatorCreateDesc()) != NULL);
    CHECK_ACL(aclrtAllocatorSetObjToDesc(desc, s));
    CHECK_ACL(aclrtAllocatorRegister(s, desc));
    CHECK_ACL(aclrtAllocatorUnregister(s));
    CHECK_ACL(aclrtAllocatorDestroyDesc(desc));
    CHECK_EQ(aclrtAllocatorDestroyDesc(desc), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtAllocatorRegister(s, desc), ACL_ERROR_INVALID_PARAM);
    t_end();
}
