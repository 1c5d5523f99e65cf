/* Fails every allocation and every driver call of compiling and running plans. */
#include "steps.h"

#include "graph/plan/plan.h"

static const char spec[] = "cpu:cores=2,threads=1";

/* ---- compiling ---- */

static const weir_compile_options options[] = {
    {.mode = WEIR_COMPILE_MAX_AUTOTUNE},
    {.mode = WEIR_COMPILE_MAX_AUTOTUNE, .streams = WEIR_STREAMS_AUTO},
    {.mode = WEIR_COMPILE_REDUCE_OVERHEAD, .static_kernels = true},
    {.mode = WEIR_COMPILE_EAGER, .cores = "1|2"},
};
static const weir_compile_options *option; /* of these */

static weir_status compile(struct world *w)
{
    weir_plan *plan = (weir_plan *)w;
    weir_status st = weir_graph_compile(w->graph, option, &plan);

    CHECK(!st == !!plan);
    weir_plan_destroy(plan);
    return st;
}

static void prepare_plan(struct world *w)
{
    steps_make_graph(w);
    CHECK_OK(weir_graph_compile(w->graph, option, &w->plan));
    w->done = 0;
}

TEST_TIMEOUT(faults, compiling_survives_any_failed_allocation, 240)
{
    inject_install();
    for (size_t i = 0; i < weir__countof(options); i++) {
        option = &options[i];
        CHECK_GT(inject_each_in("compile", spec, steps_make_graph, compile), 40);
        CHECK_GT(inject_each_driver_call("compile", spec, steps_make_graph, compile), 1);
    }
}

/* ---- running ---- */

/* The results for inputs of 1, 2, 3, 0, 0, ...: x + x, its transpose, and 2x by rows. */
static void check_outputs(weir_tensor *const *out)
{
    float last[4], turned[24], product[16];

    CHECK_OK(weir_tensor_read(out[0], last, sizeof last));
    CHECK_OK(weir_tensor_read(out[1], turned, sizeof turned));
    CHECK_OK(weir_tensor_read(out[2], product, sizeof product));
    CHECK_NEAR(last[0], 12, 0);
    CHECK_NEAR(last[1], 0, 0);
    CHECK_NEAR(turned[4], 4, 0); /* element [1, 0] of the 6 x 4 */
    CHECK_NEAR(product[0], 4 + 16 + 36, 0);
    CHECK_NEAR(product[5], 0, 0);
}

/* One run more than `done` before; w->done counts those that were taken. */
static weir_status run_with(struct world *w, weir_stream *s, weir_tensor *in)
{
    weir_tensor *out[STEPS_OUT] = {NULL};
    weir_status st = weir_plan_run(w->plan, s, &in, 1, out, STEPS_OUT);

    inject_disarm();
    inject_disarm_driver();
    for (int i = 0; i < STEPS_OUT; i++)
        CHECK(!st == !!out[i]);
    open_gate(&w->gate);
    CHECK_OK(weir_device_sync(w->dev));
    w->done += !st;
    steps_check_count(w, w->done);
    if (!st)
        check_outputs(out);
    for (int i = 0; i < STEPS_OUT; i++)
        weir_tensor_release(out[i]);
    return st;
}

static weir_status run(struct world *w)
{
    return run_with(w, w->s, w->tensors[2]);
}

static weir_status run_elsewhere(struct world *w)
{
    return run_with(w, w->other, w->tensors[3]);
}

static void prepare_bound(struct world *w)
{
    prepare_plan(w);
    CHECK_OK(run(w));
}

static void prepare_limited(struct world *w)
{
    prepare_bound(w);
    CHECK_OK(weir_stream_set_limit(w->s, (weir_cores){1, 1}));
    CHECK_OK(weir_stream_set_limit(w->other, (weir_cores){1, 1}));
}

/* The first instance is not over, so that the call needs another. */
static void prepare_held(struct world *w)
{
    weir_tensor *out[STEPS_OUT] = {NULL};

    prepare_plan(w);
    submit_gate(w->s, &w->gate);
    CHECK_OK(weir_plan_run(w->plan, w->s, &w->tensors[2], 1, out, STEPS_OUT));
    for (int i = 0; i < STEPS_OUT; i++)
        w->extra[FREE + i] = out[i];
    w->done = 1;
}

static weir_status run_beside(struct world *w)
{
    bool held = !atomic_load(&w->gate.open);
    weir_plan_stats stats;
    weir_status st = run_with(w, w->other, w->tensors[3]);

    weir_plan_get_stats(w->plan, &stats, sizeof stats);
    if (stats.instances > 1) /* one that was made stays for the next run */
        w->before = stats_of(w->dev);
    if (!st && held)
        CHECK_EQ(stats.instances, 2);
    return st;
}

TEST_TIMEOUT(faults, running_a_plan_survives_any_failed_allocation, 240)
{
    static const struct {
        const char *name;
        inject_prepare prepare;
        inject_call call;
    } rows[] = {
        {"first run", prepare_plan, run},
        {"other bindings", prepare_bound, run_elsewhere},
        {"other limits", prepare_limited, run_elsewhere},
        {"a second instance", prepare_held, run_beside},
    };

    inject_install();
    for (size_t i = 0; i < weir__countof(options); i++)
        for (size_t k = 0; k < weir__countof(rows); k++) {
            option = &options[i];
            CHECK_GT(inject_each_in(rows[k].name, spec, rows[k].prepare, rows[k].call), 0);
            CHECK_GT(inject_each_driver_call(rows[k].name, spec, rows[k].prepare, rows[k].call), 0);
        }
}

/* ---- kernels that cannot be prepared ---- */

static const struct weir__op *relu;
static int refuse_after; /* calls that are prepared before one is not; -1: all are */

static weir_status prepare_or_refuse(const struct weir__call *call, struct weir__work *work)
{
    if (refuse_after == 0)
        return weir__fail(WEIR_ERANGE, "this node is not prepared");
    refuse_after -= refuse_after > 0;
    return relu->prepare(call, work);
}

/* x -> relu -> relu -> relu -> y, where the first and the last touch what is bound. */
static weir_plan *chain_of_three(weir_device *dev, struct weir__op *op)
{
    struct weir__marks marks = {.super_kernel = -1};
    weir_tensor *at, *next;
    weir_graph *g;
    weir_plan *plan;

    relu = weir__op_find("Relu");
    *op = *relu;
    op->prepare = prepare_or_refuse;
    refuse_after = -1;
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){4, 6}, &at));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir__graph_add_call(g, op, NULL, NULL, &at, 1, NULL, &marks, &next));
        weir_tensor_release(at);
        at = next;
    }
    CHECK_OK(weir_graph_output(g, "y", at));
    weir_tensor_release(at);
    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = WEIR_COMPILE_EAGER}, &plan));
    weir_graph_destroy(g);
    return plan;
}

static void check_relu(weir_plan *plan, weir_tensor *in, weir_tensor *out, float want)
{
    float values[24];

    CHECK_OK(weir_plan_run(plan, weir_stream_default(plan->dev), &in, 1, &out, 1));
    CHECK_OK(weir_tensor_read(out, values, sizeof values));
    CHECK_NEAR(values[0], want, 0);
    CHECK_NEAR(values[23], want, 0);
}

/* An instance that could not be bound anew, whichever kernel it was that failed, is bound
 * rightly by the next run: as it was before, or as the one that failed wanted it. */
TEST(faults, a_plan_whose_rebinding_failed_runs_on_its_next_arguments)
{
    for (int limits = 0; limits <= 1; limits++)
        for (int again = 0; again <= 1; again++)
            for (int fails_at = 0; fails_at < (limits ? 3 : 2); fails_at++) {
                weir_device *dev = open_device(spec);
                weir_stream *s = weir_stream_default(dev);
                weir_tensor *in[2], *out[2];
                struct weir__op op;
                weir_plan *plan = chain_of_three(dev, &op);

                test_note("limits %d, again %d, prepared %d", limits, again, fails_at);
                for (int i = 0; i < 2; i++) {
                    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){4, 6}, &in[i]));
                    CHECK_OK(weir_fill(in[i], 5 + i));
                    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){4, 6}, &out[i]));
                }
                check_relu(plan, in[0], out[0], 5);
                if (limits)
                    CHECK_OK(weir_stream_set_limit(s, (weir_cores){1, 1}));
                refuse_after = fails_at;
                CHECK_STATUS(weir_plan_run(plan, s, &in[1], 1, &out[1], 1), WEIR_ERANGE);
                refuse_after = -1;
                check_relu(plan, in[again], out[again], 5 + (float)again);
                check_relu(plan, in[!again], out[!again], 5 + (float)!again);
                for (int i = 0; i < 2; i++) {
                    weir_tensor_release(in[i]);
                    weir_tensor_release(out[i]);
                }
                weir_plan_destroy(plan);
                CHECK_OK(weir_device_close(dev));
            }
}
