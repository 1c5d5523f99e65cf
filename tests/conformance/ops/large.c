/* Rows longer than any fast memory, and outputs past the caches. */
#include "conformance/conformance.h"

#include <math.h>
#include <stdlib.h>

/* Longer than any cache of the host. Where threads are watched, and on the fake GPU, a fifth is
 * still more than a block for each core, and several passes. */
static int64_t length(weir_device *dev)
{
    return TEST_THREADS_WATCHED || is_fake(dev) ? 300000 : 1500000;
}

static weir_tensor *noise(weir_device *dev, int64_t rows, uint64_t seed)
{
    int64_t shape[] = {rows, length(dev)};
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &t));
    CHECK_OK(weir_random_normal(t, seed, 0.5, 1));
    return t;
}

CONFORMANCE(large, softmax_of_a_long_row)
{
    const int64_t n = length(dev);
    weir_tensor *x = noise(dev, 1, 1), *y;
    float *in = read_bytes(x, NULL), *out;
    double sum = 0;

    CHECK_OK(weir_softmax(x, 1, &y));
    out = read_bytes(y, NULL);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)in[i]);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(out[i], exp((double)in[i]) / sum, 1e-5 * exp((double)in[i]) / sum);
    free(in);
    free(out);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

CONFORMANCE(large, layer_norm_of_a_long_row)
{
    const int64_t n = length(dev);
    weir_tensor *x = noise(dev, 1, 2), *y;
    float *in = read_bytes(x, NULL), *out;
    double mean = 0, square = 0;

    CHECK_OK(weir_layer_norm(x, NULL, NULL, 0, &y));
    out = read_bytes(y, NULL);
    for (int64_t i = 0; i < n; i++)
        mean += (double)in[i] / n;
    for (int64_t i = 0; i < n; i++)
        square += ((double)in[i] - mean) * ((double)in[i] - mean) / n;
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(out[i], ((double)in[i] - mean) / sqrt(square), 1e-4);
    free(in);
    free(out);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

CONFORMANCE(large, sort_of_a_long_row)
{
    const int64_t n = length(dev);
    weir_tensor *x = noise(dev, 1, 3), *y, *places;
    float *in = read_bytes(x, NULL), *out;
    char *seen = calloc((size_t)n, 1);
    int64_t *from;

    CHECK(seen);
    CHECK_OK(weir_sort(x, -1, true, &y, &places));
    out = read_bytes(y, NULL);
    from = read_bytes(places, NULL);
    for (int64_t i = 0; i < n; i++) {
        CHECK(from[i] >= 0 && from[i] < n && !seen[from[i]]);
        seen[from[i]] = 1;
        CHECK(out[i] == in[from[i]]);
        CHECK(!i || out[i - 1] > out[i] || (out[i - 1] == out[i] && from[i - 1] < from[i]));
    }
    weir_tensor_release(places);
    weir_tensor_release(y);
    free(from);
    CHECK_OK(weir_topk(x, 5000, 1, true, &y, &places)); /* a part of the same order */
    from = read_bytes(places, NULL);
    for (int i = 0; i < 5000; i++)
        CHECK(in[from[i]] == out[i]);
    free(in);
    free(out);
    free(from);
    free(seen);
    weir_tensor_release(places);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

CONFORMANCE(large, reductions_of_a_whole_tensor)
{
    const int64_t n = length(dev);
    weir_tensor *x = noise(dev, 3, 4), *sum, *top, *flat, *place, *where;
    float *in = read_bytes(x, NULL);
    double want = 0;
    int64_t best = 0, count = 0;
    struct array got;

    for (int64_t i = 0; i < 3 * n; i++) {
        want += (double)in[i];
        best = in[i] > in[best] ? i : best;
        count += in[i] != 0;
    }
    CHECK_OK(weir_sum(x, NULL, 0, false, &sum));
    download(sum, &got);
    CHECK_NEAR(got.at[0], want, 1e-6 * 3 * n);
    array_free(&got);
    CHECK_OK(weir_max(x, NULL, 0, false, &top));
    download(top, &got);
    CHECK(got.at[0] == (double)in[best]);
    array_free(&got);
    CHECK_OK(weir_tensor_reshape(x, 1, (int64_t[]){-1}, &flat));
    CHECK_OK(weir_argmax(flat, 0, false, &place));
    download(place, &got);
    CHECK_EQ((int64_t)got.at[0], best);
    array_free(&got);
    CHECK_OK(weir_nonzero(flat, &where));
    CHECK_EQ(weir_tensor_shape(where)[0], count);
    free(in);
    weir_tensor_release(x);
    weir_tensor_release(sum);
    weir_tensor_release(top);
    weir_tensor_release(flat);
    weir_tensor_release(place);
    weir_tensor_release(where);
}

CONFORMANCE(large, elementwise_past_the_caches)
{
    const int64_t n = length(dev);
    weir_tensor *x = noise(dev, 8, 5), *y, *turned, *copy;
    float *in = read_bytes(x, NULL), *out;

    CHECK_OK(weir_add(x, x, &y));
    out = read_bytes(y, NULL);
    for (int64_t i = 0; i < 8 * n; i++)
        CHECK(out[i] == in[i] + in[i]);
    free(out);
    weir_tensor_release(y);
    CHECK_OK(weir_tensor_transpose(x, 0, 1, &turned));
    CHECK_OK(weir_copy(turned, &copy));
    out = read_bytes(copy, NULL);
    for (int64_t i = 0; i < 8 * n; i++)
        CHECK(out[i] == in[i % 8 * n + i / 8]);
    free(out);
    free(in);
    weir_tensor_release(x);
    weir_tensor_release(turned);
    weir_tensor_release(copy);
}

CONFORMANCE(large, matmul_across_every_tile_edge)
{
    static const int64_t sizes[][3] = {{1, 1, 3000},  {257, 130, 5},    {3, 1025, 700},
                                       {500, 7, 513}, {130, 260, 1030}, {1, 2000, 300}};

    for (size_t s = 0; s < countof(sizes); s++) {
        int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        weir_tensor *a, *b, *c;
        float *pa, *pb, *pc;

        test_note("%lld x %lld x %lld", (long long)m, (long long)n, (long long)k);
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){m, k}, &a));
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){k, n}, &b));
        CHECK_OK(weir_random_uniform(a, s, -1, 1));
        CHECK_OK(weir_random_uniform(b, s + 1, -1, 1));
        CHECK_OK(weir_matmul(a, b, &c));
        pa = read_bytes(a, NULL);
        pb = read_bytes(b, NULL);
        pc = read_bytes(c, NULL);
        for (int64_t i = 0; i < m; i += TEST_SLOWDOWN)
            for (int64_t j = 0; j < n; j += TEST_SLOWDOWN) {
                double sum = 0;

                for (int64_t l = 0; l < k; l++)
                    sum += (double)pa[i * k + l] * (double)pb[l * n + j];
                CHECK_NEAR(pc[i * n + j], sum, 1e-6 * sqrt((double)k) + 1e-5 * fabs(sum));
            }
        free(pa);
        free(pb);
        free(pc);
        weir_tensor_release(a);
        weir_tensor_release(b);
        weir_tensor_release(c);
    }
}
