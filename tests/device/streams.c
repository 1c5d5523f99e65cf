/* Streams run in order, wait for each other, and fail as documented. */
#include "helpers.h"

#include <string.h>

TEST(stream, a_stream_runs_its_commands_in_order)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = new_stream(dev, 0);
    static int order[5000];
    atomic_int counter = 0;

    for (int i = 0; i < 5000; i++)
        submit_ticket(s, &counter, &order[i]);
    CHECK_OK(weir_stream_sync(s));
    for (int i = 0; i < 5000; i++)
        CHECK_EQ(order[i], i);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, two_streams_run_side_by_side)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    struct gate g = {0};
    atomic_int counter = 0;
    int slot = -1;

    submit_gate(a, &g);
    submit_ticket(b, &counter, &slot);
    CHECK_OK(weir_stream_sync(b)); /* while a is held */
    CHECK_EQ(slot, 0);
    bool done;
    CHECK_OK(weir_stream_query(a, &done));
    CHECK(!done);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, wait_orders_across_streams)
{
    weir_device *dev = open_device("cpu:cores=4,threads=4");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    atomic_int counter = 0;
    struct gate g = {0};
    int first = -1, second = -1;

    submit_gate(a, &g);
    submit_ticket(a, &counter, &first);
    order_after(b, a);
    submit_ticket(b, &counter, &second);
    let_others_pass(dev);
    CHECK_EQ(atomic_load(&counter), 0);
    open_gate(&g);
    CHECK_OK(weir_stream_sync(b));
    CHECK_EQ(first, 0);
    CHECK_EQ(second, 1);
    CHECK_OK(weir_device_close(dev));
}

/* Tickets from 8 streams that wait for each other at random: every wait must hold. */
static void random_order(const char *spec, unsigned seed, int steps)
{
    enum { STREAMS = 8, STEPS = 2000 };
    static int slot[STEPS];
    static struct {
        int before, after;
    } edges[STEPS];
    weir_device *dev = open_device(spec);
    weir_stream *s[STREAMS];
    weir_event *e[STREAMS];
    int last[STREAMS], nedges = 0, recorded[STREAMS];
    atomic_int counter = 0;

    for (int i = 0; i < STREAMS; i++) {
        s[i] = new_stream(dev, i % 3 - 1);
        CHECK_OK(weir_event_create(dev, NULL, &e[i]));
        last[i] = recorded[i] = -1;
    }
    for (int i = 0; i < steps; i++) {
        unsigned r = (seed = seed * 1664525 + 1013904223) >> 8;
        int a = (int)(r % STREAMS), b = (int)(r / STREAMS % STREAMS);

        if (r % 5 < 2 && recorded[b] >= 0) {
            CHECK_OK(weir_stream_wait(s[a], e[b]));
            edges[nedges].before = recorded[b];
            edges[nedges++].after = i;
        }
        submit_ticket(s[a], &counter, &slot[i]);
        if (last[a] >= 0) {
            edges[nedges].before = last[a];
            edges[nedges++].after = i;
        }
        last[a] = i;
        if (r % 7 < 3) {
            CHECK_OK(weir_event_record(e[a], s[a]));
            recorded[a] = i;
        }
        if (nedges + 2 >= STEPS)
            break;
    }
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < nedges; i++)
        CHECK_LT(slot[edges[i].before], slot[edges[i].after]);
    for (int i = 0; i < STREAMS; i++) {
        weir_event_destroy(e[i]);
        CHECK_OK(weir_stream_destroy(s[i]));
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, random_waits_hold)
{
    char spec[64];

    for (unsigned seed = 1; seed <= 40; seed++) {
        snprintf(spec, sizeof spec, "cpu:threads=%u,jitter=%u", 1 + seed % 4, seed);
        test_note("%s", spec);
        random_order(spec, seed, 900);
    }
}

static weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_ERANGE;
}

TEST(stream, a_failure_stops_the_stream_and_what_waits_for_it)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0), *c = new_stream(dev, 0);
    atomic_int counter = 0;
    int after = -1, waiting = -1, other = -1;

    CHECK_OK(weir_launch_submit(a, &(weir_launch){.name = "broken", .fn = failing_kernel}));
    submit_ticket(a, &counter, &after);
    order_after(b, a);
    submit_ticket(b, &counter, &waiting);
    submit_ticket(c, &counter, &other);
    CHECK_OK(weir_stream_sync(c));
    CHECK_STATUS(weir_stream_sync(b), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_sync(a), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "broken");
    CHECK_STR(weir_last_error(), weir_stream_name(a));
    CHECK_STATUS(weir_stream_sync(a), WEIR_ERANGE); /* it sticks */
    CHECK_STATUS(weir_device_sync(dev), WEIR_ERANGE);
    CHECK_EQ(after, -1);
    CHECK_EQ(waiting, -1);
    CHECK_EQ(other, 0);
    CHECK_OK(weir_stream_destroy(a)); /* and destroying clears it */
    CHECK_OK(weir_stream_destroy(b));
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < 4; i++) {
        a = new_stream(dev, 0);
        submit_ticket(a, &counter, &after);
        CHECK_OK(weir_stream_sync(a));
        CHECK_OK(weir_stream_destroy(a));
    }
    CHECK_OK(weir_device_close(dev));
}

static void count_status(void *user, weir_status status)
{
    atomic_fetch_add((atomic_int *)user, status ? 100 : 1);
}

TEST(stream, callbacks_run_once_even_after_an_error)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = new_stream(dev, 0);
    atomic_int calls = 0;

    CHECK_OK(weir_stream_callback(s, count_status, &calls));
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.fn = failing_kernel}));
    CHECK_OK(weir_stream_callback(s, count_status, &calls));
    CHECK_STATUS(weir_stream_sync(s), WEIR_ERANGE);
    CHECK_EQ(atomic_load(&calls), 101);
    CHECK_STATUS(weir_stream_callback(s, NULL, NULL), WEIR_EINVAL);
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, a_sync_times_out_and_says_who_waits_for_whom)
{
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    struct gate g = {0};

    submit_gate(a, &g);
    order_after(b, a);
    CHECK_OK(weir_launch_submit(b, &(weir_launch){.name = "after"}));
    while (!atomic_load(&g.arrived))
        pause_us(100);
    let_others_pass(dev); /* b has come to its wait */
    CHECK_STATUS(weir_stream_sync_for(b, 30000000), WEIR_ETIMEDOUT);
    CHECK_STR(weir_last_error(), "gate");
    CHECK_STR(weir_last_error(), "waits for command 1 of stream");
    CHECK_STATUS(weir_stream_sync_for(b, 0), WEIR_ETIMEDOUT);
    open_gate(&g);
    CHECK_OK(weir_stream_sync(b));
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, op_timeout_counts_from_the_last_progress)
{
    weir_device *dev = open_device("cpu:op_timeout=1");
    weir_stream *s = new_stream(dev, 0);
    struct gate g = {0};

    submit_gate(s, &g);
    CHECK_STATUS(weir_stream_sync(s), WEIR_ETIMEDOUT);
    open_gate(&g);
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, tags_name_one_stream_each)
{
    weir_device *dev = open_device("cpu");
    weir_stream *a, *b, *c;

    CHECK_OK(weir_stream_tagged(dev, "1", -3, &a));
    CHECK_OK(weir_stream_tagged(dev, "1", 5, &b));
    CHECK_OK(weir_stream_tagged(dev, "default", 0, &c));
    CHECK_PTR_EQ(a, b);
    CHECK_EQ(weir_stream_priority(a), -3);
    CHECK_PTR_EQ(c, weir_stream_default(dev));
    CHECK_STR_EQ(weir_stream_name(a), "1");
    CHECK_STATUS(weir_stream_tagged(dev, "", 0, &c), WEIR_EINVAL);
    CHECK_STATUS(weir_stream_tagged(dev, "x", 8, &c), WEIR_ERANGE);
    CHECK_STATUS(weir_stream_destroy(a), WEIR_EINVAL);
    CHECK_STATUS(weir_stream_destroy(weir_stream_default(dev)), WEIR_EINVAL);
    CHECK_OK(weir_stream_communication(dev, &a));
    CHECK_OK(weir_stream_communication(dev, &b));
    CHECK_PTR_EQ(a, b);
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, current_is_per_thread_and_forgets_a_destroyed_stream)
{
    weir_device *dev = open_device("cpu"), *other = open_device("cpu");
    weir_stream *s = new_stream(dev, 0);

    CHECK_PTR_EQ(weir_stream_current(dev), weir_stream_default(dev));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_PTR_EQ(weir_stream_current(dev), s);
    CHECK_PTR_EQ(weir_stream_current(other), weir_stream_default(other));
    CHECK_OK(weir_stream_destroy(s));
    CHECK_PTR_EQ(weir_stream_current(dev), weir_stream_default(dev));
    weir_stream *again = new_stream(dev, 0);
    CHECK_PTR_EQ(again, s); /* pooled */
    CHECK_PTR_EQ(weir_stream_current(dev), weir_stream_default(dev));
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(other));
}

static void keep_last(void *user, weir_log_level level, const char *text)
{
    if (level == WEIR_LOG_WARN)
        snprintf(user, 256, "%s", text);
}

TEST(stream, a_stream_per_call_gets_one_hint)
{
    static char hint[256];
    weir_device *dev = open_device("cpu");

    weir_log_set(keep_last, hint, WEIR_LOG_WARN);
    for (int i = 0; i < 400; i++) {
        CHECK_OK(weir_stream_destroy(new_stream(dev, 0)));
        if (i == 300)
            CHECK_STR(hint, "make a stream once");
        if (i > 300)
            hint[0] = 0;
    }
    CHECK_STR_EQ(hint, "");
    weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
    CHECK_OK(weir_device_close(dev));
}

TEST(stream, bad_arguments_say_what_is_wrong)
{
    weir_device *dev = open_device("cpu"), *other = open_device("cpu");
    weir_stream *s;
    weir_event *e;
    static char args[WEIR_ARGS_MAX + 1];

    CHECK_STATUS(weir_stream_create(dev, &(weir_stream_options){.priority = -9}, &s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "-9");
    CHECK_PTR_EQ(s, NULL);
    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_STATUS(weir_event_record(e, weir_stream_default(other)), WEIR_EDEVICE);
    CHECK_STATUS(weir_stream_wait(weir_stream_default(other), e), WEIR_EDEVICE);
    CHECK_STATUS(weir_stream_wait_stream(weir_stream_default(other), weir_stream_default(dev)),
                 WEIR_EDEVICE);
    s = weir_stream_default(dev);
    CHECK_STATUS(weir_launch_submit(s, &(weir_launch){.args = args, .args_size = sizeof args}),
                 WEIR_EINVAL);
    CHECK_STATUS(weir_launch_submit(s, &(weir_launch){.gang = true, .blocks = 100000}),
                 WEIR_EINVAL);
    CHECK_STATUS(weir_launch_submit(s, &(weir_launch){.phases = 256}), WEIR_EINVAL);
    CHECK_STATUS(weir_launch_submit(s, &(weir_launch){.engine = WEIR_ENGINE_COUNT}), WEIR_EINVAL);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_device_close(other));
}

/* The only worker is busy for long, so nobody else can do it. */
TEST(stream, a_host_thread_that_waits_does_what_its_stream_waits_for)
{
    weir_device *dev = open_device("cpu:cores=2,threads=1");
    weir_stream *busy = new_stream(dev, 0), *s = new_stream(dev, 0), *branches[3];
    const weir_launch empty = {.name = "empty"};
    struct gate gate = {0};

    submit_gate(busy, &gate);
    while (!atomic_load(&gate.arrived))
        pause_us(50);
    for (int i = 0; i < 3; i++)
        branches[i] = new_stream(dev, 0);
    CHECK_OK(weir_launch_submit(s, &empty));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_stream_wait_stream(branches[i], i ? branches[i - 1] : s));
        CHECK_OK(weir_launch_submit(branches[i], &empty));
    }
    CHECK_OK(weir_stream_wait_stream(s, branches[2]));
    CHECK_OK(weir_launch_submit(s, &empty));
    CHECK_OK(weir_stream_sync_for(s, 10000000000));
    open_gate(&gate);
    CHECK_OK(weir_device_close(dev));
}
