/* Wrong shapes, types and devices: the documented code, both sides in the message,
 * no output and nothing queued. */
#include "conformance/conformance.h"

#include <stdlib.h>

/* Operands of many kinds; what is wrong about them is the cases' business. */
struct operands {
    weir_device *dev, *second;
    weir_tensor *f23, *f34, *f43, *f3, *f0, *f4d, *w4d;
    weir_tensor *h23, *i23, *b23, *index, *empty;
    weir_tensor *foreign;
};

static weir_tensor *zeros(weir_device *dev, weir_dtype dtype, int ndim, const int64_t *shape)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    CHECK_OK(weir_fill(t, 0));
    return t;
}

#define DIMS(...)                                         \
    (int)countof(((int64_t[]){__VA_ARGS__})), (int64_t[]) \
    {                                                     \
        __VA_ARGS__                                       \
    }

static void operands_init(struct operands *o, weir_device *dev)
{
    o->dev = dev;
    o->second = open_another();
    o->f23 = zeros(dev, WEIR_F32, DIMS(2, 3));
    o->f34 = zeros(dev, WEIR_F32, DIMS(3, 4));
    o->f43 = zeros(dev, WEIR_F32, DIMS(4, 3));
    o->f3 = zeros(dev, WEIR_F32, DIMS(3));
    o->f0 = zeros(dev, WEIR_F32, 0, NULL);
    o->f4d = zeros(dev, WEIR_F32, DIMS(1, 4, 5, 6));
    o->w4d = zeros(dev, WEIR_F32, DIMS(2, 3, 2, 2));
    o->h23 = zeros(dev, WEIR_F16, DIMS(2, 3));
    o->i23 = zeros(dev, WEIR_I32, DIMS(2, 3));
    o->b23 = zeros(dev, WEIR_BOOL, DIMS(2, 3));
    o->index = zeros(dev, WEIR_I64, DIMS(2));
    o->empty = zeros(dev, WEIR_F32, DIMS(2, 0));
    o->foreign = zeros(o->second, WEIR_F32, DIMS(2, 3));
    CHECK_OK(weir_device_sync(dev));
}

static void operands_free(struct operands *o)
{
    weir_tensor *all[] = {o->f23, o->f34, o->f43, o->f3,    o->f0,    o->f4d,    o->w4d,
                          o->h23, o->i23, o->b23, o->index, o->empty, o->foreign};

    for (size_t i = 0; i < countof(all); i++)
        weir_tensor_release(all[i]);
    CHECK_OK(weir_device_close(o->second));
}

/* Nothing is held or queued that was not before, and the stream still works. */
static void check_untouched(const struct operands *o, size_t allocated)
{
    weir_memory_stats stats;
    weir_tensor *sum;
    bool done;

    CHECK_OK(weir_stream_query(weir_stream_default(o->dev), &done));
    CHECK(done);
    weir_memory_get_stats(o->dev, &stats, sizeof stats);
    CHECK_EQ(stats.allocated, allocated);
    CHECK_OK(weir_add(o->f23, o->f3, &sum));
    weir_tensor_release(sum);
    CHECK_OK(weir_stream_sync(weir_stream_default(o->dev)));
}

/* The call must give `code` with every `part` in its message and NULL in `out`. */
#define REFUSED(call, code, a, b)                               \
    do {                                                        \
        weir_memory_stats stats_;                               \
        weir_memory_get_stats(o->dev, &stats_, sizeof stats_);  \
        out = out2 = o->f23;                                    \
        test_note("%s", #call);                                 \
        CHECK_STATUS(call, code);                               \
        CHECK(strstr(#call, "&out") ? !out : out == o->f23);    \
        CHECK(strstr(#call, "&out2") ? !out2 : out2 == o->f23); \
        CHECK_STR(weir_last_error(), a);                        \
        CHECK_STR(weir_last_error(), b);                        \
        check_untouched(o, stats_.allocated);                   \
    } while (0)

#define REFUSALS(name)                               \
    static void name##_refusals(struct operands *o); \
    CONFORMANCE(refusals, name)                      \
    {                                                \
        struct operands o;                           \
        operands_init(&o, dev);                      \
        name##_refusals(&o);                         \
        operands_free(&o);                           \
    }                                                \
    static void name##_refusals(struct operands *o)

REFUSALS(bitwise)
{
    weir_tensor *out, *out2;

#define EACH(fn)                                                               \
    REFUSED(weir_##fn(o->f23, o->f23, &out), WEIR_EDTYPE, "i64", "f32");       \
    REFUSED(weir_##fn(o->i23, o->f23, &out), WEIR_EDTYPE, "i32", "f32");       \
    REFUSED(weir_##fn(o->i23, NULL, &out), WEIR_EINVAL, "input 1", "NULL");    \
    REFUSED(weir_##fn##_scalar(o->f23, 1, &out), WEIR_EDTYPE, "i64", "f32");   \
    REFUSED(weir_##fn##_scalar(o->i23, 0.5, &out), WEIR_ERANGE, "0.5", "i32"); \
    REFUSED(weir_##fn##_scalar_into(o->i23, 1, o->f23), WEIR_EDTYPE, "i32", "f32");
    EACH(bitwise_left_shift)
    EACH(bitwise_right_shift)
#undef EACH
    REFUSED(weir_bitwise_and(o->f23, o->f23, &out), WEIR_EDTYPE, "integers and bool", "f32");
    REFUSED(weir_bitwise_or_scalar(o->f23, 1, &out), WEIR_EDTYPE, "integers and bool", "f32");
    REFUSED(weir_bitwise_xor_scalar(o->b23, 2, &out), WEIR_ERANGE, "2", "bool");
    REFUSED(weir_bitwise_not(o->f23, &out), WEIR_EDTYPE, "integers and bool", "f32");
    REFUSED(weir_bitwise_left_shift(o->b23, o->b23, &out), WEIR_EDTYPE, "i64", "bool");
}

REFUSALS(binary)
{
    weir_tensor *out, *out2;

#define EACH(fn)                                                                      \
    REFUSED(weir_##fn(o->f23, o->f34, &out), WEIR_ESHAPE, "[2, 3]", "[3, 4]");        \
    REFUSED(weir_##fn(o->f23, o->h23, &out), WEIR_EDTYPE, "f32", "f16");              \
    REFUSED(weir_##fn(o->f23, o->foreign, &out), WEIR_EDEVICE, "input 0", "input 1"); \
    REFUSED(weir_##fn(o->f23, NULL, &out), WEIR_EINVAL, "input 1", "NULL");           \
    REFUSED(weir_##fn##_scalar(o->i23, 0.5, &out), WEIR_ERANGE, "0.5", "i32");
    WEIR_BINARY_LIST(EACH)
    WEIR_COMPARE_LIST(EACH)
#undef EACH
#define EACH(fn)                                                                        \
    REFUSED(weir_##fn##_into(o->f23, o->f23, o->f34), WEIR_ESHAPE, "[2, 3]", "[3, 4]"); \
    REFUSED(weir_##fn##_into(o->f3, o->f3, o->f23), WEIR_ESHAPE, "[3]", "[2, 3]");      \
    REFUSED(weir_##fn##_scalar_into(o->f23, 1, o->f3), WEIR_ESHAPE, "[2, 3]", "[3]");
    WEIR_BINARY_LIST(EACH)
#undef EACH
#define EACH(fn)                                                                        \
    REFUSED(weir_##fn##_into(o->f34, o->f34, o->b23), WEIR_ESHAPE, "[3, 4]", "[2, 3]"); \
    REFUSED(weir_##fn##_into(o->f23, o->f23, o->f43), WEIR_EDTYPE, "bool", "f32");      \
    REFUSED(weir_##fn##_scalar_into(o->f34, 1, o->b23), WEIR_ESHAPE, "[3, 4]", "[2, 3]");
    WEIR_COMPARE_LIST(EACH)
#undef EACH
    REFUSED(weir_add(o->b23, o->b23, &out), WEIR_EDTYPE, "Add", "bool");
    REFUSED(weir_add_into(o->f23, o->f23, o->h23), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_add_into(o->f23, o->f23, o->foreign), WEIR_EDEVICE, "input", "output");
}

REFUSALS(unary)
{
    weir_tensor *out, *out2;

#define EACH(fn)                                                                    \
    REFUSED(weir_##fn(o->b23, &out), WEIR_EDTYPE, "bool", "f");                     \
    REFUSED(weir_##fn##_into(o->f23, o->f34), WEIR_ESHAPE, "[2, 3]", "[3, 4]");     \
    REFUSED(weir_##fn##_into(o->f23, o->h23), WEIR_EDTYPE, "f32", "f16");           \
    REFUSED(weir_##fn##_into(o->f23, o->foreign), WEIR_EDEVICE, "input", "output"); \
    REFUSED(weir_##fn(NULL, &out), WEIR_EINVAL, "NULL", "");
    WEIR_UNARY_LIST(EACH)
#undef EACH
    REFUSED(weir_exp(o->i23, &out), WEIR_EDTYPE, "Exp", "i32");
    REFUSED(weir_clamp(o->b23, 0, 1, &out), WEIR_EDTYPE, "Clamp", "bool");
    REFUSED(weir_swiglu(o->f23, 1, &out), WEIR_ESHAPE, "[2, 3]", "even");
    REFUSED(weir_swiglu(o->i23, 0, &out), WEIR_EDTYPE, "Swiglu", "i32");
    REFUSED(weir_swiglu(o->f23, 2, &out), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_where(o->f23, o->f23, o->f23, &out), WEIR_EDTYPE, "bool", "f32");
    REFUSED(weir_where(o->b23, o->f23, o->h23, &out), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_where(o->b23, o->f23, o->f34, &out), WEIR_ESHAPE, "[2, 3]", "[3, 4]");
    REFUSED(weir_where(o->b23, o->f34, o->f34, &out), WEIR_ESHAPE, "[2, 3]", "[3, 4]");
    REFUSED(weir_where(o->b23, o->f23, o->foreign, &out), WEIR_EDEVICE, "input 0", "input 2");
}

REFUSALS(moving)
{
    weir_tensor *out, *out2, *mixed[] = {o->f23, o->h23}, *apart[] = {o->f23, o->f34},
                             *two[] = {o->f23, o->foreign}, *hole[] = {o->f23, NULL};

    REFUSED(weir_cast(o->f23, WEIR_DTYPE_COUNT, &out), WEIR_EDTYPE, "Cast", "9");
    REFUSED(weir_fill(o->i23, 0.5), WEIR_ERANGE, "0.5", "i32");
    REFUSED(weir_arange(weir_stream_default(o->dev), WEIR_I32, -1, 0, 1, &out), WEIR_ESHAPE, "-1",
            "");
    REFUSED(weir_arange(weir_stream_default(o->dev), WEIR_I32, 4, 0.5, 1, &out), WEIR_ERANGE, "0.5",
            "");
    REFUSED(weir_copy_into(o->f34, o->f23), WEIR_ESHAPE, "[3, 4]", "[2, 3]");
    REFUSED(weir_copy_into(o->f23, o->f3), WEIR_ESHAPE, "[2, 3]", "[3]");
    REFUSED(weir_copy_into(o->f23, o->h23), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_copy_into(o->f23, o->foreign), WEIR_EDEVICE, "input 0", "input 1");
    REFUSED(weir_concat(mixed, 2, 0, &out), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_concat(apart, 2, 0, &out), WEIR_ESHAPE, "[2, 3]", "[3, 4]");
    REFUSED(weir_concat(two, 2, 0, &out), WEIR_EDEVICE, "input 0", "input 1");
    REFUSED(weir_concat(apart, 1, 2, &out), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_concat(apart, 0, 0, &out), WEIR_ERANGE, "Concat", "0");
    REFUSED(weir_concat(hole, 2, 0, &out), WEIR_EINVAL, "input 1", "NULL");
    REFUSED(weir_random_uniform(o->f23, 1, 3, 2), WEIR_ERANGE, "3", "2");
    REFUSED(weir_random_uniform(o->b23, 1, 0, 1), WEIR_EDTYPE, "RandomUniform", "bool");
    REFUSED(weir_random_normal(o->i23, 1, 0, 1), WEIR_EDTYPE, "RandomNormal", "i32");
    REFUSED(weir_random_normal(o->f23, 1, 0, -1), WEIR_ERANGE, "-1", "");
}

REFUSALS(matrix)
{
    weir_tensor *out, *out2;
    weir_conv2d_options odd = {.groups = 3}, negative = {.padding = {-1, 0}},
                        far = {.dilation = {9, 1}, .groups = 0};
    weir_attention_options plain = {.scale = 0};

    REFUSED(weir_matmul(o->f23, o->f23, &out), WEIR_ESHAPE, "[2, 3]", "3 against 2");
    REFUSED(weir_matmul(o->f23, o->f0, &out), WEIR_ESHAPE, "[2, 3]", "[]");
    REFUSED(weir_matmul(o->h23, o->f34, &out), WEIR_EDTYPE, "f16", "f32");
    REFUSED(weir_matmul(o->b23, o->b23, &out), WEIR_EDTYPE, "MatMul", "bool");
    REFUSED(weir_matmul(o->foreign, o->f34, &out), WEIR_EDEVICE, "input 0", "input 1");
    REFUSED(weir_matmul_into(o->f23, o->f34, o->f43), WEIR_ESHAPE, "[2, 4]", "[4, 3]");
    REFUSED(weir_matmul_bias(o->f23, o->f34, o->f3, &out), WEIR_ESHAPE, "[4]", "[3]");
    REFUSED(weir_grouped_matmul(o->f23, o->f23, o->index, NULL, &out), WEIR_ESHAPE, "[2, 3]",
            "3 against 2");
    REFUSED(weir_grouped_matmul(o->f23, o->f34, o->i23, NULL, &out), WEIR_ESHAPE, "[3, 4]",
            "i32[2, 3]");
    REFUSED(weir_grouped_matmul(o->f23, o->f34, o->f3, NULL, &out), WEIR_EDTYPE, "f32[3]", "i64");
    REFUSED(weir_grouped_matmul(o->h23, o->f34, o->index, NULL, &out), WEIR_EDTYPE, "f16", "f32");
    REFUSED(weir_grouped_matmul(o->i23, o->i23, o->index, NULL, &out), WEIR_EDTYPE, "i32", "float");
    REFUSED(weir_grouped_matmul(o->f23, o->f34, o->index, o->f23, &out), WEIR_ESHAPE, "[3, 4]",
            "[2, 3]");
    REFUSED(weir_linear(o->f23, o->f34, NULL, &out), WEIR_ESHAPE, "[2, 3]", "[3, 4]");
    REFUSED(weir_linear(o->f23, o->f3, NULL, &out), WEIR_ESHAPE, "[2, 3]", "[3]");
    REFUSED(weir_linear(o->h23, o->f43, NULL, &out), WEIR_EDTYPE, "f16", "f32");
    REFUSED(weir_linear(o->f23, o->f43, o->f3, &out), WEIR_ESHAPE, "[4]", "[3]");
    REFUSED(weir_conv2d(o->f23, o->w4d, NULL, NULL, &out), WEIR_ESHAPE, "[2, 3]", "[2, 3, 2, 2]");
    REFUSED(weir_conv2d(o->f4d, o->w4d, NULL, NULL, &out), WEIR_ESHAPE, "[1, 4, 5, 6]",
            "[2, 3, 2, 2]");
    REFUSED(weir_conv2d(o->f4d, o->w4d, NULL, &odd, &out), WEIR_ESHAPE, "[1, 4, 5, 6]", "3 groups");
    REFUSED(weir_conv2d(o->w4d, o->w4d, NULL, &negative, &out), WEIR_EINVAL, "-1", "padding");
    REFUSED(weir_conv2d(o->w4d, o->w4d, NULL, &far, &out), WEIR_ESHAPE, "10", "2");
    REFUSED(weir_conv2d(o->w4d, o->w4d, o->f3, NULL, &out), WEIR_ESHAPE, "[2]", "[3]");
    REFUSED(weir_attention(o->f23, o->f34, o->f34, NULL, &plain, &out), WEIR_ESHAPE, "[2, 3]",
            "[3, 4]");
    REFUSED(weir_attention(o->f23, o->f43, o->f34, NULL, NULL, &out), WEIR_ESHAPE, "[4, 3]",
            "[3, 4]");
    REFUSED(weir_attention(o->h23, o->f23, o->f23, NULL, NULL, &out), WEIR_EDTYPE, "f16", "f32");
    REFUSED(weir_attention(o->i23, o->i23, o->i23, NULL, NULL, &out), WEIR_EDTYPE, "Attention",
            "i32");
    REFUSED(weir_attention(o->f23, o->f23, o->f23, o->f34, NULL, &out), WEIR_ESHAPE, "[3, 4]",
            "[2, 2]");
    REFUSED(weir_attention(o->f23, o->f23, o->f23, o->i23, NULL, &out), WEIR_EDTYPE, "i32", "f32");
    REFUSED(weir_attention(o->f23, o->f23, o->f23, NULL,
                           &(weir_attention_options){.rows_first = true}, &out),
            WEIR_ESHAPE, "rows_first", "[2, 3]");
}

REFUSALS(reductions)
{
    weir_tensor *out, *out2;
    int far = 2, twice[] = {0, -2}, last = 1;

#define EACH(fn)                                                                  \
    REFUSED(weir_##fn(o->f23, &far, 1, false, &out), WEIR_ERANGE, "2", "[2, 3]"); \
    REFUSED(weir_##fn(o->f23, twice, 2, false, &out), WEIR_EINVAL, "0", "twice"); \
    REFUSED(weir_##fn(NULL, &far, 1, false, &out), WEIR_EINVAL, "NULL", "");
    WEIR_REDUCE_LIST(EACH)
#undef EACH
    REFUSED(weir_mean(o->i23, NULL, 0, false, &out), WEIR_EDTYPE, "Mean", "i32");
    REFUSED(weir_max(o->empty, &last, 1, false, &out), WEIR_ESHAPE, "[2, 0]", "1");
    REFUSED(weir_min(o->empty, NULL, 0, false, &out), WEIR_ESHAPE, "[2, 0]", "");
    REFUSED(weir_argmax(o->f23, -3, false, &out), WEIR_ERANGE, "-3", "[2, 3]");
    REFUSED(weir_argmax(o->empty, 1, false, &out), WEIR_ESHAPE, "[2, 0]", "1");
    REFUSED(weir_cumsum(o->f23, 2, &out), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_cumprod(o->f0, 0, &out), WEIR_ERANGE, "CumProd", "[]");
    REFUSED(weir_cummax(o->f23, -3, &out, NULL), WEIR_ERANGE, "-3", "[2, 3]");
    REFUSED(weir_cummin(NULL, 0, NULL, &out), WEIR_EINVAL, "NULL", "");
    REFUSED(weir_softmax(o->f23, 2, &out), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_softmax(o->i23, 0, &out), WEIR_EDTYPE, "Softmax", "i32");
    REFUSED(weir_layer_norm(o->f34, o->f3, NULL, 0, &out), WEIR_ESHAPE, "[3]", "[3, 4]");
    REFUSED(weir_layer_norm(o->h23, o->f3, NULL, 0, &out), WEIR_EDTYPE, "f16", "f32");
    REFUSED(weir_layer_norm(o->f0, NULL, NULL, 0, &out), WEIR_ESHAPE, "LayerNorm", "[]");
    REFUSED(weir_rms_norm(o->f34, o->f3, 0, &out), WEIR_ESHAPE, "[3]", "[3, 4]");
    REFUSED(weir_rms_norm(o->i23, NULL, 0, &out), WEIR_EDTYPE, "RmsNorm", "i32");
}

REFUSALS(indices)
{
    weir_tensor *out, *out2, *out3;

    REFUSED(weir_embedding(o->f23, o->f3, &out), WEIR_EDTYPE, "f32", "i64");
    REFUSED(weir_embedding(o->f0, o->index, &out), WEIR_ESHAPE, "[]", "");
    REFUSED(weir_embedding(o->foreign, o->index, &out), WEIR_EDEVICE, "input 0", "input 1");
    REFUSED(weir_gather(o->f23, 2, o->i23, &out), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_gather(o->f23, 0, o->index, &out), WEIR_ESHAPE, "[2]", "[2, 3]");
    REFUSED(weir_gather(o->f34, 1, o->f23, &out), WEIR_EDTYPE, "f32", "i64");
    REFUSED(weir_index_select(o->f23, 0, o->i23, &out), WEIR_ESHAPE, "[2, 3]", "one dim");
    REFUSED(weir_index_select(o->f23, 5, o->index, &out), WEIR_ERANGE, "5", "[2, 3]");
    REFUSED(weir_scatter_add(o->f23, 0, o->i23, o->h23), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_scatter_add(o->f23, 0, o->i23, o->f34), WEIR_ESHAPE, "[2, 3]", "[3, 4]");
    REFUSED(weir_scatter_add(o->b23, 0, o->i23, o->b23), WEIR_EDTYPE, "ScatterAdd", "bool");
    REFUSED(weir_scatter_add(o->f23, 0, o->i23, o->foreign), WEIR_EDEVICE, "input 0", "input 2");
    REFUSED(weir_topk(o->f23, 4, 1, true, &out, &out2), WEIR_ERANGE, "4", "[2, 3]");
    REFUSED(weir_topk(o->f23, 1, 2, true, &out, &out2), WEIR_ERANGE, "2", "[2, 3]");
    REFUSED(weir_sort(o->f0, 0, true, &out, &out2), WEIR_ERANGE, "0", "[]");
    REFUSED(weir_argsort(o->f23, 3, true, &out), WEIR_ERANGE, "3", "[2, 3]");
    REFUSED(weir_nonzero(NULL, &out), WEIR_EINVAL, "NULL", "");
    REFUSED(weir_moe_gating(o->f3, 1, true, &out, &out2), WEIR_ESHAPE, "[3]", "experts");
    REFUSED(weir_moe_gating(o->f23, 4, true, &out, &out2), WEIR_ERANGE, "4", "3");
    REFUSED(weir_moe_gating(o->i23, 1, true, &out, &out2), WEIR_EDTYPE, "MoeGating", "i32");
    REFUSED(weir_expert_choice(o->f3, NULL, &(weir_expert_choice_options){.k = 1}, &out, &out2),
            WEIR_ESHAPE, "[3]", "experts");
    REFUSED(weir_expert_choice(o->f23, NULL, &(weir_expert_choice_options){.k = 4}, &out, &out2),
            WEIR_ERANGE, "4", "3");
    REFUSED(weir_expert_choice(o->f23, NULL, &(weir_expert_choice_options){.k = 1, .groups = 2},
                               &out, &out2),
            WEIR_ERANGE, "3 experts", "2 groups");
    REFUSED(weir_expert_choice(o->f34, NULL,
                               &(weir_expert_choice_options){.k = 1, .groups = 2, .group_k = 3},
                               &out, &out2),
            WEIR_ERANGE, "3 groups", "1..2");
    REFUSED(weir_expert_choice(
                o->f34, NULL,
                &(weir_expert_choice_options){.k = 1, .groups = 4, .group_k = 1, .best_two = true},
                &out, &out2),
            WEIR_ERANGE, "4 groups", "two");
    REFUSED(weir_expert_choice(o->f34, o->f3, &(weir_expert_choice_options){.k = 1}, &out, &out2),
            WEIR_ESHAPE, "[3]", "[4]");
    REFUSED(weir_expert_order(o->f3, 2, 1, &out, &out2, &out3), WEIR_EDTYPE, "f32", "i64");
    REFUSED(weir_expert_order(o->i23, 2, 1, &out, &out2, &out3), WEIR_ESHAPE, "[2, 3]", "one dim");
    REFUSED(weir_expert_order(o->index, 0, 1, &out, &out2, &out3), WEIR_ERANGE, "0", "1..");
    REFUSED(weir_expert_order(o->index, 2, 0, &out, &out2, &out3), WEIR_ERANGE, "k 0", "1..");
    REFUSED(weir_expert_sum(o->i23, o->i23, NULL, &out), WEIR_EDTYPE, "ExpertSum", "i32");
    REFUSED(weir_expert_sum(o->f3, o->i23, NULL, &out), WEIR_ESHAPE, "[3]", "width");
    REFUSED(weir_expert_sum(o->f23, o->index, NULL, &out), WEIR_ESHAPE, "[2]", "tokens");
    REFUSED(weir_expert_sum(o->f23, o->f23, NULL, &out), WEIR_EDTYPE, "f32", "i64");
    REFUSED(weir_expert_sum(o->f23, o->i23, o->f34, &out), WEIR_ESHAPE, "[3, 4]", "[2, 3]");
    REFUSED(weir_expert_sum(o->f23, o->i23, o->h23, &out), WEIR_EDTYPE, "f32", "f16");
    REFUSED(weir_rotary(o->f23, o->f23, o->f23, true, &out), WEIR_ESHAPE, "[2, 3]", "heads");
    REFUSED(weir_rotary(o->f4d, o->f43, o->f3, true, &out), WEIR_ESHAPE, "[1, 4, 5, 6]", "[3]");
    REFUSED(weir_rotary(o->f4d, o->f43, o->h23, true, &out), WEIR_EDTYPE, "f32", "f16");
}

/* Outputs that alias an input otherwise than by being it, or themselves. */
REFUSALS(overlaps)
{
    weir_tensor *out, *out2, *line = zeros(o->dev, WEIR_F32, DIMS(10)), *head, *tail, *wide;
    weir_tensor *square = zeros(o->dev, WEIR_F32, DIMS(3, 3)), *truths;
    weir_tensor *index = zeros(o->dev, WEIR_I64, DIMS(3, 3));
    weir_tensor *other = zeros(o->dev, WEIR_F32, DIMS(3, 3));

    CHECK_OK(weir_tensor_slice(line, 0, 0, 8, 1, &head));
    CHECK_OK(weir_tensor_slice(line, 0, 2, 10, 1, &tail));
    CHECK_OK(weir_tensor_expand(o->f3, DIMS(2, 3), &wide));
    CHECK_OK(weir_tensor_view(line, 0, WEIR_BOOL, DIMS(10), NULL, &truths));
    CHECK_OK(weir_device_sync(o->dev));
    REFUSED(weir_neg_into(head, tail), WEIR_EINVAL, "[8]", "overlap");
    REFUSED(weir_add_into(head, head, tail), WEIR_EINVAL, "[8]", "overlap");
    REFUSED(weir_neg_into(o->f23, wide), WEIR_EINVAL, "[2, 3]", "expanded");
    REFUSED(weir_copy_into(head, tail), WEIR_EINVAL, "[8]", "overlap");
    REFUSED(weir_copy_into(o->f23, wide), WEIR_EINVAL, "[2, 3]", "expanded");
    REFUSED(weir_tensor_copy(tail, head), WEIR_EINVAL, "[8]", "overlap");
    REFUSED(weir_scatter_add(wide, 0, o->i23, o->f23), WEIR_EINVAL, "[2, 3]", "expanded");
    /* the very same view, by operators that read other elements than they write */
    REFUSED(weir_matmul_into(square, other, square), WEIR_EINVAL, "[3, 3]", "overlap");
    REFUSED(weir_matmul_into(other, square, square), WEIR_EINVAL, "[3, 3]", "overlap");
    REFUSED(weir_scatter(square, 0, index, square), WEIR_EINVAL, "[3, 3]", "overlap");
    REFUSED(weir_scatter_add(square, 1, index, square), WEIR_EINVAL, "[3, 3]", "overlap");
    REFUSED(weir_scatter(index, 0, index, index), WEIR_EINVAL, "[3, 3]", "overlap");
    /* at the same address, with elements of another size */
    REFUSED(weir_gt_into(line, line, truths), WEIR_EINVAL, "[10]", "overlap");
    REFUSED(weir_eq_scalar_into(line, 0, truths), WEIR_EINVAL, "[10]", "overlap");
    weir_tensor_release(square);
    weir_tensor_release(index);
    weir_tensor_release(truths);
    weir_tensor_release(other);
    weir_tensor_release(line);
    weir_tensor_release(head);
    weir_tensor_release(tail);
    weir_tensor_release(wide);
}
