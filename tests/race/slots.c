/* Streams that are destroyed, and others that reuse their slots. */
#include "helpers.h"

#include <sched.h>

#define WRITE(stream, tensor) CHECK_OK(touch(stream, "write", tensor, true))
#define READ(stream, tensor) CHECK_OK(touch(stream, "read", tensor, false))

static weir_stream *one_more(weir_device *dev)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, NULL, &s));
    return s;
}

/* Whether the old stream's work happens to be over decides nothing. */
TEST(race_slots, a_stream_made_after_another_was_destroyed_is_not_ordered_after_it)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);

    for (uint64_t i = 0; i < 100; i++) {
        weir_tensor *t = new_tensor(f.a, 64);
        weir_stream *first = one_more(f.dev), *second;

        order(f.a, first);
        WRITE(first, t);
        CHECK_OK(weir_stream_destroy(first));
        for (uint64_t k = 0; k < i * 20; k++)
            sched_yield();
        second = one_more(f.dev);
        READ(second, t);
        CHECK_EQ(races(), i + 1);
        CHECK_OK(weir_stream_destroy(second));
        weir_tensor_release(t);
    }
    close_fixture(&f);
}

TEST(race_slots, a_stream_made_after_the_host_saw_another_end_is_ordered_after_it)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);

    for (int i = 0; i < 50; i++) {
        weir_tensor *t = new_tensor(f.a, 64);
        weir_stream *first = one_more(f.dev), *second;
        weir_event *e;

        CHECK_OK(weir_event_create(f.dev, NULL, &e));
        order(f.a, first);
        WRITE(first, t);
        CHECK_OK(weir_event_record(e, first));
        if (i % 2)
            CHECK_OK(weir_stream_sync(first));
        CHECK_OK(weir_stream_destroy(first));
        second = one_more(f.dev);
        CHECK_OK(weir_stream_wait(second, e)); /* of a stream that is gone */
        READ(second, t);
        CHECK_EQ(races(), 0);
        CHECK_OK(weir_event_destroy(e));
        CHECK_OK(weir_stream_destroy(second));
        weir_tensor_release(t);
    }
    close_fixture(&f);
}
