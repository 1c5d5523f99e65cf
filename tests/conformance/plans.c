/* Errors of operators inside of plans. */
#include "conformance.h"
#include "picks.h"

static weir_tensor *filled(weir_device *dev, weir_dtype dtype, int64_t n, double value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, 1, &n, &t));
    CHECK_OK(weir_fill(t, value));
    return t;
}

/* An index out of range in the first of some runs, whose kernels are all the same. */
static void fail_first(weir_device *dev, bool beside)
{
    weir_plan *plan = make_picks(dev, beside);
    weir_stream *s = new_stream(dev), *other = new_stream(dev);
    weir_tensor *in[2] = {filled(dev, WEIR_F32, ROWS, 1), filled(dev, WEIR_I64, TAKEN, 2)},
                *out[2] = {filled(dev, WEIR_F32, ROWS, 0), filled(dev, WEIR_F32, TAKEN, 0)};
    weir_event *good, *bad;

    CHECK_OK(weir_event_create(dev, NULL, &good));
    CHECK_OK(weir_event_create(dev, NULL, &bad));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_OK(weir_event_record(good, s));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_fill(in[1], ROWS + 2));
    CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_OK(weir_event_record(bad, s));
    CHECK_OK(weir_stream_wait(other, bad));
    CHECK_OK(weir_fill(in[1], 2));
    for (int i = 0; i < 5; i++)
        CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_STATUS(weir_event_sync(bad), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_STATUS(weir_stream_sync(other), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_OK(weir_event_sync(good));

    /* The plan is as good as before, for others. */
    CHECK_OK(weir_stream_destroy(s));
    s = new_stream(dev);
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(in[1], 2));
    CHECK_OK(weir_plan_run(plan, s, in, 2, out, 2));
    CHECK_OK(weir_stream_sync(s));

    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < 2; i++) {
        weir_tensor_release(in[i]);
        weir_tensor_release(out[i]);
    }
    weir_event_destroy(good);
    weir_event_destroy(bad);
    weir_plan_destroy(plan);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(other));
}

CONFORMANCE(plans, one_that_fails_on_the_callers_stream_is_in_error_from_that_run_on)
{
    fail_first(dev, false);
}

CONFORMANCE(plans, one_that_fails_on_another_stream_is_in_error_for_the_caller)
{
    fail_first(dev, true);
}
