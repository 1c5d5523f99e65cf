/* Recording: the contents of a trace. */
#include "helpers.h"

#include <pthread.h>
#include <stdatomic.h>

/* Busy until the test lets it go, so that what is queued behind it is surely queued while it
 * runs, and for 3 ms at least. */
static weir_status until_let_go(const void *args, const weir_block *block)
{
    const long us = 3000;

    while (!atomic_load(*(atomic_bool *const *)args))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return busy_kernel(&us, block);
}

TEST(trace, has_streams_cores_times_and_waits)
{
    atomic_bool go = false, *gate = &go;
    weir_device *dev = open_device("cpu:cores=2,threads=2");
    weir_stream *a = tagged(dev, "compute", 0), *b = tagged(dev, "comm", -3);
    weir_event *e;
    weir_trace_data d;
    weir_trace *t;
    const weir_trace_op *first, *second;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    CHECK_OK(weir_trace_start(NULL));
    CHECK(weir_trace_running());
    CHECK_OK(weir_launch_submit(a, &(weir_launch){.name = "first",
                                                  .fn = until_let_go,
                                                  .args = &gate,
                                                  .args_size = sizeof gate,
                                                  .blocks = 1}));
    CHECK_OK(weir_event_record(e, a));
    CHECK_OK(weir_stream_wait(b, e));
    submit_busy(b, "second", 4, 500);
    atomic_store(&go, true);
    CHECK_OK(weir_device_sync(dev));
    t = stop_trace(&d);
    CHECK(!weir_trace_running());
    check_trace(&d);

    CHECK_EQ(d.dropped, 0);
    CHECK_EQ(d.nops, 2);
    first = find_op(&d, "first", 0);
    second = find_op(&d, "second", 0);
    CHECK_STR_EQ(d.streams[first->stream].name, "compute");
    CHECK_STR_EQ(d.streams[second->stream].name, "comm");
    CHECK_EQ(d.streams[second->stream].priority, -3);
    CHECK_GE(first->ended_ns - first->started_ns, 3000000);
    CHECK_EQ(first->nparts, 1);
    CHECK_EQ(first->nwaits, 0);
    CHECK_EQ(second->blocks, 4);
    CHECK_EQ(second->nparts, 4);
    CHECK_EQ(second->nwaits, 1);
    CHECK_PTR_EQ(&d.ops[d.waits[second->first_wait].source_op], first);
    CHECK_LT(second->queued_ns, first->ended_ns); /* it waited for the event, not the host */
    CHECK_GE(d.waits[second->first_wait].passed_ns, first->ended_ns);
    CHECK_GE(d.waits[second->first_wait].passed_ns, d.waits[second->first_wait].reached_ns);
    weir_trace_free(t);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(trace, blocks_of_one_core_never_overlap)
{
    weir_device *dev = open_device("cpu:cores=3,threads=2");
    weir_stream *s[3] = {tagged(dev, "a", 0), tagged(dev, "b", 0), tagged(dev, "c", 2)};
    weir_trace_data d;
    weir_trace *t;
    int64_t busy[3] = {0};

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 60; i++)
        submit_busy(s[i % 3], "op", 1 + (unsigned)i % 5, 20);
    CHECK_OK(weir_device_sync(dev));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_EQ(d.nops, 60);
    for (size_t i = 0; i < d.nparts; i++) {
        const weir_trace_part *p = &d.parts[i];

        CHECK_EQ(p->ncores, 1);
        busy[p->cores[0]] += p->ended_ns - p->started_ns;
        for (size_t k = 0; k < i; k++)
            CHECK(d.parts[k].cores[0] != p->cores[0] || d.parts[k].ended_ns <= p->started_ns ||
                  p->ended_ns <= d.parts[k].started_ns);
    }
    CHECK_GT(busy[0], 0);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(trace, engines_have_their_own_cores_and_a_gang_has_all_of_its_engine)
{
    weir_device *dev = open_device("cpu:cube=2,vector=4,threads=2");
    weir_stream *s = weir_stream_default(dev);
    weir_trace_data d;
    weir_trace *t;
    long us = 300;
    bool seen[6] = {false};
    weir_launch l = {.fn = busy_kernel, .args = &us, .args_size = sizeof us};

    CHECK_OK(weir_trace_start(NULL));
    l.name = "cube";
    CHECK_OK(weir_launch_submit(s, &l));
    l.name = "vector";
    l.engine = WEIR_ENGINE_VECTOR;
    CHECK_OK(weir_launch_submit(s, &l));
    l.name = "mix";
    l.engine = WEIR_ENGINE_MIX;
    CHECK_OK(weir_launch_submit(s, &l));
    l.name = "host";
    l.engine = WEIR_ENGINE_HOST;
    CHECK_OK(weir_launch_submit(s, &l));
    l.name = "gang";
    l.engine = WEIR_ENGINE_VECTOR;
    l.blocks = 4;
    l.gang = true;
    CHECK_OK(weir_launch_submit(s, &l));
    CHECK_OK(weir_device_sync(dev));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK(d.devices[0].split_cores);
    CHECK_LT(d.parts[find_op(&d, "cube", 0)->first_part].cores[0], 2);
    CHECK_GE(d.parts[find_op(&d, "vector", 0)->first_part].cores[0], 2);
    CHECK_EQ(d.parts[find_op(&d, "mix", 0)->first_part].ncores, 3);
    CHECK_EQ(d.parts[find_op(&d, "host", 0)->first_part].ncores, 0);
    CHECK_EQ(find_op(&d, "gang", 0)->nparts, 4);
    for (uint32_t i = 0; i < 4; i++)
        seen[d.parts[find_op(&d, "gang", 0)->first_part + i].cores[0]] = true;
    CHECK(seen[2] && seen[3] && seen[4] && seen[5]);
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(trace, full_rings_keep_the_newest_and_count_the_rest)
{
    weir_device *dev = open_device("cpu:cores=1,threads=1");
    weir_stream *s = weir_stream_default(dev);
    weir_trace_data d;
    weir_trace *t;

    CHECK_STATUS(weir_trace_start(&(weir_trace_options){.bytes_per_thread = 100}), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "100 bytes per thread");
    CHECK_OK(weir_trace_start(&(weir_trace_options){.bytes_per_thread = 64 * 64}));
    submit_empty(s, "early", 1000);
    submit_empty(s, "late", 30);
    for (bool done = false; !done;) /* a sync would run some of them on this thread */
        CHECK_OK(weir_stream_query(s, &done));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_EQ(d.dropped, 2 * (1030 - 63));
    CHECK_EQ(d.nops, 63);
    CHECK_STR_EQ(d.ops[62].name, "late");
    CHECK_EQ(d.ops[62].seq, 1030);
    CHECK_STR_EQ(d.ops[0].name, "early");
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(trace, one_recording_at_a_time_and_each_begins_anew)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    weir_trace_data d;
    weir_trace *t;

    CHECK_STATUS(weir_trace_stop(&t), WEIR_ESTATE);
    CHECK(!t);
    weir_trace_free(t);
    for (int round = 1; round < 5; round++) {
        CHECK_OK(weir_trace_start(&(weir_trace_options){.bytes_per_thread = (size_t)round << 16}));
        CHECK_STATUS(weir_trace_start(NULL), WEIR_ESTATE);
        submit_empty(s, "op", 10 * round);
        CHECK_OK(weir_stream_sync(s));
        t = stop_trace(&d);
        check_trace(&d);
        CHECK_EQ(d.nops, 10 * round);
        CHECK_LE(0, d.ops[0].queued_ns);
        weir_trace_free(t);
        submit_empty(s, "untraced", 5);
        CHECK_OK(weir_stream_sync(s));
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(trace, names_outlive_the_named_objects)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    weir_trace_data d;
    weir_trace *t;
    char name[16];

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 3; i++) { /* the same address, three names */
        snprintf(name, sizeof name, "op %d", i);
        submit_empty(s, name, 1);
        CHECK_OK(weir_stream_sync(s));
    }
    memset(name, 'x', sizeof name - 1);
    CHECK_OK(weir_device_close(dev));
    t = stop_trace(&d);
    CHECK_EQ(d.nops, 3);
    CHECK_STR_EQ(d.ops[0].name, "op 0");
    CHECK_STR_EQ(d.ops[2].name, "op 2");
    weir_trace_free(t);
}

static void count_call(void *user, weir_status status)
{
    CHECK_OK(status);
    ++*(int *)user;
}

TEST(trace, operators_have_bytes_scopes_and_memory)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x, *y;
    weir_trace_data d;
    weir_trace *t;
    int64_t shape[] = {256, 256};
    int calls = 0;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, shape, &x));
    CHECK_OK(weir_trace_start(NULL));
    CHECK_OK(weir_scope_push_super_kernel("block one", ""));
    CHECK_OK(weir_add(x, x, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    weir_tensor_release(y);
    CHECK_OK(weir_stream_callback(s, count_call, &calls));
    CHECK_OK(weir_stream_sync(s));
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_EQ(calls, 1);
    CHECK_EQ(d.nops, 2);
    CHECK_STR_EQ(d.ops[0].scope, "block one");
    CHECK_GE(d.ops[0].bytes, 2 * 256 * 256 * 4);
    CHECK_STR_EQ(d.ops[1].name, "callback");
    CHECK_STR_EQ(d.ops[1].scope, "");
    CHECK_EQ(d.ops[1].engine, WEIR_ENGINE_HOST);
    CHECK_EQ(d.nmemory, 2);
    CHECK_EQ(d.memory[0].allocated, 2 * 256 * 256 * 4);
    CHECK_EQ(d.memory[1].allocated, 256 * 256 * 4);
    CHECK_GE(d.memory[0].reserved, d.memory[0].allocated);
    weir_trace_free(t);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

static weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_EINVAL;
}

TEST(trace, failed_operators_are_marked_and_those_that_did_not_run_are_missing)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = tagged(dev, "s", 0);
    weir_trace_data d;
    weir_trace *t;

    CHECK_OK(weir_trace_start(NULL));
    submit_empty(s, "before", 1);
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "bad", .fn = failing_kernel}));
    submit_empty(s, "after", 1);
    CHECK_STATUS(weir_stream_sync(s), WEIR_EINVAL);
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_EQ(d.nops, 2);
    CHECK(!find_op(&d, "before", 0)->failed);
    CHECK(find_op(&d, "bad", 0)->failed);
    weir_trace_free(t);
    CHECK_STATUS(weir_device_close(dev), WEIR_OK);
}

TEST(trace, a_reused_stream_slot_is_another_stream)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s;
    weir_trace_data d;
    weir_trace *t;

    CHECK_OK(weir_trace_start(NULL));
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "turn %d", i);
        CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.name = name, .priority = i}, &s));
        submit_empty(s, "op", 2);
        CHECK_OK(weir_stream_sync(s));
        CHECK_OK(weir_stream_destroy(s));
    }
    t = stop_trace(&d);
    check_trace(&d);
    CHECK_EQ(d.nops, 6);
    CHECK_EQ(d.nstreams, 3);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(d.streams[d.ops[i].stream].priority, i / 2);
    CHECK_STR_EQ(d.streams[d.ops[5].stream].name, "turn 2");
    weir_trace_free(t);
    CHECK_OK(weir_device_close(dev));
}

/* ---- many threads ---- */

struct hammer {
    weir_device *dev;
    atomic_bool stop;
};

static void *hammer_thread(void *user)
{
    struct hammer *h = user;
    weir_stream *s;

    CHECK_OK(weir_stream_create(h->dev, NULL, &s));
    while (!atomic_load(&h->stop)) {
        submit_empty(s, "op", 50);
        CHECK_OK(weir_stream_sync(s));
    }
    CHECK_OK(weir_stream_destroy(s));
    return NULL;
}

TEST(trace, recordings_begin_and_end_while_threads_work)
{
    struct hammer h = {.dev = open_device("cpu:cores=2,threads=2")};
    pthread_t threads[3];
    size_t ops = 0;

    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, hammer_thread, &h), 0);
    for (int round = 0; round < 30; round++) {
        weir_trace_data d;
        weir_trace *t;

        CHECK_OK(weir_trace_start(
            &(weir_trace_options){.bytes_per_thread = round % 2 ? 1 << 13 : 1 << 20}));
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        if (round == 15) { /* a device that comes and goes meanwhile */
            weir_device *dev = open_device("cpu:cores=1");

            submit_empty(weir_stream_default(dev), "visitor", 3);
            CHECK_OK(weir_device_close(dev));
        }
        t = stop_trace(&d);
        check_trace(&d);
        ops += d.nops;
        weir_trace_free(t);
    }
    atomic_store(&h.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_GT(ops, 0);
    CHECK_OK(weir_device_close(h.dev));
}
