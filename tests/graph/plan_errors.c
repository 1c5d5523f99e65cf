/* Errors on the streams that a plan uses: whose they are. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "harness/test.h"
#include "weir/weir.h"

enum { ROWS = 64 }; /* too short to gain from two streams */

struct bench {
    weir_device *dev;
    weir_stream *s, *lane, *other;
    weir_tensor *x, *good, *bad, *out[2];
    weir_event *e;
};

static atomic_bool gate_open;

static weir_status pass_gate(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    while (!atomic_load(&gate_open))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return WEIR_OK;
}

static weir_status pass_gate_and_fail(const void *args, const weir_block *block)
{
    (void)pass_gate(args, block);
    return WEIR_EKERNEL;
}

static weir_tensor *filled(weir_stream *s, weir_dtype dtype, double value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, dtype, 1, (int64_t[]){ROWS}, &t));
    CHECK_OK(weir_fill(t, value));
    return t;
}

static void open_bench(struct bench *b)
{
    atomic_store(&gate_open, false);
    CHECK_OK(weir_device_open("cpu:threads=2", &b->dev));
    b->s = weir_stream_default(b->dev);
    CHECK_OK(weir_stream_tagged(b->dev, "lane", 0, &b->lane));
    CHECK_OK(weir_stream_create(b->dev, NULL, &b->other));
    CHECK_OK(weir_event_create(b->dev, NULL, &b->e));
    b->x = filled(b->s, WEIR_F32, 1);
    b->good = filled(b->s, WEIR_I64, 2);
    b->bad = filled(b->s, WEIR_I64, ROWS);
    b->out[0] = filled(b->s, WEIR_F32, 0);
    b->out[1] = filled(b->s, WEIR_F32, 0);
    CHECK_OK(weir_device_sync(b->dev));
}

static void close_bench(struct bench *b)
{
    weir_tensor_release(b->x);
    weir_tensor_release(b->good);
    weir_tensor_release(b->bad);
    weir_tensor_release(b->out[0]);
    weir_tensor_release(b->out[1]);
    weir_event_destroy(b->e);
    CHECK_OK(weir_stream_destroy(b->other));
    CHECK_OK(weir_device_close(b->dev));
}

/* relu(x), and beside it x's rows at `index`. */
static weir_plan *make_plan(weir_device *dev, const char *mode)
{
    weir_tensor *x, *index, *positive, *rows;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){ROWS}, &x));
    CHECK_OK(weir_graph_input(g, "index", WEIR_I64, 1, (int64_t[]){ROWS}, &index));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_relu(x, &positive));
    CHECK_OK(weir_scope_push_stream("lane", 0));
    CHECK_OK(weir_index_select(x, 0, index, &rows));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "positive", positive));
    CHECK_OK(weir_graph_output(g, "rows", rows));
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = mode}, &plan));
    weir_tensor_release(x);
    weir_tensor_release(index);
    weir_tensor_release(positive);
    weir_tensor_release(rows);
    weir_graph_destroy(g);
    return plan;
}

static void run(struct bench *b, weir_plan *plan, weir_stream *s, weir_tensor *index)
{
    CHECK_OK(weir_plan_run(plan, s, (weir_tensor *[]){b->x, index}, 2, b->out, 2));
}

/* A stream that is in error by its user's own work runs nothing more, also as a lane. */
static void run_beside_failure(const char *mode)
{
    struct bench b;
    weir_plan *plan;
    weir_stream *later;

    test_note("%s", mode);
    open_bench(&b);
    plan = make_plan(b.dev, mode);
    CHECK_OK(weir_stream_create(b.dev, NULL, &later));
    CHECK_OK(weir_launch_submit(b.lane, &(weir_launch){.name = "fails", .fn = pass_gate_and_fail}));
    CHECK_OK(weir_event_record(b.e, b.lane));
    run(&b, plan, b.s, b.good);
    run(&b, plan, b.s, b.good);
    CHECK_OK(weir_stream_wait(b.other, b.e));
    atomic_store(&gate_open, true);
    CHECK_STATUS(weir_stream_sync(b.s), WEIR_EKERNEL);
    CHECK_STR(weir_last_error(), "'fails'");
    CHECK_STATUS(weir_stream_sync(b.lane), WEIR_EKERNEL);
    CHECK_STATUS(weir_event_sync(b.e), WEIR_EKERNEL);
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_EKERNEL);
    run(&b, plan, later, b.good); /* it has been said */
    CHECK_OK(weir_stream_sync(later));
    weir_plan_destroy(plan);
    CHECK_OK(weir_stream_destroy(later));
    close_bench(&b);
}

TEST(plan_errors, of_a_streams_own_work_are_of_the_run_that_it_is_a_lane_of)
{
    run_beside_failure("reduce-overhead");
    run_beside_failure("max-autotune"); /* merged */
}

/* A run comes after the other's without its error; whoever waits for that one takes it, though the
 * order is known. */
TEST(plan_errors, of_a_run_reach_who_waits_for_it_after_another_run)
{
    struct bench b;
    weir_plan *plan, *merged;
    weir_stream *fails;
    char *text;

    open_bench(&b);
    plan = make_plan(b.dev, "reduce-overhead");
    merged = make_plan(b.dev, "max-autotune");
    text = weir_plan_list(merged);
    CHECK_STR(text, "on the caller's stream");
    free(text);
    CHECK_OK(weir_stream_create(b.dev, NULL, &fails));
    CHECK_OK(weir_launch_submit(fails, &(weir_launch){.name = "gate", .fn = pass_gate}));
    run(&b, plan, fails, b.bad);
    CHECK_OK(weir_event_record(b.e, b.lane));
    run(&b, merged, b.s, b.good);
    CHECK_OK(weir_stream_wait_stream(b.other, b.s)); /* which does not have the error */
    CHECK_OK(weir_stream_wait(b.other, b.e));
    atomic_store(&gate_open, true);
    CHECK_STATUS(weir_stream_sync(b.other), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(fails), WEIR_ERANGE);
    CHECK_OK(weir_stream_sync(b.s));
    weir_plan_destroy(plan);
    weir_plan_destroy(merged);
    CHECK_OK(weir_stream_destroy(fails));
    close_bench(&b);
}
