/* A stream that waits for work before a gate does not wait for the gate. */
#include <sched.h>

#include "gpu.h"

static void wait_for_flag(void *user, weir_status st)
{
    (void)st;
    while (!atomic_load((_Atomic int *)user))
        sched_yield();
}

/* Everything is loaded by then: nothing may be while a callback waits for the host. */
static void stands_before_the_gate(int events)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *other;
    weir_tensor *x = gpu_tensor(s, WEIR_F32, 100, 1);
    weir_event *first, *later;
    _Atomic int flag = 0;
    bool done;

    CHECK_OK(weir_stream_create(dev, NULL, &other));
    CHECK_OK(weir_event_create(dev, NULL, &first));
    CHECK_OK(weir_event_create(dev, NULL, &later));
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_add_into(x, x, x));
    CHECK_OK(weir_event_record(first, s));
    CHECK_OK(weir_stream_callback(s, wait_for_flag, &flag));
    for (int i = 0; i < events; i++) {
        CHECK_OK(weir_add_into(x, x, x));
        CHECK_OK(weir_event_record(later, s));
    }
    CHECK_OK(weir_stream_wait(other, first));
    CHECK_OK(weir_launch_submit(other, &(weir_launch){.name = "after"}));
    CHECK_OK(weir_stream_sync_for(other, INT64_C(20) * 1000 * 1000 * 1000));
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    atomic_store(&flag, 1);
    CHECK_OK(weir_stream_sync(s));
    weir_event_destroy(first);
    weir_event_destroy(later);
    weir_tensor_release(x);
    CHECK_OK(weir_stream_destroy(other));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_gates, a_wait_for_work_before_a_callback_does_not_wait_for_it)
{
    stands_before_the_gate(3);
}

/* The stream keeps the events of its last 64 points alone. */
TEST(cuda_gates, nor_does_one_for_an_event_that_is_long_past)
{
    stands_before_the_gate(3 * WEIR__CUDA_RING);
}
