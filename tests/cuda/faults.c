/* What goes wrong on a GPU, and what it says. */
#include <pthread.h>
#include <stdatomic.h>

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
    CHECK_STATUS(weir_stream_sync(s), WEIR_EDRIVER);
    CHECK_STR(weir_last_error(), "astray");
    CHECK_STR(weir_last_error(), "default");
    CHECK_STR(weir_last_error(), "unusable");
    CHECK_STATUS(weir_fill(x, 2), WEIR_EDRIVER);
    CHECK_STR(weir_last_error(), "unusable");
    CHECK_STATUS(weir_stream_sync(s), WEIR_EDRIVER);
    CHECK_STATUS(weir_device_open("cuda:0", &again), WEIR_EDRIVER);
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

/* Many threads fail in each of many operators. */
TEST(cuda_faults, a_stream_reports_its_first_failure_and_another_stream_its_own)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *many = gpu_tensor(s, WEIR_I64, 3000, 12),
                *one = gpu_tensor(s, WEIR_I64, 1, 17), *out;

    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_stream_wait_stream(other, s));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weir_index_select(table, 0, i ? one : many, &out));
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

/* Its place still has the failure of the stream before. */
TEST(cuda_faults, a_stream_that_takes_the_place_of_a_failed_one_fails_by_itself)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *own;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 1, 0),
                *out;
    char text[32];

    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 4; i++) {
        int value = i % 2 ? 11 + i : 2;

        test_note("round %d", i);
        CHECK_OK(weir_stream_create(dev, NULL, &own));
        CHECK_OK(weir_stream_set_current(own));
        CHECK_OK(weir_fill(index, value));
        CHECK_OK(weir_index_select(table, 0, index, &out));
        CHECK_STATUS(weir_stream_sync(own), value > 9 ? WEIR_ERANGE : WEIR_OK);
        snprintf(text, sizeof text, "index %d", value);
        if (value > 9)
            CHECK_STR(weir_last_error(), text);
        CHECK_OK(weir_stream_set_current(s));
        CHECK_OK(weir_stream_destroy(own));
        weir_tensor_release(out);
    }
    weir_tensor_release(table);
    weir_tensor_release(index);
    CHECK_OK(weir_device_close(dev));
}

enum { WRITERS = 4, TURNS = 2000 };

struct writer {
    const struct fake_control *fake;
    struct weir__code_context context;
    pthread_barrier_t *turn;
    int number;
};

static void *write_failures(void *arg)
{
    struct writer *w = arg;

    for (int i = 1; i <= TURNS; i++) {
        pthread_barrier_wait(w->turn);
        w->context.where = WEIR__CODE_WHERE(7, i);
        w->fake->report(&w->context, 1000 + w->number, 10 + w->number, w->number);
        pthread_barrier_wait(w->turn);
    }
    return NULL;
}

/* As kernels write it (device/report.h), with no device. */
TEST(cuda_faults, of_threads_that_fail_at_once_one_writes_the_whole_failure)
{
    const struct fake_control *fake = use_fake();
    static struct weir__code_failures failures;
    static uint64_t claims[WEIR__CODE_STREAMS];
    struct weir__code_failure *f = &failures.of[7];
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    pthread_barrier_t turn;

    CHECK_EQ(pthread_barrier_init(&turn, NULL, WRITERS + 1), 0);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){fake, {.failures = &failures, .claims = claims}, &turn, i};
        CHECK_EQ(pthread_create(&threads[i], NULL, write_failures, &writers[i]), 0);
    }
    for (int i = 1; i <= TURNS; i++) {
        bool settled = i % 2;

        if (settled)
            f->settled = f->seq;
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        CHECK_EQ(f->seq, settled ? i : i - 1); /* else the place is taken */
        CHECK_EQ(f->limit, f->index - 990);
        CHECK_EQ(f->at, f->index - 1000);
        CHECK_EQ(failures.any, 1);
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&turn);
}

TEST(cuda_faults, an_operator_has_its_own_name_however_many_came_after_it)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *index = gpu_tensor(s, WEIR_I64, 1, 12),
                *out;

    CHECK_OK(weir_stream_sync(s));
    if (fake)
        fake->hold(true);
    CHECK_OK(weir_index_select(table, 0, index, &out));
    for (int i = 0; i < 3 * WEIR__CUDA_NAMES; i++)
        CHECK_OK(weir_fill(table, i));
    if (fake)
        fake->hold(false);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "operator 'IndexSelect'");
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
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

static atomic_bool looking;

/* Has the device look at all its streams, again and again. */
static void *look(void *stream)
{
    bool done;

    while (atomic_load(&looking))
        weir_stream_query(stream, &done);
    return NULL;
}

/* An operator may fail, and whoever waits for it be over, at any moment of somebody's looking. */
TEST(cuda_faults, an_error_is_passed_on_whenever_others_look)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *watched;
    weir_tensor *table = gpu_tensor(s, WEIR_F32, 10, 1), *bad = gpu_tensor(s, WEIR_I64, 1, 12);
    pthread_t looker;

    CHECK_OK(weir_stream_create(dev, NULL, &watched));
    CHECK_OK(weir_device_sync(dev));
    atomic_store(&looking, true);
    CHECK_EQ(pthread_create(&looker, NULL, look, watched), 0);
    for (int i = 0; i < 400; i++) {
        weir_stream *fails, *waits;
        weir_tensor *out;

        test_note("round %d", i);
        CHECK_OK(weir_stream_create(dev, NULL, &fails));
        CHECK_OK(weir_stream_create(dev, NULL, &waits));
        CHECK_OK(weir_stream_set_current(fails));
        CHECK_OK(weir_index_select(table, 0, bad, &out));
        CHECK_OK(weir_stream_wait_stream(waits, fails));
        CHECK_STATUS(weir_stream_sync(waits), WEIR_ERANGE);
        CHECK_STATUS(weir_stream_sync(fails), WEIR_ERANGE);
        CHECK_OK(weir_stream_set_current(s));
        weir_tensor_release(out);
        CHECK_OK(weir_stream_destroy(fails));
        CHECK_OK(weir_stream_destroy(waits));
    }
    atomic_store(&looking, false);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    CHECK_OK(weir_stream_destroy(watched));
    weir_tensor_release(table);
    weir_tensor_release(bad);
    CHECK_OK(weir_device_close(dev));
}
