/* Named sizes and expressions of them. */
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"
#include "weir/graph.h"

static weir_device *open_device(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:cores=2", &dev));
    return dev;
}

static weir_tensor *counting(weir_device *dev, int64_t rows, int64_t columns)
{
    size_t n = (size_t)(rows * columns);
    float *values = malloc((n + 1) * sizeof *values);
    weir_tensor *t;

    for (size_t i = 0; i < n; i++)
        values[i] = (float)((i * 37) % 101) - 50;
    CHECK_OK(
        weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){rows, columns}, &t));
    CHECK_OK(weir_tensor_write(t, values, n * sizeof *values));
    free(values);
    return t;
}

/* exp(x[n/2:]) viewed as one row, and beside it the first rows of y, which has n + 3: sizes that
 * meet fixed ones, each other and slices of each other. */
static void model(weir_tensor *x, weir_tensor *y, int64_t half, int64_t rest, int64_t elements,
                  weir_tensor **out)
{
    weir_tensor *tail, *e, *row, *front, *flat, *both[2];

    CHECK_OK(weir_tensor_slice(x, 0, half, INT64_MAX, 1, &tail));
    CHECK_OK(weir_exp(tail, &e));
    CHECK_OK(weir_tensor_reshape(e, 2, (int64_t[]){1, elements}, &row));
    CHECK_OK(weir_tensor_slice(y, 0, 3, rest, 1, &front));
    CHECK_OK(weir_relu(front, &flat));
    CHECK_OK(weir_add(e, flat, &both[0]));
    CHECK_OK(weir_sum(row, (int[]){1}, 1, false, &both[1]));
    out[0] = both[0];
    out[1] = both[1];
    weir_tensor_release(tail);
    weir_tensor_release(e);
    weir_tensor_release(row);
    weir_tensor_release(front);
    weir_tensor_release(flat);
}

static weir_graph *named_model(weir_device *dev)
{
    weir_tensor *x, *y, *out[2];
    int64_t n, more, half, rest, elements;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_size(g, 7, &n));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_ADD, n, 3, &more));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_FLOOR_DIV, n, 2, &half));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_MUL, half, -1, &rest));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_ADD, more, rest, &rest));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_ADD, rest, -3, &elements));
    CHECK_OK(weir_graph_size_expr(g, WEIR_SIZE_MUL, elements, 5, &elements));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){n, 5}, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_F32, 2, (int64_t[]){more, 5}, &y));
    CHECK_OK(weir_graph_begin(g));
    model(x, y, half, rest, elements, out);
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "both", out[0]));
    CHECK_OK(weir_graph_output(g, "sum", out[1]));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
    return g;
}

static void check_same(weir_tensor *a, weir_tensor *b)
{
    size_t bytes = (size_t)weir_tensor_numel(a) * 4;
    char *p = malloc(bytes + 1), *q = malloc(bytes + 1);

    CHECK_EQ(weir_tensor_numel(a), weir_tensor_numel(b));
    CHECK_OK(weir_tensor_read(a, p, bytes));
    CHECK_OK(weir_tensor_read(b, q, bytes));
    CHECK(!memcmp(p, q, bytes));
    free(p);
    free(q);
    weir_tensor_release(a);
    weir_tensor_release(b);
}

TEST(sizes, one_plan_of_named_sizes_gives_the_bits_of_eager_calls_for_all_of_them)
{
    weir_device *dev = open_device();
    weir_graph *g = named_model(dev);
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int64_t i = 0; i < 120 / TEST_SLOWDOWN; i++) {
        int64_t n = 1 + i * 31 % 97, half = n / 2;
        weir_tensor *in[2] = {counting(dev, n, 5), counting(dev, n + 3, 5)}, *out[2] = {0},
                    *want[2];

        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, 2, out, 2));
        model(in[0], in[1], half, n + 3 - half, (n - half) * 5, want);
        check_same(out[0], want[0]);
        check_same(out[1], want[1]);
        weir_tensor_release(in[0]);
        weir_tensor_release(in[1]);
    }
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_GT(stats.shape_resizes, stats.shape_misses / 2);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, inputs_that_do_not_go_together_are_refused_with_the_name)
{
    weir_device *dev = open_device();
    weir_graph *g = named_model(dev);
    weir_tensor *in[2] = {counting(dev, 6, 5), counting(dev, 8, 5)}, *out[2] = {0};
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), in, 2, out, 2), WEIR_ESHAPE);
    CHECK(strstr(weir_last_error(), "input 'y' has 8 in dim 0, but the other inputs make it 9"));
    weir_tensor_release(in[0]);
    weir_tensor_release(in[1]);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, a_size_name_in_a_wrong_place_is_refused)
{
    weir_device *dev = open_device();
    weir_tensor *t = counting(dev, 4, 4), *out;
    weir_graph *g, *other;
    int64_t n, none;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_create(dev, &other));
    CHECK_OK(weir_graph_size(g, 4, &n));
    CHECK_STATUS(weir_tensor_slice(t, 0, 0, n, 1, &out), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_size_expr(other, WEIR_SIZE_ADD, n, 1, &none), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_input(other, "x", WEIR_F32, 1, &n, &out), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_size_expr(g, WEIR_SIZE_MOD, n, 0, &none), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_size_expr(g, (weir_size_op)17, n, 1, &none), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_size(g, -1, &none), WEIR_ERANGE);
    CHECK_STATUS(weir_graph_size(g, INT64_MAX, &none), WEIR_ERANGE);
    weir_tensor_release(t);
    weir_graph_destroy(g);
    weir_graph_destroy(other);
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, a_dump_contains_the_example_sizes)
{
    weir_device *dev = open_device();
    weir_graph *g = named_model(dev), *loaded;
    char *text = weir_graph_dump(g);

    CHECK(text);
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "text", &loaded));
    free(text);
    weir_graph_destroy(loaded);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
