/* Recordings of plans: the nodes one by one, and the run as it is without a recording. */
#include "gpu.h"
#include "weir/trace.h"

enum { N = 64 };

static weir_trace_data record(weir_trace *trace)
{
    weir_trace_data d;

    weir_trace_get(trace, &d, sizeof d);
    return d;
}

/* The n-th operator of that name, from 0. */
static const weir_trace_op *op_named(const weir_trace_data *d, const char *name, int n)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name) && !n--)
            return &d->ops[i];
    FAIL("the trace has too few operators '%s'", name);
}

/* Calls of the function since the fake was told to watch. */
static int count_calls(const struct fake_control *fake, const char *symbol)
{
    const char *called;
    int n = 0;

    for (uint64_t i = 1; (called = fake->watched(i)); i++)
        n += !strcmp(called, symbol);
    return n;
}

/* ---- values and times ---- */

/* Two kernels side by side between two others. */
static const char model[] =
    "node { name: \"x\" op: \"Kernel\" attr { key: \"us_per_block\" value { f: 200 } } }\n"
    "node { name: \"left\" op: \"Kernel\" input: \"x\"\n"
    "  attr { key: \"us_per_block\" value { f: 300 } }\n"
    "  attr { key: \"_user_stream_label\" value { s: \"left\" } } }\n"
    "node { name: \"right\" op: \"Kernel\" input: \"x\"\n"
    "  attr { key: \"us_per_block\" value { f: 300 } }\n"
    "  attr { key: \"_user_stream_label\" value { s: \"right\" } } }\n"
    "node { name: \"y\" op: \"Kernel\" input: \"left\" input: \"right\"\n"
    "  attr { key: \"us_per_block\" value { f: 200 } } }\n";

static weir_plan *load_model(weir_device *dev)
{
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, model, sizeof model - 1, "model", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

static void run(weir_plan *plan, weir_stream *s)
{
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
}

/* The n-th run of the model. */
static void check_order(const weir_trace_data *d, int n)
{
    const weir_trace_op *x = op_named(d, "x", n), *left = op_named(d, "left", n),
                        *right = op_named(d, "right", n), *y = op_named(d, "y", n);

    CHECK_NE(left->stream, right->stream);
    CHECK_EQ(x->stream, y->stream);
    CHECK_LE(x->queued_ns, x->started_ns);
    CHECK_LE(x->ended_ns, left->started_ns);
    CHECK_LE(x->ended_ns, right->started_ns);
    CHECK_LE(left->ended_ns, y->started_ns);
    CHECK_LE(right->ended_ns, y->started_ns);
    CHECK_GE(x->ended_ns - x->started_ns, 150000);
    CHECK_GT(x->nparts, 0);
    CHECK_GT(left->nwaits, 0); /* at the fork, and for what it comes after */
    CHECK_EQ(d->waits[left->first_wait + left->nwaits - 1].source_op, x - d->ops);
    if (n)
        CHECK_LE(op_named(d, "y", n - 1)->ended_ns, x->started_ns);
}

TEST(cuda_trace_plans, nodes_are_recorded_one_by_one_in_their_order)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = load_model(dev);
    weir_trace_data d;
    weir_trace *trace;

    run(plan, s);
    CHECK_OK(weir_trace_start(NULL));
    run(plan, s);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    run(plan, s);
    CHECK_OK(weir_stream_sync(s));
    d = record(trace);
    CHECK_EQ(d.nops, 4);
    check_order(&d, 0);
    weir_trace_free(trace);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* Every run has events of its own: none is waited for, and none has another's times. */
TEST(cuda_trace_plans, runs_that_are_queued_before_the_first_has_begun_have_their_own_times)
{
    enum { RUNS = 5 };
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = load_model(dev);
    weir_trace_data d;
    weir_trace *trace;

    for (int round = 0; round < 2; round++) {
        CHECK_OK(weir_trace_start(NULL));
        run(plan, s); /* loads its kernels */
        if (fake)
            fake->hold(true);
        for (int i = 1; i < RUNS; i++)
            run(plan, s);
        if (fake)
            fake->hold(false);
        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_trace_stop(&trace));
        d = record(trace);
        CHECK_EQ(d.nops, 4 * RUNS);
        for (int i = 0; i < RUNS; i++)
            check_order(&d, i);
        weir_trace_free(trace);
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* ---- the path ---- */

/* Lanes with priorities and limits, kernels that start early, and products. */
static weir_plan *build_plan(weir_device *dev)
{
    const int64_t square[2] = {8, 8};
    weir_tensor *x, *y[4], *z;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, square, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_softmax(x, 1, &y[0]));
    CHECK_OK(weir_matmul(y[0], x, &y[1]));
    CHECK_OK(weir_scope_push_stream("side", 1));
    CHECK_OK(weir_scope_push_cores((weir_cores){16, 16}));
    CHECK_OK(weir_softmax(y[0], 0, &y[2]));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_matmul(x, x, &y[3]));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    for (int i = 1; i < 4; i++) {
        CHECK_OK(weir_add(y[0], y[i], &z));
        weir_tensor_release(y[0]);
        y[0] = z;
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < 4; i++)
        weir_tensor_release(y[i]);
    weir_tensor_release(x);
    weir_graph_destroy(g);
    return plan;
}

struct path {
    char nodes[4096]; /* of the graph that is launched */
    int graphs, kernels, waits, early, full;
};

/* What a run is for CUDA once it has been captured. */
static struct path find_path(const struct fake_control *fake, weir_plan *plan, weir_stream *s,
                             weir_tensor *in, weir_tensor *out, float *got)
{
    struct path p;

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_stream_sync(s));
        fake->watch();
        CHECK_OK(weir_plan_run(plan, s, &in, 1, &out, 1));
    }
    fake->launched(p.nodes, sizeof p.nodes);
    fake->edges(&p.early, &p.full);
    p.graphs = count_calls(fake, "cuGraphLaunch");
    p.kernels = count_calls(fake, "cuLaunchKernel") + count_calls(fake, "cuLaunchKernelEx") +
                count_calls(fake, "cublasLtMatmul");
    p.waits = count_calls(fake, "cuStreamWaitEvent");
    CHECK_OK(weir_tensor_read(out, got, N * sizeof *got));
    return p;
}

static void check_same_path(const struct path *a, const struct path *b)
{
    CHECK_EQ(a->graphs, 1);
    CHECK_EQ(b->graphs, 1);
    CHECK_EQ(a->kernels, 0);
    CHECK_EQ(b->kernels, 0);
    CHECK_EQ(a->waits, b->waits);
    CHECK_EQ(a->early, b->early);
    CHECK_EQ(a->full, b->full);
    CHECK_STR_EQ(a->nodes, b->nodes);
}

TEST(cuda_trace_plans, a_run_that_is_recorded_is_one_launch_of_the_same_kernels_and_edges)
{
    const struct fake_control *fake = use_fake();
    const int64_t square[2] = {8, 8};
    weir_device *dev;
    weir_stream *s;
    weir_tensor *in, *out;
    weir_plan *plan;
    weir_trace *trace;
    struct path path[3];
    float x[N], got[3][N];

    CHECK_OK(weir_device_open("cuda:0", &dev));
    s = weir_stream_default(dev);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 7) / 8;
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 2, square, x, &in));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, square, &out));
    plan = build_plan(dev);
    path[0] = find_path(fake, plan, s, in, out, got[0]);
    CHECK_OK(weir_trace_start(NULL));
    path[1] = find_path(fake, plan, s, in, out, got[1]);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    path[2] = find_path(fake, plan, s, in, out, got[2]);
    for (int i = 1; i < 3; i++) {
        check_same_path(&path[0], &path[i]);
        CHECK_MEM_EQ(got[i], got[0], sizeof got[0]);
    }
    CHECK_GT(path[0].early, 0);
    CHECK_GT(record(trace).nops, 8);
    weir_trace_free(trace);
    weir_plan_destroy(plan);
    weir_tensor_release(in);
    weir_tensor_release(out);
    CHECK_OK(weir_device_close(dev));
}

/* Two products of one size, side by side; the fake makes one call of several quicker. */
TEST(cuda_trace_plans, products_that_are_one_launch_have_its_times_each)
{
    const struct fake_control *fake = use_fake();
    const int64_t square[2] = {8, 8};
    weir_device *dev;
    weir_stream *s;
    weir_tensor *x, *y[2], *in, *out[2] = {NULL, NULL};
    weir_graph *g;
    weir_plan *plan;
    weir_trace *trace;
    weir_trace_data d;
    char nodes[400];

    fake->slow_algorithm(FAKE_EVERY_ALGORITHM);
    CHECK_OK(weir_device_open("cuda:0", &dev));
    s = weir_stream_default(dev);
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, square, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_matmul(x, x, &y[0]));
    CHECK_OK(weir_scope_push_stream("side", 0));
    CHECK_OK(weir_matmul(x, x, &y[1]));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "a", y[0]));
    CHECK_OK(weir_graph_output(g, "b", y[1]));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, square, &in));
    CHECK_OK(weir_fill(in, 1));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_plan_run(plan, s, &in, 1, out, 2));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    fake->launched(nodes, sizeof nodes);
    CHECK_PTR_EQ(strchr(nodes, ';'), strrchr(nodes, ';')); /* one node */
    d = record(trace);
    CHECK_EQ(d.nops, 2);
    CHECK_EQ(d.ops[0].started_ns, d.ops[1].started_ns);
    CHECK_EQ(d.ops[0].ended_ns, d.ops[1].ended_ns);
    CHECK_LT(d.ops[0].started_ns, d.ops[0].ended_ns);
    CHECK_NE(d.ops[0].stream, d.ops[1].stream);
    weir_trace_free(trace);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(y[i]);
        weir_tensor_release(out[i]);
    }
    weir_tensor_release(x);
    weir_tensor_release(in);
    CHECK_OK(weir_device_close(dev));
}

/* ---- collectives ---- */

/* What is handed to CUDA while two ranks wait for each other. */
struct gates {
    int put_up, waits, callbacks;
};

static struct gates queue_collective(const struct fake_control *fake, weir_group *group,
                                     weir_stream *const *s, weir_tensor *x)
{
    weir_tensor *sum[2];
    struct gates g;

    for (int i = 0; i < 2; i++) { /* the gates of the last one are behind the streams */
        CHECK_OK(weir_stream_set_current(s[i]));
        CHECK_OK(weir_mul_scalar_into(x, 1, x));
        CHECK_OK(weir_stream_sync(s[i]));
    }
    fake->hold(true);
    fake->watch();
    CHECK_OK(weir_stream_wait_stream(s[1], s[0]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_stream_set_current(s[i]));
        CHECK_OK(weir_all_reduce(weir_group_rank(group, i), x, WEIR_REDUCE_SUM, &sum[i]));
    }
    g.put_up = count_calls(fake, "cuStreamWaitValue64_v2");
    g.waits = count_calls(fake, "cuStreamWaitEvent");
    g.callbacks = count_calls(fake, "cuLaunchHostFunc");
    fake->hold(false);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(sum[i]);
    CHECK_OK(weir_device_sync(weir_stream_device(s[0])));
    return g;
}

TEST(cuda_trace_plans, a_recorded_collective_is_launched_as_an_unrecorded_one)
{
    const struct fake_control *fake = use_fake();
    weir_device *dev;
    weir_stream *s[2];
    weir_group *group;
    weir_tensor *x;
    struct gates plain, traced;
    weir_trace_data d;
    weir_trace *trace;

    CHECK_OK(weir_device_open("cuda:0", &dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
    CHECK_OK(weir_group_create((weir_device *[]){dev, dev}, 2, NULL, &group));
    x = gpu_tensor(s[0], WEIR_F32, N, 1);
    CHECK_OK(weir_device_sync(dev));
    (void)queue_collective(fake, group, s, x); /* loads what it needs */
    plain = queue_collective(fake, group, s, x);
    CHECK_OK(weir_trace_start(NULL));
    traced = queue_collective(fake, group, s, x);
    CHECK_OK(weir_trace_stop(&trace));
    CHECK_EQ(plain.callbacks, 2);
    CHECK_EQ(traced.callbacks, plain.callbacks);
    CHECK_EQ(traced.put_up, plain.put_up);
    CHECK_EQ(traced.waits, plain.waits);
    d = record(trace);
    for (int i = 0; i < 2; i++) { /* each is over when both are there */
        const weir_trace_op *sum = op_named(&d, "AllReduce", i);

        CHECK(!sum->failed);
        CHECK_LE(sum->started_ns, sum->ended_ns);
        CHECK_LE(op_named(&d, "AllReduce", !i)->started_ns, sum->ended_ns);
    }
    weir_trace_free(trace);
    weir_tensor_release(x);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
    CHECK_OK(weir_group_destroy(group));
    CHECK_OK(weir_device_close(dev));
}
