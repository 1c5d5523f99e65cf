/* Literals that a plan makes at every run: runs at the same time do not meet there, and their
 * memory is not that of work which is still queued. */
#include <pthread.h>

#include "graph/plan/plan.h"
#include "harness/gate.h"
#include "harness/test.h"

enum { N = 1024 };

static pthread_barrier_t both;

/* Copies when as many runs are here as are awaited. */
static weir_status copy_together(void *user, void *const *in, void *const *out)
{
    (void)user;
    pthread_barrier_wait(&both);
    memcpy(out[0], in[0], N * sizeof(float));
    return WEIR_OK;
}

static const weir_host_call together = {
    .name = "together",
    .fn = copy_together,
    .nout = 1,
    .out = {{.dtype = WEIR_F32, .ndim = 1, .shape = {N}}},
};

/* y = arange + x, added in place. */
static weir_graph *make_graph(weir_device *dev)
{
    weir_tensor *x, *t, *y;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){N}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_F32, N, 0, 1, &t));
    CHECK_OK(weir_add_into(t, x, t));
    CHECK_OK(weir_host_run(&together, &t, 1, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    weir_tensor_release(x);
    weir_tensor_release(t);
    weir_tensor_release(y);
    return g;
}

static weir_tensor *filled(weir_device *dev, float value)
{
    float values[N];
    weir_tensor *t;

    for (int i = 0; i < N; i++)
        values[i] = value;
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){N}, values, &t));
    return t;
}

static void check_from(weir_tensor *t, float first)
{
    float values[N];

    CHECK_OK(weir_tensor_read(t, values, sizeof values));
    for (int i = 0; i < N; i++)
        CHECK(values[i] == first + (float)i);
}

/* Two runs that are between making the literal and reading it at the same time: of one plan, or of
 * two plans of one graph. */
static void check_runs(weir_compile_mode mode, bool two_plans)
{
    weir_device *dev;
    weir_graph *g;
    weir_plan *plans[2];
    weir_stream *s[2];
    weir_tensor *x[2], *y[2] = {NULL, NULL};

    CHECK_OK(weir_device_open("cpu:cores=4,threads=2", &dev));
    g = make_graph(dev);
    CHECK(!pthread_barrier_init(&both, NULL, 2));
    for (int i = 0; i < 2; i++) {
        if (!i || two_plans)
            CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = mode}, &plans[i]));
        else
            plans[i] = plans[0];
        x[i] = filled(dev, (float)(100 * i));
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_plan_run(plans[i], s[i], &x[i], 1, &y[i], 1));
    for (int i = 0; i < 2; i++) {
        check_from(y[i], (float)(100 * i));
        weir_tensor_release(x[i]);
        weir_tensor_release(y[i]);
        CHECK_OK(weir_stream_destroy(s[i]));
    }
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plans[0]);
    if (two_plans)
        weir_plan_destroy(plans[1]);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
    pthread_barrier_destroy(&both);
}

TEST(literals, runs_at_the_same_time_have_literals_of_their_own)
{
    check_runs(WEIR_COMPILE_REDUCE_OVERHEAD, false);
    check_runs(WEIR_COMPILE_MAX_AUTOTUNE, false);
    check_runs(WEIR_COMPILE_REDUCE_OVERHEAD, true);
}

/* kept = 7 + 0, once the gate opens. The memory of both is the default stream's to use again. */
static weir_tensor *queue_work(weir_device *dev, struct gate *gate)
{
    weir_tensor *x = filled(dev, 7), *zero = filled(dev, 0), *kept;

    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_launch_submit(
        weir_stream_default(dev),
        &(weir_launch){.fn = gate_kernel, .args = &gate, .args_size = sizeof gate}));
    CHECK_OK(weir_add(x, zero, &kept));
    weir_tensor_release(x);
    weir_tensor_release(zero);
    return kept;
}

static weir_graph *make_negated(weir_device *dev)
{
    weir_tensor *t, *y;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_F32, N, 0, 1, &t));
    CHECK_OK(weir_neg(t, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    weir_tensor_release(t);
    weir_tensor_release(y);
    return g;
}

static void check_memory(weir_compile_mode mode, bool run)
{
    struct gate gate = {0};
    float values[N];
    weir_device *dev;
    weir_stream *other;
    weir_tensor *kept, *out = NULL;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:cores=2,threads=2", &dev));
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    kept = queue_work(dev, &gate);
    g = make_negated(dev);
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = mode}, &plan));
    if (run)
        CHECK_OK(weir_plan_run(plan, other, NULL, 0, &out, 1));
    open_gate(&gate);
    CHECK_OK(weir_stream_sync(other));
    CHECK_OK(weir_tensor_read(kept, values, sizeof values));
    for (int i = 0; i < N; i++)
        CHECK(values[i] == 7);
    weir_tensor_release(kept);
    weir_tensor_release(out);
    CHECK_OK(weir_stream_destroy(other));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* Folding runs while the graph is compiled, on a stream of its own. */
TEST(literals, literals_do_not_overwrite_memory_of_queued_work)
{
    check_memory(WEIR_COMPILE_MAX_AUTOTUNE, false);
    check_memory(WEIR_COMPILE_REDUCE_OVERHEAD, true);
}
