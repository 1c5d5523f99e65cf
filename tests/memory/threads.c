/* Many host threads at once: every call whose header says "threads any". */
#include "helpers.h"

#include <pthread.h>

enum { THREADS = 6, ROUNDS = 2000 / TEST_SLOWDOWN, WORDS = 256 };

struct crew {
    weir_device *dev;
    weir_stream *shared;
    atomic_int ran, released;
    void (*work)(struct crew *crew, int index);
};

struct member {
    struct crew *crew;
    int index;
    pthread_t thread;
};

static void *member_main(void *arg)
{
    struct member *m = arg;

    m->crew->work(m->crew, m->index);
    return NULL;
}

static void run_crew(const char *spec, struct crew *crew)
{
    struct member members[THREADS];

    crew->dev = open_device(spec);
    crew->shared = weir_stream_default(crew->dev);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crew = crew, .index = i};
        CHECK_EQ(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(members[i].thread, NULL), 0);
    CHECK_OK(weir_device_sync(crew->dev));
    CHECK_EQ(stats_of(crew->dev).allocated, 0);
    CHECK_EQ(stats_of(crew->dev).events_live, 0);
    CHECK_OK(weir_device_close(crew->dev));
}

static weir_status count_kernel(const void *args, const weir_block *block)
{
    (void)block;
    atomic_fetch_add(*(atomic_int *const *)args, 1);
    return WEIR_OK;
}

static void submit_count(weir_stream *s, atomic_int *counter)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "count",
                                                  .fn = count_kernel,
                                                  .args = &counter,
                                                  .args_size = sizeof counter,
                                                  .work_ns = 10}));
}

/* ---- one stream ---- */

static void submit_to_one(struct crew *c, int index)
{
    for (int i = 0; i < ROUNDS; i++) {
        submit_count(c->shared, &c->ran);
        if (i % 500 == index)
            CHECK_OK(weir_stream_sync(c->shared));
    }
}

TEST(threads, threads_may_submit_to_one_stream)
{
    struct crew c = {.work = submit_to_one};

    run_crew("cpu", &c);
    CHECK_EQ(atomic_load(&c.ran), THREADS * ROUNDS);
}

/* ---- tensors handed from stream to stream ---- */

struct add_args {
    int32_t *words;
    int32_t add;
};

static weir_status add_kernel(const void *args, const weir_block *block)
{
    const struct add_args *a = args;

    (void)block;
    for (int i = 0; i < WORDS; i++)
        a->words[i] += a->add;
    return WEIR_OK;
}

static void submit_add(weir_stream *s, weir_tensor *t, int32_t add)
{
    struct add_args a = {weir_tensor_data(t), add};

    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "add",
                                                  .fn = add_kernel,
                                                  .args = &a,
                                                  .args_size = sizeof a,
                                                  .tensors = &t,
                                                  .ntensors = 1}));
}

/* Each value goes over two streams of its own and is checked; streams, events, tensors and
 * views come and go all the time. */
static void hand_over(struct crew *c, int index)
{
    int32_t values[WORDS], got[WORDS];

    for (int i = 0; i < ROUNDS / 4; i++) {
        weir_stream *a = new_stream(c->dev, index % 3 - 1), *b = new_stream(c->dev, 0);
        weir_event *e;
        weir_tensor *t, *view;

        for (int w = 0; w < WORDS; w++)
            values[w] = index * 1000000 + i * WORDS + w;
        CHECK_OK(weir_tensor_from(a, WEIR_I32, 1, (int64_t[]){WORDS}, values, &t));
        CHECK_OK(weir_event_create(c->dev, &(weir_event_options){.timing = i % 2}, &e));
        submit_add(a, t, 1);
        CHECK_OK(weir_event_record(e, a));
        CHECK_OK(weir_stream_wait(b, e));
        submit_add(b, t, 2);
        CHECK_OK(weir_tensor_slice(t, 0, 0, WORDS / 2, 1, &view));
        weir_tensor_release(t);
        CHECK_OK(weir_stream_set_current(b));
        CHECK_OK(weir_tensor_read(view, got, sizeof got / 2));
        for (int w = 0; w < WORDS / 2; w++)
            CHECK_EQ(got[w], values[w] + 3);
        weir_tensor_release(view);
        weir_event_destroy(e);
        CHECK_OK(weir_stream_destroy(a));
        CHECK_OK(weir_stream_destroy(b));
    }
}

TEST(threads, threads_may_hand_tensors_from_stream_to_stream)
{
    struct crew c = {.work = hand_over};

    run_crew("cpu:cores=4,threads=3,jitter=9", &c);
}

TEST(threads, threads_may_hand_tensors_over_with_poison_and_little_memory)
{
    struct crew c = {.work = hand_over};

    run_crew("cpu:cores=4,threads=3,jitter=9,poison=1,memory=256k", &c);
}

/* ---- everything at once on shared streams ---- */

static void give_back(void *user)
{
    struct crew *c = user;

    atomic_fetch_add(&c->released, 1);
}

static void count_call(void *user, weir_status status)
{
    struct crew *c = user;

    CHECK_EQ(status, WEIR_OK);
    atomic_fetch_add(&c->ran, 1);
}

static void all_at_once(struct crew *c, int index)
{
    static int32_t lent[WORDS];
    uint64_t random = 77 + (uint64_t)index;
    char tag[16];

    for (int i = 0; i < ROUNDS / 2; i++) {
        weir_stream *mine, *other;
        weir_tensor *t;
        weir_buffer *b;
        weir_memory_stats stats;
        weir_block_info rows[16];
        weir_memory_stream_stats streams[4];
        bool done;

        snprintf(tag, sizeof tag, "tag %zu", pick(&random, 12));
        CHECK_OK(weir_stream_tagged(c->dev, tag, 0, &mine));
        CHECK_OK(weir_stream_communication(c->dev, &other));
        CHECK_OK(weir_stream_set_current(mine));
        CHECK_PTR_EQ(weir_stream_current(c->dev), mine);
        CHECK_OK(
            weir_tensor_wrap(mine, WEIR_I32, 1, (int64_t[]){WORDS}, NULL, lent, give_back, c, &t));
        b = alloc_on(mine, 64 << pick(&random, 12));
        CHECK_OK(weir_stream_wait_stream(other, mine));
        use_on(other, b, NULL);
        CHECK_OK(weir_tensor_used_on(t, other));
        CHECK_OK(weir_stream_callback(mine, count_call, c));
        weir_buffer_free(b);
        weir_tensor_release(t);
        switch (pick(&random, 8)) {
        case 0:
            weir_memory_get_stats(c->dev, &stats, sizeof stats);
            CHECK_EQ(stats.reserved, stats.allocated + stats.pending + stats.idle);
            break;
        case 1:
            weir_memory_get_blocks(c->dev, rows, sizeof *rows, 16);
            weir_memory_get_stream_stats(c->dev, streams, sizeof *streams, 4);
            break;
        case 2:
            CHECK_OK(weir_memory_empty_cache(c->dev));
            break;
        case 3:
            CHECK_OK(weir_stream_sync(mine));
            break;
        case 4:
            CHECK_OK(weir_stream_query(other, &done));
            break;
        case 5:
            CHECK_OK(weir_stream_wait_stream(mine, other));
            break;
        case 6:
            CHECK_OK(weir_stream_set_limit(mine, (weir_cores){1 + i % 2, -1}));
            break;
        default:
            weir_memory_reset_peaks(c->dev);
        }
    }
}

TEST(threads, threads_may_call_every_function_at_once)
{
    struct crew c = {.work = all_at_once};

    run_crew("cpu:cores=4,threads=3", &c);
    CHECK_EQ(atomic_load(&c.ran), THREADS * (ROUNDS / 2));
    CHECK_EQ(atomic_load(&c.released), THREADS * (ROUNDS / 2));
}

/* ---- handles shared between threads ---- */

static weir_tensor *common;

static void share_handle(struct crew *c, int index)
{
    weir_stream *s = new_stream(c->dev, 0);
    weir_tensor *mine, *view;

    for (int i = 0; i < ROUNDS; i++) {
        mine = weir_tensor_retain(common);
        CHECK_OK(weir_tensor_slice(mine, 0, index, WORDS, 1, &view));
        CHECK_OK(weir_launch_submit(
            s, &(weir_launch){.tensors = (weir_tensor *[]){mine, view}, .ntensors = 2}));
        weir_tensor_release(mine);
        weir_tensor_release(view);
    }
    weir_tensor_release(common); /* everybody's own */
    CHECK_OK(weir_stream_destroy(s));
}

TEST(threads, threads_may_share_one_tensor)
{
    struct crew c = {.work = share_handle};
    struct member members[THREADS];

    c.dev = open_device("cpu:cores=4,threads=3");
    CHECK_OK(
        weir_tensor_empty(weir_stream_default(c.dev), WEIR_I32, 1, (int64_t[]){WORDS}, &common));
    for (int i = 1; i < THREADS; i++)
        weir_tensor_retain(common);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crew = &c, .index = i};
        CHECK_EQ(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(members[i].thread, NULL), 0);
    CHECK_EQ(stats_of(c.dev).allocated, 0);
    CHECK_OK(weir_device_close(c.dev));
}

/* ---- errors and streams given back, seen from elsewhere ---- */

static weir_status fail_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_EKERNEL;
}

static void fail_and_forget(struct crew *c, int index)
{
    for (int i = 0; i < ROUNDS / 4; i++) {
        weir_stream *bad = new_stream(c->dev, 0), *waits = new_stream(c->dev, 0);
        weir_event *e;

        CHECK_OK(weir_event_create(c->dev, NULL, &e));
        CHECK_OK(weir_launch_submit(bad, &(weir_launch){.name = "fails", .fn = fail_kernel}));
        CHECK_OK(weir_event_record(e, bad));
        CHECK_OK(weir_stream_wait(waits, e));
        submit_count(waits, &c->ran);
        if (index % 2)
            CHECK_OK(weir_stream_destroy(bad));
        CHECK_STATUS(weir_stream_sync(waits), WEIR_EKERNEL);
        if (index % 2 == 0) {
            CHECK_STATUS(weir_event_sync(e), WEIR_EKERNEL);
            CHECK_OK(weir_stream_destroy(bad));
        }
        if (i % 16 == index)
            (void)weir_device_sync(c->dev); /* others fail meanwhile, or do not */
        weir_event_destroy(e);
        CHECK_OK(weir_stream_destroy(waits));
    }
}

TEST(threads, threads_may_fail_and_give_streams_back_at_once)
{
    struct crew c = {.work = fail_and_forget};

    run_crew("cpu:cores=4,threads=3,jitter=2", &c);
    CHECK_EQ(atomic_load(&c.ran), 0);
}

/* ---- devices ---- */

static void open_and_close(struct crew *c, int index)
{
    (void)c;
    for (int i = 0; i < 40 / TEST_SLOWDOWN; i++) {
        weir_device *dev = open_device(index % 2 ? "cpu:cores=2" : "cpu:threads=1");
        weir_stream *s = new_stream(dev, 0);
        atomic_int ran = 0;

        CHECK_OK(weir_stream_set_current(s));
        for (int k = 0; k < 20; k++)
            submit_count(s, &ran);
        CHECK_OK(weir_device_close(dev));
        CHECK_EQ(atomic_load(&ran), 20);
    }
}

TEST(threads, threads_may_open_and_close_devices_at_once)
{
    struct crew c = {.work = open_and_close};

    run_crew("cpu", &c);
}
