/* Core counts among the options of a super kernel. */
#include "graph/file/pbtxt_helpers.h"
#include "graph/plan/plan.h"

static weir_status compile(const char *options, weir_cores scope, weir_cores *limit)
{
    weir_tensor *x, *y, *z;
    weir_device *dev;
    weir_plan *plan;
    weir_graph *g;
    weir_status st;

    CHECK_OK(weir_device_open("cpu:cube=5,vector=7,threads=1", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){64}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_cores(scope));
    CHECK_OK(weir_scope_push_super_kernel("sk", options));
    CHECK_OK(weir_relu(x, &y));
    CHECK_OK(weir_neg(y, &z));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    st = weir_graph_compile(g, &(weir_compile_options){.cores = "4|6"}, &plan);
    if (!st)
        *limit = plan->c.limit[0];
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_device_close(dev));
    return st;
}

TEST(super_kernel, core_limits_of_a_super_kernel_rank_between_those_of_operator_and_graph)
{
    weir_cores limit;

    CHECK_OK(compile("", (weir_cores){-1, -1}, &limit));
    CHECK_EQ(limit.vector, 6);
    CHECK_OK(compile("debug-aic-num=2:debug-aiv-num=3", (weir_cores){-1, -1}, &limit));
    CHECK_EQ(limit.cube, 2);
    CHECK_EQ(limit.vector, 3);
    CHECK_OK(compile("stream-fusion=1:debug-aiv-num=3", (weir_cores){-1, 5}, &limit));
    CHECK_EQ(limit.cube, 4);
    CHECK_EQ(limit.vector, 5);
    CHECK_STATUS(compile("debug-aiv-num=8", (weir_cores){-1, -1}, &limit), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "super kernel 'sk'");
}
