/* Results of graphs with named sizes that are all of a value for the example, and a part of it, or
 * in another order, for other sizes. */
#include "graph/plan/plan.h"
#include "harness/test.h"

enum { MOST = 12 };

/* x is [n, 3], n being 4 for the example: its last four rows, and as columns what for one row lies
 * as rows do. */
static void views(weir_tensor *x, int64_t row, weir_tensor **last, weir_tensor **turned)
{
    weir_tensor *y, *z, *some;

    CHECK_OK(weir_neg(x, &y));
    CHECK_OK(weir_tensor_slice(y, 0, -4, INT64_MAX, 1, last));
    CHECK_OK(weir_tensor_slice(x, 0, 0, row, 1, &some));
    CHECK_OK(weir_add_scalar(some, 1, &z));
    CHECK_OK(weir_tensor_transpose(z, 0, 1, turned));
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_tensor_release(some);
}

static void check_same(weir_tensor *want, weir_tensor *got)
{
    size_t bytes = (size_t)weir_tensor_numel(want) * sizeof(float);
    float a[3 * MOST], b[3 * MOST];

    CHECK_LE(bytes, sizeof a);
    CHECK_EQ(weir_tensor_numel(got), weir_tensor_numel(want));
    CHECK_EQ(weir_tensor_shape(got)[0], weir_tensor_shape(want)[0]);
    CHECK_OK(weir_tensor_read(want, a, bytes));
    CHECK_OK(weir_tensor_read(got, b, bytes));
    CHECK_MEM_EQ(b, a, bytes);
}

static void check_size(weir_plan *plan, weir_device *dev, int64_t n)
{
    weir_tensor *x, *out[3] = {NULL}, *last, *turned;
    float values[3 * MOST];

    test_note("%d rows", (int)n);
    for (int i = 0; i < 3 * MOST; i++)
        values[i] = (float)i;
    CHECK_OK(
        weir_tensor_from(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){n, 3}, values, &x));
    views(x, n - 3, &last, &turned);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, out, 3));
    check_same(last, out[0]);
    check_same(turned, out[1]);
    check_same(last, out[2]);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(out[i]);
    weir_tensor_release(x);
    weir_tensor_release(last);
    weir_tensor_release(turned);
}

TEST(named_outputs, outputs_that_cover_a_value_in_the_example_follow_other_sizes)
{
    static const int64_t sizes[] = {4, 12, 5, 4, 8, 12, 6, 5};
    weir_tensor *x, *last, *turned;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;
    int64_t n, row;

    CHECK_OK(weir_device_open("cpu:cores=2", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_size(g, 4, &n));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_ADD, n, -3, &row));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){n, 3}, &x));
    CHECK_OK(weir_graph_begin(g));
    views(x, row, &last, &turned);
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "last", last));
    CHECK_OK(weir_graph_output(g, "turned", turned));
    CHECK_OK(weir_graph_output(g, "again", last));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_size(plan, dev, sizes[i]);
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(last);
    weir_tensor_release(turned);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
