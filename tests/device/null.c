/* The null device: its commands do nothing and complete at once, in order. */
#include "helpers.h"

#include <string.h>

struct notes {
    weir_stream *other;
    char order[8];
};

static void note(void *user, weir_status st)
{
    struct notes *n = user;

    CHECK_OK(st);
    strcat(n->order, "a");
}

/* A callback may queue and wait: nothing else would run what it waits for. */
static void queue_and_wait(void *user, weir_status st)
{
    struct notes *n = user;

    CHECK_OK(st);
    strcat(n->order, "b");
    CHECK_OK(weir_stream_callback(n->other, note, n));
    CHECK_OK(weir_stream_sync(n->other));
    strcat(n->order, "c");
}

TEST(null, commands_are_complete_when_the_call_that_queues_them_returns)
{
    weir_device *dev = open_device("null");
    weir_stream *s = new_stream(dev, 0);
    struct notes n = {.other = new_stream(dev, 0)};
    weir_event *e;
    bool done = false;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "k", .blocks = 4}));
    CHECK_OK(weir_event_record(e, s));
    CHECK_OK(weir_event_query(e, &done));
    CHECK(done);
    CHECK_OK(weir_stream_callback(s, queue_and_wait, &n));
    CHECK_STR_EQ(n.order, "bac");
    weir_event_destroy(e);
    weir_stream_destroy(n.other);
    weir_stream_destroy(s);
    CHECK_OK(weir_device_close(dev));
}

TEST(null, copies_to_and_from_other_devices_end)
{
    const char *specs[] = {"null", "cpu", "npu:a2"};
    weir_device *dev = open_device("null");
    weir_tensor *x;

    CHECK_OK(weir_tensor_empty(weir_stream_current(dev), WEIR_F32, 1, (int64_t[]){64}, &x));
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_device *other = open_device(specs[i]);
        weir_tensor *y;

        test_note("%s", specs[i]);
        CHECK_OK(weir_tensor_empty(weir_stream_current(other), WEIR_F32, 1, (int64_t[]){64}, &y));
        CHECK_OK(weir_tensor_copy(y, x));
        CHECK_OK(weir_tensor_copy(x, y));
        CHECK_OK(weir_device_sync(other));
        CHECK_OK(weir_device_sync(dev));
        weir_tensor_release(y);
        CHECK_OK(weir_device_close(other));
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

TEST(null, a_null_device_cannot_be_in_a_group)
{
    weir_device *dev = open_device("null");
    weir_group *group;

    CHECK_STATUS(weir_group_create(&dev, 1, NULL, &group), WEIR_EUNSUPPORTED);
    CHECK_OK(weir_device_close(dev));
}
