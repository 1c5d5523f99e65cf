/* Plans whose memory moves at every run: no graph is captured for a single run. */
#include "gpu.h"

enum { N = 256, FEW = 4, PLACES = 6 };

/* softmax(x) * 2 + x, one lane of some kernels, for any memory. */
static weir_plan *one_lane(weir_device *dev, int64_t n)
{
    weir_tensor *x, *values[3];
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_softmax(x, -1, &values[0]));
    CHECK_OK(weir_mul_scalar(values[0], 2 * (double)n, &values[1]));
    CHECK_OK(weir_add(values[1], x, &values[2]));
    CHECK_OK(weir_graph_output(g, "y", values[2]));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(values[i]);
    weir_graph_destroy(g);
    return plan;
}

/* A run from memory of ones to other memory, awaited, so that the next one may have its graph. */
static void run_and_check(weir_plan *plan, weir_stream *s, weir_tensor *x, weir_tensor *y)
{
    float values[N];

    CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_tensor_read(y, values, sizeof values));
    for (int i = 0; i < N; i++)
        CHECK_NEAR(values[i], 3, 1e-4);
    CHECK_OK(weir_fill(y, 0));
    CHECK_OK(weir_stream_sync(s));
}

TEST(cuda_moving, memory_that_moves_at_every_run_is_put_into_the_graph_without_a_capture)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = one_lane(dev, N);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *ys[PLACES];

    for (int i = 0; i < PLACES; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_sync(s));
    for (int i = 0; i < PLACES; i++)
        run_and_check(plan, s, x, ys[i]);
    fake->watch();
    for (int i = 0; i < 3 * PLACES; i++)
        run_and_check(plan, s, x, ys[i % PLACES]);
    CHECK_EQ(called(fake, "cuStreamBeginCapture_v2"), 0);
    CHECK_EQ(called(fake, "cuGraphLaunch"), 3 * PLACES);
    CHECK_EQ(called(fake, "cuGraphExecKernelNodeSetParams_v2"), 3 * PLACES);
    fake->watch();
    for (int i = 0; i < 3; i++)
        run_and_check(plan, s, x, ys[PLACES - 1]);
    CHECK_EQ(called(fake, "cuStreamBeginCapture_v2"), 0);
    CHECK_EQ(called(fake, "cuGraphExecKernelNodeSetParams_v2"), 0);
    CHECK_EQ(called(fake, "cuGraphLaunch"), 3);
    for (int i = 0; i < PLACES; i++)
        weir_tensor_release(ys[i]);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_moving, memory_that_alternates_between_a_few_addresses_has_a_graph_for_each)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = one_lane(dev, N);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *ys[FEW];
    weir_plan_stats stats;

    for (int i = 0; i < FEW; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_sync(s));
    fake->watch();
    for (int i = 0; i < 4 * FEW; i++)
        run_and_check(plan, s, x, ys[i * i % FEW]);
    for (int i = 0; i < 2 * FEW; i++)
        run_and_check(plan, s, x, ys[i % FEW]);
    CHECK_EQ(called(fake, "cuStreamBeginCapture_v2"), FEW);
    CHECK_EQ(called(fake, "cuGraphLaunch"), 6 * FEW);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.instances, FEW);
    for (int i = 0; i < FEW; i++)
        weir_tensor_release(ys[i]);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* A graph of one's own is no reason for a run to fail. */
TEST(cuda_moving, without_memory_for_another_graph_a_run_reuses_an_idle_one)
{
    enum { WIDE = 1 << 19 }; /* 2 MiB, of which there are five, and the plan has two */
    weir_device *dev = open_gpu("cuda:0,memory=10m");
    weir_plan_stats stats;
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = one_lane(dev, WIDE);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, WIDE, 1), *ys[2];

    for (int i = 0; i < 2; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, WIDE, 0);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &ys[i % 2], 1));
        CHECK_OK(weir_stream_sync(s));
    }
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.instances, 1);
    weir_tensor_release(x);
    weir_tensor_release(ys[0]);
    weir_tensor_release(ys[1]);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* Runs the plan for a second place, whose graph's n-th call fails for memory; its function. */
static const char *run_short_of_memory(const struct fake_control *fake, weir_device *dev,
                                       weir_tensor *x, weir_tensor **ys, uint64_t n,
                                       const char *expected)
{
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = one_lane(dev, N);
    const char *function;
    weir_plan_stats stats;

    run_and_check(plan, s, x, ys[0]);
    fake->watch();
    if (expected)
        fake->fail_call(n, 2);
    CHECK_OK(weir_plan_run(plan, s, &x, 1, &ys[1], 1));
    fake->fail_call(0, 0);
    function = fake->watched(n);
    CHECK_OK(weir_stream_sync(s));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.instances, expected ? 1 : 2);
    if (expected)
        CHECK_STR(function, expected);
    run_and_check(plan, s, x, ys[0]);
    run_and_check(plan, s, x, ys[1]);
    weir_plan_destroy(plan);
    return function;
}

/* Nor is one that finds no memory when it is made. */
TEST(cuda_moving, a_run_without_memory_for_a_graph_launches_its_nodes)
{
    static const char *const functions[] = {
        "cuStreamCreateWithPriority",  "cuEventCreate", "cuLaunchKernelEx", "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *ys[2];
    const char *function;
    int failed = 0;

    for (int i = 0; i < 2; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, N, 0);
    for (uint64_t n = 1; (function = run_short_of_memory(fake, dev, x, ys, n, NULL)); n++) {
        for (size_t i = 0; i < weir__countof(functions); i++)
            if (!strcmp(function, functions[i])) {
                run_short_of_memory(fake, dev, x, ys, n, function);
                failed++;
            }
    }
    CHECK(failed >= (int)weir__countof(functions));
    weir_tensor_release(x);
    weir_tensor_release(ys[0]);
    weir_tensor_release(ys[1]);
    CHECK_OK(weir_device_close(dev));
}

/* While the only graph runs, there is nothing to do without another one. */
TEST(cuda_moving, a_run_that_needs_another_graph_fails_without_memory_and_works_later)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *other;
    weir_plan *plan = one_lane(dev, N);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *ys[2];

    for (int i = 0; i < 2; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, N, 0);
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_device_sync(dev));
    fake->hold(true);
    CHECK_OK(weir_plan_run(plan, s, &x, 1, &ys[0], 1));
    fake->lack_memory("cuGraphInstantiateWithFlags");
    CHECK_STATUS(weir_plan_run(plan, other, &x, 1, &ys[1], 1), WEIR_EOOM);
    fake->hold(false);
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_plan_run(plan, other, &x, 1, &ys[1], 1));
    CHECK_OK(weir_stream_sync(other));
    fake->lack_memory(NULL);
    run_and_check(plan, s, x, ys[0]);
    run_and_check(plan, s, x, ys[1]);
    weir_tensor_release(x);
    weir_tensor_release(ys[0]);
    weir_tensor_release(ys[1]);
    weir_plan_destroy(plan);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_moving, runs_stay_in_order_with_other_work_whether_they_are_graphs_or_not)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = one_lane(dev, N);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, N, 1), *ys[PLACES], *sum;
    float values[N];

    sum = gpu_tensor(s, WEIR_F32, N, 0);
    for (int i = 0; i < PLACES; i++)
        ys[i] = gpu_tensor(s, WEIR_F32, N, 0);
    for (int i = 0; i < 40; i++) {
        weir_tensor *y = ys[i % 8 < 4 ? 0 : i % PLACES]; /* it stays for a while, and moves */

        CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
        CHECK_OK(weir_add_into(sum, y, sum));
        CHECK_OK(weir_fill(y, 0));
        if (i % 5 == 0)
            CHECK_OK(weir_stream_sync(s));
    }
    CHECK_OK(weir_tensor_read(sum, values, sizeof values));
    for (int i = 0; i < N; i++)
        CHECK_NEAR(values[i], 3 * 40, 1e-2);
    for (int i = 0; i < PLACES; i++)
        weir_tensor_release(ys[i]);
    weir_tensor_release(x);
    weir_tensor_release(sum);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}
