/* Single operators at sizes where the hardware is the limit. */
#include "figures.h"

/* Queries, keys and values have different random numbers. With equal ones, each query would match
 * its own key and all other weights would be nearly 0; and a product's time depends on its
 * numbers, since they change the power it draws. */
static weir_tensor *noise(weir_device *dev, weir_dtype dtype, int ndim, const int64_t *shape)
{
    static uint64_t seed;
    weir_tensor *t;

    check(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    check(weir_random_normal(t, ++seed, 0, 1));
    return t;
}

/* `body` computes *out, a new tensor at each call. */
#define OPERATOR(subject, times, body)         \
    do {                                       \
        weir_tensor *out = NULL;               \
        body;                                  \
        weir_tensor_release(out);              \
        THROUGHPUT(                            \
            "operators", subject, "us", times, \
            {                                  \
                body;                          \
                weir_tensor_release(out);      \
            },                                 \
            weir_device_sync(dev));            \
    } while (0)

static void attention(weir_device *dev)
{
    static const char *const names[][2] = {
        {"weir attention, 4x64x2048x64", "weir attention, 4x64x2048x64, causal"},
        {"weir attention, 4x32x2048x128", "weir attention, 4x32x2048x128, causal"}};
    weir_tensor *q, *k, *v;

    for (int width = 64; width <= 128; width *= 2) {
        const int64_t shape[] = {4, 4096 / width, 2048, width};

        q = noise(dev, WEIR_F16, 4, shape);
        k = noise(dev, WEIR_F16, 4, shape);
        v = noise(dev, WEIR_F16, 4, shape);
        for (int causal = 0; causal < 2; causal++) {
            const weir_attention_options options = {.causal = causal};

            OPERATOR(names[width == 128][causal], 10,
                     check(weir_attention(q, k, v, NULL, &options, &out)));
        }
        weir_tensor_release(q);
        weir_tensor_release(k);
        weir_tensor_release(v);
    }
    q = noise(dev, WEIR_F16, 4, (const int64_t[]){16, 32, 1, 128});
    k = noise(dev, WEIR_F16, 4, (const int64_t[]){16, 32, 4096, 128});
    v = noise(dev, WEIR_F16, 4, (const int64_t[]){16, 32, 4096, 128});
    OPERATOR("weir attention, 16x32x1x128, 4096 keys", 10,
             check(weir_attention(q, k, v, NULL, NULL, &out)));
    weir_tensor_release(q);
    weir_tensor_release(k);
    weir_tensor_release(v);
}

static void convolution(weir_device *dev)
{
    const weir_conv2d_options padded = {.padding = {1, 1}};
    static const char *const names[] = {"weir conv2d, 32x64x56x56, 64 of 3x3",
                                        "weir conv2d, 32x64x56x56, 64 of 3x3, f32"};

    for (int i = 0; i < 2; i++) {
        weir_dtype dtype = i ? WEIR_F32 : WEIR_F16;
        weir_tensor *x = noise(dev, dtype, 4, (const int64_t[]){32, 64, 56, 56});
        weir_tensor *w = noise(dev, dtype, 4, (const int64_t[]){64, 64, 3, 3});

        OPERATOR(names[i], 20, check(weir_conv2d(x, w, NULL, &padded, &out)));
        weir_tensor_release(x);
        weir_tensor_release(w);
    }
}

static void rows(weir_device *dev)
{
    weir_tensor *x = noise(dev, WEIR_F16, 2, (const int64_t[]){4096, 4096});
    weir_tensor *one = noise(dev, WEIR_F16, 1, (const int64_t[]){4096});
    const int last = 1, first = 0;

    OPERATOR("weir softmax, 4096x4096", 50, check(weir_softmax(x, 1, &out)));
    OPERATOR("weir layer_norm, 4096x4096", 50, check(weir_layer_norm(x, one, one, 1e-5, &out)));
    OPERATOR("weir rms_norm, 4096x4096", 50, check(weir_rms_norm(x, one, 1e-5, &out)));
    OPERATOR("weir sum of rows, 4096x4096", 50, check(weir_sum(x, &last, 1, false, &out)));
    OPERATOR("weir sum of columns, 4096x4096", 50, check(weir_sum(x, &first, 1, false, &out)));
    OPERATOR("weir max of rows, 4096x4096", 50, check(weir_max(x, &last, 1, false, &out)));
    weir_tensor_release(x);
    weir_tensor_release(one);
}

static void orders(weir_device *dev)
{
    weir_tensor *x = noise(dev, WEIR_F32, 2, (const int64_t[]){4, 1 << 20});
    weir_tensor *y = noise(dev, WEIR_F32, 2, (const int64_t[]){64, 32000});

    OPERATOR("weir argsort, 4x1048576, f32", 5, check(weir_argsort(x, 1, false, &out)));
    OPERATOR("weir topk of 50, 64x32000, f32", 5, check(weir_topk(y, 50, 1, true, &out, NULL)));
    weir_tensor_release(x);
    weir_tensor_release(y);
}

void operators(weir_device *dev)
{
    attention(dev);
    convolution(dev);
    rows(dev);
    orders(dev);
}
