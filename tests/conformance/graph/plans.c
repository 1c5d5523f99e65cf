/* Errors of operators inside of plans. */
#include "conformance/conformance.h"
#include "conformance/graph/picks.h"

#include <stdatomic.h>
#include <time.h>

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

/* ---- whose errors are whose ---- */

static void take(const struct picker *p, weir_stream *s, weir_tensor *index)
{
    weir_tensor *out;

    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_index_select(p->table, 0, index, &out));
    weir_tensor_release(out);
}

/* The plan's other stream. Everything has run once: what is new to a device may have to wait for
 * what is under way. */
static weir_stream *open_picker(struct picker *p, weir_device *dev)
{
    weir_stream *s = new_stream(dev), *beside;

    picker_init(p, dev, true);
    CHECK_OK(weir_stream_tagged(dev, "beside", 0, &beside));
    take(p, s, p->good);
    pick(p, s, p->good);
    CHECK_OK(weir_fill(p->bad, 2));
    pick(p, s, p->bad);
    CHECK_OK(weir_fill(p->bad, ROWS + 2));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_destroy(s));
    return beside;
}

static atomic_bool may_go;

static void wait_to_go(void *user, weir_status status)
{
    (void)user;
    (void)status;
    while (!atomic_load(&may_go))
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

CONFORMANCE(plans, an_error_on_another_stream_of_the_plan_neither_stops_a_run_nor_is_lost)
{
    weir_stream *s = new_stream(dev), *waits = new_stream(dev), *beside;
    struct picker p;

    beside = open_picker(&p, dev);
    CHECK_OK(weir_stream_callback(beside, wait_to_go, NULL)); /* nobody knows of it meanwhile */
    take(&p, beside, p.bad);
    CHECK_OK(weir_stream_wait_stream(waits, beside));
    for (int i = 0; i < 3; i++)
        pick(&p, s, p.good);
    atomic_store(&may_go, true);
    CHECK_OK(weir_stream_sync(s));
    CHECK_STATUS(weir_stream_sync(beside), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(waits), WEIR_ERANGE);
    pick(&p, s, p.good);
    CHECK_OK(weir_stream_sync(s));
    CHECK_STATUS(weir_stream_sync(beside), WEIR_ERANGE);
    picker_fini(&p);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(waits));
}

CONFORMANCE(plans, a_run_that_fails_leaves_the_other_streams_of_the_plan_in_order)
{
    weir_stream *s = new_stream(dev), *other = new_stream(dev), *beside;
    struct picker p;

    beside = open_picker(&p, dev);
    pick(&p, s, p.bad);
    CHECK_OK(weir_stream_set_current(beside));
    CHECK_OK(weir_fill(p.good, 3));
    CHECK_OK(weir_stream_wait_stream(other, beside));
    pick(&p, other, p.good);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_OK(weir_stream_sync(beside));
    CHECK_OK(weir_stream_sync(other));
    picker_fini(&p);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(other));
}

/* Both runs are under way when the second fails. */
CONFORMANCE(plans, a_run_before_the_one_that_fails_is_not_in_error)
{
    weir_stream *s = new_stream(dev), *waits = new_stream(dev);
    weir_event *first, *second;
    struct picker p;

    open_picker(&p, dev);
    CHECK_OK(weir_event_create(dev, NULL, &first));
    CHECK_OK(weir_event_create(dev, NULL, &second));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_stream_callback(s, wait_to_go, NULL));
    CHECK_OK(weir_fill(p.bad, 2));
    pick(&p, s, p.bad);
    CHECK_OK(weir_event_record(first, s));
    CHECK_OK(weir_stream_wait(waits, first));
    CHECK_OK(weir_fill(p.bad, ROWS + 2));
    pick(&p, s, p.bad);
    CHECK_OK(weir_event_record(second, s));
    atomic_store(&may_go, true);
    CHECK_STATUS(weir_event_sync(second), WEIR_ERANGE);
    CHECK_OK(weir_event_sync(first));
    CHECK_OK(weir_stream_sync(waits));
    weir_event_destroy(first);
    weir_event_destroy(second);
    picker_fini(&p);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(waits));
}

/* The run puts its caller behind what its streams have, without their errors. A wait for the same
 * point takes them, also where it adds no order. */
CONFORMANCE(plans, a_wait_for_an_error_that_a_run_has_only_come_after_takes_it)
{
    weir_stream *s = new_stream(dev), *further = new_stream(dev), *beside;
    weir_event *failed;
    struct picker p;

    beside = open_picker(&p, dev);
    CHECK_OK(weir_event_create(dev, NULL, &failed));
    CHECK_OK(weir_stream_callback(beside, wait_to_go, NULL));
    take(&p, beside, p.bad);
    CHECK_OK(weir_event_record(failed, beside));
    pick(&p, s, p.good);
    CHECK_OK(weir_stream_wait_stream(further, s)); /* has no error to hand on */
    CHECK_OK(weir_stream_wait(further, failed));
    CHECK_OK(weir_stream_wait(s, failed));
    atomic_store(&may_go, true);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(further), WEIR_ERANGE);
    weir_event_destroy(failed);
    picker_fini(&p);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_stream_destroy(further));
}
