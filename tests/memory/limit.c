/* A pool that may not grow: every step that it tries, and the error when all fail. */
#include "helpers.h"
#include <pthread.h>
#include <sched.h>

#include <stdlib.h>

enum { MIB = 1 << 20 };

static weir_device *open_limited(void)
{
    return open_device("cpu:cores=8,threads=8,memory=64m");
}

/* Adjacent buffers that fill the pool, one per stream. */
static void fill(weir_stream **streams, weir_buffer **buffers, int n, size_t bytes)
{
    for (int i = 0; i < n; i++)
        buffers[i] = alloc_on(streams[i], bytes);
}

TEST(ladder, proven_order_comes_first)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    struct gate g = {0};
    weir_buffer *b = alloc_on(s, MIB);
    void *bytes = weir_buffer_data(b);

    CHECK_EQ(stats_of(dev).grown, 1);
    use_on(s, b, &g);
    weir_buffer_free(b);
    b = alloc_on(s, MIB);
    CHECK_PTR_EQ(weir_buffer_data(b), bytes);
    CHECK_EQ(stats_of(dev).reuse_order, 1);
    weir_buffer_free(b);
    open_gate(&g);
    CHECK_OK(weir_device_close(dev));
}

TEST(ladder, completed_work_comes_before_growth)
{
    weir_device *dev = open_limited();
    weir_stream *s = new_stream(dev, 0);
    weir_buffer *b = alloc_on(s, MIB);
    void *bytes = weir_buffer_data(b);
    uint64_t completed;

    use_on(s, b, NULL);
    weir_buffer_free(b);
    CHECK_OK(weir_stream_sync(s));
    completed = stats_of(dev).reuse_completed;
    b = alloc_on(weir_stream_default(dev), MIB);
    CHECK_PTR_EQ(weir_buffer_data(b), bytes);
    CHECK_EQ(stats_of(dev).reuse_completed, completed + 1);
    CHECK_EQ(stats_of(dev).grown, 1);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(ladder, growth_comes_before_waiting)
{
    weir_device *dev = open_limited();
    weir_stream *s = new_stream(dev, 0);
    struct gate g = {0};
    weir_buffer *b = alloc_on(s, 30 * MIB);

    use_on(s, b, &g);
    weir_buffer_free(b);
    b = alloc_on(weir_stream_default(dev), 30 * MIB);
    CHECK_EQ(stats_of(dev).grown, 2);
    CHECK_EQ(stats_of(dev).device_waits, 0);
    weir_buffer_free(b);
    open_gate(&g);
    CHECK_OK(weir_device_close(dev));
}

TEST(ladder, idle_blocks_of_other_streams_are_joined_when_the_pool_cannot_grow)
{
    weir_device *dev = open_limited();
    weir_stream *s[2] = {new_stream(dev, 0), new_stream(dev, 0)};
    weir_buffer *b[2], *whole;

    CHECK_OK(weir_memory_set_limit(dev, 32 * MIB));
    fill(s, b, 2, 16 * MIB);
    for (int i = 0; i < 2; i++) {
        use_on(s[i], b[i], NULL);
        weir_buffer_free(b[i]);
    }
    CHECK_OK(weir_device_sync(dev));
    whole = alloc_on(weir_stream_default(dev), 32 * MIB);
    CHECK_EQ(stats_of(dev).device_waits, 0);
    CHECK_EQ(stats_of(dev).host_syncs, 0);
    CHECK_EQ(stats_of(dev).grown, 1);
    weir_buffer_free(whole);
    CHECK_OK(weir_device_close(dev));
}

static weir_status fail_kernel(const void *args, const weir_block *block)
{
    gate_kernel(args, block);
    return WEIR_EKERNEL;
}

TEST(ladder, a_stream_waits_on_the_device_before_the_host_does)
{
    weir_device *dev = open_limited();
    weir_stream *s0 = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    struct gate g = {0}, *gp = &g;
    weir_buffer *b = alloc_on(s1, 64 * MIB);
    atomic_int counter = 0;
    int slot = -1;

    CHECK_OK(weir_launch_submit(s1, &(weir_launch){.name = "fails",
                                                   .fn = fail_kernel,
                                                   .args = &gp,
                                                   .args_size = sizeof gp,
                                                   .buffers = &b,
                                                   .nbuffers = 1}));
    weir_buffer_free(b);
    b = alloc_on(s0, 64 * MIB); /* returns while s1 is held */
    CHECK_EQ(stats_of(dev).device_waits, 1);
    CHECK_EQ(stats_of(dev).host_syncs, 0);
    submit_ticket(s0, &counter, &slot);
    let_others_pass(dev);
    CHECK_EQ(atomic_load(&counter), 0);
    open_gate(&g);
    CHECK_OK(weir_stream_sync(s0)); /* memory order passes no errors on */
    CHECK_EQ(slot, 0);
    CHECK_STATUS(weir_stream_sync(s1), WEIR_EKERNEL);
    /* The user's own wait for the same work still does. */
    CHECK_OK(weir_stream_wait_stream(s0, s1));
    CHECK_STATUS(weir_stream_sync(s0), WEIR_EKERNEL);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

struct waiting_host {
    weir_device *dev;
    struct gate gate;
};

/* Lets the streams go once the host waits for them. */
static void *open_for_host(void *user)
{
    struct waiting_host *h = user;

    while (!stats_of(h->dev).host_syncs)
        pause_us(50);
    open_gate(&h->gate);
    return NULL;
}

TEST(ladder, the_host_waits_when_too_many_streams_are_in_the_way)
{
    enum { STREAMS = 32 };
    weir_device *dev = open_device("cpu:cores=4,threads=4,memory=32m");
    weir_stream *s[STREAMS];
    weir_buffer *b[STREAMS], *whole;
    struct waiting_host h = {.dev = dev};
    pthread_t opener;

    for (int i = 0; i < STREAMS; i++)
        s[i] = new_stream(dev, 0);
    fill(s, b, STREAMS, MIB);
    for (int i = 0; i < STREAMS; i++) {
        use_on(s[i], b[i], &h.gate);
        weir_buffer_free(b[i]);
    }
    CHECK_EQ(pthread_create(&opener, NULL, open_for_host, &h), 0);
    whole = alloc_on(weir_stream_default(dev), 32 * MIB);
    CHECK_EQ(pthread_join(opener, NULL), 0);
    CHECK_EQ(stats_of(dev).host_syncs, 1);
    CHECK_EQ(stats_of(dev).failed, 0);
    weir_buffer_free(whole);
    CHECK_OK(weir_device_close(dev));
}

TEST(ladder, pieces_of_several_segments_are_given_back_for_a_whole_one)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *a = alloc_on(s, 30 * MIB), *b = alloc_on(s, 30 * MIB);

    weir_buffer_free(a);
    weir_buffer_free(b);
    CHECK_EQ(stats_of(dev).segments, 2);
    a = alloc_on(s, 60 * MIB);
    CHECK_EQ(stats_of(dev).segments, 1);
    CHECK_LE(stats_of(dev).reserved, 64 * MIB);
    weir_buffer_free(a);
    CHECK_OK(weir_device_close(dev));
}

TEST(ladder, running_out_of_memory_reports_streams_and_states)
{
    weir_device *dev = open_limited();
    weir_stream *comm, *s = weir_stream_default(dev);
    struct gate g = {0};
    weir_buffer *held, *lent, *more;
    char *summary;

    CHECK_OK(weir_stream_tagged(dev, "comm", 0, &comm));
    held = alloc_on(comm, 40 * MIB);
    lent = alloc_on(s, 5 * MIB);
    order_after(comm, s);
    use_on(comm, lent, &g);
    weir_buffer_free(lent);
    summary = weir_memory_summary(dev);
    CHECK_STR(summary, "comm");
    CHECK_STR(summary, "5.0 MiB");
    free(summary);
    open_gate(&g); /* the host waits before it gives up */
    CHECK_STATUS(weir_buffer_alloc(s, 33 * MIB, &more), WEIR_EOOM);
    CHECK(!more);
    CHECK_STR(weir_last_error(), "'default'");
    CHECK_STR(weir_last_error(), "33.0 MiB");
    CHECK_STR(weir_last_error(), "64.0 MiB");
    CHECK_STR(weir_last_error(), "comm");
    CHECK_STR(weir_last_error(), "40.0 MiB");
    CHECK_STR(weir_last_error(), "allocated");
    CHECK_STR(weir_last_error(), "pending");
    CHECK_STR(weir_last_error(), "idle");
    CHECK_EQ(stats_of(dev).failed, 1);
    weir_buffer_free(held);
    CHECK_OK(weir_device_close(dev));
}

/* ---- a failed allocation changes nothing ---- */

struct account {
    weir_memory_stats stats;
    size_t n;
    weir_block_info rows[64];
};

static struct account take_account(weir_device *dev)
{
    struct account a;

    memset(&a, 0, sizeof a);
    a.stats = stats_of(dev);
    a.n = weir_memory_get_blocks(dev, a.rows, sizeof *(a.rows), 64);
    CHECK_LE(a.n, 64);
    return a;
}

static void check_same(const struct account *a, const struct account *b)
{
    CHECK_EQ(a->stats.reserved, b->stats.reserved);
    CHECK_EQ(a->stats.allocated, b->stats.allocated);
    CHECK_EQ(a->stats.pending, b->stats.pending);
    CHECK_EQ(a->stats.idle, b->stats.idle);
    CHECK_EQ(a->stats.segments, b->stats.segments);
    CHECK_EQ(a->stats.allocations, b->stats.allocations);
    CHECK_EQ(a->stats.grown, b->stats.grown);
    CHECK_EQ(a->stats.device_waits, b->stats.device_waits);
    CHECK_EQ(a->stats.failed + 1, b->stats.failed);
}

TEST(limit, a_request_that_can_never_fit_fails_at_once_and_changes_nothing)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    struct gate g = {0};
    weir_buffer *held = alloc_on(s, MIB), *lent = alloc_on(s1, MIB), *b;
    const size_t sizes[] = {64 * (size_t)MIB + 1, SIZE_MAX / 2, SIZE_MAX - 511, SIZE_MAX};

    use_on(s1, lent, &g); /* a host that waits here waits for ever */
    weir_buffer_free(lent);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct account before = take_account(dev), after;

        test_note("size %zu", sizes[i]);
        CHECK_STATUS(weir_buffer_alloc(s, sizes[i], &b), WEIR_EOOM);
        CHECK(!b);
        after = take_account(dev);
        check_same(&before, &after);
        CHECK_EQ(before.n, after.n);
        CHECK_MEM_EQ(before.rows, after.rows, sizeof before.rows);
        CHECK_EQ(after.stats.host_syncs, 0);
    }
    open_gate(&g);
    weir_buffer_free(held);
    CHECK_OK(weir_device_close(dev));
}

TEST(limit, a_request_that_does_not_fit_now_changes_nothing)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *held = alloc_on(s, 20 * MIB), *idle = alloc_on(s, 30 * MIB), *b;
    struct account before, after;

    weir_buffer_free(idle); /* a whole segment */
    CHECK_OK(weir_device_sync(dev));
    before = take_account(dev);
    CHECK_STATUS(weir_buffer_alloc(s, 60 * MIB, &b), WEIR_EOOM);
    CHECK(!b);
    after = take_account(dev);
    check_same(&before, &after);
    b = alloc_on(s, 30 * MIB);
    CHECK_EQ(stats_of(dev).grown, before.stats.grown);
    weir_buffer_free(b);
    weir_buffer_free(held);
    CHECK_OK(weir_device_close(dev));
}

TEST(limit, sizes_that_overflow_are_refused_without_a_memory_limit)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *b;

    CHECK_OK(weir_memory_set_limit(dev, SIZE_MAX));
    for (size_t less = 0; less < 8 * (size_t)MIB; less += 4096 * 7) {
        test_note("SIZE_MAX - %zu", less);
        CHECK_STATUS(weir_buffer_alloc(s, SIZE_MAX - less, &b), WEIR_EOOM);
        CHECK(!b);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(limit, a_lower_memory_limit_holds_from_the_next_growth_on)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *a = alloc_on(s, 30 * MIB), *b;

    CHECK_OK(weir_memory_set_limit(dev, MIB));
    CHECK_STATUS(weir_buffer_alloc(s, 30 * MIB, &b), WEIR_EOOM);
    weir_buffer_free(a);
    b = alloc_on(s, 30 * MIB); /* what is there is there */
    CHECK_EQ(stats_of(dev).grown, 1);
    weir_buffer_free(b);
    CHECK_STATUS(weir_memory_set_limit(dev, 0), WEIR_ERANGE);
    CHECK_EQ(stats_of(dev).limit, MIB);
    CHECK_OK(weir_device_close(dev));
}

/* ---- sizes ---- */

TEST(sizes, a_buffer_of_size_zero_is_a_buffer_of_its_own)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *a = alloc_on(s, 0), *b = alloc_on(s, 0);

    CHECK(weir_buffer_data(a));
    CHECK(weir_buffer_data(a) != weir_buffer_data(b));
    CHECK_EQ(weir_buffer_size(a), 0);
    weir_buffer_free(a);
    weir_buffer_free(b);
    weir_buffer_free(NULL);
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, buffers_around_every_power_of_two_are_served_in_full)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);

    for (size_t size = 1; size <= 32 * MIB; size *= 2)
        for (int more = -1; more <= 1; more++) {
            weir_buffer *b = alloc_on(s, size + (size_t)more);

            CHECK_EQ(weir_buffer_size(b), size + (size_t)more);
            CHECK_GE(stats_of(dev).allocated, size + (size_t)more);
            memset(weir_buffer_data(b), 1, weir_buffer_size(b));
            weir_buffer_free(b);
        }
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, tensor_sizes_that_overflow_are_errors)
{
    weir_device *dev = open_limited();
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *t;
    static char bytes[64];

    CHECK_STATUS(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){INT64_MAX}, &t), WEIR_ESHAPE);
    CHECK(!t);
    CHECK_STATUS(weir_tensor_empty(s, WEIR_U8, 1, (int64_t[]){INT64_MAX}, &t), WEIR_EOOM);
    CHECK(!t);
    CHECK_STATUS(weir_tensor_empty(s, WEIR_U8, 2, (int64_t[]){INT64_MAX, INT64_MAX}, &t),
                 WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_empty(s, WEIR_U8, 3, (int64_t[]){0, INT64_MAX, INT64_MAX}, &t),
                 WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_empty(s, WEIR_U8, 1, (int64_t[]){-1}, &t), WEIR_ESHAPE);
    CHECK_STATUS(weir_tensor_empty(s, WEIR_U8, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, &t),
                 WEIR_ESHAPE);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){0, 5}, &t));
    CHECK_EQ(weir_tensor_numel(t), 0);
    weir_tensor_release(t);
    CHECK_STATUS(weir_tensor_wrap(s, WEIR_U8, 2, (int64_t[]){2, 2},
                                  (int64_t[]){INT64_MAX, INT64_MAX}, bytes, NULL, NULL, &t),
                 WEIR_ESHAPE);
    CHECK(!t);
    CHECK_OK(weir_device_close(dev));
}

TEST(sizes, slices_with_a_step_past_the_end_take_one_element)
{
    weir_device *dev = open_limited();
    weir_tensor *t, *one;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 2, (int64_t[]){4, 6}, &t));
    CHECK_OK(weir_tensor_slice(t, 0, 0, 4, INT64_MAX, &one));
    CHECK_EQ(weir_tensor_shape(one)[0], 1);
    CHECK_EQ(weir_tensor_numel(one), 6);
    weir_tensor_release(one);
    CHECK_OK(weir_tensor_slice(t, 0, INT64_MIN, INT64_MAX, 1, &one));
    CHECK_EQ(weir_tensor_numel(one), 24);
    weir_tensor_release(one);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}

struct late_alloc {
    weir_stream *stream;
    weir_status status;
    _Atomic bool go;
};

static void alloc_late(void *user, weir_status status)
{
    struct late_alloc *late = user;
    weir_buffer *b;

    CHECK_OK(status);
    while (!atomic_load(&late->go))
        sched_yield();
    late->status = weir_buffer_alloc(late->stream, 60 * MIB, &b);
}

/* Its own stream is idle only once it is over: a wait for that would end at op_timeout. */
TEST(ladder, a_callback_is_told_at_once_that_nothing_is_left)
{
    static const char *const specs[] = {"cpu:cores=1,memory=64m", "cpu:cores=8,memory=64m",
                                        "npu:a2,memory=64m"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_device *dev = open_device(specs[i]);
        weir_stream *s = weir_stream_default(dev);
        weir_buffer *b = alloc_on(s, 60 * MIB);
        struct late_alloc late = {s, WEIR_OK, true};

        test_note("%s", specs[i]);
        use_on(s, b, NULL);
        CHECK_OK(weir_stream_callback(s, alloc_late, &late));
        CHECK_OK(weir_stream_sync(s));
        CHECK_EQ(late.status, WEIR_EOOM);
        weir_buffer_free(b);
        CHECK_OK(weir_device_close(dev));
    }
}

/* A stream of the full device waits for the callback, by a copy. */
TEST(ladder, a_callback_is_told_at_once_that_nothing_is_left_on_another_device)
{
    weir_device *full = open_device("cpu:cores=1,memory=64m"), *dev = open_device("cpu:cores=2");
    weir_stream *s = weir_stream_default(full);
    weir_buffer *b = alloc_on(s, 60 * MIB);
    struct late_alloc late = {s, WEIR_OK, false};
    weir_tensor *to, *from;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &to));
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){4}, &from));
    CHECK_OK(weir_fill(from, 1));
    use_on(s, b, NULL);
    CHECK_OK(weir_stream_callback(weir_stream_default(dev), alloc_late, &late));
    CHECK_OK(weir_tensor_copy(to, from));
    atomic_store(&late.go, true);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_sync(full));
    CHECK_EQ(late.status, WEIR_EOOM);
    weir_tensor_release(to);
    weir_tensor_release(from);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(full));
    CHECK_OK(weir_device_close(dev));
}
