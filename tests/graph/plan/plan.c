/* Plans: what they refuse, how they run and how they fail. */
#include <pthread.h>

#include "graph/plan/plan_helpers.h"

/* ---- misuse ---- */

static weir_graph *small_graph(weir_device *dev, const char *label)
{
    const int64_t shape[] = {8, 8};
    weir_tensor *x, *y, *z;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_relu(x, &y));
    CHECK_OK(weir_scope_push_stream(label, 0));
    CHECK_OK(weir_matmul(y, y, &z));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    return g;
}

TEST(plan, compile_refuses_what_conflicts)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g = small_graph(dev, "side");
    weir_plan *plan;

    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.single_stream = true}, &plan),
                 WEIR_ECONFLICT);
    CHECK_STR(weir_last_error(), "side");
    CHECK_STR(weir_last_error(), "single_stream");
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.mode = 7}, &plan), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "compile mode 7 is out of range: 0..2");
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.streams = 3}, &plan), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.cores = "2"}, &plan), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.cores = "2|999"}, &plan),
                 WEIR_ERANGE);
    CHECK_PTR_EQ(plan, NULL);
    CHECK_OK(weir_graph_begin(g));
    CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ESTATE);
    CHECK_OK(weir_graph_end(g));
    weir_graph_destroy(g);
    g = small_graph(dev, "default");
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.single_stream = true}, &plan));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

static void *begin_elsewhere(void *graph)
{
    CHECK_STATUS(weir_graph_begin(graph), WEIR_ESTATE);
    CHECK_STATUS(weir_graph_end(graph), WEIR_ESTATE);
    CHECK_PTR_EQ(weir_graph_current(), NULL);
    return NULL;
}

TEST(plan, capture_is_this_threads_and_not_nested)
{
    weir_device *dev = open_device("cpu"), *other = open_device("cpu");
    const int64_t shape[] = {4};
    weir_graph *g, *h;
    weir_tensor *x, *y, *real;
    pthread_t thread;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_create(dev, &h));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, shape, &x));
    CHECK_STATUS(weir_graph_input(g, "x", WEIR_F32, 1, shape, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_relu(x, &y), WEIR_ESTATE); /* not capturing */
    CHECK_OK(weir_graph_begin(g));
    CHECK_STATUS(weir_graph_begin(g), WEIR_ESTATE);
    CHECK_STATUS(weir_graph_begin(h), WEIR_ESTATE);
    CHECK_STATUS(weir_graph_end(h), WEIR_ESTATE);
    CHECK_EQ(pthread_create(&thread, NULL, begin_elsewhere, g), 0);
    pthread_join(thread, NULL);
    CHECK_PTR_EQ(weir_graph_current(), g);
    /* Another device's operators run as ever. */
    CHECK_OK(weir_tensor_empty(weir_stream_default(other), WEIR_F32, 1, shape, &real));
    CHECK_OK(weir_fill(real, 2));
    CHECK_EQ(weir_graph_node_count(g), 0);
    CHECK_STATUS(weir_tensor_read(x, &(float[4]){0}, 16), WEIR_ESTATE);
    CHECK_PTR_EQ(weir_tensor_data(x), NULL);
    CHECK_OK(weir_graph_end(g));
    CHECK_STATUS(weir_graph_output(h, "x", x), WEIR_EINVAL); /* another graph's */
    weir_tensor_release(real);
    weir_graph_destroy(g);
    weir_tensor_release(x); /* after its graph */
    weir_graph_destroy(h);
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(other));
}

TEST(plan, run_checks_before_anything_is_queued)
{
    weir_device *dev = open_device("cpu"), *other = open_device("cpu");
    weir_graph *g = small_graph(dev, "1");
    const int64_t good[] = {8, 8}, bad[] = {8, 4}, wide[] = {8, 16};
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x, *y, *z = NULL, *half;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, bad, &x));
    CHECK_STATUS(weir_plan_run(plan, s, &x, 1, &z, 1), WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "f32[8, 4]");
    CHECK_STR(weir_last_error(), "f32[8, 8]");
    CHECK_STATUS(weir_plan_run(plan, s, &x, 2, &z, 1), WEIR_EINVAL);
    weir_tensor_release(x);
    CHECK_OK(weir_tensor_empty(s, WEIR_F64, 2, good, &x));
    CHECK_STATUS(weir_plan_run(plan, s, &x, 1, &z, 1), WEIR_EDTYPE);
    weir_tensor_release(x);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, wide, &x));
    CHECK_OK(weir_tensor_slice(x, 1, 0, 8, 1, &half));
    CHECK_STATUS(weir_plan_run(plan, s, &half, 1, &z, 1), WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "contiguous");
    weir_tensor_release(half);
    weir_tensor_release(x);
    CHECK_OK(weir_tensor_empty(weir_stream_default(other), WEIR_F32, 2, good, &x));
    CHECK_STATUS(weir_plan_run(plan, s, &x, 1, &z, 1), WEIR_EDEVICE);
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(other), &x, 1, &z, 1), WEIR_EDEVICE);
    weir_tensor_release(x);
    x = NULL;
    CHECK_STATUS(weir_plan_run(plan, s, &x, 1, &z, 1), WEIR_EINVAL);
    CHECK_PTR_EQ(z, NULL);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, good, &x));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, good, &y));
    CHECK_OK(weir_fill(x, 1));
    CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1)); /* into a tensor of the caller's */
    static float values[64];
    CHECK_OK(weir_tensor_read(y, values, sizeof values));
    CHECK(values[63] == 8);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(other));
}

/* ---- running ---- */

static const weir_compile_options both[] = {{.mode = WEIR_COMPILE_MAX_AUTOTUNE},
                                            {.mode = WEIR_COMPILE_REDUCE_OVERHEAD}};

static void run_on_a_lane(const weir_compile_options *options)
{
    weir_device *dev = open_device("cpu:jitter=4");
    weir_graph *g = small_graph(dev, "lane");
    const int64_t shape[] = {8, 8};
    weir_stream *s;
    weir_plan *plan;
    static float values[64];

    CHECK_OK(weir_graph_compile(g, options, &plan));
    CHECK_OK(weir_stream_tagged(dev, "lane", 0, &s));
    CHECK_OK(weir_stream_set_current(s));
    for (int i = 0; i < 100; i++) {
        weir_tensor *x, *z = NULL;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
        CHECK_OK(weir_fill(x, i));
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &z, 1));
        weir_tensor_release(x);
        CHECK_OK(weir_tensor_read(z, values, sizeof values));
        CHECK(values[0] == (float)(8 * i * i));
        weir_tensor_release(z);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan, a_plan_may_run_on_a_stream_that_is_one_of_its_lanes)
{
    run_on_a_lane(&both[0]);
    run_on_a_lane(&both[1]);
}

struct runner {
    weir_device *dev;
    weir_plan *plan;
    int seed;
};

static void *run_many(void *arg)
{
    const struct runner *r = arg;
    const int64_t shape[] = {8, 8};
    weir_stream *s;
    float values[64];

    CHECK_OK(weir_stream_create(r->dev, NULL, &s));
    CHECK_OK(weir_stream_set_current(s));
    for (int i = 0; i < 200; i++) {
        weir_tensor *x, *z = NULL;
        float v = (float)(r->seed + i % 7);

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
        CHECK_OK(weir_fill(x, v));
        CHECK_OK(weir_plan_run(r->plan, s, &x, 1, &z, 1));
        weir_tensor_release(x);
        CHECK_OK(weir_tensor_read(z, values, sizeof values));
        CHECK(values[5] == 8 * v * v);
        weir_tensor_release(z);
    }
    CHECK_OK(weir_stream_destroy(s));
    return NULL;
}

static void run_from_threads(const weir_compile_options *options)
{
    weir_device *dev = open_device("cpu:threads=3,cores=3,jitter=6");
    weir_graph *g = small_graph(dev, "shared");
    struct runner r[4];
    pthread_t threads[4];
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, options, &plan));
    for (int i = 0; i < 4; i++) {
        r[i] = (struct runner){dev, plan, 10 * i};
        CHECK_EQ(pthread_create(&threads[i], NULL, run_many, &r[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_LE(stats.instances, 8);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan, several_threads_run_one_plan_at_once)
{
    run_from_threads(&both[0]);
    run_from_threads(&both[1]);
}

static void fail_and_run_again(const weir_compile_options *options)
{
    weir_device *dev = open_device("cpu:threads=2");
    const int64_t rows[] = {4, 2}, n = 3;
    const int64_t good[] = {0, 1, 3}, bad[] = {0, 9, 1};
    weir_tensor *table, *index, *y, *z, *out = NULL;
    weir_stream *s = weir_stream_default(dev), *t;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, rows, &table));
    CHECK_OK(weir_fill(table, 3));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "index", WEIR_I64, 1, &n, &index));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_embedding(table, index, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_relu(y, &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    CHECK_OK(weir_graph_compile(g, options, &plan));
    weir_tensor_release(index);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_graph_destroy(g);

    CHECK_OK(weir_stream_create(dev, NULL, &t));
    CHECK_OK(weir_tensor_from(t, WEIR_I64, 1, &n, bad, &index));
    CHECK_OK(weir_plan_run(plan, t, &index, 1, &out, 1));
    CHECK_STATUS(weir_stream_sync(t), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "Embedding");
    weir_tensor_release(index);
    weir_tensor_release(out);
    out = NULL;
    CHECK_OK(weir_stream_destroy(t));
    CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &n, good, &index));
    CHECK_OK(weir_plan_run(plan, s, &index, 1, &out, 1));
    CHECK_OK(weir_stream_sync(s));
    static float values[6];
    CHECK_OK(weir_tensor_read(out, values, sizeof values));
    CHECK(values[5] == 3);
    /* A constant written between runs is seen by the next. */
    CHECK_OK(weir_fill(table, 4));
    CHECK_OK(weir_plan_run(plan, s, &index, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, values, sizeof values));
    CHECK(values[5] == 4);
    weir_tensor_release(index);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_tensor_release(table);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan, a_failing_node_fails_the_caller_and_the_plan_runs_again)
{
    fail_and_run_again(&both[0]);
    fail_and_run_again(&both[1]);
}

/* Work of a plan on a tagged stream is in order with eager work on it, before and after,
 * whatever the plan really ran on. */
static void keep_order_with_eager(const weir_compile_options *options)
{
    weir_device *dev = open_device("cpu:jitter=8,threads=3,cores=3");
    weir_graph *g = small_graph(dev, "lane");
    const int64_t shape[] = {8, 8}, big = 200000;
    weir_stream *lane, *s;
    weir_tensor *x, *z, *slow;
    weir_plan *plan;
    static float values[64];

    CHECK_OK(weir_graph_compile(g, options, &plan));
    CHECK_OK(weir_stream_tagged(dev, "lane", 0, &lane));
    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &z));
    CHECK_OK(weir_tensor_empty(lane, WEIR_F32, 1, &big, &slow));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 200; i++) {
        weir_event *e;

        CHECK_OK(weir_stream_set_current(s));
        CHECK_OK(weir_fill(x, i));
        CHECK_OK(weir_stream_set_current(lane));
        CHECK_OK(weir_fill(slow, i)); /* the plan's matmul comes after this */
        CHECK_OK(weir_fill(z, -1));   /* and so overwrites this */
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &z, 1));
        if (i % 3 == 0) {
            CHECK_OK(weir_add_scalar_into(z, 1, z)); /* on the lane: after the plan's matmul */
        } else if (i % 3 == 1) {
            CHECK_OK(weir_event_create(dev, NULL, &e));
            CHECK_OK(weir_event_record(e, lane));
            CHECK_OK(weir_event_sync(e)); /* the lane's last work is the plan's */
            weir_event_destroy(e);
            CHECK_OK(weir_add_scalar_into(z, 1, z));
        } else {
            CHECK_OK(weir_stream_sync(lane));
            CHECK_OK(weir_add_scalar_into(z, 1, z));
        }
        CHECK_OK(weir_tensor_read(z, values, sizeof values));
        CHECK(values[9] == (float)(8 * i * i + 1));
        CHECK_OK(weir_stream_wait_stream(s, lane));
    }
    weir_tensor_release(x);
    weir_tensor_release(z);
    weir_tensor_release(slow);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan, a_plan_is_in_order_with_eager_work_on_its_streams)
{
    keep_order_with_eager(&both[0]);
    keep_order_with_eager(&both[1]);
}

TEST(plan, a_changed_limit_is_honoured_at_the_next_run_or_said_to_be_frozen)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        weir_device *dev = open_device("cpu:cores=4,threads=2");
        weir_graph *g = small_graph(dev, "default");
        const int64_t shape[] = {8, 8};
        weir_stream *s = weir_stream_default(dev);
        weir_plan *plan;
        weir_tensor *x, *z = NULL;

        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.static_kernels = frozen}, &plan));
        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
        CHECK_OK(weir_fill(x, 2));
        for (int limit = 1; limit <= 4; limit++) {
            static float values[64];

            CHECK_OK(weir_stream_set_limit(s, (weir_cores){limit, limit}));
            CHECK_OK(weir_plan_run(plan, s, &x, 1, &z, 1));
            CHECK_OK(weir_tensor_read(z, values, sizeof values));
            CHECK(values[0] == 32);
        }
        char *list = weir_plan_list(plan);
        CHECK_EQ(strstr(list, "static kernels") != NULL, frozen);
        free(list);
        weir_tensor_release(x);
        weir_tensor_release(z);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(plan, a_plan_takes_any_number_of_inputs_and_outputs)
{
    enum { N = 100 };
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    const int64_t shape[] = {4};
    weir_tensor *in[N], *out[N] = {NULL};
    weir_graph *g;
    weir_plan *plan;
    char name[16];

    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < N; i++) {
        weir_tensor *x, *y;

        snprintf(name, sizeof name, "x%d", i);
        CHECK_OK(weir_graph_input(g, name, WEIR_F32, 1, shape, &x));
        CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_add_scalar(x, 1, &y));
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, name, y));
        weir_tensor_release(x);
        weir_tensor_release(y);
        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, shape, &in[i]));
        CHECK_OK(weir_fill(in[i], i));
    }
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int run = 0; run < 3; run++) {
        CHECK_OK(weir_plan_run(plan, s, in, N, out, N));
        for (int i = 0; i < N; i++) {
            float values[4];

            CHECK_OK(weir_tensor_read(out[i], values, sizeof values));
            CHECK(values[3] == (float)i + 1);
        }
    }
    for (int i = 0; i < N; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan, modes_and_placements_have_names)
{
    weir_stream_placement placement;
    weir_compile_mode mode;

    CHECK_OK(weir_compile_mode_parse("reduce-overhead", &mode));
    CHECK_EQ(mode, WEIR_COMPILE_REDUCE_OVERHEAD);
    CHECK_OK(weir_compile_mode_parse(NULL, &mode));
    CHECK_EQ(mode, WEIR_COMPILE_MAX_AUTOTUNE);
    CHECK_STATUS(weir_compile_mode_parse("fast", &mode), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "max-autotune, reduce-overhead, eager");
    CHECK_OK(weir_stream_placement_parse("auto", &placement));
    CHECK_EQ(placement, WEIR_STREAMS_AUTO);
    CHECK_OK(weir_stream_placement_parse("siblings", &placement));
    CHECK_EQ(placement, WEIR_STREAMS_SIBLINGS);
    CHECK_OK(weir_stream_placement_parse(NULL, &placement));
    CHECK_EQ(placement, WEIR_STREAMS_EXPLICIT);
    CHECK_STATUS(weir_stream_placement_parse("many", &placement), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "'many'");
}

/* A program that was built against an older or a newer library. */
TEST(plan, structs_of_another_size_are_filled_up_to_their_size)
{
    struct {
        weir_plan_stats stats;
        char more[8];
    } newer;
    struct {
        weir_compile_options options;
        char more[8];
    } given = {.options = {.size = sizeof given}};
    weir_device *dev = open_device("cpu");
    weir_graph *g = small_graph(dev, "side");
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, &given.options, &plan));
    memset(&newer, 0x55, sizeof newer);
    weir_plan_get_stats(plan, &newer.stats, offsetof(weir_plan_stats, streams));
    CHECK_GT(newer.stats.nodes, 0);
    CHECK_EQ(newer.stats.streams, (size_t)0x5555555555555555);
    weir_plan_get_stats(plan, &newer.stats, sizeof newer);
    CHECK_GT(newer.stats.streams, 0);
    CHECK_EQ(newer.more[7], 0);
    weir_plan_destroy(plan);
    given.more[3] = 1; /* an option that this library does not know */
    CHECK_STATUS(weir_graph_compile(g, &given.options, &plan), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "compile options: byte");
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.size = 3}, &plan), WEIR_EINVAL);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
