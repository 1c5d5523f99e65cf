/* Plans: what they compute, what they refuse, and how they fail. */
#include <pthread.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "graph/random_graph.h"
#include "harness/test.h"
#include "ops/op.h"

static weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

/* ---- against eager calls ---- */

/* A handle on a view of the value's tensor. */
static weir_tensor *operand_tensor(weir_tensor *const *values, const struct weir__operand *o)
{
    weir_tensor *whole, *t;

    if (o->value == WEIR__NO_VALUE)
        return NULL;
    whole = values[o->value];
    CHECK_OK(weir_tensor_slice(whole, 0, 0, 0, 1, &t)); /* any handle on the buffer */
    t->view = o->view;
    t->view.data = whole->buffer->address + (uintptr_t)o->view.data;
    return t;
}

static void run_node(const weir_graph *g, int v, weir_tensor **values)
{
    const struct weir__node *n = &g->nodes[v];
    weir_tensor *in[WEIR__OP_MAX_IN], *out[WEIR__OP_MAX_OUT] = {NULL};
    bool into = n->nout && g->values[n->out[0].value].node != v;

    for (int i = 0; i < n->nin; i++)
        in[i] = operand_tensor(values, &n->in[i]);
    CHECK_OK(weir_scope_push_cores(
        (weir_cores){n->marks.limit.cube > 0 ? n->marks.limit.cube : -1,
                     n->marks.limit.vector > 0 ? n->marks.limit.vector : -1}));
    if (into)
        out[0] = operand_tensor(values, &n->out[0]);
    if (into)
        CHECK_OK(weir__op_run_into(n->op, n->params, in, n->nin, out));
    else
        CHECK_OK(weir__op_run(n->op, n->params, in, n->nin, out));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    for (int i = 0; i < n->nin; i++)
        weir_tensor_release(in[i]);
    for (int i = 0; i < n->nout; i++) {
        if (into)
            weir_tensor_release(out[i]);
        else
            values[n->out[i].value] = out[i];
    }
}

static void check_same(const char *what, weir_tensor *a, weir_tensor *b)
{
    size_t bytes = (size_t)weir_tensor_numel(a) * weir_dtype_size(weir_tensor_dtype(a));
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);

    CHECK_OK(weir_tensor_read(a, x, bytes));
    CHECK_OK(weir_tensor_read(b, y, bytes));
    if (memcmp(x, y, bytes))
        FAIL("%s differs from the eager run", what);
    free(x);
    free(y);
}

static weir_tensor *random_input(weir_device *dev, const struct weir__view *view, uint64_t seed)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), view->dtype, view->ndim, view->shape, &t));
    CHECK_OK(weir_random_normal(t, seed, 0, 1));
    return t;
}

static void compare_with_eager(const char *spec, const struct random_graph_options *options,
                               const weir_compile_options *compile)
{
    weir_device *dev = open_device(spec);
    weir_graph *g = random_graph(dev, options);
    weir_tensor **values = calloc((size_t)g->nvalues, sizeof *values);
    weir_tensor *in[8] = {NULL}, *out[1024];
    weir_plan *plan;

    CHECK_LE(g->ninputs, 8);
    CHECK_OK(weir_graph_compile(g, compile, &plan));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < g->ninputs; i++)
            in[i] = random_input(dev, &g->values[g->inputs[i]].view, options->seed + (uint64_t)i);
        memset(out, 0, sizeof out);
        CHECK_OK((round ? weir_plan_call : weir_plan_run)(
            plan, weir_stream_default(dev), in, (size_t)g->ninputs, out, (size_t)g->noutputs));
        CHECK_OK(weir_device_sync(dev));
        for (int i = 0; i < g->nvalues;
             i++) /* constants that are written change from round to round */
            values[i] = g->values[i].constant ? weir_tensor_retain(g->values[i].constant) : NULL;
        if (!round || !options->in_place) {
            for (int i = 0; i < g->ninputs; i++)
                values[g->inputs[i]] =
                    random_input(dev, &g->values[g->inputs[i]].view, options->seed + (uint64_t)i);
            for (int v = 0; v < g->nnodes; v++)
                run_node(g, v, values);
            for (int i = 0; i < g->noutputs; i++) {
                weir_tensor *want = operand_tensor(values, &g->outputs[i].operand);

                check_same(g->outputs[i].name, out[i], want);
                weir_tensor_release(want);
            }
        }
        for (int i = 0; i < g->nvalues; i++)
            weir_tensor_release(values[i]);
        for (int i = 0; i < g->noutputs; i++)
            weir_tensor_release(out[i]);
        for (int i = 0; i < g->ninputs; i++)
            weir_tensor_release(in[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    free(values);
    CHECK_OK(weir_device_close(dev));
}

TEST_TIMEOUT(plan, random_graphs_give_the_bits_of_eager_calls, 240)
{
    char spec[96];

    for (uint64_t seed = 1; seed <= 1000 / TEST_SLOWDOWN; seed++) {
        struct random_graph_options o =
            random_graph_defaults(seed, 4 + (int)(seed % 40), 1 + (int)(seed % 8));

        o.in_place = seed % 3 ? o.in_place : 0;
        snprintf(spec, sizeof spec, "cpu:cube=24,vector=48,threads=%d,jitter=%d", 1 + (int)seed % 4,
                 (int)seed);
        test_note("seed %d on %s", (int)seed, spec);
        compare_with_eager(spec, &o,
                           &(weir_compile_options){
                               .streams = seed % 2 ? "explicit" : "auto",
                               .mode = seed % 3 ? "reduce-overhead" : "max-autotune",
                           });
    }
}

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
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.mode = "fast"}, &plan),
                 WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "max-autotune, reduce-overhead, eager");
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.streams = "many"}, &plan),
                 WEIR_EINVAL);
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

static const weir_compile_options both[] = {{.mode = "max-autotune"}, {.mode = "reduce-overhead"}};

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

TEST(plan, runs_on_the_stream_that_is_one_of_its_lanes)
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
    weir_plan_get_stats(plan, &stats);
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

TEST(plan, is_in_order_with_eager_work_on_its_streams)
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

TEST(plan, takes_any_number_of_inputs_and_outputs)
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

/* ---- super kernels ---- */

/* relu, exp, matmul, neg: all in one scope, the last on another stream if asked. */
static weir_graph *scoped_graph(weir_device *dev, const char *options, bool two_streams)
{
    const int64_t shape[] = {64, 64};
    weir_tensor *t[5];
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &t[0]));
    CHECK_OK(weir_graph_begin(g));
    WEIR_SUPER_KERNEL_SCOPE("sk", options)
    {
        CHECK_OK(weir_relu(t[0], &t[1]));
        CHECK_OK(weir_exp(t[1], &t[2]));
        CHECK_OK(weir_matmul(t[2], t[1], &t[3]));
        CHECK_OK(weir_scope_push_stream(two_streams ? "side" : "default", 0));
        CHECK_OK(weir_neg(t[3], &t[4]));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", t[4]));
    for (int i = 0; i < 5; i++)
        weir_tensor_release(t[i]);
    return g;
}

static void keep_warning(void *user, weir_log_level level, const char *text)
{
    if (level == WEIR_LOG_WARN)
        snprintf(user, 300, "%s", text);
}

TEST(super_kernel, gives_the_bits_of_the_parts_and_fuses_streams_when_asked)
{
    static const struct {
        const char *options;
        bool two;
        size_t streams;
        const char *warning;
    } rows[] = {
        {"", false, 1, ""},
        {"", true, 2, "stream-fusion=1 puts them on one"},
        {"stream-fusion=0", true, 2, "stream-fusion=1 puts them on one"},
        {"stream-fusion=1:strict-scope-check=abort", true, 1, ""},
    };
    const int64_t shape[] = {64, 64};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_device *dev = open_device("cpu:cube=5,vector=7,threads=3,jitter=2");
        weir_stream *s = weir_stream_default(dev);
        static char warning[300];
        weir_tensor *x, *t[5], *y = NULL;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        test_note("options '%s'", rows[i].options);
        warning[0] = 0;
        weir_log_set(keep_warning, warning, WEIR_LOG_WARN);
        g = scoped_graph(dev, rows[i].options, rows[i].two);
        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
        CHECK_STR(warning, rows[i].warning);
        weir_plan_get_stats(plan, &stats);
        CHECK_EQ(stats.streams, rows[i].streams);
        CHECK_EQ(stats.nodes, 4);
        CHECK_EQ(stats.launches, rows[i].streams);
        for (uint64_t seed = 0; seed < 20; seed++) { /* rebinds every time */
            CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
            CHECK_OK(weir_random_normal(x, seed, 0, 1));
            CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
            CHECK_OK(weir_relu(x, &t[1]));
            CHECK_OK(weir_exp(t[1], &t[2]));
            CHECK_OK(weir_matmul(t[2], t[1], &t[3]));
            CHECK_OK(weir_neg(t[3], &t[4]));
            check_same("y", y, t[4]);
            for (int j = 1; j < 5; j++)
                weir_tensor_release(t[j]);
            weir_tensor_release(x);
            weir_tensor_release(y);
            y = NULL;
        }
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(super_kernel, what_cannot_be_fused_splits_it_or_is_refused)
{
    for (int strict = 0; strict < 2; strict++) {
        weir_device *dev = open_device("cpu");
        const int64_t shape[] = {64};
        weir_tensor *x, *y, *out[2], *z;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, shape, &x));
        CHECK_OK(weir_graph_begin(g));
        WEIR_SUPER_KERNEL_SCOPE("sk", strict ? "strict-scope-check=abort" : "")
        {
            CHECK_OK(weir_relu(x, &y));
            CHECK_OK(weir_nonzero_padded(y, &out[0], &out[1]));
            CHECK_OK(weir_neg(out[0], &z));
        }
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "z", z));
        if (strict) {
            CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ECONFLICT);
            CHECK_STR(weir_last_error(), "NonZero");
            CHECK_STR(weir_last_error(), "'sk'");
        } else {
            CHECK_OK(weir_graph_compile(g, NULL, &plan));
            weir_plan_get_stats(plan, &stats);
            CHECK_EQ(stats.launches, 3);
            weir_plan_destroy(plan);
        }
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(z);
        weir_tensor_release(out[0]);
        weir_tensor_release(out[1]);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

/* ---- elementwise fusion ---- */

TEST(fusion, an_elementwise_chain_is_one_launch_with_the_same_bits)
{
    for (int reduce_overhead = 0; reduce_overhead < 2; reduce_overhead++) {
        weir_device *dev = open_device("cpu:cores=3,threads=2");
        weir_stream *s = weir_stream_default(dev);
        const int64_t shape[] = {100, 777}, row[] = {777};
        weir_tensor *x, *bias, *t[6], *y = NULL, *real;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, row, &bias));
        CHECK_OK(weir_random_normal(bias, 1, 0, 1));
        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
        for (int pass = 0; pass < 2; pass++) {
            if (pass) {
                CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &real));
                CHECK_OK(weir_random_normal(real, 2, 0, 1));
            } else {
                CHECK_OK(weir_graph_begin(g));
            }
            CHECK_OK(weir_add(pass ? real : x, bias, &t[0]));
            CHECK_OK(weir_silu(t[0], &t[1]));
            CHECK_OK(weir_mul(t[1], t[0], &t[2]));
            CHECK_OK(weir_exp(t[2], &t[3]));
            CHECK_OK(weir_sub_scalar(t[3], 1, &t[4]));
            CHECK_OK(weir_maximum(t[4], t[0], &t[5]));
            if (!pass) {
                CHECK_OK(weir_graph_end(g));
                CHECK_OK(weir_graph_output(g, "y", t[5]));
                for (int i = 0; i < 6; i++)
                    weir_tensor_release(t[i]);
            }
        }
        CHECK_OK(weir_graph_compile(
            g, &(weir_compile_options){.mode = reduce_overhead ? "reduce-overhead" : NULL}, &plan));
        weir_plan_get_stats(plan, &stats);
        CHECK_EQ(stats.nodes, 6);
        CHECK_EQ(stats.launches, reduce_overhead ? 6 : 1);
        CHECK_OK(weir_plan_run(plan, s, &real, 1, &y, 1));
        check_same("y", y, t[5]);
        for (int i = 0; i < 6; i++)
            weir_tensor_release(t[i]);
        weir_tensor_release(x);
        weir_tensor_release(bias);
        weir_tensor_release(real);
        weir_tensor_release(y);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

/* ---- timeouts ---- */

TEST(scope, never_timeout_keeps_op_timeout_from_counting)
{
    for (int never = 0; never < 2; never++) {
        weir_device *dev = open_device("cpu:op_timeout=1");
        const weir_attr attrs[] = {
            {"engine", WEIR_ATTR_STRING, {.s = "vector"}},
            {"blocks", WEIR_ATTR_INT, {.i = 1}},
            {"us", WEIR_ATTR_FLOAT, {.f = 2500000}},
        };
        weir_tensor *out;
        weir_graph *g;
        weir_plan *plan;

        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_scope_push_never_timeout(never));
        CHECK_OK(weir_graph_add(g, "Kernel", "slow", attrs, 3, NULL, 0, &out, 1));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_NEVER_TIMEOUT));
        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0));
        CHECK_STATUS(weir_stream_sync(weir_stream_default(dev)), never ? WEIR_OK : WEIR_ETIMEDOUT);
        if (!never) {
            CHECK_STR(weir_last_error(), "slow");
            CHECK_OK(weir_stream_sync_for(weir_stream_default(dev), INT64_C(20000000000)));
        }
        weir_tensor_release(out);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(builder, adds_nodes_by_name_and_says_what_is_wrong)
{
    weir_device *dev = open_device("cpu");
    const int64_t shape[] = {2, 3}, dims[] = {1};
    const weir_attr good[] = {
        {"dims", WEIR_ATTR_INTS, {.ints = {dims, 1}}},
        {"keepdim", WEIR_ATTR_BOOL, {.b = true}},
    };
    const weir_attr unknown = {"colour", WEIR_ATTR_INT, {.i = 1}};
    const weir_attr wrong = {"keepdim", WEIR_ATTR_STRING, {.s = "yes"}};
    const weir_attr cast = {"dtype", WEIR_ATTR_STRING, {.s = "f99"}};
    static const float values[] = {1, 2, 3, 4, 5, 6};
    weir_tensor *x, *y, *in, *out = NULL;
    weir_graph *g;
    weir_plan *plan;
    float sums[2];

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_STATUS(weir_graph_add(g, "Summ", "s", NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "Summ");
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", &unknown, 1, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "keepdim");
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", &wrong, 1, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(g, "Cast", "s", &cast, 1, &x, 1, &y, 1), WEIR_EDTYPE);
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, NULL, 0), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, NULL, 0, &y, 1), WEIR_EINVAL);
    CHECK_EQ(weir_graph_node_count(g), 0);
    CHECK_OK(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, &y, 1));
    CHECK_EQ(weir_tensor_shape(y)[1], 1);
    weir_tensor *again;
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, &again, 1), WEIR_EINVAL);
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 2, shape, values, &in));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, sums, sizeof sums));
    CHECK(sums[0] == 6 && sums[1] == 15);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(in);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
