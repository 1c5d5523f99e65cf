/* Fused elementwise chains: what only the launch knows stays in the block's own memory, and
 * the values are those of the operators one by one. */
#include <stdlib.h>

#include "graph/pass/compile.h"
#include "graph/plan/plan.h"
#include "harness/test.h"
#include "weir/weir.h"

enum { ROWS = 37, COLS = 2701 }; /* no multiple of a piece */

/* A tree with a value used twice, a broadcast row, another type (bool) and a late use. */
static void build(weir_tensor *x, weir_tensor *row, weir_tensor **out, weir_tensor **side)
{
    weir_tensor *a, *b, *c, *d, *e, *f, *mask;

    CHECK_OK(weir_exp(x, &a));
    CHECK_OK(weir_mul(a, a, &b));
    CHECK_OK(weir_sub(b, row, &c));
    CHECK_OK(weir_tanh(c, &d));
    CHECK_OK(weir_add(d, x, &e));
    CHECK_OK(weir_minimum(e, a, &f));
    CHECK_OK(weir_gt(f, c, &mask));
    CHECK_OK(weir_where(mask, f, a, out));
    CHECK_OK(weir_neg(c, side));
    weir_tensor *all[] = {a, b, c, d, e, f, mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
}

TEST(fuse, private_values_stay_in_the_block)
{
    static float want[2][ROWS * COLS], got[ROWS * COLS];
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;
    weir_tensor *x, *row, *gx, *grow, *out[2], *gout, *gside;
    const int64_t shape[] = {ROWS, COLS}, row_shape[] = {1, COLS};
    int private = 0, launches = 0;
    char *list;

    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, row_shape, &row));
    CHECK_OK(weir_random_normal(x, 1, 0, 1));
    CHECK_OK(weir_random_normal(row, 2, 0, 1));
    build(x, row, &out[0], &out[1]);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_read(out[i], want[i], sizeof want[i]));
        weir_tensor_release(out[i]);
        out[i] = NULL;
    }
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &gx));
    CHECK_OK(weir_graph_input(g, "row", WEIR_F32, 2, row_shape, &grow));
    CHECK_OK(weir_graph_begin(g));
    build(gx, grow, &gout, &gside);
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", gout));
    CHECK_OK(weir_graph_output(g, "side", gside));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int v = 0; v < plan->graph->nnodes; v++) {
        launches += plan->c.leader[v] == v;
        private += plan->c.slot[plan->graph->nodes[v].out[0].value] >= 0;
    }
    CHECK_EQ(launches, 1);
    CHECK_EQ(private, 7); /* all but the two outputs */
    list = weir_plan_list(plan);
    CHECK_STR(list, "in its block's memory");
    free(list);
    for (int run = 0; run < 3; run++) {
        CHECK_OK(
            weir_plan_run(plan, weir_stream_default(dev), (weir_tensor *[]){x, row}, 2, out, 2));
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weir_tensor_read(out[i], got, sizeof got));
            CHECK_MEM_EQ(got, want[i], sizeof got);
        }
    }
    weir_tensor *all[] = {x, row, gx, grow, gout, gside, out[0], out[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(fuse, values_stay_in_the_block_where_nodes_before_them_were_folded)
{
    const int64_t shape[] = {ROWS, COLS};
    weir_tensor *gx, *row, *twice, *a, *b, *c;
    int private = 0;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &gx));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_F32, COLS, 0, 1, &row));
    CHECK_OK(weir_mul_scalar(row, 2, &twice));
    CHECK_OK(weir_exp(gx, &a));
    CHECK_OK(weir_sub(a, twice, &b));
    CHECK_OK(weir_tanh(b, &c));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "out", c));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK_EQ(plan->graph->nnodes, 3);
    for (int v = 0; v < plan->graph->nnodes; v++)
    private += plan->c.slot[plan->graph->nodes[v].out[0].value] >= 0;
    CHECK_EQ(private, 2);
    weir_tensor *all[] = {gx, row, twice, a, b, c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

/* Casts both ways in the middle of a chain, a copy of what is contiguous, and swiglu before them.
 */
static void build_casts(weir_tensor *x, weir_tensor **out)
{
    weir_tensor *a, *b, *c, *d, *e, *f;

    CHECK_OK(weir_swiglu(x, 1, &a));
    CHECK_OK(weir_cast(a, WEIR_BF16, &b));
    CHECK_OK(weir_mul(b, b, &c));
    CHECK_OK(weir_cast(c, WEIR_F64, &d));
    CHECK_OK(weir_copy(d, &e));
    CHECK_OK(weir_exp(e, &f));
    CHECK_OK(weir_cast(f, WEIR_F32, out));
    weir_tensor *all[] = {a, b, c, d, e, f};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
}

/* `turned`: the cast's input is no longer contiguous, and it goes its own way. */
static void check_casts(bool turned)
{
    static float want[ROWS * COLS], got[ROWS * COLS];
    const int64_t shape[] = {ROWS, 2 * COLS};
    const int order[] = {1, 0};
    weir_tensor *x, *gx, *out, *gout, *view, *last;
    int private = 0, launches = 0;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_random_normal(x, 1, 0, 1));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, shape, &gx));
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            CHECK_OK(weir_graph_begin(g));
        build_casts(captured ? gx : x, &last);
        if (turned) {
            CHECK_OK(weir_tensor_permute(last, order, &view));
            weir_tensor_release(last);
            CHECK_OK(weir_cast(view, WEIR_F16, &last));
            weir_tensor_release(view);
            CHECK_OK(weir_cast(last, WEIR_F32, &view));
            weir_tensor_release(last);
            last = view;
        }
        if (captured) {
            gout = last;
            CHECK_OK(weir_graph_end(g));
        } else {
            CHECK_OK(weir_tensor_read(last, want, sizeof want));
            weir_tensor_release(last);
        }
    }
    CHECK_OK(weir_graph_output(g, "out", gout));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int v = 0; v < plan->graph->nnodes; v++) {
        launches += plan->c.leader[v] == v;
        private += plan->c.slot[plan->graph->nodes[v].out[0].value] >= 0;
    }
    CHECK_EQ(launches, turned ? 3 : 1);
    CHECK_EQ(private, 6);
    out = NULL;
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, got, sizeof got));
    CHECK_MEM_EQ(got, want, sizeof got);
    weir_tensor *all[] = {x, gx, gout, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(fuse, casts_are_links_of_a_chain)
{
    check_casts(false);
}

TEST(fuse, a_cast_of_a_transposed_operand_ends_a_chain)
{
    check_casts(true);
}

/* exp(x + y turned) * x, of n * n elements: how many launches, and that the bits are those of eager
 * calls. */
static int launches_of_turned(int64_t n)
{
    const int64_t shape[] = {n, n};
    const int order[] = {1, 0};
    size_t bytes = (size_t)(n * n) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    weir_tensor *in[2], *gin[2], *turned, *a, *b, *c, *gout = NULL, *out = NULL;
    int launches = 0;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    CHECK(want && got);
    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, shape, &in[i]));
        CHECK_OK(weir_random_normal(in[i], (uint64_t)i, 0, 1));
        CHECK_OK(weir_graph_input(g, i ? "y" : "x", WEIR_F32, 2, shape, &gin[i]));
    }
    for (int captured = 0; captured < 2; captured++) {
        weir_tensor **from = captured ? gin : in;

        if (captured)
            CHECK_OK(weir_graph_begin(g));
        CHECK_OK(weir_tensor_permute(from[1], order, &turned));
        CHECK_OK(weir_add(from[0], turned, &a));
        CHECK_OK(weir_exp(a, &b));
        CHECK_OK(weir_mul(b, from[0], &c));
        if (captured) {
            CHECK_OK(weir_graph_end(g));
            gout = weir_tensor_retain(c);
        } else {
            CHECK_OK(weir_tensor_read(c, want, bytes));
        }
        weir_tensor *all[] = {turned, a, b, c};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            weir_tensor_release(all[i]);
    }
    CHECK_OK(weir_graph_output(g, "out", gout));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    for (int v = 0; v < plan->graph->nnodes; v++)
        launches += plan->c.leader[v] == v;
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, 2, &out, 1));
    CHECK_OK(weir_tensor_read(out, got, bytes));
    CHECK_MEM_EQ(got, want, bytes);
    weir_tensor *all[] = {in[0], in[1], gin[0], gin[1], gout, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_tensor_release(all[i]);
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
    free(want);
    free(got);
    return launches;
}

TEST(fuse, a_large_transposed_operand_is_read_in_tiles)
{
    CHECK_EQ(launches_of_turned(520), 2); /* the addition alone, then the others */
    CHECK_EQ(launches_of_turned(60), 1);
}
