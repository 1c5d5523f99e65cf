/* Dynamic shapes: one plan per set of input shapes. */
#include <pthread.h>
#include <stdlib.h>

#include "graph/plan/plan.h"
#include "harness/test.h"

static weir_device *open_device(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:threads=2,cube=4,vector=8", &dev));
    return dev;
}

static weir_tensor *random_tensor(weir_device *dev, int64_t rows, int64_t columns, uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){rows, columns}, &t));
    CHECK_OK(weir_random_normal(t, seed, 0, 1));
    return t;
}

/* A bit of a model that uses every kind of view, on x [n, 8] and y [m, 8]: with the sizes of
 * a run, or captured with sizes that are open. */
static void model(weir_tensor *x, weir_tensor *y, weir_tensor *w, weir_tensor **out)
{
    weir_tensor *t[9], *made[8], *total;

    CHECK_OK(weir_tensor_transpose(y, 0, 1, &t[0]));                      /* [8, m] */
    CHECK_OK(weir_matmul(x, t[0], &made[0]));                             /* [n, m] */
    CHECK_OK(weir_softmax(made[0], -1, &made[1]));                        /* [n, m] */
    CHECK_OK(weir_matmul(made[1], y, &made[2]));                          /* [n, 8] */
    CHECK_OK(weir_tensor_slice(x, 0, -1, INT64_MAX, 1, &t[1]));           /* the last row */
    CHECK_OK(weir_add(made[2], t[1], &made[3]));                          /* [n, 8] */
    CHECK_OK(weir_tensor_slice(made[3], 1, 2, 6, 1, &t[2]));              /* [n, 4] */
    CHECK_OK(weir_contiguous(t[2], &made[4]));                            /* [n, 4] */
    CHECK_OK(weir_tensor_reshape(made[4], 2, (int64_t[]){-1, 2}, &t[3])); /* [2n, 2] */
    CHECK_OK(weir_matmul(t[3], w, &made[5]));                             /* [2n, 3] */
    CHECK_OK(weir_sum(made[5], (int[]){0}, 1, true, &made[6]));           /* [1, 3] */
    CHECK_OK(weir_tensor_expand(made[6], 2, (int64_t[]){5, -1}, &t[4]));  /* [5, 3] */
    CHECK_OK(weir_relu(t[4], &total));
    out[0] = made[3];
    out[1] = made[5];
    out[2] = total;
    for (int i = 0; i < 5; i++)
        weir_tensor_release(t[i]);
    for (int i = 0; i < 7; i++)
        if (i != 3 && i != 5)
            weir_tensor_release(made[i]);
}

static weir_graph *dynamic_model(weir_device *dev, weir_tensor *w)
{
    static const char *const names[] = {"a", "b", "c"};
    weir_tensor *x, *y, *out[3];
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){-1, 8}, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_F32, 2, (int64_t[]){-1, 8}, &y));
    CHECK_OK(weir_graph_begin(g));
    model(x, y, w, out);
    CHECK_OK(weir_graph_end(g));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_graph_output(g, names[i], out[i]));
        weir_tensor_release(out[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(y);
    return g;
}

static void check_same(weir_tensor *a, weir_tensor *b)
{
    size_t bytes = (size_t)weir_tensor_numel(a) * 4;
    char *p = malloc(bytes + 1), *q = malloc(bytes + 1);

    CHECK_EQ(weir_tensor_ndim(a), weir_tensor_ndim(b));
    for (int d = 0; d < weir_tensor_ndim(a); d++)
        CHECK_EQ(weir_tensor_shape(a)[d], weir_tensor_shape(b)[d]);
    CHECK_OK(weir_tensor_read(a, p, bytes));
    CHECK_OK(weir_tensor_read(b, q, bytes));
    CHECK(!memcmp(p, q, bytes));
    free(p);
    free(q);
}

/* Runs with n and m rows and compares with eager calls, on the current stream. */
static void check_run(weir_plan *plan, weir_device *dev, weir_tensor *w, int64_t n, int64_t m)
{
    weir_tensor *in[2] = {random_tensor(dev, n, 8, (uint64_t)n), random_tensor(dev, m, 8, 7)};
    weir_tensor *out[3] = {NULL}, *want[3];

    CHECK_OK(weir_plan_run(plan, weir_stream_current(dev), in, 2, out, 3));
    model(in[0], in[1], w, want);
    for (int i = 0; i < 3; i++) {
        check_same(out[i], want[i]);
        weir_tensor_release(out[i]);
        weir_tensor_release(want[i]);
    }
    weir_tensor_release(in[0]);
    weir_tensor_release(in[1]);
}

TEST(dynamic, every_set_of_sizes_gives_the_bits_of_eager_calls)
{
    static const int64_t sizes[][2] = {{1, 1}, {3, 5},     {64, 2},    {200, 300}, {3, 5},
                                       {1, 1}, {199, 290}, {200, 289}, {3, 5},     {1, 1}};
    weir_device *dev = open_device();
    weir_tensor *w = random_tensor(dev, 2, 3, 1);
    weir_graph *g = dynamic_model(dev, w);
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.nodes, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_run(plan, dev, w, sizes[i][0], sizes[i][1]);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    /* Two sets that came back have plans of their own; one serves what came once. */
    CHECK_EQ(stats.shape_sets, 3);
    CHECK_EQ(stats.shape_hits, 2);
    CHECK_EQ(stats.shape_misses, 8);
    CHECK_EQ(stats.shape_resizes, 2);
    CHECK_EQ(stats.streams, 1);
    CHECK_GT(stats.nodes, 5);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(w);
    CHECK_OK(weir_device_close(dev));
}

TEST(dynamic, a_file_keeps_open_sizes_and_how_views_are_made)
{
    weir_device *dev = open_device();
    weir_tensor *w = random_tensor(dev, 2, 3, 1);
    weir_graph *g = dynamic_model(dev, w), *again;
    char *first = weir_graph_dump(g), *second;
    weir_plan *plan;

    CHECK(first != NULL);
    CHECK(strstr(first, "list { i: -1 i: 8 }") != NULL);
    CHECK(strstr(first, "key: \"slice\" value { list { i: 0 i: -1 i: 9223372036854775807") != NULL);
    CHECK(strstr(first, "key: \"permute\" value { list { i: 1 i: 0 }") != NULL);
    CHECK(strstr(first, "key: \"reshape\" value { list { i: -1 i: 2 }") != NULL);
    CHECK(strstr(first, "key: \"expand\" value { list { i: 5 i: -1 }") != NULL);
    CHECK_OK(weir_graph_load(dev, first, strlen(first), "first", &again));
    second = weir_graph_dump(again);
    CHECK_STR_EQ(first, second);
    CHECK_OK(weir_graph_compile(again, NULL, &plan));
    check_run(plan, dev, w, 9, 4);
    weir_plan_destroy(plan);
    weir_graph_destroy(again);
    weir_graph_destroy(g);
    free(first);
    free(second);
    weir_tensor_release(w);
    CHECK_OK(weir_device_close(dev));
}

TEST(dynamic, inputs_that_do_not_fit_are_refused_before_anything_runs)
{
    weir_device *dev = open_device();
    weir_tensor *w = random_tensor(dev, 2, 3, 1);
    weir_tensor *bad = random_tensor(dev, 4, 9, 1), *good = random_tensor(dev, 4, 8, 1);
    weir_graph *g = dynamic_model(dev, w);
    weir_tensor *out[3] = {NULL};
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_STATUS(
        weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){good, bad}, 2, out, 3),
        WEIR_ESHAPE);
    CHECK(strstr(weir_last_error(), "'y' is f32[4, 9], the plan was compiled for f32[-1, 8]"));
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){good}, 1, out, 3),
                 WEIR_EINVAL);
    out[0] = weir_tensor_retain(bad); /* an output of the wrong shape */
    CHECK_STATUS(
        weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){good, good}, 2, out, 3),
        WEIR_ESHAPE);
    CHECK(!out[1]);
    weir_tensor_release(out[0]);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.shape_misses, 1);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(w);
    weir_tensor_release(bad);
    weir_tensor_release(good);
    CHECK_OK(weir_device_close(dev));
}

/* x + y of two open sizes. */
static weir_plan *sum_plan(weir_device *dev, const weir_compile_options *options)
{
    weir_tensor *x, *y, *z;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){-1, -1}, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_F32, 2, (int64_t[]){-1, -1}, &y));
    CHECK_EQ(weir_tensor_shape(x)[1], WEIR__DYNAMIC_SIZE);
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, y, &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_graph_compile(g, options, &plan));
    weir_graph_destroy(g);
    return plan;
}

TEST(dynamic, sizes_that_do_not_go_together_name_the_node)
{
    weir_device *dev = open_device();
    weir_plan *plan = sum_plan(dev, NULL);
    weir_tensor *a = random_tensor(dev, 3, 4, 1), *b = random_tensor(dev, 5, 4, 1), *out = NULL;
    weir_tensor *none = random_tensor(dev, 0, 4, 1);

    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){a, b}, 2, &out, 1),
                 WEIR_ESHAPE);
    CHECK(!out);
    CHECK(strstr(weir_last_error(), "node 'Add_0'"));
    CHECK(strstr(weir_last_error(), "[5, 4]"));
    CHECK_OK(
        weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){none, none}, 2, &out, 1));
    CHECK_EQ(weir_tensor_numel(out), 0);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(none);
    CHECK_OK(weir_device_close(dev));
}

TEST(dynamic, nodes_that_cannot_follow_open_sizes_are_refused_at_compile)
{
    static const char fixed[] =
        "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { s: \"f32\" } }"
        " attr { key: \"shape\" value { list { i: -1 i: 4 } } } }"
        "node { name: \"v\" op: \"View\" input: \"x\""
        " attr { key: \"shape\" value { list { i: 2 i: 2 } } } }"
        "node { name: \"r\" op: \"Relu\" input: \"v\" }"
        "node { name: \"out\" op: \"NetOutput\" input: \"r\" }";
    weir_device *dev = open_device();
    weir_tensor *x, *flat, *y;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, fixed, sizeof fixed - 1, "fixed", &g));
    CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ESHAPE);
    CHECK(strstr(weir_last_error(), "node 'r'"));
    CHECK(strstr(weir_last_error(), "fixed strides"));
    CHECK(!plan);
    weir_graph_destroy(g);

    /* A reshape to a number that was computed from the stand-in. */
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){-1, 4}, &x));
    CHECK_OK(weir_tensor_reshape(x, 1, (int64_t[]){weir_tensor_numel(x)}, &flat));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_relu(flat, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ESHAPE);
    CHECK(strstr(weir_last_error(), "node 'Relu_0': reshape"));
    weir_tensor_release(x);
    weir_tensor_release(flat);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

static void run_sum(weir_plan *plan, weir_device *dev, int64_t size)
{
    weir_tensor *a = random_tensor(dev, size, 4, 1), *out = NULL;

    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){a, a}, 2, &out, 1));
    CHECK_EQ(weir_tensor_shape(out)[0], size);
    weir_tensor_release(a);
    weir_tensor_release(out);
}

TEST(dynamic, the_cache_is_bounded_and_evicts_the_least_recently_used_plan)
{
    weir_device *dev = open_device();
    weir_plan *plan = sum_plan(dev, NULL);
    weir_plan_stats stats;

    for (int64_t n = 1; n <= WEIR_PLAN_SHAPE_SETS + 3; n++) {
        run_sum(plan, dev, n);
        run_sum(plan, dev, n); /* it has come twice, and keeps its plan */
        run_sum(plan, dev, 1);
    }
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.shape_sets, WEIR_PLAN_SHAPE_SETS);
    CHECK_EQ(stats.shape_evictions, 3);
    CHECK_EQ(stats.shape_misses, WEIR_PLAN_SHAPE_SETS + 3); /* size 1 stayed */
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

TEST(dynamic, sizes_that_grow_are_served_without_a_compile)
{
    weir_device *dev = open_device();
    weir_tensor *w = random_tensor(dev, 2, 3, 1);
    weir_graph *g = dynamic_model(dev, w);
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int64_t n = 2; n < 400; n += 1 + TEST_SLOWDOWN / 2)
        check_run(plan, dev, w, n, n / 2 + 1);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.shape_hits, 0);
    CHECK_LE(stats.shape_sets, 2);
    CHECK_LE(stats.shape_misses - stats.shape_resizes, 64); /* compiles */
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(w);
    CHECK_OK(weir_device_close(dev));
}

static weir_plan *two_branches(weir_device *dev, bool labelled)
{
    weir_tensor *x, *w = random_tensor(dev, 64, 64, 1), *a[4], *b[4], *z;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){-1, 64}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_cores((weir_cores){1, 1})); /* so that two fit side by side */
    CHECK_OK(weir_matmul(x, w, &a[0]));
    CHECK_OK(weir_matmul(a[0], w, &a[1]));
    if (labelled)
        CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_matmul(x, w, &b[0]));
    CHECK_OK(weir_matmul(b[0], w, &b[1]));
    if (labelled)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_add(a[1], b[1], &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(a[i]);
        weir_tensor_release(b[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(w);
    weir_tensor_release(z);
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.streams = WEIR_STREAMS_AUTO}, &plan));
    weir_graph_destroy(g);
    return plan;
}

static size_t streams_of(weir_device *dev, bool labelled, const char *variable)
{
    weir_tensor *x = random_tensor(dev, 2000, 64, 1), *out = NULL;
    weir_plan_stats stats;
    weir_plan *plan;

    if (variable)
        setenv("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM", variable, 1);
    else
        unsetenv("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM");
    plan = two_branches(dev, labelled);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &out, 1));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    weir_tensor_release(out);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    return stats.streams;
}

TEST(dynamic, automatic_streams_need_the_variable_and_labels_do_not)
{
    weir_device *dev = open_device();

    CHECK_EQ(streams_of(dev, false, NULL), 1);
    CHECK_EQ(streams_of(dev, false, "true"), 1);
    CHECK_EQ(streams_of(dev, false, "01"), 1);
    CHECK_EQ(streams_of(dev, false, "1"), 2);
    CHECK_EQ(streams_of(dev, true, NULL), 2);
    CHECK_EQ(streams_of(dev, true, "0"), 2);
    CHECK_OK(weir_device_close(dev));
}

struct racer {
    weir_plan *plan;
    weir_device *dev;
    weir_tensor *w;
    int index;
};

static void *race(void *user)
{
    struct racer *r = user;
    weir_stream *s;

    CHECK_OK(weir_stream_create(r->dev, NULL, &s));
    CHECK_OK(weir_stream_set_current(s));
    for (int i = 0; i < 60 / TEST_SLOWDOWN; i++)
        check_run(r->plan, r->dev, r->w, 1 + (i * 7 + r->index) % 23, 2 + i % 2);
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_set_current(weir_stream_default(r->dev)));
    weir_stream_destroy(s);
    return NULL;
}

TEST_TIMEOUT(dynamic, threads_run_different_shapes_at_once, 120)
{
    weir_device *dev = open_device();
    weir_tensor *w = random_tensor(dev, 2, 3, 1);
    weir_graph *g = dynamic_model(dev, w);
    struct racer racers[4];
    pthread_t threads[4];
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < 4; i++) {
        racers[i] = (struct racer){plan, dev, w, i};
        CHECK_EQ(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_LE(stats.shape_sets, WEIR_PLAN_SHAPE_SETS);
    CHECK_EQ(stats.shape_hits + stats.shape_misses, (size_t)(4 * (60 / TEST_SLOWDOWN)));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(w);
    CHECK_OK(weir_device_close(dev));
}
