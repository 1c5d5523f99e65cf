/* Plans while a trace is recorded. */
#include "helpers.h"

enum { STEPS = 12, ROWS = 8 };

static weir_tensor *softmaxes(weir_tensor *x, int n)
{
    for (int i = 0; i < n; i++) {
        weir_tensor *y;

        CHECK_OK(weir_softmax(x, 0, &y));
        weir_tensor_release(x);
        x = y;
    }
    return x;
}

/* STEPS short kernels, one that reads an index, and STEPS more: as issued, none of them one launch
 * with others. */
static weir_plan *make_row(weir_device *dev)
{
    const weir_compile_options options = {.size = sizeof options,
                                          .mode = WEIR_COMPILE_REDUCE_OVERHEAD};
    weir_tensor *x, *index, *rows;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){ROWS}, &x));
    CHECK_OK(weir_graph_input(g, "index", WEIR_I64, 1, (int64_t[]){ROWS}, &index));
    x = softmaxes(x, STEPS);
    CHECK_OK(weir_index_select(x, 0, index, &rows));
    rows = softmaxes(rows, STEPS);
    CHECK_OK(weir_graph_output(g, "y", rows));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, &options, &plan));
    weir_tensor_release(x);
    weir_tensor_release(index);
    weir_tensor_release(rows);
    weir_graph_destroy(g);
    return plan;
}

/* Runs the plan once, with an index that may be out of range, and returns its trace. */
static weir_trace *trace_run(weir_plan *plan, weir_stream *s, weir_tensor *x, int64_t last,
                             weir_status expected, weir_trace_data *d)
{
    int64_t at[ROWS] = {0, 1, 2, 3, 4, 5, 6, last};
    weir_tensor *index, *y = NULL;
    weir_trace *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_I64, 1, (int64_t[]){ROWS}, &index));
    CHECK_OK(weir_tensor_write(index, at, sizeof at));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_STATUS(weir_plan_call(plan, s, (weir_tensor *[]){x, index}, 2, &y, 1), expected);
    t = stop_trace(d);
    weir_tensor_release(index);
    weir_tensor_release(y);
    return t;
}

TEST(trace, a_row_of_short_kernels_in_a_plan_is_recorded_kernel_by_kernel)
{
    weir_device *dev = open_device("cpu:cores=1");
    weir_plan *plan = make_row(dev);
    weir_stream *s = weir_stream_current(dev);
    weir_tensor *x;
    weir_trace_data d;
    weir_trace *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){ROWS}, &x));
    t = trace_run(plan, s, x, ROWS - 1, WEIR_OK, &d);
    check_trace(&d);
    CHECK_EQ(d.nops, 2 * STEPS + 1);
    for (size_t i = 0; i < d.nops; i++) {
        CHECK(!d.ops[i].failed);
        CHECK_EQ(d.ops[i].nparts, 1);
        if (i)
            CHECK_GE(d.ops[i].started_ns, d.ops[i - 1].ended_ns);
    }
    weir_trace_free(t);

    t = trace_run(plan, s, x, ROWS, WEIR_ERANGE, &d);
    check_trace(&d);
    CHECK_EQ(d.nops, STEPS + 1); /* what comes after the failed one did not run */
    for (size_t i = 0; i < d.nops; i++)
        CHECK_EQ(d.ops[i].failed, i == STEPS);
    weir_trace_free(t);
    weir_tensor_release(x);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}
