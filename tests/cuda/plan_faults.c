/* Operators of plans that find an index out of range: whichever lane it was in, the stream that ran
 * the plan is in error from that run on. What holds on every device is in
 * conformance/graph/plans.c. */
#include "conformance/graph/picks.h"
#include "gpu.h"

static const struct fake_control *fake; /* NULL on a GPU */

static void open_picker(struct picker *p, bool beside)
{
    picker_init(p, open_either("cuda:0", &fake), beside);
}

static void close_picker(struct picker *p)
{
    picker_fini(p);
    CHECK_OK(weir_device_close(p->dev));
}

/* Nothing runs, so that the host learns of nothing. */
static void hold(bool held)
{
    if (fake)
        fake->hold(held);
}

static void fail_and_recover(bool beside)
{
    struct picker p;
    weir_stream *s, *other;

    open_picker(&p, beside);
    CHECK_OK(weir_stream_create(p.dev, NULL, &s));
    CHECK_OK(weir_stream_create(p.dev, NULL, &other));
    pick(&p, s, p.good);
    CHECK_OK(weir_stream_sync(s));
    pick(&p, s, p.bad);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_STR(weir_last_error(), "12");
    pick(&p, other, p.good);
    CHECK_OK(weir_stream_sync(other));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(other));
    close_picker(&p);
}

TEST(cuda_plan_faults,
     an_index_out_of_range_on_any_lane_is_the_callers_error_while_a_trace_is_recorded)
{
    weir_trace *trace;

    CHECK_OK(weir_trace_start(NULL));
    fail_and_recover(false);
    fail_and_recover(true);
    CHECK_OK(weir_trace_stop(&trace));
    weir_trace_free(trace);
}

TEST(cuda_plan_faults, work_before_a_failed_run_is_not_in_error_on_a_reused_stream)
{
    struct picker p;
    weir_stream *s;
    weir_event *before;

    open_picker(&p, true);
    CHECK_OK(weir_event_create(p.dev, NULL, &before));
    CHECK_OK(weir_stream_create(p.dev, NULL, &s));
    CHECK_OK(weir_fill(p.bad, 2));
    CHECK_OK(weir_device_sync(p.dev));
    pick(&p, s, p.bad);
    for (bool done = false; !done;)
        CHECK_OK(weir_stream_query(s, &done));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_create(p.dev, NULL, &s));
    CHECK_OK(weir_fill(p.bad, 12));
    CHECK_OK(weir_stream_wait_stream(s, weir_stream_default(p.dev)));
    CHECK_OK(weir_event_record(before, s));
    pick(&p, s, p.bad);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_OK(weir_event_sync(before));
    weir_event_destroy(before);
    CHECK_OK(weir_stream_destroy(s));
    close_picker(&p);
}

TEST(cuda_plan_faults, the_failure_of_a_destroyed_plan_is_reported)
{
    for (int beside = 0; beside < 2; beside++) {
        struct picker p;
        weir_stream *s;

        test_note("beside %d", beside);
        open_picker(&p, beside);
        CHECK_OK(weir_stream_create(p.dev, NULL, &s));
        pick(&p, s, p.bad);
        weir_plan_destroy(p.plan);
        p.plan = NULL;
        CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
        CHECK_STR(weir_last_error(), "IndexSelect");
        CHECK_OK(weir_stream_destroy(s));
        close_picker(&p);
    }
}

TEST(cuda_plan_faults, a_failed_plan_on_another_plans_lane_puts_the_stream_in_error)
{
    struct picker p;
    weir_plan *plain;
    weir_stream *beside;
    weir_tensor *index, *out[2];

    open_picker(&p, true);
    plain = make_picks(p.dev, false);
    CHECK_OK(weir_stream_tagged(p.dev, "beside", 0, &beside));
    index = gpu_tensor(beside, WEIR_I64, TAKEN, 2);
    out[0] = gpu_tensor(beside, WEIR_F32, ROWS, 0);
    out[1] = gpu_tensor(beside, WEIR_F32, TAKEN, 0);
    CHECK_OK(weir_device_sync(p.dev));
    CHECK_OK(weir_stream_set_current(beside));
    hold(true);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weir_plan_run(plain, beside, (weir_tensor *[]){p.table, index}, 2, out, 2));
        pick(&p, weir_stream_default(p.dev), p.good);
    }
    CHECK_OK(weir_fill(index, 12));
    CHECK_OK(weir_plan_run(plain, beside, (weir_tensor *[]){p.table, index}, 2, out, 2));
    hold(false);
    CHECK_STATUS(weir_stream_sync(beside), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_OK(weir_stream_set_current(weir_stream_default(p.dev)));
    weir_tensor_release(index);
    weir_tensor_release(out[0]);
    weir_tensor_release(out[1]);
    weir_plan_destroy(plain);
    close_picker(&p);
}

/* On the lane that both have failed on. */
TEST(cuda_plan_faults, runs_of_other_plans_between_two_failures_succeed)
{
    struct picker p;
    weir_stream *fails, *between[2], *beside;
    weir_tensor *own;

    open_picker(&p, true);
    CHECK_OK(weir_stream_tagged(p.dev, "beside", 0, &beside));
    CHECK_OK(weir_stream_create(p.dev, NULL, &fails));
    own = gpu_tensor(beside, WEIR_F32, ROWS, 1);
    CHECK_OK(weir_device_sync(p.dev));
    hold(true);
    pick(&p, fails, p.bad);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_stream_create(p.dev, NULL, &between[i]));
        CHECK_OK(weir_stream_set_current(beside));
        CHECK_OK(weir_fill(own, i));
        pick(&p, between[i], p.good);
    }
    pick(&p, fails, p.bad);
    hold(false);
    CHECK_STATUS(weir_stream_sync(fails), WEIR_ERANGE);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_stream_sync(between[i]));
        CHECK_OK(weir_stream_destroy(between[i]));
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(p.dev)));
    CHECK_OK(weir_stream_destroy(fails));
    weir_tensor_release(own);
    close_picker(&p);
}

/* The n-th call of a run fails. If so does the run, it was none: a later one is not taken for it.
 * False if there are fewer. */
static bool run_in_vain(struct picker *p, uint64_t n, int *in_vain)
{
    weir_stream *s;
    weir_event *before;
    weir_status st;
    uint64_t calls;

    test_note("call %d", (int)n);
    weir_plan_destroy(p->plan);
    p->plan = make_picks(p->dev, true);
    CHECK_OK(weir_stream_create(p->dev, NULL, &s));
    CHECK_OK(weir_event_create(p->dev, NULL, &before));
    CHECK_OK(weir_stream_set_current(s));
    calls = fake->calls();
    fake->fail_call(n, 2);
    st = weir_plan_run(p->plan, s, (weir_tensor *[]){p->table, p->bad}, 2, p->out, 2);
    fake->fail_call(0, 0);
    calls = fake->calls() - calls;
    if (st && !weir_stream_sync(s)) {
        ++*in_vain;
        for (int i = 0; i < 6; i++)
            CHECK_OK(weir_fill(p->out[0], i));
        CHECK_OK(weir_event_record(before, s));
        pick(p, s, p->bad);
        CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
        CHECK_OK(weir_event_sync(before));
    }
    CHECK_OK(weir_stream_set_current(weir_stream_default(p->dev)));
    weir_event_destroy(before);
    CHECK_OK(weir_stream_destroy(s));
    return calls >= n;
}

TEST(cuda_plan_faults, a_run_that_was_not_queued_gets_no_error)
{
    struct picker p;
    int in_vain = 0;

    (void)use_fake();
    open_picker(&p, true);
    for (uint64_t n = 1; run_in_vain(&p, n, &in_vain); n++)
        continue;
    CHECK_GT(in_vain, 5);
    close_picker(&p);
}
