/* Traces of the modelled NPU: its own time, to the nanosecond. */
#include "helpers.h"

static const char program[] =
    "node { name: 'first' op: 'Kernel'"
    " attr { key: 'engine' value { s: 'cube' } } attr { key: 'blocks' value { i: 8 } }"
    " attr { key: 'us' value { f: 40 } } }"
    "node { name: 'beside' op: 'Kernel'"
    " attr { key: 'engine' value { s: 'vector' } } attr { key: 'blocks' value { i: 6 } }"
    " attr { key: 'us_per_block' value { f: 10 } }"
    " attr { key: '_op_vectorcore_num' value { i: 4 } }"
    " attr { key: '_user_stream_label' value { s: 'side' } } }"
    "node { name: 'after' op: 'Kernel' input: '^first'"
    " attr { key: 'engine' value { s: 'mix' } } attr { key: 'blocks' value { i: 2 } }"
    " attr { key: 'us' value { f: 5 } }"
    " attr { key: '_user_stream_label' value { s: 'side' } } }";

static void check_took(const weir_trace_op *op, int64_t from_us, int64_t to_us)
{
    test_note("%s", op->name);
    CHECK_EQ(op->started_ns, from_us * 1000);
    CHECK_EQ(op->ended_ns, to_us * 1000);
}

TEST(trace_npu, times_are_the_model_s_and_cores_never_shared)
{
    weir_device *dev = open_device("npu:a3,overhead=off,compute=off");
    const weir_trace_op *beside, *after;
    weir_trace_data d;
    weir_trace *t;
    weir_graph *g;
    weir_plan *plan;
    char text[sizeof program];

    for (size_t i = 0; i < sizeof program; i++)
        text[i] = program[i] == '\'' ? '"' : program[i];
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "program", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0));
    CHECK_OK(weir_device_sync(dev));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK(!d.devices[0].real_time && d.devices[0].split_cores);
    CHECK_EQ(d.nops, 3);
    beside = find_op(&d, "beside", 0);
    after = find_op(&d, "after", 0);
    check_took(find_op(&d, "first", 0), 0, 40);
    check_took(beside, 0, 20); /* six blocks on four cores */
    check_took(after, 40, 45);
    CHECK_EQ(find_op(&d, "first", 0)->nparts, 8);
    CHECK_EQ(beside->nparts, 6);
    CHECK_EQ(after->nwaits, 1);
    CHECK_EQ(d.parts[after->first_part].ncores, 3);
    for (size_t i = 0; i < d.nparts; i++)
        for (size_t k = 0; k < i; k++)
            for (uint32_t a = 0; a < d.parts[i].ncores; a++)
                for (uint32_t b = 0; b < d.parts[k].ncores; b++)
                    CHECK(d.parts[i].cores[a] != d.parts[k].cores[b] ||
                          d.parts[i].started_ns >= d.parts[k].ended_ns ||
                          d.parts[k].started_ns >= d.parts[i].ended_ns);
    CHECK_GE(d.parts[beside->first_part].cores[0], d.devices[0].cores.cube);
    weir_trace_free(t);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
