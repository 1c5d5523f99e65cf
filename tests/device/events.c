/* Events: marks, waits, time. */
#include "helpers.h"

TEST(event, an_event_that_was_never_recorded_is_complete)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = new_stream(dev, 0);
    weir_event *e, *f;
    double ms;
    bool done = false;

    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &e));
    CHECK_OK(weir_event_create(dev, NULL, &f));
    CHECK_OK(weir_event_query(e, &done));
    CHECK(done);
    CHECK_OK(weir_event_sync(e));
    CHECK_OK(weir_stream_wait(s, e));
    CHECK_STATUS(weir_event_elapsed(e, e, &ms), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "never recorded");
    CHECK_OK(weir_event_record(e, s));
    CHECK_OK(weir_event_record(f, s));
    CHECK_STATUS(weir_event_elapsed(e, f, &ms), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "without timing");
    CHECK_OK(weir_event_elapsed(e, e, &ms));
    CHECK(ms == 0);
    weir_event_destroy(e);
    weir_event_destroy(f);
    weir_event_destroy(NULL);
    CHECK_OK(weir_device_close(dev));
}

TEST(event, an_event_marks_the_work_queued_before_it)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *s = new_stream(dev, 0);
    struct gate g = {0}, h = {0};
    weir_event *e;
    bool done;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    submit_gate(s, &g);
    CHECK_OK(weir_event_record(e, s));
    submit_gate(s, &h);
    CHECK_OK(weir_event_query(e, &done));
    CHECK(!done);
    CHECK_STATUS(weir_event_sync_for(e, 5000000), WEIR_ETIMEDOUT);
    open_gate(&g);
    CHECK_OK(weir_event_sync(e)); /* the second gate is still shut */
    CHECK_OK(weir_event_query(e, &done));
    CHECK(done);
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    open_gate(&h);
    CHECK_OK(weir_device_sync(dev));
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(event, recording_again_moves_the_mark_but_not_old_waits)
{
    weir_device *dev = open_device("cpu:cores=3,threads=3");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    struct gate g = {0};
    atomic_int counter = 0;
    int slot = -1;
    weir_event *e;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_launch_submit(a, &(weir_launch){0}));
    CHECK_OK(weir_event_record(e, a));
    CHECK_OK(weir_stream_wait(b, e));
    submit_gate(a, &g);
    CHECK_OK(weir_event_record(e, a)); /* behind the gate: b must not care */
    submit_ticket(b, &counter, &slot);
    CHECK_OK(weir_stream_sync(b));
    CHECK_EQ(slot, 0);
    open_gate(&g);
    CHECK_OK(weir_event_sync(e));
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(event, an_event_may_be_destroyed_while_its_wait_and_its_stamp_are_queued)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    struct gate g = {0};
    atomic_int counter = 0;
    int slot = -1;
    weir_memory_stats stats;

    submit_gate(a, &g);
    for (int i = 0; i < 1000; i++) {
        weir_event *e;

        CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &e));
        CHECK_OK(weir_event_record(e, a));
        CHECK_OK(weir_stream_wait(b, e));
        weir_event_destroy(e);
    }
    submit_ticket(b, &counter, &slot);
    weir_memory_get_stats(dev, &stats, sizeof stats);
    CHECK_EQ(stats.events_live, 0);
    let_others_pass(dev);
    CHECK_EQ(atomic_load(&counter), 0);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(slot, 0);
    CHECK_OK(weir_device_close(dev));
}

static weir_status sleep_kernel(const void *args, const weir_block *block)
{
    (void)block;
    pause_us(*(const long *)args);
    return WEIR_OK;
}

TEST(event, elapsed_measures_device_time)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = new_stream(dev, 0);
    weir_event *from, *to;
    long us = 20000;
    double ms;

    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &from));
    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true, .blocking = true}, &to));
    CHECK_OK(weir_event_record(from, s));
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.fn = sleep_kernel, .args = &us, .args_size = sizeof us}));
    CHECK_OK(weir_event_record(to, s));
    CHECK_OK(weir_event_elapsed(from, to, &ms));
    CHECK(ms >= 20);
    CHECK_OK(weir_event_elapsed(to, from, &ms));
    CHECK(ms <= -20);
    weir_event_destroy(from);
    weir_event_destroy(to);
    CHECK_OK(weir_device_close(dev));
}

TEST(events, an_event_that_is_destroyed_twice_is_refused)
{
    weir_device *dev = open_device("cpu:cores=1");
    weir_event *e, *other;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_event_create(dev, NULL, &other));
    CHECK_OK(weir_event_destroy(e));
    CHECK_STATUS(weir_event_destroy(e), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "twice");
    CHECK_OK(weir_event_destroy(other));
    CHECK_OK(weir_event_destroy(NULL));
    CHECK_OK(weir_device_close(dev));
}
