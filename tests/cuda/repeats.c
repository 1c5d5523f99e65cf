/* Repeated products outside of plans: fewer calls of the library, the same values. */
#include "gpu.h"
#include "kept.h"

enum { N = 8, BYTES = N * N * (int)sizeof(float) };

static weir_tensor *matrix(weir_stream *s, double value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){N, N}, &t));
    CHECK_OK(weir_fill(t, value));
    return t;
}

static void check_value(weir_tensor *t, double value)
{
    float got[N * N];

    CHECK_OK(weir_tensor_read(t, got, BYTES));
    for (int i = 0; i < N * N; i++)
        CHECK_NEAR(got[i], value, 0);
}

/* So many times the same product, with other values every time. */
static void multiply(weir_tensor *a, weir_tensor *b, weir_tensor *c, int times)
{
    for (int i = 1; i <= times; i++) {
        CHECK_OK(weir_fill(a, i));
        CHECK_OK(weir_matmul_into(a, b, c));
        check_value(c, 2.0 * N * i);
    }
}

TEST(cuda_repeats, a_repeated_product_does_not_query_the_library_again)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *a = matrix(s, 1), *b = matrix(s, 2), *c = matrix(s, 0), *other = matrix(s, 0);
    int calls;

    fake->watch();
    multiply(a, b, c, 10);
    calls = count_calls(fake, "cublasLtMatmul");
    CHECK_GT(calls, 1);
    CHECK_LT(calls, 6);
    CHECK_GT(count_calls(fake, "cuGraphLaunch"), 4);
    fake->watch();
    multiply(a, b, c, 10);
    CHECK_EQ(count_calls(fake, "cublasLtMatmul"), 0);
    CHECK_OK(weir_matmul_into(a, b, other)); /* not into the same place */
    CHECK_EQ(count_calls(fake, "cublasLtMatmul"), 1);
    check_value(other, 2.0 * N * 10);
    CHECK_OK(weir_stream_set_limit(s, (weir_cores){64, 64})); /* nor on the same cores */
    multiply(a, b, c, 1);
    CHECK_EQ(count_calls(fake, "cublasLtMatmul"), 2);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
    weir_tensor_release(other);
    CHECK_OK(weir_device_close(dev));
}

/* More of them than are remembered: they come and go. */
TEST(cuda_repeats, many_products_evict_each_other_from_the_cache)
{
    enum { MANY = 300 };
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *a = matrix(s, 1), *b = matrix(s, 2), *c[MANY];
    char text[400];

    for (int i = 0; i < MANY; i++)
        c[i] = matrix(s, 0);
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < MANY; i++) {
            CHECK_OK(weir_matmul_into(a, b, c[i]));
            if (i % 3 == round % 3)
                CHECK_OK(weir_matmul_into(a, b, c[i]));
        }
    for (int i = 0; i < MANY; i++) {
        check_value(c[i], 2.0 * N);
        weir_tensor_release(c[i]);
    }
    weir_tensor_release(a);
    weir_tensor_release(b);
    CHECK_OK(weir_device_close(dev));
    fake->live(text, sizeof text);
    CHECK_STR_EQ(text, "");
}

/* Whatever fails while a product is remembered, the product is done or its call says so. */
TEST(cuda_repeats, a_call_that_fails_meanwhile_leaves_the_product_right)
{
    const struct fake_control *fake = use_fake();
    uint64_t calls = 0;
    char text[400];

    for (uint64_t n = 0; n <= calls; n++) {
        weir_device *dev = open_gpu("cuda:0");
        weir_stream *s = weir_stream_default(dev);
        weir_tensor *a = matrix(s, 1), *b = matrix(s, 2), *c = matrix(s, 0);

        multiply(a, b, c, 3);
        test_note("call %llu of %llu fails", (unsigned long long)n, (unsigned long long)calls);
        fake->watch();
        fake->fail_call(n, CU_ERROR_OUT_OF_MEMORY);
        if (weir_matmul_into(a, b, c) == WEIR_OK) { /* the one that is captured */
            fake->fail_call(0, 0);
            check_value(c, 2.0 * N * 3);
        }
        fake->fail_call(0, 0);
        for (; !n && fake->watched(calls + 1); calls++)
            ;
        multiply(a, b, c, 3);
        weir_tensor_release(a);
        weir_tensor_release(b);
        weir_tensor_release(c);
        CHECK_OK(weir_device_close(dev));
        fake->live(text, sizeof text);
        CHECK_STR_EQ(text, "");
    }
    CHECK_GT(calls, 8);
}

/* Keeps the stream busy while more is queued behind it. */
static weir_plan *long_plan(weir_device *dev)
{
    static const char text[] = "node { name: \"long one\" op: \"Kernel\" attr { key: "
                               "\"us_per_block\" value { f: 100000 } } }";
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, text, sizeof text - 1, "text", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

/* More products than a stream remembers, all of them under way: each one's graph is given up for
 * another's before it has run. */
TEST(cuda_repeats, graphs_are_evicted_while_they_wait_to_run)
{
    enum { PRODUCTS = 300, TIMES = 6 };
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *a = matrix(s, 3), *b = matrix(s, 2), *c[PRODUCTS];
    weir_plan *plan = long_plan(dev);

    for (int i = 0; i < PRODUCTS; i++)
        c[i] = matrix(s, 0);
    CHECK_OK(weir_matmul_into(a, b, c[0])); /* what is new to the GPU is loaded before */
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    for (int i = 0; i < PRODUCTS; i++)
        for (int k = 0; k < TIMES; k++)
            CHECK_OK(weir_matmul_into(a, b, c[i]));
    for (int i = 0; i < PRODUCTS; i++) {
        check_value(c[i], 2.0 * 3 * N);
        weir_tensor_release(c[i]);
    }
    weir_plan_destroy(plan);
    weir_tensor_release(a);
    weir_tensor_release(b);
    CHECK_OK(weir_device_close(dev));
}
