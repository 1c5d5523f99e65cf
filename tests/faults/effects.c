/* A call that failed has had no effect: nothing is ordered, used, queued or unlocked by it. */
#include "inject.h"

#include <sys/resource.h>

enum { TRIES = 4000, SIZE = 1 << 20 };

static const char spec[] = "cpu:cores=6,threads=6";

/* A wait needs memory only when the queue needs another piece: try until one fails. */
TEST(faults, a_wait_that_failed_orders_nothing)
{
    inject_install();
    weir_device *dev = open_device(spec);
    weir_stream *s0 = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    struct gate g = {0};
    weir_buffer *b = alloc_on(s0, SIZE), *next;
    void *bytes = weir_buffer_data(b);
    weir_status st = WEIR_OK;

    CHECK_OK(weir_stream_wait_stream(s1, s0));
    submit_gate(s0, &g); /* its queue keeps all it gets */
    for (int i = 0; i < TRIES && !st; i++) {
        use_on(s1, b, NULL);
        inject_arm(1);
        st = weir_stream_wait_stream(s0, s1);
        inject_disarm();
    }
    CHECK_EQ(st, WEIR_ENOMEM);
    struct gate last = {0};

    use_on(s1, b, &last);
    weir_buffer_free(b);
    next = alloc_on(s0, SIZE);
    CHECK(weir_buffer_data(next) != bytes);
    open_gate(&last);
    open_gate(&g);
    weir_buffer_free(next);
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(inject_live(), 0);
}

TEST(faults, a_launch_that_failed_records_no_use_of_its_operands)
{
    inject_install();
    weir_device *dev = open_device(spec);
    weir_stream *s0 = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    struct gate g = {0};
    atomic_int counter = 0;
    int slots[TRIES], submitted = 0;
    weir_status st = WEIR_OK;

    submit_gate(s1, &g);
    for (; submitted < TRIES && !st; submitted += !st) {
        weir_buffer *b = alloc_on(s0, SIZE);
        struct ticket_args a = {&counter, &slots[submitted]};

        inject_arm(submitted > 0); /* the first needs a place for fences */
        st = weir_launch_submit(s1, &(weir_launch){.name = "ticket",
                                                   .fn = ticket_kernel,
                                                   .args = &a,
                                                   .args_size = sizeof a,
                                                   .buffers = &b,
                                                   .nbuffers = 1});
        if (!inject_disarm())
            CHECK_OK(st);
        weir_buffer_free(b);
        if (st)
            CHECK_EQ(stats_of(dev).pending, (size_t)submitted * SIZE);
    }
    CHECK_EQ(st, WEIR_ENOMEM);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(atomic_load(&counter), submitted); /* all of those, and no other */
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(inject_live(), 0);
}

TEST(faults, a_copy_between_devices_that_failed_leaves_the_source_safe)
{
    int failures = 0;

    inject_install();
    for (long n = 1;; n++) {
        weir_device *from = open_device("cpu:threads=1"), *to = open_device("cpu:threads=1");
        weir_stream *s = weir_stream_default(from);
        weir_tensor *src, *dst;
        weir_status st = WEIR_OK;
        bool failed;

        test_note("allocation %ld", n);
        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){100}, &src));
        CHECK_OK(weir_tensor_empty(weir_stream_default(to), WEIR_F32, 1, (int64_t[]){100}, &dst));
        CHECK_OK(weir_stream_set_current(new_stream(from, 0)));
        inject_arm(n);
        for (int i = 0; i < 600 && !st; i++)
            st = weir_tensor_copy(dst, src);
        failed = inject_disarm();
        if (st) {
            CHECK_EQ(st, WEIR_ENOMEM);
            failures++;
        }
        CHECK_OK(weir_tensor_copy(dst, src));
        weir_tensor_release(src);
        weir_tensor_release(dst);
        CHECK_OK(weir_device_close(to));
        CHECK_OK(weir_device_close(from));
        CHECK_EQ(inject_live(), 0);
        if (!failed)
            break;
    }
    CHECK_GT(failures, 0);
}

/* ---- the system refuses ---- */

static size_t bytes_mapped(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    CHECK(f);
    CHECK_EQ(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * 4096;
}

static void allow_more(size_t bytes)
{
    struct rlimit r;

    CHECK_EQ(getrlimit(RLIMIT_AS, &r), 0);
    r.rlim_cur = bytes == SIZE_MAX ? r.rlim_max : bytes_mapped() + bytes;
    CHECK_EQ(setrlimit(RLIMIT_AS, &r), 0);
}

TEST(faults, memory_that_the_system_refuses_is_an_error)
{
    if (TEST_SANITIZED)
        SKIP("a sanitizer needs more address space than the limit leaves");

    weir_device *dev = open_device("cpu:threads=1,memory=8g");
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *held = alloc_on(s, SIZE), *b;
    weir_memory_stats before = stats_of(dev), after;

    allow_more(100 * (size_t)SIZE);
    CHECK_STATUS(weir_buffer_alloc(s, 1000 * (size_t)SIZE, &b), WEIR_EOOM);
    CHECK(!b);
    CHECK_STR(weir_last_error(), "1000 MiB");
    after = stats_of(dev);
    CHECK_EQ(after.reserved, before.reserved);
    CHECK_EQ(after.allocated, before.allocated);
    CHECK_EQ(after.failed, 1);
    weir_buffer_free(held);
    allow_more(SIZE_MAX);
    b = alloc_on(s, 1000 * (size_t)SIZE);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(faults, a_small_buffer_can_be_allocated_when_little_memory_is_left)
{
    if (TEST_SANITIZED)
        SKIP("a sanitizer needs more address space than the limit leaves");

    weir_device *dev = open_device("cpu:threads=1");
    weir_buffer *b;

    allow_more(12 * (size_t)SIZE);
    b = alloc_on(weir_stream_default(dev), SIZE);
    memset(weir_buffer_data(b), 1, SIZE);
    weir_buffer_free(b);
    allow_more(SIZE_MAX);
    CHECK_OK(weir_device_close(dev));
}

TEST(faults, threads_that_the_system_refuses_are_an_error)
{
    weir_device *dev = NULL;

    if (TEST_SANITIZED)
        SKIP("a sanitizer needs more address space than the limit leaves");
    inject_install();
    allow_more(40 * (size_t)SIZE); /* a few stacks of 8 MiB */
    weir_status st = weir_device_open("cpu:cores=64,threads=64", &dev);

    CHECK(st == WEIR_EUNAVAILABLE || st == WEIR_ENOMEM);
    CHECK(!dev);
    CHECK_EQ(inject_live(), 0);
    allow_more(SIZE_MAX);
    CHECK_OK(weir_device_open("cpu:cores=64,threads=64", &dev));
    CHECK_OK(weir_device_close(dev));
    CHECK_EQ(inject_live(), 0);
}

static void touch(weir_stream *s, const char *name, weir_tensor *t, bool writes)
{
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = name, .tensors = &t, .ntensors = 1, .nreads = !writes}));
}

static uint64_t races(void)
{
    weir_race_stats stats;

    weir_race_get_stats(&stats, sizeof stats);
    return stats.races;
}

/* What was not queued orders nothing in the checker's eyes either. */
TEST(faults, the_race_checker_ignores_waits_that_failed)
{
    const int64_t n = 8;

    CHECK_OK(weir_race_set_mode(WEIR_RACE_REPORT));
    weir_device *dev = open_device(spec);
    weir_stream *s0 = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s0, WEIR_F32, 1, &n, &t));
    touch(s0, "write", t, true);
    inject_arm_driver(dev, 1);
    CHECK_EQ(weir_stream_wait_stream(s1, s0), INJECT_DRIVER_STATUS);
    CHECK(inject_disarm_driver());
    touch(s1, "read", t, false);
    CHECK_EQ(races(), 1);
    CHECK_OK(weir_stream_wait_stream(s1, s0));
    touch(s1, "read again", t, false);
    CHECK_EQ(races(), 1);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
    CHECK_OK(weir_race_set_mode(WEIR_RACE_OFF));
}
