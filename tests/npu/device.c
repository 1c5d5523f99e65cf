/* The npu driver: virtual time through the public API. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "harness/test.h"
#include "weir/weir.h"

static weir_device *open_npu(const char *spec)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(spec, &dev));
    return dev;
}

static weir_stream *new_stream(weir_device *dev, int priority)
{
    weir_stream *s;

    CHECK_OK(weir_stream_create(dev, &(weir_stream_options){.priority = priority}, &s));
    return s;
}

/* A kernel of that many blocks, each of `us`. */
static void launch(weir_stream *s, const char *name, weir_engine engine, unsigned blocks, double us,
                   bool gang)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = name,
                                                  .engine = engine,
                                                  .blocks = blocks,
                                                  .gang = gang,
                                                  .work_ns = (uint64_t)(us * 1000)}));
}

TEST(device, profiles_have_the_documented_core_counts)
{
    static const struct {
        const char *spec;
        int cube, vector, gib;
    } rows[] = {
        {"npu:a2", 24, 48, 64},       {"npu:910b1", 24, 48, 64},    {"npu:910b2", 24, 48, 64},
        {"npu:910b3", 20, 40, 64},    {"npu:910b4", 20, 40, 32},    {"npu:a3", 24, 48, 64},
        {"npu:910_9391", 24, 48, 64}, {"npu:910_9392", 24, 48, 64}, {"npu:910_9381", 24, 48, 64},
        {"npu:910_9382", 24, 48, 64}, {"npu:910_9372", 20, 40, 64}, {"npu:910_9362", 20, 40, 32},
        {"npu", 24, 48, 64},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_device *dev = open_npu(rows[i].spec);
        weir_device_props p;

        test_note("%s", rows[i].spec);
        weir_device_get_props(dev, &p, sizeof p);
        CHECK_EQ(p.cores.cube, rows[i].cube);
        CHECK_EQ(p.cores.vector, rows[i].vector);
        CHECK_EQ(p.memory_bytes, (size_t)rows[i].gib << 30);
        CHECK(!(p.features & WEIR_FEATURE_REAL_TIME));
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(device, bad_specs_name_the_bad_part)
{
    static const struct {
        const char *spec, *part;
    } rows[] = {
        {"npu:a9", "there is no profile 'a9'"},
        {"npu:a3,policy=greedy", "policy=greedy is not one of hold, batch"},
        {"npu:a3,compute=maybe", "compute=maybe"},
        {"npu:a3,seed=-1", "seed=-1"},
        {"npu:a3,speed=2", "unknown option 'speed'"},
        {"npu:a3,algorithm=star", "ring"},
        {"npu:policy=batch,a3", "unknown option 'a3'"},
        {"npu:/nowhere/at.all", "No such file"},
    };
    weir_device *dev;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_STATUS(weir_device_open(rows[i].spec, &dev), WEIR_ESPEC);
        CHECK_STR(weir_last_error(), rows[i].part);
    }
}

TEST(device, time_passes_only_for_work_and_is_what_the_work_takes)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);

    CHECK_EQ(weir_device_now(dev), 0);
    launch(a, "cube", WEIR_ENGINE_CUBE, 24, 10, false);
    launch(b, "vector", WEIR_ENGINE_VECTOR, 48, 15, false);
    CHECK_EQ(weir_device_now(dev), 0);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 15000); /* side by side */
    launch(a, "one", WEIR_ENGINE_CUBE, 48, 10, false);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 35000); /* two waves */
    launch(a, "one", WEIR_ENGINE_CUBE, 24, 10, false);
    launch(b, "two", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 55000); /* one engine */
    CHECK_OK(weir_device_close(dev));
}

TEST(device, events_measure_virtual_time)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *s = weir_stream_default(dev);
    weir_event_options timing = {.timing = true};
    weir_event *before, *after;
    double ms;

    CHECK_OK(weir_event_create(dev, &timing, &before));
    CHECK_OK(weir_event_create(dev, &timing, &after));
    CHECK_OK(weir_event_record(before, s));
    launch(s, "work", WEIR_ENGINE_MIX, 24, 250, false);
    CHECK_OK(weir_event_record(after, s));
    CHECK_OK(weir_event_elapsed(before, after, &ms));
    CHECK_NEAR(ms, 0.25, 1e-9);
    weir_event_destroy(before);
    weir_event_destroy(after);
    CHECK_OK(weir_device_close(dev));
}

TEST(device, limits_and_priorities_decide_which_stream_gets_cores)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *urgent = new_stream(dev, -8), *lazy = new_stream(dev, 7);

    CHECK_OK(weir_stream_set_limit(lazy, (weir_cores){12, -1}));
    launch(lazy, "half", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_stream_sync(lazy));
    CHECK_EQ(weir_device_now(dev), 20000);
    CHECK_STATUS(weir_stream_set_limit(lazy, (weir_cores){25, -1}), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "1..24");
    weir_stream_reset_limit(lazy);
    launch(lazy, "late", WEIR_ENGINE_CUBE, 48, 10, false);
    launch(urgent, "soon", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_stream_sync(urgent));
    CHECK_EQ(weir_device_now(dev), 30000);
    CHECK_OK(weir_stream_sync(lazy));
    CHECK_EQ(weir_device_now(dev), 50000);
    CHECK_OK(weir_device_close(dev));
}

/* Two gangs that each hold what the other needs. */
static void two_gangs(weir_device *dev, weir_stream **a, weir_stream **b)
{
    weir_stream *first = new_stream(dev, 0), *second = new_stream(dev, 0);

    *a = new_stream(dev, 0);
    *b = new_stream(dev, 0);
    launch(first, "early", WEIR_ENGINE_VECTOR, 30, 10, false);
    launch(second, "later", WEIR_ENGINE_VECTOR, 18, 20, false);
    launch(*a, "gang one", WEIR_ENGINE_VECTOR, 40, 5, true);
    launch(*b, "gang two", WEIR_ENGINE_VECTOR, 40, 5, true);
}

TEST(device, gangs_hold_free_cores_under_hold_and_wait_for_all_under_batch)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *a, *b;

    /* The first takes 30 at 10 us and 10 more at 20; nothing is left for the second. */
    two_gangs(dev, &a, &b);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 30000);
    CHECK_OK(weir_device_close(dev));
    dev = open_npu("npu:a3,overhead=off,policy=batch");
    two_gangs(dev, &a, &b);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 30000);
    CHECK_OK(weir_device_close(dev));
}

/* A lazy gang takes what there is; an urgent one then takes the rest before it. */
TEST(device, a_deadlock_is_an_error_that_says_who_holds_which_cores)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *cube = new_stream(dev, 0), *vector = new_stream(dev, 0);
    weir_stream *lazy = new_stream(dev, 7), *urgent = new_stream(dev, -8);

    launch(vector, "eater", WEIR_ENGINE_VECTOR, 30, 10, false);
    launch(cube, "cubes", WEIR_ENGINE_CUBE, 20, 10, false);
    launch(lazy, "lazy gang", WEIR_ENGINE_MIX, 20, 5, true);
    launch(urgent, "delay", WEIR_ENGINE_SDMA, 1, 5, false);
    launch(urgent, "urgent gang", WEIR_ENGINE_MIX, 20, 5, true);
    CHECK_STATUS(weir_stream_sync(urgent), WEIR_EDEADLOCK);
    CHECK_STR(weir_last_error(), "operator 'urgent gang'");
    CHECK_STR(weir_last_error(), "'lazy gang' holds 4 cube + 18 vector cores");
    CHECK_STATUS(weir_stream_sync(lazy), WEIR_EDEADLOCK);
    CHECK_OK(weir_stream_sync(cube));
    launch(cube, "next", WEIR_ENGINE_MIX, 24, 5, false); /* the cores are free again */
    CHECK_OK(weir_stream_sync(cube));
    CHECK_EQ(weir_device_now(dev), 15000);
    CHECK_OK(weir_device_close(dev));
}

static weir_status add_one(const void *args, const weir_block *block)
{
    (void)block;
    ++**(int *const *)args;
    return WEIR_OK;
}

TEST(device, values_are_computed_unless_compute_is_off)
{
    for (int off = 0; off < 2; off++) {
        weir_device *dev = open_npu(off ? "npu:a3,compute=off" : "npu:a3");
        int count = 0, *p = &count;

        CHECK_OK(weir_launch_submit(
            weir_stream_default(dev),
            &(weir_launch){.fn = add_one, .args = &p, .args_size = sizeof p, .blocks = 7}));
        CHECK_EQ(count, 0); /* nobody has waited for it */
        CHECK_OK(weir_device_sync(dev));
        CHECK_EQ(count, off ? 0 : 7);
        CHECK_GT(weir_device_now(dev), 0);
        CHECK_OK(weir_device_close(dev));
    }
}

TEST(device, querying_a_stream_advances_the_modelled_device)
{
    weir_device *dev = open_npu("npu:a3");
    weir_stream *s = weir_stream_default(dev);
    weir_event *e;
    bool done = false;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    for (int i = 0; i < 10; i++)
        launch(s, "work", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_event_record(e, s));
    CHECK_OK(weir_stream_query(s, &done));
    CHECK(!done);
    for (int i = 0; i < 100 && !done; i++)
        CHECK_OK(weir_event_query(e, &done));
    CHECK(done);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

TEST(device, timeouts_count_on_the_devices_clock)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *s = new_stream(dev, 0);

    launch(s, "first", WEIR_ENGINE_CUBE, 24, 100, false);
    launch(s, "second", WEIR_ENGINE_CUBE, 24, 100, false);
    CHECK_STATUS(weir_stream_sync_for(s, 150000), WEIR_ETIMEDOUT);
    CHECK_EQ(weir_device_now(dev), 100000);
    CHECK_OK(weir_stream_sync_for(s, 100000));
    CHECK_EQ(weir_device_now(dev), 200000);
    CHECK_OK(weir_device_close(dev));
}

static void submit_more(void *user, weir_status status)
{
    CHECK_OK(status);
    launch(user, "more", WEIR_ENGINE_CUBE, 24, 10, false);
}

TEST(device, callbacks_may_submit)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *s = new_stream(dev, 0), *other = new_stream(dev, 0);

    launch(s, "before", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_stream_callback(s, submit_more, other));
    CHECK_OK(weir_stream_sync(s));
    CHECK_OK(weir_stream_sync(other));
    CHECK_EQ(weir_device_now(dev), 20000);
    CHECK_OK(weir_device_close(dev));
}

TEST(device, streams_and_events_have_the_profiles_limits)
{
    enum { STREAMS = 1984 };
    weir_device *dev = open_npu("npu:a3");
    weir_stream *s;
    int made = 1; /* the default one */

    weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
    while (!weir_stream_create(dev, NULL, &s))
        CHECK_LT(made++, STREAMS);
    CHECK_EQ(made, STREAMS);
    CHECK_STR(weir_last_error(), "at most 1984");
    CHECK_OK(weir_device_close(dev));
}

/* A queue past its depth makes the host wait, which lets work run. */
TEST(device, a_full_queue_makes_the_host_wait)
{
    weir_device *dev = open_npu("npu:a3,overhead=off");
    weir_stream *s = new_stream(dev, 0);

    for (int i = 0; i < 2048; i++)
        launch(s, "work", WEIR_ENGINE_CUBE, 24, 1, false);
    CHECK_EQ(weir_device_now(dev), 0);
    for (int i = 0; i < 52; i++)
        launch(s, "work", WEIR_ENGINE_CUBE, 24, 1, false);
    CHECK_EQ(weir_device_now(dev), 52000);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(weir_device_now(dev), 2100000);
    CHECK_OK(weir_device_close(dev));
}

/* The same program gives the same times; another seed may give others. */
static uint64_t contended(const char *spec, uint64_t *ends)
{
    weir_device *dev = open_npu(spec);
    weir_stream *s[6];

    for (int i = 0; i < 6; i++)
        s[i] = new_stream(dev, 0);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 6; i++)
            launch(s[i], "work", i % 2 ? WEIR_ENGINE_MIX : WEIR_ENGINE_VECTOR, 10 + 7 * i + k,
                   1.5 + i, false);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(weir_stream_sync(s[i]));
        ends[i] = weir_device_now(dev);
    }
    CHECK_OK(weir_device_close(dev));
    return ends[5];
}

TEST(device, the_same_spec_gives_the_same_times_and_seeds_explore_others)
{
    uint64_t a[6], b[6];
    bool differs = false;

    contended("npu:a3", a);
    contended("npu:a3", b);
    CHECK_MEM_EQ(a, b, sizeof a);
    for (int seed = 1; seed < 10; seed++) {
        char spec[32];

        snprintf(spec, sizeof spec, "npu:a3,seed=%d", seed);
        contended(spec, a);
        contended(spec, b);
        CHECK_MEM_EQ(a, b, sizeof a);
        contended("npu:a3", b);
        differs |= memcmp(a, b, sizeof a) != 0;
    }
    CHECK(differs);
}

/* Host threads share the machine: each gets its own work done, whoever runs it. */
struct worker {
    weir_device *dev;
    weir_stream *stream;
    int count;
};

static void *submit_and_wait(void *arg)
{
    struct worker *w = arg;
    int *p = &w->count;
    weir_event *e;
    bool done;

    CHECK_OK(weir_event_create(w->dev, NULL, &e));
    for (int i = 0; i < 40; i++) {
        CHECK_OK(weir_launch_submit(
            w->stream,
            &(weir_launch){
                .fn = add_one, .args = &p, .args_size = sizeof p, .blocks = 3, .work_ns = 1000}));
        CHECK_OK(weir_event_record(e, w->stream));
        if (i % 3 == 0)
            CHECK_OK(weir_stream_sync(w->stream));
        else if (i % 3 == 1)
            CHECK_OK(weir_event_sync(e));
        else
            do
                CHECK_OK(weir_event_query(e, &done));
            while (!done);
        CHECK_EQ(w->count, 3 * (i + 1));
    }
    weir_event_destroy(e);
    return NULL;
}

TEST(device, several_host_threads_may_use_one_modelled_device)
{
    enum { THREADS = 4 };
    weir_device *dev = open_npu("npu:a3");
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){dev, new_stream(dev, i), 0};
        CHECK_EQ(pthread_create(&threads[i], NULL, submit_and_wait, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_OK(weir_device_close(dev));
}

/* Recording and waiting take the profile's time on their streams: 0.5 us each on an a3. */
TEST(device, events_cost_what_the_profile_says)
{
    weir_device *dev = open_npu("npu:a3");
    weir_stream *a = new_stream(dev, 0), *b = new_stream(dev, 0);
    weir_event *e;

    CHECK_OK(weir_event_create(dev, NULL, &e));
    launch(a, "first", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_stream_sync(a));
    CHECK_EQ(weir_device_now(dev), 5000 + 10000);
    launch(a, "recorded", WEIR_ENGINE_CUBE, 24, 10, false);
    CHECK_OK(weir_event_record(e, a));
    launch(a, "behind it", WEIR_ENGINE_CUBE, 12, 10, false);
    CHECK_OK(weir_stream_wait(b, e));
    launch(b, "waits", WEIR_ENGINE_CUBE, 12, 10, false);
    CHECK_OK(weir_stream_sync(a));
    CHECK_EQ(weir_device_now(dev), 15000 + 5000 + 10000 + 500 + 5000 + 10000);
    CHECK_OK(weir_stream_sync(b));
    CHECK_EQ(weir_device_now(dev), 45500 + 500);
    CHECK_OK(weir_event_record(e, a)); /* behind what is over */
    CHECK_OK(weir_event_sync(e));
    CHECK_EQ(weir_device_now(dev), 46000);
    weir_event_destroy(e);
    CHECK_OK(weir_device_close(dev));
}

static weir_status waited;

static void sync_own_stream(void *user, weir_status status)
{
    (void)status;
    waited = weir_stream_sync_for(user, 20000000);
}

TEST(device, a_callback_that_waits_for_its_own_stream_gets_a_timeout)
{
    weir_device *dev = open_npu("npu:a3");
    weir_stream *s = weir_stream_default(dev);

    waited = WEIR_OK;
    CHECK_OK(weir_stream_callback(s, sync_own_stream, s));
    launch(s, "behind", WEIR_ENGINE_VECTOR, 1, 1, false);
    CHECK_OK(weir_stream_sync(s));
    CHECK_EQ(waited, WEIR_ETIMEDOUT);
    CHECK_OK(weir_device_close(dev));
}
