/* What a run writes shares no memory with what else it uses: inputs, outputs and constants. */
#include "harness/test.h"
#include "weir/weir.h"

enum { N = 16 };

static weir_tensor *wrap(weir_device *dev, float *at, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_wrap(weir_stream_default(dev), WEIR_F32, 1, &n, NULL, at, NULL, NULL, &t));
    return t;
}

static weir_tensor *part(weir_tensor *t, int64_t from, int64_t to)
{
    weir_tensor *p;

    CHECK_OK(weir_tensor_slice(t, 0, from, to, 1, &p));
    return p;
}

/* y = x + c, and c += x where `writes`. */
static weir_status compile(weir_device *dev, weir_tensor *c, weir_tensor *also, bool writes,
                           weir_plan **plan)
{
    const int64_t n = weir_tensor_numel(c);
    weir_tensor *x, *y, *z = NULL;
    weir_status st;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, c, &y));
    if (writes)
        CHECK_OK(weir_add_into(x, c, c));
    if (also)
        CHECK_OK(weir_add(y, also, &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", z ? z : y));
    st = weir_graph_compile(g, NULL, plan);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_graph_destroy(g);
    return st;
}

static void check_run(weir_plan *plan, weir_stream *s, weir_tensor *x, weir_tensor *y,
                      const char *problem)
{
    if (!problem) {
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
        return;
    }
    CHECK_STATUS(weir_plan_run(plan, s, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), problem);
}

TEST(shared_memory, an_output_is_none_of_a_constants_bytes)
{
    static float bytes[4 * N];
    weir_device *dev;
    weir_tensor *all, *c, *x, *y;
    weir_stream *s;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    s = weir_stream_default(dev);
    all = wrap(dev, bytes, 4 * N);
    c = part(all, N, 2 * N);
    x = wrap(dev, bytes + 3 * N, N);
    CHECK_OK(compile(dev, c, NULL, false, &plan));
    for (int from = 0; from <= 2 * N; from += N / 2) { /* by another handle, and by the same */
        const char *problem = from > 0 && from < 2 * N ? "shares memory with the constant" : NULL;

        test_note("from %d", from);
        y = wrap(dev, bytes + from, N);
        check_run(plan, s, x, y, problem);
        weir_tensor_release(y);
        y = part(all, from, from + N);
        check_run(plan, s, x, y, problem);
        weir_tensor_release(y);
    }
    y = wrap(dev, bytes, N);
    check_run(plan, s, c, y, NULL); /* both are only read */
    weir_tensor_release(y);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_tensor_release(all);
    weir_tensor_release(c);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(shared_memory, a_constant_that_is_written_is_no_input)
{
    static float bytes[3 * N], result[N];
    weir_device *dev;
    weir_tensor *c, *x, *y = NULL;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    c = wrap(dev, bytes, N);
    x = wrap(dev, bytes + N / 2, N);
    CHECK_OK(compile(dev, c, NULL, true, &plan));
    check_run(plan, weir_stream_default(dev), x, NULL, "that node");
    weir_tensor_release(x);
    x = wrap(dev, bytes + N, N);
    for (int i = 0; i < N; i++) {
        bytes[i] = 1;
        bytes[N + i] = (float)i;
    }
    for (int run = 1; run < 4; run++) {
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1));
        CHECK_OK(weir_tensor_read(y, result, sizeof result));
        for (int i = 0; i < N; i++) {
            CHECK(result[i] == 1 + run * i);
            CHECK(bytes[i] == 1 + run * i);
        }
    }
    weir_tensor_release(y);
    weir_plan_destroy(plan);
    weir_tensor_release(c);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* To the graph they are two values, whose uses nothing orders. */
TEST(shared_memory, a_constant_that_is_written_is_no_other_constant_by_another_handle)
{
    static float bytes[2 * N];
    weir_device *dev;
    weir_tensor *c, *also, *x, *y = NULL;
    float result[N];
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    c = wrap(dev, bytes, N);
    also = wrap(dev, bytes, N);
    CHECK_OK(compile(dev, c, also, false, &plan));
    weir_plan_destroy(plan);
    CHECK_STATUS(compile(dev, c, also, true, &plan), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "by another handle");
    weir_tensor_release(also);
    also = part(c, 0, N); /* a view of it may be */
    CHECK_OK(compile(dev, c, also, true, &plan));
    x = wrap(dev, bytes + N, N);
    for (int i = 0; i < N; i++) {
        bytes[i] = 1;
        bytes[N + i] = (float)i;
    }
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1));
    CHECK_OK(weir_tensor_read(y, result, sizeof result));
    for (int i = 0; i < N; i++)
        CHECK(result[i] == (1 + i) + (1 + i));
    weir_tensor_release(y);
    weir_plan_destroy(plan);
    weir_tensor_release(c);
    weir_tensor_release(also);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(shared_memory, what_has_no_elements_shares_none)
{
    static float bytes[N];
    const int64_t none = 0, n = N;
    weir_tensor *in[2], *x, *e, *y, *out;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_input(g, "e", WEIR_F32, 1, &none, &e));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_concat((weir_tensor *[]){x, e}, 2, 0, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, &n, &in[0]));
    CHECK_OK(weir_fill(in[0], 3));
    in[1] = wrap(dev, bytes + 5, 0);
    out = wrap(dev, bytes, N);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, 2, &out, 1));
    CHECK_OK(weir_device_sync(dev));
    CHECK(bytes[N - 1] == 3);
    for (size_t i = 0; i < 6; i++)
        weir_tensor_release((weir_tensor *[]){in[0], in[1], x, e, y, out}[i]);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
