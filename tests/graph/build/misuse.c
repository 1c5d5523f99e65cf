/* Mistakes of users with graphs and scopes, and weir's errors for them. */
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"
#include "weir/weir.h"

static const int64_t shape[2] = {4, 4};

static weir_device *open_device(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

/* y = relu(x) under `limit`; x is an input. */
static weir_graph *relu_graph(weir_device *dev, weir_cores limit)
{
    weir_graph *g;
    weir_tensor *x, *y;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_cores(limit));
    CHECK_OK(weir_relu(x, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    weir_tensor_release(x);
    weir_tensor_release(y);
    return g;
}

TEST(misuse, destroying_a_graph_ends_its_capture)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g, *next;
    weir_tensor *x, *y;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_graph_begin(g));
    weir_graph_destroy(g);
    CHECK_PTR_EQ(weir_graph_current(), NULL);
    CHECK_STATUS(weir_relu(x, &y), WEIR_ESTATE); /* its tensor has no bytes, now as before */
    CHECK_OK(weir_graph_create(dev, &next));
    CHECK_OK(weir_graph_begin(next));
    CHECK_OK(weir_graph_end(next));
    weir_graph_destroy(next);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_null_handle_of_a_failed_call_is_refused)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g = relu_graph(dev, (weir_cores){-1, -1});
    weir_tensor *x, *y, *none = NULL;
    weir_plan *plan;
    float bytes[16];

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &x));
    CHECK_STATUS(weir_graph_create(NULL, &(weir_graph *){NULL}), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_input(NULL, "x", WEIR_F32, 2, shape, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_begin(NULL), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_end(NULL), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_output(NULL, "y", x), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(NULL, "Relu", NULL, NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(g, NULL, NULL, NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_compile(NULL, NULL, &plan), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "weir_graph_compile: graph must not be NULL");
    CHECK_STATUS(weir_plan_run(NULL, weir_stream_default(dev), &x, 1, &none, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "weir_plan_run: plan must not be NULL");
    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.nranks = 1}, &plan), WEIR_EINVAL);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_STATUS(weir_plan_run(plan, NULL, &x, 1, &none, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), NULL, 1, &none, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), &x, 1, NULL, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "the array of the plan's outputs is NULL");
    CHECK_STATUS(weir_wait_tensor(x, NULL), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "weir_wait_tensor: dependency must not be NULL");
    CHECK_STATUS(weir_wait_tensor(NULL, x), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_record_tagged_stream(NULL, "a"), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_read(NULL, bytes, sizeof bytes), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_write(x, NULL, sizeof bytes), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_copy(x, NULL), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_sync(NULL), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_slice(NULL, 0, 0, 1, 1, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_transpose(NULL, 0, 1, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_permute(NULL, NULL, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_expand(NULL, 2, shape, &y), WEIR_EINVAL);
    CHECK_STATUS(weir_tensor_reshape(NULL, 2, shape, &y), WEIR_EINVAL);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_device_stays_open_for_graphs_plans_and_tagged_events)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g = relu_graph(dev, (weir_cores){-1, -1});
    weir_plan *plan;

    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 graph(s) and plan(s)");
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 graph(s) and plan(s)");
    weir_plan_destroy(plan);
    CHECK_OK(weir_tagged_event_create(dev, "e"));
    CHECK_OK(weir_tagged_event_record(dev, "e"));
    CHECK_OK(weir_tagged_event_record(dev, "e"));
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "0 tensor(s), 0 event(s), 1 tagged event(s), 0 graph(s)");
    CHECK_OK(weir_tagged_event_destroy(dev, "e"));
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_tagged_event_of_a_graph_is_not_waited_for_outside)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g;

    CHECK_OK(weir_tagged_event_create(dev, "e"));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_STATUS(weir_tagged_event_record(dev, "other"), WEIR_EINVAL);
    CHECK_STATUS(weir_tagged_event_record(dev, NULL), WEIR_EINVAL);
    CHECK_EQ(weir_graph_node_count(g), 0); /* what is refused leaves no node */
    CHECK_OK(weir_tagged_event_record(dev, "e"));
    CHECK_OK(weir_tagged_event_wait(dev, "e"));
    CHECK_OK(weir_graph_end(g));
    CHECK_STATUS(weir_tagged_event_wait(dev, "e"), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "tagged event 'e' was recorded in a graph");
    CHECK_OK(weir_tagged_event_destroy(dev, "e"));
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, devices_of_one_spec_are_told_apart)
{
    weir_device *dev[2] = {open_device("cpu:cores=3"), open_device("cpu:cores=3")};
    weir_tensor *x[2], *y;
    const char *first;

    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev[i]), WEIR_F32, 2, shape, &x[i]));
    CHECK_STATUS(weir_add(x[0], x[1], &y), WEIR_EDEVICE);
    CHECK((first = strstr(weir_last_error(), "cpu:cores=3 (device ")));
    CHECK_STR(first + 1, "cpu:cores=3 (device ");
    CHECK_STATUS(weir_wait_tensor(x[0], x[1]), WEIR_EDEVICE);
    CHECK_STR(weir_last_error(), "(device ");
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(x[i]);
        CHECK_OK(weir_device_close(dev[i]));
    }
}

static void check_cores(weir_graph *g, const char *cores, weir_status want, const char *part)
{
    weir_plan *plan;

    CHECK_STATUS(weir_graph_compile(g, &(weir_compile_options){.cores = cores}, &plan), want);
    if (want)
        CHECK_STR(weir_last_error(), part);
    else {
        char *text = weir_plan_list(plan);

        CHECK_STR(text, part);
        free(text);
    }
    weir_plan_destroy(plan);
}

TEST(misuse, limits_of_a_graph_are_two_counts_or_kept)
{
    weir_device *dev = open_device("cpu:cube=4,vector=8");
    weir_graph *g = relu_graph(dev, (weir_cores){-1, -1});

    check_cores(g, "4|8", WEIR_OK, "cores 4|8");
    check_cores(g, "-1|2", WEIR_OK, "cores -|2");
    check_cores(g, "3|-1", WEIR_OK, "cores 3|-");
    check_cores(g, "4|8|2", WEIR_EINVAL, "not \"4|8|2\"");
    check_cores(g, "4|8 ", WEIR_EINVAL, "not \"4|8 \"");
    check_cores(g, "4", WEIR_EINVAL, "not \"4\"");
    check_cores(g, "", WEIR_EINVAL, "not \"\"");
    check_cores(g, "5|8", WEIR_ERANGE, "has 1..4 cube and 1..8 vector cores");
    check_cores(g, "0|8", WEIR_ERANGE, "core limit 0|8 of the graph");
    check_cores(g, "-2|8", WEIR_ERANGE, "core limit -2|8 of the graph");
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_limit_that_the_device_does_not_have_names_the_node)
{
    static const char text[] = "node { name: \"k\" op: \"Kernel\" "
                               "attr { key: \"_op_vectorcore_num\" value { i: %d } } }";
    weir_device *dev = open_device("cpu:cube=4,vector=8");
    char file[256];
    weir_graph *g;
    weir_plan *plan;

    snprintf(file, sizeof file, text, 9);
    CHECK_OK(weir_graph_load(dev, file, strlen(file), "file", &g));
    CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "node 'k': core limit 9 for vector cores is out of range");
    weir_graph_destroy(g);
    for (int bad = -2; bad <= 0; bad += 2) {
        snprintf(file, sizeof file, text, bad);
        CHECK_STATUS(weir_graph_load(dev, file, strlen(file), "file", &g), WEIR_EINVAL);
        CHECK_STR(weir_last_error(), "_op_vectorcore_num");
        CHECK_STR(weir_last_error(), "is out of range: 1 up to the device's cores, or -1");
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_result_may_have_two_names)
{
    weir_device *dev = open_device("cpu");
    weir_tensor *x, *y, *in, *out[2] = {NULL, NULL};
    weir_graph *g;
    weir_plan *plan;
    float data[16];

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add_scalar(x, 1, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "one", y));
    CHECK_OK(weir_graph_output(g, "two", y));
    CHECK_STATUS(weir_graph_output(g, "two", y), WEIR_EINVAL);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &in));
    CHECK_OK(weir_fill(in, 5));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, out, 2));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_read(out[i], data, sizeof data));
        CHECK(data[15] == 6.0f);
        weir_tensor_release(out[i]);
    }
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(in);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(dev));
}

TEST(misuse, a_bound_output_that_is_not_contiguous_is_refused)
{
    weir_device *dev = open_device("cpu");
    weir_graph *g = relu_graph(dev, (weir_cores){-1, -1});
    weir_tensor *in, *view;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &in));
    CHECK_OK(weir_tensor_transpose(in, 0, 1, &view));
    CHECK_STATUS(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &view, 1), WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "plan output 'y' is not contiguous: give NULL");
    weir_tensor_release(view);
    weir_tensor_release(in);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* Eager calls and captured ones refuse the same. */
TEST(misuse, captured_updates_refuse_operands_that_overlap_the_result)
{
    weir_device *dev = open_device("cpu");
    weir_tensor *x, *row, *low, *high, *wide, *sum;
    weir_plan *plan;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){4, 4}, &x));
    CHECK_OK(weir_graph_input(g, "row", WEIR_F32, 2, (int64_t[]){1, 4}, &row));
    CHECK_OK(weir_tensor_slice(x, 0, 0, 3, 1, &low));
    CHECK_OK(weir_tensor_slice(x, 0, 1, 4, 1, &high));
    CHECK_OK(weir_tensor_expand(row, 2, (int64_t[]){4, 4}, &wide));
    CHECK_OK(weir_graph_begin(g));
    CHECK_STATUS(weir_add_into(low, low, high), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "overlaps");
    CHECK_STATUS(weir_add_into(x, x, wide), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "expanded");
    CHECK_OK(weir_add_into(low, low, low)); /* itself */
    CHECK_OK(weir_add(x, x, &sum));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_compile(g, NULL, &plan)); /* what was refused left nothing behind */
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(x);
    weir_tensor_release(row);
    weir_tensor_release(low);
    weir_tensor_release(high);
    weir_tensor_release(wide);
    weir_tensor_release(sum);
    CHECK_OK(weir_device_close(dev));
}
