/* What goes wrong on a GPU, and what it says. */
#include "gpu.h"

static const char fault_text[] = "extern \"C\" __global__ void fault(int *out)\n"
                                 "{\n"
                                 "    *(volatile int *)8 = *out;\n"
                                 "}\n";

static void fault_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    (void)args;
    (void)phase;
    (void)cores;
    l->grid = 1;
    l->threads = 32;
}

static const struct weir__code fault_code = {
    .text = "fault", .source = fault_text, .shape = fault_shape};

TEST(cuda_faults, a_kernel_that_faults_is_named_and_every_later_call_says_so)
{
    weir_device *dev = open_gpu("cuda:0"), *again;
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x = gpu_tensor(s, WEIR_I32, 4, 1);
    void *address = weir_tensor_data(x);

    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(gpu_submit(s, &fault_code, "astray", &address, sizeof address, x));
    CHECK_STATUS(weir_stream_sync(s), WEIR_EDEVICE);
    CHECK_STR(weir_last_error(), "astray");
    CHECK_STR(weir_last_error(), "default");
    CHECK_STR(weir_last_error(), "unusable");
    CHECK_STATUS(weir_fill(x, 2), WEIR_EDEVICE);
    CHECK_STR(weir_last_error(), "unusable");
    CHECK_STATUS(weir_stream_sync(s), WEIR_EDEVICE);
    CHECK_STATUS(weir_device_open("cuda:0", &again), WEIR_EDEVICE);
    CHECK_STR(weir_last_error(), "unusable");
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_faults, an_index_out_of_range_names_operator_stream_and_range)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 3, 12),
                *out;

    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_index_select(table, 0, index, &out));
    CHECK_OK(weir_stream_wait_stream(other, s));
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_STR(weir_last_error(), "12");
    CHECK_STR(weir_last_error(), "0..9");
    CHECK_STATUS(weir_stream_sync(other), WEIR_ERANGE);
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}

/* A GPU says it of every index, the fake of every operator. */
TEST(cuda_faults, the_next_failure_is_heard_of_after_more_than_the_log_holds)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *many = gpu_tensor(s, WEIR_I64, 3000, 12),
                *one = gpu_tensor(s, WEIR_I64, 1, 17), *out;

    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_stream_wait_stream(other, s));
    for (int i = 0; i < 2 * WEIR__CODE_FAILURES; i++) {
        CHECK_OK(weir_index_select(table, 0, many, &out));
        weir_tensor_release(out);
    }
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "12");
    CHECK_OK(weir_stream_set_current(other));
    CHECK_OK(weir_index_select(table, 0, one, &out));
    CHECK_STATUS(weir_stream_sync(other), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "17");
    CHECK_OK(weir_stream_set_current(s));
    weir_tensor_release(table);
    weir_tensor_release(many);
    weir_tensor_release(one);
    weir_tensor_release(out);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_faults, a_function_of_the_host_is_refused_by_name)
{
    weir_device *dev = open_gpu("cuda:0");

    CHECK_STATUS(weir_launch_submit(weir_stream_default(dev),
                                    &(weir_launch){.name = "mine", .fn = (weir_kernel_fn)abort}),
                 WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "mine");
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_faults, a_wait_past_the_timeout_says_where_every_stream_is)
{
    static const char text[] = "node { name: \"long one\" op: \"Kernel\" attr { key: "
                               "\"us_per_block\" value { f: 900000 } } }";
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, text, sizeof text - 1, "text", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    CHECK_STATUS(weir_stream_sync_for(s, 100 * 1000 * 1000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "stream 'default' is at command");
    CHECK_OK(weir_stream_sync(s));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* What is queued behind a failed operator may run, but the host's memory is not written. */
TEST(cuda_faults, nothing_behind_a_failed_operator_reaches_the_host)
{
    weir_device *dev = open_gpu("cuda:0"), *cpu;
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 3, 12),
                *out, *there;
    float got[3][10] = {{5}, {5}, {5}};

    CHECK_OK(weir_device_open("cpu:cores=1", &cpu));
    there = gpu_tensor(weir_stream_default(cpu), WEIR_F32, 10, 5);
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_tensor_read_async(table, got[0], sizeof got[0]));
    CHECK_OK(weir_index_select(table, 0, index, &out));
    CHECK_OK(weir_tensor_read_async(table, got[1], sizeof got[1]));
    CHECK_OK(weir_tensor_copy(there, table));
    CHECK_OK(weir_stream_wait_stream(other, s));
    CHECK_OK(weir_stream_set_current(other));
    CHECK_OK(weir_tensor_read_async(table, got[2], sizeof got[2]));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(other), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(weir_stream_default(cpu)), WEIR_ERANGE);
    CHECK_NEAR(got[0][0], 1, 0); /* before it */
    CHECK_NEAR(got[1][0], 5, 0); /* behind it */
    CHECK_NEAR(got[2][0], 5, 0); /* on a stream that waits for it */
    CHECK_NEAR(*(float *)weir_tensor_data(there), 5, 0);
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
    weir_tensor_release(there);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(cpu));
}

/* Once the host knows, nothing more runs: operators, plans, and streams that wait. A plan's lanes
 * are new each time. */
TEST(cuda_faults, what_is_queued_behind_a_known_error_is_not_run)
{
    const int64_t n = 10;
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *bad, *other;
    weir_tensor *table, *index, *out, *x, *y, *z;
    weir_graph *g;
    weir_plan *plan;
    float got[10];

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_add_scalar(x, 1, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_mul_scalar(x, 2, &out));
    CHECK_OK(weir_add(out, y, &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_tensor_release(out);
    weir_graph_destroy(g);
    CHECK_OK(weir_stream_create(dev, NULL, &bad));
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    table = gpu_tensor(bad, WEIR_F32, n, 1);
    index = gpu_tensor(bad, WEIR_I64, 3, 12);
    z = gpu_tensor(bad, WEIR_F32, n, 9);
    CHECK_OK(weir_plan_run(plan, bad, &table, 1, &z, 1));
    CHECK_OK(weir_stream_sync(bad));
    CHECK_OK(weir_stream_set_current(bad));
    CHECK_OK(weir_index_select(table, 0, index, &out));
    CHECK_STATUS(weir_stream_sync(bad), WEIR_ERANGE);
    CHECK_OK(weir_fill(table, 7));
    CHECK_OK(weir_plan_run(plan, bad, &table, 1, &z, 1));
    CHECK_OK(weir_stream_wait_stream(other, bad));
    CHECK_OK(weir_stream_set_current(other));
    CHECK_OK(weir_fill(index, 7));
    CHECK_STATUS(weir_stream_sync(other), WEIR_ERANGE);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(bad));
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_tensor_read(table, got, sizeof got));
    CHECK_NEAR(got[0], 1, 0);
    CHECK_OK(weir_tensor_read(z, got, sizeof got));
    CHECK_NEAR(got[0], 4, 0);
    /* The plan's own stream was in error with the caller's; now it runs again. */
    CHECK_OK(weir_fill(table, 2));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &table, 1, &z, 1));
    CHECK_OK(weir_tensor_read(z, got, sizeof got));
    CHECK_NEAR(got[0], 7, 0);
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
    weir_tensor_release(z);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}
