/* Recordings of a GPU: its operators in the host's time. */
#include "weir/trace.h"
#include "gpu.h"

static const weir_trace_op *find_op(const weir_trace_data *d, const char *name, const char *stream)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name) && !strcmp(d->streams[d->ops[i].stream].name, stream))
            return &d->ops[i];
    return NULL;
}

static weir_stream *new_stream(weir_device *dev, const char *name)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = name}, &s));
    return s;
}

TEST(cuda_trace, operators_have_their_stream_time_and_cores)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    weir_stream *one = new_stream(dev, "one"), *two = new_stream(dev, "two");
    weir_tensor *x = gpu_tensor(one, WEIR_F32, fake ? 1 << 16 : 1 << 26, 1), *y, *z;
    const weir_trace_op *add, *mul;
    weir_trace_data d;
    weir_trace *trace;
    uint64_t before, took;

    CHECK_OK(weir_stream_set_limit(two, (weir_cores){16, 16}));
    CHECK_OK(weir_device_sync(dev));
    before = weir_device_now(dev);
    CHECK_OK(weir_trace_start(NULL));
    if (fake)
        fake->hold(true); /* a wait for what is over would be none */
    CHECK_OK(weir_stream_set_current(one));
    CHECK_OK(weir_add(x, x, &y));
    CHECK_OK(weir_stream_wait_stream(two, one));
    CHECK_OK(weir_stream_set_current(two));
    CHECK_OK(weir_mul(y, y, &z));
    if (fake)
        fake->hold(false);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    took = weir_device_now(dev) - before;
    weir_trace_get(trace, &d);
    CHECK(d.ndevices == 1 && d.devices[0].real_time);
    CHECK((add = find_op(&d, "Add", "one")) != NULL);
    CHECK((mul = find_op(&d, "Mul", "two")) != NULL);
    CHECK_EQ(mul->cores, 16);
    CHECK_EQ(mul->nparts, 16);
    CHECK_GT(add->nparts, 16);
    CHECK_LE(0, add->queued_ns);
    CHECK_LE(add->queued_ns, add->started_ns);
    CHECK_LE(add->started_ns, add->ended_ns);
    CHECK_LE(add->ended_ns, mul->started_ns);
    CHECK_LE(mul->ended_ns, took);
    CHECK_EQ(mul->nwaits, 1);
    CHECK_EQ(d.waits[mul->first_wait].source_op, add - d.ops);
    CHECK_GT(d.nmemory, 0);
    weir_trace_free(trace);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(one));
    CHECK_OK(weir_stream_destroy(two));
    CHECK_OK(weir_device_close(dev));
}

/* More than are kept in reserve, over two recordings: each has its own, and none is lost. */
TEST(cuda_trace, every_operator_of_a_long_recording_is_there)
{
    enum { OPERATORS = 1000 };
    weir_device *dev = open_gpu("cuda:0");
    weir_tensor *x = gpu_tensor(weir_stream_default(dev), WEIR_F32, 64, 1);

    for (int round = 0; round < 2; round++) {
        weir_trace_data d;
        weir_trace *trace;

        CHECK_OK(weir_trace_start(NULL));
        for (int i = 0; i < OPERATORS; i++)
            CHECK_OK(weir_add_into(x, x, x));
        CHECK_OK(weir_device_sync(dev));
        CHECK_OK(weir_trace_stop(&trace));
        weir_trace_get(trace, &d);
        CHECK_EQ(d.nops, OPERATORS);
        for (size_t i = 1; i < d.nops; i++)
            CHECK_LE(d.ops[i - 1].ended_ns, d.ops[i].started_ns);
        weir_trace_free(trace);
        CHECK_OK(weir_add_into(x, x, x)); /* not recorded */
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* The seed's model: two products side by side between two sums. */
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

static const weir_trace_op *op_named(const weir_trace_data *d, const char *name)
{
    for (size_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].name, name))
            return &d->ops[i];
    FAIL("the trace has no operator '%s'", name);
}

TEST(cuda_trace, nodes_of_a_plan_are_heard_one_by_one_in_their_order)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev);
    const weir_trace_op *x, *left, *right, *y;
    weir_trace_data d;
    weir_trace *trace;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, model, sizeof model - 1, "model", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0)); /* as a graph */
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_trace_stop(&trace));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0)); /* as a graph again */
    CHECK_OK(weir_stream_sync(s));
    weir_trace_get(trace, &d);
    CHECK_EQ(d.nops, 4);
    x = op_named(&d, "x");
    left = op_named(&d, "left");
    right = op_named(&d, "right");
    y = op_named(&d, "y");
    CHECK_NE(left->stream, right->stream);
    CHECK_LE(x->ended_ns, left->started_ns);
    CHECK_LE(x->ended_ns, right->started_ns);
    CHECK_LE(left->ended_ns, y->started_ns);
    CHECK_LE(right->ended_ns, y->started_ns);
    CHECK_GE(x->ended_ns - x->started_ns, 150000);
    weir_trace_free(trace);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
