/* Functions of the program as operators, eagerly and in plans. */
#include <stdlib.h>

#include "harness/test.h"
#include "weir/weir.h"

struct counter {
    int calls;
    weir_status result;
};

/* out0 = 2 * in0, out1 = in0 + 1, of four floats. */
static weir_status twice_and_next(void *user, void *const *in, void *const *out)
{
    struct counter *c = user;
    const float *x = in[0];

    c->calls++;
    for (int i = 0; i < 4; i++) {
        ((float *)out[0])[i] = 2 * x[i];
        ((float *)out[1])[i] = x[i] + 1;
    }
    return c->result;
}

static weir_host_call two_outputs(struct counter *c)
{
    weir_host_call call = {.name = "twice and next", .fn = twice_and_next, .user = c, .nout = 2};

    for (int i = 0; i < 2; i++) {
        call.out[i].dtype = WEIR_F32;
        call.out[i].ndim = 1;
        call.out[i].shape[0] = 4;
    }
    return call;
}

TEST(host_call, a_host_call_runs_in_order_with_its_stream)
{
    const float ones[4] = {1, 1, 1, 1};
    struct counter c = {0, WEIR_OK};
    weir_host_call call = two_outputs(&c);
    weir_tensor *x, *y, *out[2], *sum;
    const int64_t four = 4;
    weir_device *dev;
    float got[4];

    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, &four, ones, &x));
    CHECK_OK(weir_add_scalar(x, 2, &y));
    CHECK_OK(weir_host_run(&call, &y, 1, out));
    CHECK_OK(weir_add(out[0], out[1], &sum));
    CHECK_OK(weir_tensor_read(sum, got, sizeof got));
    CHECK_NEAR(got[3], 2 * 3 + 3 + 1, 0);
    CHECK_EQ(c.calls, 1);
    c.result = WEIR_EKERNEL;
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
    CHECK_OK(weir_host_run(&call, &y, 1, out));
    CHECK_STATUS(weir_device_sync(dev), WEIR_EKERNEL);
    CHECK_STR(weir_last_error(), call.name);
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
    call.nout = 5;
    CHECK_STATUS(weir_host_run(&call, &y, 1, out), WEIR_EINVAL);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(sum);
    CHECK_OK(weir_device_close(dev));
}

TEST(host_call, a_host_call_is_a_node_of_a_graph_and_of_its_file)
{
    const float start[4] = {1, 2, 3, 4};
    struct counter c = {0, WEIR_OK};
    weir_host_call call = two_outputs(&c);
    weir_tensor *x, *y, *out[2], *sum, *in, *result = NULL, *none = NULL;
    const int64_t four = 4;
    weir_stream *fresh;
    weir_graph *g, *loaded;
    weir_plan *plan, *unrunnable;
    weir_device *dev;
    float got[4];
    char *text, *again;

    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &four, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_mul_scalar(x, 10, &y));
    CHECK_OK(weir_host_run(&call, &y, 1, out));
    CHECK_OK(weir_sub(out[0], out[1], &sum));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_EQ(weir_graph_input_count(g), 1);
    CHECK_EQ(weir_graph_output_count(g), 1);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_EQ(c.calls, 0);
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, &four, start, &in));
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &result, 1));
    CHECK_OK(weir_tensor_read(result, got, sizeof got));
    CHECK_NEAR(got[3], 2 * 40 - 41, 0);
    CHECK_EQ(c.calls, 3);
    c.result = WEIR_EKERNEL;
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &result, 1));
    CHECK_STATUS(weir_device_sync(dev), WEIR_EKERNEL);
    CHECK_STR(weir_last_error(), "'twice and next'");

    CHECK((text = weir_graph_dump(g)) != NULL);
    CHECK_STR(text, "twice and next");
    CHECK_OK(weir_graph_load(dev, text, strlen(text), "dump", &loaded));
    CHECK((again = weir_graph_dump(loaded)) != NULL);
    CHECK_STR_EQ(again, text);
    /* The function is not in the file: the plan has its cost, for the model, and fails where it
     * would be called. */
    CHECK_OK(weir_graph_compile(loaded, NULL, &unrunnable));
    CHECK_OK(weir_stream_create(dev, NULL, &fresh));
    CHECK_OK(weir_plan_run(unrunnable, fresh, &in, 1, &none, 1));
    CHECK_STATUS(weir_stream_sync(fresh), WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "'twice and next': its function belongs to the program");
    weir_plan_destroy(unrunnable);
    weir_stream_destroy(fresh);
    weir_tensor_release(none);
    free(text);
    free(again);
    weir_graph_destroy(loaded);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    for (int i = 0; i < 2; i++)
        weir_tensor_release(out[i]);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(sum);
    weir_tensor_release(in);
    weir_tensor_release(result);
    CHECK_OK(weir_device_close(dev));
}
