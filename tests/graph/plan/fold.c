/* Constant folding: what literals alone decide is computed once, and to the same bits. */
#include "graph/file/pbtxt_helpers.h"
#include "graph/plan/plan.h"

#define CONST(name, values)                                                        \
    "node { name: '" name "' op: 'Const' attr { key: 'dtype' value { s: 'f32' } }" \
    " attr { key: 'shape' value { list { i: 4 } } }"                               \
    " attr { key: 'value' value { list { " values " } } } }\n"
#define INPUT                                                                     \
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { s: 'f32' } }" \
    " attr { key: 'shape' value { list { i: 4 } } } }\n"
#define A CONST("a", "f: 0.5 f: -1.5 f: 3 f: 1e-3")

/* The result of running the plan on 1, 2, 3, 4, and how many nodes it has. */
static size_t run(weir_graph *g, weir_compile_mode mode, float *result)
{
    static const float values[] = {1, 2, 3, 4};
    weir_stream *s = weir_stream_default(g->dev);
    weir_tensor *x, *out = NULL;
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){4}, values, &x));
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = mode}, &plan));
    for (int round = 0; round < 2; round++)
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, result, 4 * sizeof *result));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    weir_tensor_release(x);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    return stats.nodes;
}

/* As issued the file has `all` nodes, folded `left`; the bits are the same. */
static void check_fold(const char *text, size_t all, size_t left)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, text);
    float plain[4], folded[4];

    CHECK_EQ(run(g, WEIR_COMPILE_REDUCE_OVERHEAD, plain), all);
    CHECK_EQ(run(g, WEIR_COMPILE_MAX_AUTOTUNE, folded), left);
    CHECK_MEM_EQ(plain, folded, sizeof plain);
    CHECK_EQ(run(g, WEIR_COMPILE_MAX_AUTOTUNE, folded), left); /* the graph itself is as it was */
    CHECK_MEM_EQ(plain, folded, sizeof plain);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(fold, nodes_that_depend_only_on_literals_are_computed_once)
{
    check_fold(INPUT A "node { name: 'e' op: 'Exp' input: 'a' }\n"
                       "node { name: 's' op: 'Sum' input: 'e' attr { key: 'keepdim' value { b: "
                       "true } } }\n"
                       "node { name: 'd' op: 'Div' input: 'e' input: 's' }\n"
                       "node { name: 'm' op: 'Mul' input: 'x' input: 'd' }\n"
                       "node { name: 'n' op: 'Add' input: 'm' input: 'e' }\n"
                       "node { name: 'out' op: 'NetOutput' input: 'n' }\n",
               5, 2);
}

TEST(fold, generated_literals_are_folded)
{
    check_fold(INPUT A "node { name: 'r' op: 'Arange' input: 'a' attr { key: 'step' value { f: 0.1 "
                       "} } }\n"
                       "node { name: 't' op: 'Tanh' input: 'r' }\n"
                       "node { name: 'm' op: 'Mul' input: 'x' input: 't' }\n"
                       "node { name: 'n' op: 'Add' input: 'm' input: 'r' }\n"
                       "node { name: 'out' op: 'NetOutput' input: 'n' }\n",
               4, 2);
}

TEST(fold, nodes_that_vary_between_runs_or_are_ordered_are_not_folded)
{
    /* Read before it is generated: the first run sees other bytes than the second. */
    check_fold(INPUT A "node { name: 'n' op: 'Neg' input: 'a' }\n"
                       "node { name: 'r' op: 'Fill' input: 'a' attr { key: 'value' value { f: 2 } "
                       "} input: '^n' }\n"
                       "node { name: 'm' op: 'Mul' input: 'x' input: 'r' }\n"
                       "node { name: 'out' op: 'NetOutput' input: 'm' }\n",
               3, 3);
    /* A control edge from it. */
    check_fold(INPUT A "node { name: 'e' op: 'Exp' input: 'a' }\n"
                       "node { name: 'm' op: 'Mul' input: 'x' input: 'e' input: '^e' }\n"
                       "node { name: 'out' op: 'NetOutput' input: 'm' }\n",
               2, 2);
    /* A result of the graph gets memory of the run. */
    check_fold(INPUT A "node { name: 'e' op: 'Exp' input: 'a' }\n"
                       "node { name: 'out' op: 'NetOutput' input: 'e' }\n",
               1, 1);
}

TEST(fold, weights_may_change_between_runs)
{
    weir_device *dev = open_cpu();
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x, *w, *e, *y, *out = NULL;
    weir_plan_stats stats;
    weir_plan *plan;
    weir_graph *g;
    float result;

    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){1}, &(float){2}, &w));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){1}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_neg(w, &e));
    CHECK_OK(weir_mul(x, e, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.nodes, 2);
    CHECK_OK(weir_plan_run(plan, s, &w, 1, &out, 1));
    CHECK_OK(weir_tensor_write(w, &(float){3}, sizeof(float)));
    CHECK_OK(weir_plan_run(plan, s, &w, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, &result, sizeof result));
    CHECK(result == -9);
    weir_tensor_release(x);
    weir_tensor_release(w);
    weir_tensor_release(e);
    weir_tensor_release(y);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(fold, a_captured_arange_is_folded)
{
    weir_device *dev = open_cpu();
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x, *r, *e, *y, *in, *out = NULL;
    float result[4];
    weir_plan_stats stats;
    weir_plan *plan;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){4}, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_arange(s, WEIR_F32, 4, 1, 2, &r)); /* 1 3 5 7 */
    CHECK_OK(weir_neg(r, &e));
    CHECK_OK(weir_mul(x, e, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_PTR_EQ(weir_tensor_data(r), NULL);
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.nodes, 1);
    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){4}, (float[]){1, 1, 2, 2}, &in));
    CHECK_OK(weir_plan_run(plan, s, &in, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, result, sizeof result));
    CHECK_MEM_EQ(result, ((float[]){-1, -3, -10, -14}), sizeof result);
    weir_tensor_release(x);
    weir_tensor_release(r);
    weir_tensor_release(e);
    weir_tensor_release(y);
    weir_tensor_release(in);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    close_cpu(dev);
}

/* An index out of range fails where it is expected: at the run. */
TEST(fold, an_operator_that_fails_is_left_to_the_run)
{
    weir_device *dev = open_cpu();
    weir_graph *g =
        load(dev, INPUT A "node { name: 'i' op: 'Const' attr { key: 'dtype' value { s: 'i64' } }"
                          " attr { key: 'shape' value { list { i: 4 } } }"
                          " attr { key: 'value' value { list { i: 9 } } } }\n"
                          "node { name: 'g' op: 'Gather' input: 'a' input: 'i' }\n"
                          "node { name: 'm' op: 'Mul' input: 'x' input: 'g' }\n"
                          "node { name: 'out' op: 'NetOutput' input: 'm' }\n");
    weir_stream *s = weir_stream_default(dev), *own;
    weir_tensor *x, *out = NULL;
    weir_plan *plan;

    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){4}, (float[]){1, 1, 1, 1}, &x));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_OK(weir_stream_create(dev, NULL, &own));
    CHECK_OK(weir_plan_run(plan, own, &x, 1, &out, 1));
    CHECK_STATUS(weir_stream_sync(own), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "'g'");
    weir_tensor_release(x);
    weir_tensor_release(out);
    weir_plan_destroy(plan);
    weir_stream_destroy(own);
    weir_graph_destroy(g);
    close_cpu(dev);
}
