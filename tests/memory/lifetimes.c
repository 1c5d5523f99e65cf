/* Lifetimes of devices, destroyed streams, callbacks, and copies between devices. */
#include "helpers.h"

#include <pthread.h>

enum { WORDS = 1 << 16 };

static const char spec[] = "cpu:cores=6,threads=6";

struct set_args {
    int32_t *words;
    int32_t value;
};

static weir_status set_kernel(const void *args, const weir_block *block)
{
    const struct set_args *a = args;

    (void)block;
    for (int i = 0; i < WORDS; i++)
        a->words[i] = a->value;
    return WEIR_OK;
}

static weir_tensor *words_of(weir_stream *s, int32_t value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, (int64_t[]){WORDS}, &t));
    struct set_args a = {weir_tensor_data(t), value};

    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "set",
                                                  .fn = set_kernel,
                                                  .args = &a,
                                                  .args_size = sizeof a,
                                                  .tensors = &t,
                                                  .ntensors = 1}));
    return t;
}

/* The source is freed on its device while the copy waits on the other; whoever gets its
 * memory next overwrites it at once. `borrower`: the copy is not on the owner's stream. */
static void copy_and_free(bool borrower)
{
    weir_device *from = open_device(spec), *to = open_device(spec);
    weir_stream *owner = weir_stream_default(from);
    weir_stream *reader = borrower ? new_stream(from, 0) : owner;
    struct gate g = {0};
    weir_tensor *src = words_of(owner, 7), *dst, *next;
    static int32_t got[WORDS];

    CHECK_OK(weir_tensor_empty(weir_stream_default(to), WEIR_I32, 1, (int64_t[]){WORDS}, &dst));
    CHECK_OK(weir_stream_wait_stream(reader, owner));
    CHECK_OK(weir_stream_sync(owner));
    submit_gate(weir_stream_default(to), &g);
    CHECK_OK(weir_stream_set_current(reader));
    CHECK_OK(weir_tensor_copy(dst, src));
    CHECK_OK(weir_stream_set_current(owner));
    weir_tensor_release(src);
    CHECK_OK(weir_memory_empty_cache(from)); /* must not take it for over */
    if (!borrower)
        owner = new_stream(from, 0);
    next = words_of(owner, 9);
    CHECK_OK(weir_stream_sync(owner));
    open_gate(&g);
    CHECK_OK(weir_tensor_read(dst, got, sizeof got));
    for (int i = 0; i < WORDS; i++)
        CHECK_EQ(got[i], 7);
    weir_tensor_release(next);
    weir_tensor_release(dst);
    CHECK_OK(weir_device_close(from));
    CHECK_OK(weir_device_close(to));
}

TEST(lifetimes, a_source_freed_during_a_copy_to_another_device_stays)
{
    copy_and_free(false);
}
TEST(lifetimes, a_source_copied_on_a_borrowing_stream_stays_until_the_copy_is_over)
{
    copy_and_free(true);
}

static void *open_later(void *gate)
{
    pause_us(50000);
    open_gate(gate);
    return NULL;
}

/* The source's stream waits for the copy, which is another device's work; its only thread
 * is held before it gets there. */
TEST(lifetimes, a_device_stays_while_another_still_waits_for_it)
{
    weir_device *from = open_device("cpu:threads=1"), *to = open_device("cpu:threads=1");
    struct gate g = {0};
    weir_tensor *src = words_of(weir_stream_default(from), 7), *dst;
    pthread_t opener;
    weir_status st;

    CHECK_OK(weir_tensor_empty(weir_stream_default(to), WEIR_I32, 1, (int64_t[]){WORDS}, &dst));
    CHECK_OK(weir_device_sync(from));
    submit_gate(new_stream(from, 0), &g);
    while (!atomic_load(&g.arrived))
        pause_us(50);
    CHECK_OK(weir_tensor_copy(dst, src));
    weir_tensor_release(src);
    weir_tensor_release(dst);
    CHECK_EQ(pthread_create(&opener, NULL, open_later, &g), 0);
    if ((st = weir_device_close(to))) {
        CHECK_EQ(st, WEIR_EBUSY); /* or it waits */
        CHECK_OK(weir_device_sync(from));
        CHECK_OK(weir_device_close(to));
    }
    CHECK_OK(weir_device_close(from));
    CHECK_EQ(pthread_join(opener, NULL), 0);
}

/* ---- streams given back ---- */

static weir_status fail_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_EKERNEL;
}

static void submit_failure(weir_stream *s)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "fails", .fn = fail_kernel}));
}

TEST(lifetimes, a_new_stream_in_a_reused_slot_receives_errors_again)
{
    weir_device *dev = open_device(spec);
    weir_stream *bad = new_stream(dev, 0), *old = new_stream(dev, 0), *fresh;
    weir_event *e;
    atomic_int counter = 0;
    int slot = -1;

    submit_failure(bad);
    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_event_record(e, bad));
    CHECK_OK(weir_stream_wait(old, e));
    CHECK_STATUS(weir_stream_sync(old), WEIR_EKERNEL);
    CHECK_OK(weir_stream_destroy(old));
    fresh = new_stream(dev, 0);
    CHECK_OK(weir_stream_sync(fresh)); /* its own record is clean */
    CHECK_OK(weir_stream_wait(fresh, e));
    submit_ticket(fresh, &counter, &slot);
    CHECK_STATUS(weir_stream_sync(fresh), WEIR_EKERNEL);
    CHECK_EQ(slot, -1);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(lifetimes, an_error_reaches_waits_queued_before_its_stream_was_given_back)
{
    weir_device *dev = open_device(spec);
    weir_stream *bad = new_stream(dev, 0), *waits = new_stream(dev, 0);
    struct gate g = {0};
    atomic_int counter = 0;
    int slot = -1;

    submit_gate(waits, &g);
    submit_failure(bad);
    CHECK_OK(weir_stream_wait_stream(waits, bad));
    submit_ticket(waits, &counter, &slot);
    CHECK_STATUS(weir_stream_sync(bad), WEIR_EKERNEL);
    CHECK_OK(weir_stream_destroy(bad));
    for (int i = 0; i < 4; i++) /* one of them may get the place */
        CHECK_OK(weir_stream_sync(new_stream(dev, 0)));
    open_gate(&g);
    CHECK_STATUS(weir_stream_sync(waits), WEIR_EKERNEL);
    CHECK_EQ(slot, -1);
    CHECK_OK(weir_device_close(dev));
}

TEST(lifetimes, memory_of_a_stream_given_back_can_still_be_freed_and_reused)
{
    weir_device *dev = open_device("cpu:cores=6,threads=6,memory=32m");
    struct gate g = {0};

    for (int i = 0; i < 100; i++) {
        weir_stream *s = new_stream(dev, 0);
        weir_buffer *b = alloc_on(s, 20 << 20);

        atomic_store(&g.open, i % 10 > 0); /* now and then the work is not over */
        use_on(s, b, &g);
        CHECK_OK(weir_stream_destroy(s));
        weir_buffer_free(b);
        open_gate(&g);
        if (i % 10 == 0)
            CHECK_OK(weir_device_sync(dev));
    }
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_memory_empty_cache(dev));
    CHECK_EQ(stats_of(dev).reserved, 0);
    CHECK_OK(weir_device_close(dev));
}

TEST(lifetimes, an_event_outlives_its_stream)
{
    weir_device *dev = open_device(spec);
    weir_stream *s = new_stream(dev, 0), *s1 = new_stream(dev, 0);
    struct gate g = {0};
    weir_event *e;
    bool done;

    CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &e));
    submit_gate(s, &g);
    CHECK_OK(weir_event_record(e, s));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_event_query(e, &done));
    CHECK(!done);
    CHECK_OK(weir_stream_wait(s1, e));
    open_gate(&g);
    CHECK_OK(weir_event_sync(e));
    CHECK_OK(weir_stream_sync(s1));
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(lifetimes, timed_events_destroyed_before_their_time_leave_no_mark)
{
    weir_device *dev = open_device(spec);
    weir_stream *s = weir_stream_default(dev);
    struct gate g = {0};
    double ms;

    submit_gate(s, &g);
    for (int i = 0; i < 1000; i++) {
        weir_event *e;

        CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &e));
        CHECK_OK(weir_event_record(e, s));
        CHECK_OK(weir_event_record(e, s));
        weir_event_destroy(e);
    }
    open_gate(&g);
    for (int i = 0; i < 1000; i++) {
        weir_event *a, *b;

        CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &a));
        CHECK_OK(weir_event_create(dev, &(weir_event_options){.timing = true}, &b));
        CHECK_OK(weir_event_record(a, s));
        CHECK_OK(weir_event_record(b, s));
        CHECK_OK(weir_event_elapsed(a, b, &ms));
        CHECK(ms >= 0);
        weir_event_destroy(a);
        weir_event_destroy(b);
    }
    CHECK_OK(weir_device_close(dev));
}

/* ---- closing ---- */

struct relay {
    weir_stream *streams[3];
    atomic_int left, calls;
};

static void pass_on(void *user, weir_status status)
{
    struct relay *r = user;
    int left = atomic_fetch_sub(&r->left, 1);

    CHECK_EQ(status, WEIR_OK);
    atomic_fetch_add(&r->calls, 1);
    pause_us(200);
    if (left > 1)
        CHECK_OK(weir_stream_callback(r->streams[left % 3], pass_on, r));
}

TEST(lifetimes, close_waits_for_what_callbacks_queue)
{
    weir_device *dev = open_device(spec);
    struct relay r = {
        .streams = {weir_stream_default(dev), new_stream(dev, 0), new_stream(dev, 0)},
        .left = 100,
    };

    CHECK_OK(weir_stream_callback(r.streams[2], pass_on, &r));
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(atomic_load(&r.calls), 100);
}

TEST(lifetimes, close_with_work_in_flight_on_every_stream)
{
    for (int i = 0; i < 20; i++) {
        weir_device *dev = open_device("cpu:jitter=5");

        for (int s = 0; s < 10; s++) {
            weir_stream *stream = new_stream(dev, s % 16 - 8);
            weir_tensor *t = words_of(stream, s);

            CHECK_OK(weir_stream_wait_stream(weir_stream_default(dev), stream));
            weir_tensor_release(t);
            if (s % 2)
                CHECK_OK(weir_stream_destroy(stream));
        }
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(lifetimes, close_refused_says_what_is_held_and_changes_nothing)
{
    weir_device *dev = open_device(spec);
    weir_stream *s = weir_stream_default(dev);
    weir_event *e;
    weir_buffer *b = alloc_on(s, 1 << 20);
    atomic_int counter = 0;
    int slot = -1;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 event");
    CHECK_STR(weir_last_error(), "1.0 MiB");
    submit_ticket(s, &counter, &slot); /* it still works */
    CHECK_OK(weir_event_record(e, s));
    CHECK_OK(weir_event_sync(e));
    CHECK_EQ(slot, 0);
    weir_event_destroy(e);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(lifetimes, views_hold_the_bytes_not_the_tensor)
{
    weir_device *dev = open_device(spec);
    weir_tensor *t = words_of(weir_stream_default(dev), 3), *a, *b;
    int32_t got[4];

    CHECK_OK(weir_tensor_slice(t, 0, 100, 200, 1, &a));
    weir_tensor_release(t);
    CHECK_OK(weir_tensor_slice(a, 0, 4, 8, 1, &b));
    weir_tensor_release(a);
    t = words_of(weir_stream_default(dev), 4);
    CHECK_OK(weir_tensor_read(b, got, sizeof got));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(got[i], 3);
    weir_tensor_release(b);
    weir_tensor_release(t);
    CHECK_EQ(stats_of(dev).allocated, 0);
    CHECK_OK(weir_device_close(dev));
}
