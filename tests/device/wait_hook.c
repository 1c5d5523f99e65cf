/* The hook that a waiting host thread calls, and waiting for one tensor. */
#include <stdatomic.h>
#include <time.h>

#include "harness/test.h"
#include "weir/weir.h"

static atomic_bool gate;

static weir_status wait_for_gate(const void *args, const weir_block *block)
{
    const struct timespec nap = {0, 1000000};

    (void)args, (void)block;
    while (!atomic_load(&gate))
        nanosleep(&nap, NULL);
    return WEIR_OK;
}

static void queue_gate(weir_stream *s, weir_tensor *t)
{
    weir_launch l = {.name = "gate", .fn = wait_for_gate, .tensors = &t, .ntensors = t ? 1 : 0};

    CHECK_OK(weir_launch_submit(s, &l));
}

static int give_up_third_time(void *user)
{
    return ++*(int *)user == 3;
}

static int open_gate(void *user)
{
    ++*(int *)user;
    atomic_store(&gate, true);
    return 0;
}

TEST(wait_hook, the_wait_hook_ends_a_wait_and_the_work_continues)
{
    weir_device *dev;
    weir_stream *s;
    int calls = 0;

    CHECK_OK(weir_device_open("cpu", &dev));
    s = weir_stream_default(dev);
    weir_wait_hook_set(give_up_third_time, &calls);
    queue_gate(s, NULL);
    CHECK_STATUS(weir_stream_sync(s), WEIR_EINTERRUPTED);
    CHECK_STR(weir_last_error(), "default");
    CHECK_EQ(calls, 3);
    calls = 0;
    weir_wait_hook_set(open_gate, &calls);
    CHECK_OK(weir_device_sync(dev));
    CHECK_GE(calls, 1);
    weir_wait_hook_set(NULL, NULL);
    CHECK_OK(weir_device_close(dev));
}

TEST(wait_hook, a_tensor_is_waited_for_on_every_stream_that_uses_it)
{
    const int64_t four = 4;
    weir_stream *a, *b, *other;
    weir_device *dev;
    weir_tensor *t;
    int calls = 0;
    bool done;

    CHECK_OK(weir_device_open("cpu:threads=3", &dev));
    CHECK_OK(weir_stream_create(dev, NULL, &a));
    CHECK_OK(weir_stream_create(dev, NULL, &b));
    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_tensor_empty(a, WEIR_F32, 1, &four, &t));
    CHECK_OK(weir_tensor_sync(t)); /* nobody uses it yet */
    queue_gate(a, t);
    queue_gate(b, t);
    weir_wait_hook_set(open_gate, &calls);
    CHECK_OK(weir_tensor_sync(t));
    CHECK_OK(weir_stream_query(a, &done));
    CHECK(done);
    CHECK_OK(weir_stream_query(b, &done));
    CHECK(done);
    weir_wait_hook_set(NULL, NULL);
    atomic_store(&gate, false);
    queue_gate(other, NULL); /* of no concern to the tensor */
    CHECK_OK(weir_tensor_sync(t));
    atomic_store(&gate, true);
    weir_tensor_release(t);
    CHECK_OK(weir_stream_destroy(a));
    CHECK_OK(weir_stream_destroy(b));
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}
