/* Nodes added by name, and what a scope says of them. */
#include "graph/plan/plan_helpers.h"

TEST(scope, never_timeout_disables_op_timeout)
{
    for (int never = 0; never < 2; never++) {
        weir_device *dev = open_device("cpu:op_timeout=1");
        const weir_attr attrs[] = {
            {"engine", WEIR_ATTR_STRING, {.s = "vector"}},
            {"blocks", WEIR_ATTR_INT, {.i = 1}},
            {"us", WEIR_ATTR_FLOAT, {.f = 2500000}},
        };
        weir_tensor *out;
        weir_graph *g;
        weir_plan *plan;

        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_scope_push_never_timeout(never));
        CHECK_OK(weir_graph_add(g, "Kernel", "slow", attrs, 3, NULL, 0, &out, 1));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_NEVER_TIMEOUT));
        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), NULL, 0, NULL, 0));
        CHECK_STATUS(weir_stream_sync(weir_stream_default(dev)), never ? WEIR_OK : WEIR_ETIMEDOUT);
        if (!never) {
            CHECK_STR(weir_last_error(), "slow");
            CHECK_OK(weir_stream_sync_for(weir_stream_default(dev), INT64_C(20000000000)));
        }
        weir_tensor_release(out);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(builder, the_builder_adds_nodes_by_name_and_explains_its_errors)
{
    weir_device *dev = open_device("cpu");
    const int64_t shape[] = {2, 3}, dims[] = {1};
    const weir_attr good[] = {
        {"dims", WEIR_ATTR_INTS, {.ints = {dims, 1}}},
        {"keepdim", WEIR_ATTR_BOOL, {.b = true}},
    };
    const weir_attr unknown = {"colour", WEIR_ATTR_INT, {.i = 1}};
    const weir_attr wrong = {"keepdim", WEIR_ATTR_STRING, {.s = "yes"}};
    const weir_attr cast = {"dtype", WEIR_ATTR_STRING, {.s = "f99"}};
    static const float values[] = {1, 2, 3, 4, 5, 6};
    weir_tensor *x, *y, *in, *out = NULL;
    weir_graph *g;
    weir_plan *plan;
    float sums[2];

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
    CHECK_STATUS(weir_graph_add(g, "Summ", "s", NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "Summ");
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", &unknown, 1, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "keepdim");
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", &wrong, 1, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(g, "Cast", "s", &cast, 1, &x, 1, &y, 1), WEIR_EDTYPE);
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, NULL, 0), WEIR_EINVAL);
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, NULL, 0, &y, 1), WEIR_EINVAL);
    CHECK_EQ(weir_graph_node_count(g), 0);
    CHECK_OK(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, &y, 1));
    CHECK_EQ(weir_tensor_shape(y)[1], 1);
    weir_tensor *again;
    CHECK_STATUS(weir_graph_add(g, "Sum", "s", good, 2, &x, 1, &again, 1), WEIR_EINVAL);
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 2, shape, values, &in));
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &in, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, sums, sizeof sums));
    CHECK(sums[0] == 6 && sums[1] == 15);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(in);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
