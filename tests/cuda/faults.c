/* Failures on a GPU, and their error messages. */
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

/* A device with a table of ten, an index that is not in it, and room for what is taken. */
struct bench {
    weir_device *dev;
    weir_stream *s, *other;
    weir_tensor *table, *bad, *out;
};

static void begin(struct bench *b)
{
    b->dev = open_gpu("cuda:0");
    b->s = weir_stream_default(b->dev);
    b->table = gpu_tensor(b->s, WEIR_F32, 10, 1);
    b->bad = gpu_tensor(b->s, WEIR_I64, 3000, 12); /* many threads fail at once */
    b->out = NULL;
    CHECK_OK(weir_stream_create(b->dev, NULL, &b->other));
    CHECK_OK(weir_device_sync(b->dev));
}

static void take(struct bench *b, weir_stream *s, weir_tensor *index)
{
    CHECK_OK(weir_stream_set_current(s));
    weir_tensor_release(b->out);
    CHECK_OK(weir_index_select(b->table, 0, index, &b->out));
}

static void finish(struct bench *b)
{
    CHECK_OK(weir_stream_set_current(b->s));
    CHECK_OK(weir_stream_destroy(b->other));
    weir_tensor_release(b->table);
    weir_tensor_release(b->bad);
    weir_tensor_release(b->out);
    CHECK_OK(weir_device_close(b->dev));
}

TEST(cuda_faults, an_index_out_of_range_names_operator_stream_and_range)
{
    struct bench b;

    begin(&b);
    take(&b, b.s, b.bad);
    CHECK_OK(weir_stream_wait_stream(b.other, b.s));
    CHECK_STATUS(weir_stream_sync(b.s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "operator 'IndexSelect' on stream 'default'");
    CHECK_STR(weir_last_error(), "index 12 is out of range: 0..9");
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_ERANGE);
    finish(&b);
}

TEST(cuda_faults, a_stream_reports_its_first_failure_and_another_stream_its_own)
{
    struct bench b;
    weir_tensor *one;

    begin(&b);
    one = gpu_tensor(b.s, WEIR_I64, 1, 17);
    CHECK_OK(weir_stream_wait_stream(b.other, b.s));
    for (int i = 0; i < 20; i++)
        take(&b, b.s, i ? one : b.bad);
    CHECK_STATUS(weir_stream_sync(b.s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "12");
    take(&b, b.other, one);
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "17");
    weir_tensor_release(one);
    finish(&b);
}

/* Its place still has the failure of the stream before. */
TEST(cuda_faults, a_stream_in_a_reused_slot_has_only_its_own_failures)
{
    struct bench b;
    char text[32];

    begin(&b);
    for (int i = 0; i < 4; i++) {
        int value = i % 2 ? 11 + i : 2;
        weir_stream *own;

        test_note("round %d", i);
        CHECK_OK(weir_stream_create(b.dev, NULL, &own));
        CHECK_OK(weir_stream_set_current(own));
        CHECK_OK(weir_fill(b.bad, value));
        take(&b, own, b.bad);
        CHECK_STATUS(weir_stream_sync(own), value > 9 ? WEIR_ERANGE : WEIR_OK);
        snprintf(text, sizeof text, "index %d", value);
        if (value > 9)
            CHECK_STR(weir_last_error(), text);
        CHECK_OK(weir_stream_set_current(b.s));
        CHECK_OK(weir_stream_destroy(own));
    }
    finish(&b);
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
TEST(cuda_faults, one_of_several_failing_threads_writes_the_whole_failure)
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
        bool stale = i % 2;

        if (stale)
            f->stale = f->seq;
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        CHECK_EQ(f->seq, stale ? i : i - 1); /* else the place is taken */
        CHECK_EQ(f->limit, f->index - 990);
        CHECK_EQ(f->at, f->index - 1000);
        CHECK_EQ(failures.any, 1);
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&turn);
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
TEST(cuda_faults, nothing_queued_after_a_failed_operator_reaches_the_host)
{
    struct bench b;
    weir_device *cpu;
    weir_tensor *there;
    float got[3][10] = {{5}, {5}, {5}};

    begin(&b);
    CHECK_OK(weir_device_open("cpu:cores=1", &cpu));
    there = gpu_tensor(weir_stream_default(cpu), WEIR_F32, 10, 5);
    CHECK_OK(weir_tensor_read_async(b.table, got[0], sizeof got[0]));
    take(&b, b.s, b.bad);
    CHECK_OK(weir_tensor_read_async(b.table, got[1], sizeof got[1]));
    CHECK_OK(weir_tensor_copy(there, b.table));
    CHECK_OK(weir_stream_wait_stream(b.other, b.s));
    CHECK_OK(weir_stream_set_current(b.other));
    CHECK_OK(weir_tensor_read_async(b.table, got[2], sizeof got[2]));
    CHECK_STATUS(weir_stream_sync(b.s), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(weir_stream_default(cpu)), WEIR_ERANGE);
    CHECK_NEAR(got[0][0], 1, 0); /* before it */
    CHECK_NEAR(got[1][0], 5, 0); /* behind it */
    CHECK_NEAR(got[2][0], 5, 0); /* on a stream that waits for it */
    CHECK_NEAR(*(float *)weir_tensor_data(there), 5, 0);
    weir_tensor_release(there);
    finish(&b);
    CHECK_OK(weir_device_close(cpu));
}

/* Of a table: more of it on "side", and both together. */
static weir_plan *make_plan(weir_device *dev)
{
    const int64_t n = 10;
    weir_tensor *x, *y, *z, *sum;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_add_scalar(x, 1, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_mul_scalar(x, 2, &z));
    CHECK_OK(weir_add(z, y, &sum));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_tensor_release(sum);
    weir_graph_destroy(g);
    return plan;
}

static void expect_first(weir_tensor *t, double want)
{
    float got[10];

    CHECK_OK(weir_tensor_read(t, got, sizeof got));
    CHECK_NEAR(got[0], want, 0);
}

/* Once the host knows, nothing more runs: operators, plans, and streams that wait. A plan's lanes
 * are new each time. */
TEST(cuda_faults, work_queued_after_a_known_error_is_not_run)
{
    struct bench b;
    weir_stream *fails;
    weir_tensor *sum;
    weir_plan *plan;

    begin(&b);
    plan = make_plan(b.dev);
    sum = gpu_tensor(b.s, WEIR_F32, 10, 9);
    CHECK_OK(weir_stream_create(b.dev, NULL, &fails));
    CHECK_OK(weir_stream_wait_stream(fails, b.s));
    CHECK_OK(weir_plan_run(plan, fails, &b.table, 1, &sum, 1));
    CHECK_OK(weir_stream_sync(fails));
    take(&b, fails, b.bad);
    CHECK_STATUS(weir_stream_sync(fails), WEIR_ERANGE);
    CHECK_OK(weir_fill(b.table, 7));
    CHECK_OK(weir_plan_run(plan, fails, &b.table, 1, &sum, 1));
    CHECK_OK(weir_stream_wait_stream(b.other, fails));
    CHECK_OK(weir_stream_set_current(b.other));
    CHECK_OK(weir_fill(b.bad, 7));
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_ERANGE);
    CHECK_OK(weir_stream_set_current(b.s));
    CHECK_OK(weir_stream_destroy(fails));
    expect_first(b.table, 1);
    expect_first(sum, 4);
    /* The plan's own stream was in error with the caller's; now it runs again. */
    CHECK_OK(weir_fill(b.table, 2));
    CHECK_OK(weir_plan_run(plan, b.s, &b.table, 1, &sum, 1));
    expect_first(sum, 7);
    weir_tensor_release(sum);
    weir_plan_destroy(plan);
    finish(&b);
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
TEST(cuda_faults, an_error_reaches_other_streams_at_any_time)
{
    struct bench b;
    pthread_t looker;

    begin(&b);
    atomic_store(&looking, true);
    CHECK_EQ(pthread_create(&looker, NULL, look, b.other), 0);
    for (int i = 0; i < 400; i++) {
        weir_stream *fails, *waits;

        test_note("round %d", i);
        CHECK_OK(weir_stream_create(b.dev, NULL, &fails));
        CHECK_OK(weir_stream_create(b.dev, NULL, &waits));
        take(&b, fails, b.bad);
        CHECK_OK(weir_stream_wait_stream(waits, fails));
        CHECK_STATUS(weir_stream_sync(waits), WEIR_ERANGE);
        CHECK_STATUS(weir_stream_sync(fails), WEIR_ERANGE);
        CHECK_OK(weir_stream_set_current(b.s));
        CHECK_OK(weir_stream_destroy(fails));
        CHECK_OK(weir_stream_destroy(waits));
    }
    atomic_store(&looking, false);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    finish(&b);
}
