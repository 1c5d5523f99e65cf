/* Graphs and plans when memory runs out, and runs that need none. */
#include "faults/inject.h"
#include "weir/graph.h"

/* relu(x[-1:] + x) on x [-1, 6] */
static const char dynamic_file[] =
    "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { s: \"f32\" } }"
    " attr { key: \"shape\" value { list { i: -1 i: 6 } } } }"
    "node { name: \"last\" op: \"View\" input: \"x\""
    " attr { key: \"slice\" value { list { i: 0 i: -1 i: 1000000 i: 1 } } } }"
    "node { name: \"a\" op: \"Add\" input: \"x\" input: \"last\" }"
    "node { name: \"r\" op: \"Relu\" input: \"a\" }"
    "node { name: \"out\" op: \"NetOutput\" input: \"r\" }";

static weir_status load_compile_run(struct world *w)
{
    weir_tensor *out = NULL;
    weir_plan *plan = NULL;
    weir_graph *g = NULL;
    weir_status st;

    if (!(st = weir_graph_load(w->dev, dynamic_file, sizeof dynamic_file - 1, "file", &g)) &&
        !(st = weir_graph_compile(g, NULL, &plan)))
        st = weir_plan_run(plan, w->s, w->tensors, 1, &out, 1);
    if (st)
        CHECK(!out);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    return st;
}

TEST_TIMEOUT(faults, a_dynamic_graph_loads_compiles_and_runs_or_says_why_not, 120)
{
    inject_install();
    CHECK_GT(inject_each("dynamic graph", "cpu:threads=1", load_compile_run), 20);
}

TEST(faults, runs_with_cached_shapes_allocate_nothing)
{
    weir_tensor *in[2], *out[2];
    weir_plan_stats warm, stats;
    weir_device *dev;
    weir_plan *plan;
    weir_graph *g;

    inject_install();
    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    CHECK_OK(weir_graph_load(dev, dynamic_file, sizeof dynamic_file - 1, "file", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){3 + i, 6},
                                   &in[i]));
        CHECK_OK(weir_fill(in[i], 1));
        CHECK_OK(weir_copy(in[i], &out[i]));
    }
    for (int round = 0; round < 20; round++) {
        if (round == 10) { /* queues are warm, and both shapes have plans of their own */
            weir_plan_get_stats(plan, &warm, sizeof warm);
            inject_arm(1);
        }
        for (int i = 0; i < 2; i++)
            CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in[i], 1, &out[i], 1));
        CHECK_OK(weir_device_sync(dev));
    }
    CHECK(!inject_disarm());
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.shape_hits - warm.shape_hits, 20);
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(inject_live(), 0);
}
