/* Launches that stand for several nodes: super kernels and elementwise chains. */
#include "graph/plan/plan_helpers.h"

/* ---- super kernels ---- */

/* relu, exp, matmul, neg: all in one scope, the last on another stream if asked. */
static weir_graph *scoped_graph(weir_device *dev, const char *options, bool two_streams)
{
    const int64_t shape[] = {64, 64};
    weir_tensor *t[5];
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &t[0]));
    CHECK_OK(weir_graph_begin(g));
    WEIR_SUPER_KERNEL_SCOPE("sk", options)
    {
        CHECK_OK(weir_relu(t[0], &t[1]));
        CHECK_OK(weir_exp(t[1], &t[2]));
        CHECK_OK(weir_matmul(t[2], t[1], &t[3]));
        CHECK_OK(weir_scope_push_stream(two_streams ? "side" : "default", 0));
        CHECK_OK(weir_neg(t[3], &t[4]));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    }
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", t[4]));
    for (int i = 0; i < 5; i++)
        weir_tensor_release(t[i]);
    return g;
}

static void keep_warning(void *user, weir_log_level level, const char *text)
{
    if (level == WEIR_LOG_WARN)
        snprintf(user, 300, "%s", text);
}

TEST(super_kernel, a_super_kernel_gives_the_bits_of_its_parts_and_fuses_streams_when_asked)
{
    static const struct {
        const char *options;
        bool two;
        size_t streams;
        const char *warning;
    } rows[] = {
        {"", false, 1, ""},
        {"", true, 2, "stream-fusion=1 puts them on one"},
        {"stream-fusion=0", true, 2, "stream-fusion=1 puts them on one"},
        {"stream-fusion=1:strict-scope-check=abort", true, 1, ""},
    };
    const int64_t shape[] = {64, 64};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_device *dev = open_device("cpu:cube=5,vector=7,threads=3,jitter=2");
        weir_stream *s = weir_stream_default(dev);
        static char warning[300];
        weir_tensor *x, *t[5], *y = NULL;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        test_note("options '%s'", rows[i].options);
        warning[0] = 0;
        weir_log_set(keep_warning, warning, WEIR_LOG_WARN);
        g = scoped_graph(dev, rows[i].options, rows[i].two);
        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
        CHECK_STR(warning, rows[i].warning);
        weir_plan_get_stats(plan, &stats, sizeof stats);
        CHECK_EQ(stats.streams, rows[i].streams);
        CHECK_EQ(stats.nodes, 4);
        CHECK_EQ(stats.launches, rows[i].streams);
        for (uint64_t seed = 0; seed < 20; seed++) { /* rebinds every time */
            CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
            CHECK_OK(weir_random_normal(x, seed, 0, 1));
            CHECK_OK(weir_plan_run(plan, s, &x, 1, &y, 1));
            CHECK_OK(weir_relu(x, &t[1]));
            CHECK_OK(weir_exp(t[1], &t[2]));
            CHECK_OK(weir_matmul(t[2], t[1], &t[3]));
            CHECK_OK(weir_neg(t[3], &t[4]));
            check_same("y", y, t[4]);
            for (int j = 1; j < 5; j++)
                weir_tensor_release(t[j]);
            weir_tensor_release(x);
            weir_tensor_release(y);
            y = NULL;
        }
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(super_kernel, an_operator_that_cannot_be_fused_splits_a_super_kernel_or_is_refused)
{
    for (int strict = 0; strict < 2; strict++) {
        weir_device *dev = open_device("cpu");
        const int64_t shape[] = {64};
        weir_tensor *x, *y, *out[2], *z;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, shape, &x));
        CHECK_OK(weir_graph_begin(g));
        WEIR_SUPER_KERNEL_SCOPE("sk", strict ? "strict-scope-check=abort" : "")
        {
            CHECK_OK(weir_relu(x, &y));
            CHECK_OK(weir_nonzero_padded(y, &out[0], &out[1]));
            CHECK_OK(weir_neg(out[0], &z));
        }
        CHECK_OK(weir_graph_end(g));
        CHECK_OK(weir_graph_output(g, "z", z));
        if (strict) {
            CHECK_STATUS(weir_graph_compile(g, NULL, &plan), WEIR_ECONFLICT);
            CHECK_STR(weir_last_error(), "NonZero");
            CHECK_STR(weir_last_error(), "'sk'");
        } else {
            CHECK_OK(weir_graph_compile(g, NULL, &plan));
            weir_plan_get_stats(plan, &stats, sizeof stats);
            CHECK_EQ(stats.launches, 3);
            weir_plan_destroy(plan);
        }
        weir_tensor_release(x);
        weir_tensor_release(y);
        weir_tensor_release(z);
        weir_tensor_release(out[0]);
        weir_tensor_release(out[1]);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}

/* ---- elementwise fusion ---- */

TEST(fusion, an_elementwise_chain_is_one_launch_with_the_same_bits)
{
    for (int reduce_overhead = 0; reduce_overhead < 2; reduce_overhead++) {
        weir_device *dev = open_device("cpu:cores=3,threads=2");
        weir_stream *s = weir_stream_default(dev);
        const int64_t shape[] = {100, 777}, row[] = {777};
        weir_tensor *x, *bias, *t[6], *y = NULL, *real;
        weir_plan_stats stats;
        weir_plan *plan;
        weir_graph *g;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, row, &bias));
        CHECK_OK(weir_random_normal(bias, 1, 0, 1));
        CHECK_OK(weir_graph_create(dev, &g));
        CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &x));
        for (int pass = 0; pass < 2; pass++) {
            if (pass) {
                CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &real));
                CHECK_OK(weir_random_normal(real, 2, 0, 1));
            } else {
                CHECK_OK(weir_graph_begin(g));
            }
            CHECK_OK(weir_add(pass ? real : x, bias, &t[0]));
            CHECK_OK(weir_silu(t[0], &t[1]));
            CHECK_OK(weir_mul(t[1], t[0], &t[2]));
            CHECK_OK(weir_exp(t[2], &t[3]));
            CHECK_OK(weir_sub_scalar(t[3], 1, &t[4]));
            CHECK_OK(weir_maximum(t[4], t[0], &t[5]));
            if (!pass) {
                CHECK_OK(weir_graph_end(g));
                CHECK_OK(weir_graph_output(g, "y", t[5]));
                for (int i = 0; i < 6; i++)
                    weir_tensor_release(t[i]);
            }
        }
        CHECK_OK(weir_graph_compile(
            g,
            &(weir_compile_options){.mode = reduce_overhead ? WEIR_COMPILE_REDUCE_OVERHEAD
                                                            : WEIR_COMPILE_MAX_AUTOTUNE},
            &plan));
        weir_plan_get_stats(plan, &stats, sizeof stats);
        CHECK_EQ(stats.nodes, 6);
        CHECK_EQ(stats.launches, reduce_overhead ? 6 : 1);
        CHECK_OK(weir_plan_run(plan, s, &real, 1, &y, 1));
        check_same("y", y, t[5]);
        for (int i = 0; i < 6; i++)
            weir_tensor_release(t[i]);
        weir_tensor_release(x);
        weir_tensor_release(bias);
        weir_tensor_release(real);
        weir_tensor_release(y);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
        CHECK_OK(weir_device_close(dev));
    }
}
