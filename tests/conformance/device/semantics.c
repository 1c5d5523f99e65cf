/* Streams, events and errors: what holds on every device (DESIGN section 3). */
#include "conformance/device/gates.h"

#include <pthread.h>
#include <stdlib.h>

static weir_tensor *ones(weir_stream *s, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &n, &t));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(t, 1));
    return t;
}

static double first_of(weir_tensor *t)
{
    struct array a;
    double value;

    download(t, &a);
    value = a.at[0];
    array_free(&a);
    return value;
}

CONFORMANCE(streams, work_runs_in_order)
{
    weir_stream *s = new_stream(dev);
    weir_tensor *t = ones(s, 5000);

    for (int i = 0; i < 200; i++) {
        CHECK_OK(weir_mul_scalar_into(t, 2, t));
        CHECK_OK(weir_sub_scalar_into(t, 1, t)); /* stays 1 in this order only */
    }
    CHECK_NEAR(first_of(t), 1, 0);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(streams, events_and_wait_stream_order_streams)
{
    weir_stream *s[3] = {new_stream(dev), new_stream(dev), new_stream(dev)};
    weir_tensor *t = ones(s[0], 3000);

    for (int i = 0; i < 150; i++) {
        weir_stream *now = s[i % 3], *next = s[(i + 1) % 3];

        CHECK_OK(weir_stream_set_current(now));
        CHECK_OK(weir_mul_scalar_into(t, 2, t));
        CHECK_OK(weir_sub_scalar_into(t, 1, t));
        if (i % 2)
            order(now, next);
        else
            CHECK_OK(weir_stream_wait_stream(next, now));
    }
    CHECK_OK(weir_stream_set_current(s[0]));
    CHECK_NEAR(first_of(t), 1, 0);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_stream_destroy(s[i]));
}

CONFORMANCE(streams, a_tag_is_the_same_stream_everywhere)
{
    weir_stream *a, *b, *c;

    CHECK_OK(weir_stream_tagged(dev, "moe", -3, &a));
    CHECK_OK(weir_stream_tagged(dev, "moe", 5, &b));
    CHECK_PTR_EQ(a, b);
    CHECK_EQ(weir_stream_priority(a), -3);
    CHECK_STR(weir_stream_name(a), "moe");
    CHECK_OK(weir_stream_tagged(dev, "default", 0, &c));
    CHECK_PTR_EQ(c, weir_stream_default(dev));
    CHECK_STATUS(weir_stream_tagged(dev, "", 0, &c), WEIR_EINVAL);
    CHECK_STATUS(weir_stream_tagged(dev, "x", 8, &c), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_destroy(a), WEIR_EINVAL);
    CHECK_STATUS(weir_stream_destroy(weir_stream_default(dev)), WEIR_EINVAL);
    CHECK_OK(weir_stream_communication(dev, &a));
    CHECK_OK(weir_stream_communication(dev, &b));
    CHECK_PTR_EQ(a, b);
}

CONFORMANCE(streams, priorities_are_taken_within_their_range)
{
    for (int p = -8; p <= 7; p++) {
        weir_stream *s;

        CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.priority = p}, &s));
        CHECK_EQ(weir_stream_priority(s), p);
        CHECK_OK(weir_stream_destroy(s));
    }
    for (int p = -9; p <= 8; p += 17) {
        weir_stream *s;

        CHECK_STATUS(weir_stream_create(dev, &(weir_stream_options){.priority = p}, &s),
                     WEIR_ERANGE);
        CHECK(!s);
        CHECK_STR(weir_last_error(), "-8");
        CHECK_STR(weir_last_error(), "7");
    }
}

struct thread_arg {
    weir_device *dev;
    weir_stream *other;
};

static void *other_thread(void *user)
{
    struct thread_arg *arg = user;

    CHECK_PTR_EQ(weir_stream_current(arg->dev), weir_stream_default(arg->dev));
    CHECK_OK(weir_stream_set_current(arg->other));
    CHECK_PTR_EQ(weir_stream_current(arg->dev), arg->other);
    return NULL;
}

CONFORMANCE(streams, the_current_stream_belongs_to_the_thread_and_device)
{
    weir_device *second = open_another();
    weir_stream *mine = new_stream(dev), *other = new_stream(dev);
    struct thread_arg arg = {dev, other};
    pthread_t thread;

    CHECK_PTR_EQ(weir_stream_current(dev), weir_stream_default(dev));
    CHECK_OK(weir_stream_set_current(mine));
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, &arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_PTR_EQ(weir_stream_current(dev), mine);
    CHECK_PTR_EQ(weir_stream_current(second), weir_stream_default(second));
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(mine));
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(second));
}

CONFORMANCE(streams, two_devices_do_not_mix)
{
    weir_device *second = open_another();
    weir_event *e;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_STATUS(weir_event_record(e, weir_stream_default(second)), WEIR_EDEVICE);
    CHECK_OK(weir_event_record(e, weir_stream_default(dev)));
    CHECK_STATUS(weir_stream_wait(weir_stream_default(second), e), WEIR_EDEVICE);
    CHECK_STATUS(weir_stream_wait_stream(weir_stream_default(second), weir_stream_default(dev)),
                 WEIR_EDEVICE);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(second));
}

CONFORMANCE(streams, closing_a_device_with_tensors_is_refused_and_changes_nothing)
{
    weir_device *second = open_another();
    weir_tensor *t = ones(weir_stream_default(second), 10);

    CHECK_STATUS(weir_device_close(second), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1");
    CHECK_NEAR(first_of(t), 1, 0);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(second));
    (void)dev;
}

CONFORMANCE(events, before_a_record_everything_is_over)
{
    weir_event *e, *timed;
    bool done = false;
    double ms;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &timed));
    CHECK_OK(weir_event_query(e, &done));
    CHECK(done);
    CHECK_OK(weir_event_sync(e));
    CHECK_OK(weir_stream_wait(weir_stream_default(dev), e));
    CHECK_STATUS(weir_event_elapsed(timed, timed, &ms), WEIR_ESTATE);
    CHECK_OK(weir_event_record(timed, weir_stream_default(dev)));
    CHECK_OK(weir_event_record(e, weir_stream_default(dev)));
    CHECK_STATUS(weir_event_elapsed(timed, e, &ms), WEIR_ESTATE);
    weir_event_destroy(e);
    weir_event_destroy(timed);
}

CONFORMANCE(events, elapsed_grows_with_the_work_between)
{
    weir_event *start, *end;
    weir_tensor *t = ones(weir_stream_default(dev), 1 << 16);
    double ms = -1, none = -1;

    need(dev, WEIR_FEATURE_TIMING);
    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &start));
    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &end));
    CHECK_OK(weir_event_record(start, weir_stream_default(dev)));
    for (int i = 0; i < 50; i++)
        CHECK_OK(weir_exp_into(t, t));
    CHECK_OK(weir_event_record(end, weir_stream_default(dev)));
    CHECK_OK(weir_event_elapsed(start, end, &ms));
    CHECK(ms > 0);
    CHECK_OK(weir_event_elapsed(start, start, &none));
    CHECK_NEAR(none, 0, 0);
    weir_event_destroy(start);
    weir_event_destroy(end);
    weir_tensor_release(t);
}

CONFORMANCE(events, a_mark_is_passed_with_the_work_before_it_only)
{
    weir_stream *s = new_stream(dev);
    weir_event *before, *after;
    struct gate gate = {0};
    bool done;

    need_gates(dev);
    CHECK_OK(weir_event_create(dev, NULL, &before));
    CHECK_OK(weir_event_create(dev, &(weir_event_options){.blocking = true}, &after));
    CHECK_OK(weir_event_record(before, s));
    submit_gate(s, &gate);
    CHECK_OK(weir_event_record(after, s));
    CHECK_OK(weir_event_sync(before));
    wait_gate(&gate);
    CHECK_OK(weir_event_query(after, &done));
    CHECK(!done);
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    CHECK_STATUS(weir_event_sync_for(after, 2000000), WEIR_ETIMEDOUT);
    CHECK_STATUS(weir_stream_sync_for(s, 2000000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "gate");
    open_gate(&gate);
    CHECK_OK(weir_event_sync(after));
    CHECK_OK(weir_event_query(after, &done));
    CHECK(done);
    weir_event_destroy(before);
    weir_event_destroy(after);
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(events, recording_again_leaves_queued_waits_on_the_old_mark)
{
    weir_stream *a = new_stream(dev), *b = new_stream(dev);
    struct gate gate = {0};
    weir_event *e;

    need_gates(dev);
    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_event_record(e, a));
    CHECK_OK(weir_stream_wait(b, e));
    submit_gate(a, &gate);
    CHECK_OK(weir_event_record(e, a)); /* behind the gate, which b does not wait for */
    CHECK_OK(weir_stream_sync(b));
    open_gate(&gate);
    CHECK_OK(weir_event_sync(e));
    weir_event_destroy(e);
    CHECK_OK(weir_stream_destroy(a));
    CHECK_OK(weir_stream_destroy(b));
}

/* ---- errors ---- */

/* An index out of range: the one error that any device can have. */
static void break_stream(weir_stream *s)
{
    int64_t three = 3, one = 1, bad = 99;
    weir_tensor *table, *index, *out;

    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &three, &table));
    CHECK_OK(weir_fill(table, 0));
    CHECK_OK(weir_tensor_from(s, WEIR_I64, 1, &one, &bad, &index));
    CHECK_OK(weir_embedding(table, index, &out));
    weir_tensor_release(table);
    weir_tensor_release(index);
    weir_tensor_release(out);
}

CONFORMANCE(errors, a_failed_operator_stops_its_stream_and_what_waits_for_it_only)
{
    weir_stream *bad = new_stream(dev), *after = new_stream(dev), *free_one = new_stream(dev);
    weir_tensor *kept = ones(free_one, 100), *late = ones(after, 100);
    float values[100];
    bool done;

    CHECK_OK(weir_stream_sync(after));
    break_stream(bad);
    CHECK_STATUS(weir_stream_sync(bad), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "Embedding");
    CHECK_STR(weir_last_error(), weir_stream_name(bad));
    CHECK_STATUS(weir_stream_query(bad, &done), WEIR_ERANGE);
    CHECK_STATUS(weir_device_sync(dev), WEIR_ERANGE);

    /* Later work is not run, here and on what waits. */
    CHECK_OK(weir_stream_wait_stream(after, bad));
    CHECK_OK(weir_stream_set_current(after));
    CHECK_OK(weir_fill(late, 7));
    CHECK_STATUS(weir_stream_sync(after), WEIR_ERANGE);
    CHECK_OK(weir_stream_set_current(free_one));
    /* Its values are not what was asked for, whichever stream reads them. */
    CHECK_STATUS(weir_tensor_read(late, values, sizeof values), WEIR_ERANGE);

    /* Others go on, and destroying clears. */
    CHECK_OK(weir_add_scalar_into(kept, 1, kept));
    CHECK_NEAR(first_of(kept), 2, 0);
    CHECK_OK(weir_stream_destroy(bad));
    CHECK_OK(weir_stream_destroy(after));
    CHECK_OK(weir_device_sync(dev));
    CHECK_NEAR(first_of(late), 1, 0);
    weir_tensor_release(kept);
    weir_tensor_release(late);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(free_one));
}

CONFORMANCE(errors, the_first_error_stays_and_a_read_returns_it)
{
    weir_stream *s = new_stream(dev);
    weir_tensor *t = ones(s, 10);
    weir_event *e;
    char bytes[40];

    break_stream(s);
    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_event_record(e, s));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_STATUS(weir_event_sync(e), WEIR_ERANGE);
    CHECK_STATUS(weir_tensor_read(t, bytes, sizeof bytes), WEIR_ERANGE);
    weir_event_destroy(e);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
    s = new_stream(dev); /* a stream made anew, perhaps in the same place, is clean */
    t = ones(s, 10);
    CHECK_NEAR(first_of(t), 1, 0);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

/* ---- callbacks ---- */

struct told {
    atomic_int calls, status;
};

static void tell(void *user, weir_status status)
{
    struct told *told = user;

    atomic_store(&told->status, (int)status);
    atomic_fetch_add(&told->calls, 1);
}

static void wait_told(struct told *told)
{
    for (int i = 0; i < 20000 && !atomic_load(&told->calls); i++)
        pause_us(500);
    CHECK_EQ(atomic_load(&told->calls), 1);
}

CONFORMANCE(streams, callbacks_come_once_with_the_streams_error)
{
    weir_stream *good = new_stream(dev), *bad = new_stream(dev);
    struct told fine = {0}, failed = {0};
    weir_tensor *t = ones(good, 1000);

    CHECK_OK(weir_stream_callback(good, tell, &fine));
    CHECK_OK(weir_stream_sync(good));
    wait_told(&fine);
    CHECK_EQ(atomic_load(&fine.status), WEIR_OK);
    break_stream(bad);
    CHECK_OK(weir_stream_callback(bad, tell, &failed));
    CHECK_STATUS(weir_stream_sync(bad), WEIR_ERANGE);
    wait_told(&failed);
    CHECK_EQ(atomic_load(&failed.status), WEIR_ERANGE);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(good));
    CHECK_OK(weir_stream_destroy(bad));
}
