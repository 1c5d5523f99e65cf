/* A stream that waits for work before a gate does not wait for the gate. */
#include <sched.h>
#include <time.h>

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
TEST(cuda_gates, a_wait_for_an_event_that_is_long_past_does_not_wait_for_a_later_callback)
{
    stands_before_the_gate(3 * WEIR__CUDA_RING);
}

static void add_on(weir_stream *s, weir_tensor *x)
{
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_add_into(x, x, x));
}

/* What a stream is to wait for is known from the call on: work that comes on the other one between
 * it and the waiting stream's next command stands behind the gate of a third. */
static void goes_on(bool with_event)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *waiting, *shut;
    weir_tensor *x = gpu_tensor(s, WEIR_F32, 100, 1), *y;
    _Atomic int flag = 0;
    weir_event *e;
    bool done;

    CHECK_OK(weir_stream_create(dev, NULL, &waiting));
    CHECK_OK(weir_stream_create(dev, NULL, &shut));
    CHECK_OK(weir_event_create(dev, NULL, &e));
    y = gpu_tensor(waiting, WEIR_F32, 100, 1);
    add_on(s, x);
    add_on(waiting, y);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_callback(shut, wait_for_flag, &flag));
    add_on(s, x);
    if (with_event) {
        CHECK_OK(weir_event_record(e, s));
        CHECK_OK(weir_stream_wait_stream(s, shut));
        CHECK_OK(weir_stream_wait(waiting, e));
    } else {
        CHECK_OK(weir_stream_wait_stream(waiting, s));
        CHECK_OK(weir_stream_wait_stream(s, shut));
    }
    add_on(s, x);
    add_on(waiting, y);
    CHECK_OK(weir_stream_sync_for(waiting, INT64_C(20) * 1000 * 1000 * 1000));
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    atomic_store(&flag, 1);
    CHECK_OK(weir_device_sync(dev));
    weir_event_destroy(e);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_stream_destroy(waiting));
    CHECK_OK(weir_stream_destroy(shut));
    CHECK_OK(weir_device_close(dev));
}

TEST(cuda_gates, a_stream_waits_for_what_the_other_had_when_the_wait_was_queued)
{
    goes_on(false);
}

TEST(cuda_gates, a_wait_for_an_event_covers_what_its_stream_waited_for_when_it_was_recorded)
{
    goes_on(true);
}

/* To hand the wait of `b` for `a` to CUDA, `a` gets its own wait for an earlier command of `b`,
 * which has no event yet. That one lacks the wait, and is not for `c`. */
TEST(cuda_gates, an_event_recorded_meanwhile_does_not_replace_a_wait_it_lacks)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *a = weir_stream_default(dev), *b, *c, *d;
    weir_tensor *x, *y, *z;
    _Atomic int flag = 0;
    bool done;

    CHECK_OK(weir_stream_create(dev, NULL, &b));
    CHECK_OK(weir_stream_create(dev, NULL, &c));
    CHECK_OK(weir_stream_create(dev, NULL, &d));
    x = gpu_tensor(d, WEIR_F32, 100, 1);
    y = gpu_tensor(b, WEIR_F32, 100, 1);
    z = gpu_tensor(c, WEIR_F32, 100, 1);
    add_on(b, y);
    add_on(c, z);
    CHECK_OK(weir_device_sync(dev));
    add_on(b, y);
    add_on(b, y);
    CHECK_OK(weir_stream_callback(a, wait_for_flag, &flag));
    weir__light_lock(&dev->lock);
    CHECK_OK(weir__stream_wait_mark(a, (struct weir__mark){b, weir__stream_submitted(b) - 1}, NULL,
                                    WEIR__WAIT_ORDER));
    weir__light_unlock(&dev->lock);
    CHECK_OK(weir_stream_wait_stream(b, a));
    CHECK_OK(weir_stream_wait_stream(c, b));
    add_on(b, y);
    add_on(c, z);
    for (int i = 0; i < 100; i++)
        add_on(d, x);
    CHECK_OK(weir_stream_sync(d)); /* others pass meanwhile */
    CHECK_OK(weir_stream_query(c, &done));
    CHECK(!done);
    atomic_store(&flag, 1);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_set_current(a));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    CHECK_OK(weir_stream_destroy(d));
    CHECK_OK(weir_stream_destroy(b));
    CHECK_OK(weir_stream_destroy(c));
    CHECK_OK(weir_device_close(dev));
}

/* The lanes "left" and "right" beside the caller's. */
static weir_plan *plan_with_lanes(weir_device *dev)
{
    static const char text[] = "node { name: \"a\" op: \"Kernel\" }\n"
                               "node { name: \"b\" op: \"Kernel\" input: \"^a\""
                               "  attr { key: \"_user_stream_label\" value { s: \"left\" } } }\n"
                               "node { name: \"c\" op: \"Kernel\" input: \"^a\""
                               "  attr { key: \"_user_stream_label\" value { s: \"right\" } } }\n"
                               "node { name: \"d\" op: \"Kernel\" input: \"^b\" input: \"^c\" }\n";
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_load(dev, text, sizeof text - 1, "lanes", &g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

/* What a lane has is over where the plan was launched; an event on the lane stands there, and not
 * behind what came on that stream later. */
TEST(cuda_gates, an_event_on_a_lane_of_a_plan_is_over_with_the_plan)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s = weir_stream_default(dev), *left, *waiting, *shut;
    weir_plan *plan = plan_with_lanes(dev);
    weir_tensor *x = gpu_tensor(s, WEIR_F32, 100, 1), *y;
    _Atomic int flag = 0;
    weir_event *e;
    bool done;

    CHECK_OK(weir_stream_tagged(dev, "left", 0, &left));
    CHECK_OK(weir_stream_create(dev, NULL, &waiting));
    CHECK_OK(weir_stream_create(dev, NULL, &shut));
    CHECK_OK(weir_event_create(dev, NULL, &e));
    y = gpu_tensor(waiting, WEIR_F32, 100, 1);
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    add_on(s, x);
    add_on(waiting, y);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_callback(shut, wait_for_flag, &flag));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_plan_run(plan, s, NULL, 0, NULL, 0));
    CHECK_OK(weir_event_record(e, left));
    CHECK_OK(weir_stream_wait_stream(s, shut));
    add_on(s, x);
    CHECK_OK(weir_stream_wait(waiting, e));
    add_on(waiting, y);
    CHECK_OK(weir_stream_sync_for(waiting, INT64_C(20) * 1000 * 1000 * 1000));
    CHECK_OK(weir_event_sync_for(e, INT64_C(20) * 1000 * 1000 * 1000));
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    atomic_store(&flag, 1);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_stream_set_current(s));
    weir_event_destroy(e);
    weir_plan_destroy(plan);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_stream_destroy(waiting));
    CHECK_OK(weir_stream_destroy(shut));
    CHECK_OK(weir_device_close(dev));
}
