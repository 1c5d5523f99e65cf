/* Launches that allocate their result, and frees, by the lock of their stream alone. */
#include "helpers.h"
#include "per_stream.h"

#include <pthread.h>

enum { ELEMENTS = 1000 };

static weir_tensor *new_tensor(weir_stream *s, double value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_I64, 1, &(int64_t){ELEMENTS}, &t));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(t, value));
    return t;
}

/* Frees two blocks of the size, so that the stream has recent ones. */
static void make_recent(weir_stream *s)
{
    weir_tensor *a = new_tensor(s, 0), *b = new_tensor(s, 0);

    weir_tensor_release(a);
    weir_tensor_release(b);
}

static weir_memory_stats stats_of(weir_device *dev)
{
    weir_memory_stats stats;

    weir_memory_get_stats(dev, &stats, sizeof stats);
    return stats;
}

TEST(recent_alone, operators_views_and_frees_leave_the_device_lock_alone)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0);
    weir_tensor *x = new_tensor(s, 5), *y, *first, *z;
    weir_buffer *b, *again;
    const void *bytes;
    int64_t values[ELEMENTS];

    make_recent(s);
    lock_per_stream(dev);
    CHECK_OK(weir_mul_scalar(x, 3, &y));
    CHECK_OK(weir_tensor_slice(y, 0, 0, 1, 1, &first));
    CHECK_OK(weir_add(y, first, &z));
    weir_tensor_release(first);
    weir_tensor_release(y);
    weir_tensor_release(x);
    CHECK_OK(weir_tensor_empty(s, WEIR_I64, 1, &(int64_t){ELEMENTS}, &x));
    weir_tensor_release(x);
    CHECK_OK(weir_buffer_alloc(s, sizeof values, &b));
    bytes = weir_buffer_data(b);
    weir_buffer_free(b);
    CHECK_OK(weir_buffer_alloc(s, sizeof values, &again));
    CHECK_PTR_EQ(weir_buffer_data(again), bytes);
    weir_buffer_free(again);
    CHECK(locks_per_stream(dev));
    CHECK_OK(weir_tensor_read(z, values, sizeof values));
    for (int i = 0; i < ELEMENTS; i++)
        CHECK_EQ(values[i], 30);
    weir_tensor_release(z);
    CHECK_OK(weir_device_close(dev));
}

TEST(recent_alone, statistics_are_those_of_the_same_calls_under_the_device_lock)
{
    weir_memory_stats stats[2];

    for (int alone = 0; alone < 2; alone++) {
        weir_device *dev = open_device("cpu:cores=2");
        weir_stream *s = new_stream(dev, 0), *other = new_stream(dev, 0);
        weir_buffer *b[4];

        for (int i = 0; i < 4; i++)
            CHECK_OK(weir_buffer_alloc(i < 2 ? s : other, ELEMENTS * 8, &b[i]));
        for (int i = 0; i < 4; i++)
            weir_buffer_free(b[i]);
        weir_memory_reset_peaks(dev);
        if (alone)
            lock_per_stream(dev);
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weir_buffer_alloc(s, ELEMENTS * 8, &b[i]));
            CHECK_OK(weir_buffer_alloc(other, ELEMENTS * 8, &b[2 + i]));
        }
        weir_buffer_free(b[0]);
        weir_buffer_free(b[2]);
        CHECK_EQ(locks_per_stream(dev), alone);
        stats[alone] = stats_of(dev);
        weir_buffer_free(b[1]);
        weir_buffer_free(b[3]);
        CHECK_OK(weir_device_close(dev));
    }
    CHECK_EQ(memcmp(&stats[0], &stats[1], sizeof stats[0]), 0);
    CHECK_EQ(stats[1].peak_allocated, 2 * stats[1].allocated);
}

/* How much scratch a sum or a product needs depends on its result's strides. Before each of them a
 * result of two dims is made, whose strides were taken for theirs. */
TEST(recent_alone, operators_that_need_scratch_take_the_device_lock)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0);
    weir_tensor *flat, *cube, *left, *right, *wide, *sum = NULL, *product = NULL;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (const int64_t[]){8, 100}, &flat));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 3, (const int64_t[]){4096, 8, 8}, &cube));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 3, (const int64_t[]){2, 4, 1024}, &left));
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (const int64_t[]){1024, 1024}, &right));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(flat, 1));
    CHECK_OK(weir_fill(cube, 1));
    CHECK_OK(weir_fill(left, 1));
    CHECK_OK(weir_fill(right, 1));
    for (int round = 0; round < 3; round++) { /* recent blocks, from the second round on */
        weir_tensor_release(sum);
        weir_tensor_release(product);
        CHECK_OK(weir_neg(flat, &wide));
        lock_per_stream(dev);
        CHECK_OK(weir_sum(cube, (const int[]){0}, 1, false, &sum));
        CHECK(!locks_per_stream(dev));
        weir_tensor_release(wide);
        CHECK_OK(weir_neg(flat, &wide));
        lock_per_stream(dev);
        CHECK_OK(weir_matmul(left, right, &product));
        CHECK(!locks_per_stream(dev));
        weir_tensor_release(wide);
    }
    weir_tensor_release(sum);
    weir_tensor_release(product);
    weir_tensor_release(flat);
    weir_tensor_release(cube);
    weir_tensor_release(left);
    weir_tensor_release(right);
    CHECK_OK(weir_device_close(dev));
}

/* A block that another stream may still read waits for that, under the device lock. */
TEST(recent_alone, a_block_that_another_stream_reads_is_not_taken_again)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0), *reader = new_stream(dev, 0);
    weir_tensor *x = new_tensor(s, 1), *next;
    const void *bytes = weir_tensor_data(x);
    struct gate gate = {0};

    CHECK_OK(weir_stream_wait_stream(reader, s));
    submit_gate(reader, &gate);
    CHECK_OK(weir_launch_submit(
        reader, &(weir_launch){.name = "reads", .tensors = &x, .ntensors = 1, .nreads = 1}));
    lock_per_stream(dev);
    weir_tensor_release(x);
    CHECK(!locks_per_stream(dev));
    lock_per_stream(dev);
    CHECK_OK(weir_tensor_empty(s, WEIR_I64, 1, &(int64_t){ELEMENTS}, &next));
    CHECK(weir_tensor_data(next) != bytes);
    open_gate(&gate);
    weir_tensor_release(next);
    CHECK_OK(weir_device_close(dev));
}

/* Values of the host are ready on every stream: what waits for them has waited once. */
TEST(recent_alone, a_tensor_of_the_host_needs_the_device_lock_until_the_stream_has_waited)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0), *home = new_stream(dev, 0);
    static int64_t values[ELEMENTS];
    weir_tensor *x, *y;

    make_recent(s);
    CHECK_OK(weir_tensor_from(home, WEIR_I64, 1, &(int64_t){ELEMENTS}, values, &x));
    for (int i = 0; i < 2; i++) {
        lock_per_stream(dev);
        CHECK_OK(weir_mul_scalar(x, 3, &y));
        CHECK_EQ(locks_per_stream(dev), i == 1);
        weir_tensor_release(y);
    }
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = TEST_SANITIZED ? 1000 : 10000 };

struct crew {
    weir_device *dev;
    weir_stream *streams[THREADS];
    _Atomic(weir_tensor *) left; /* by one thread, for another to release */
    atomic_int over;
};

struct member {
    struct crew *crew;
    int index;
    pthread_t thread;
};

static void *compute(void *arg)
{
    const struct member *m = arg;
    struct crew *crew = m->crew;
    weir_stream *s = crew->streams[m->index];
    weir_tensor *x = new_tensor(s, 1), *next;
    int64_t expected = 1, values[ELEMENTS];

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 8 == 0)
            lock_per_stream(crew->dev);
        CHECK_OK(weir_mul_scalar(x, 3, &next));
        expected = (int64_t)((uint64_t)expected * 3);
        weir_tensor_release(atomic_exchange(&crew->left, x));
        x = next;
        if (i % 64 == 63)
            CHECK_OK(weir_stream_sync(s));
    }
    CHECK_OK(weir_tensor_read(x, values, sizeof values));
    for (int i = 0; i < ELEMENTS; i++)
        CHECK_EQ(values[i], expected);
    weir_tensor_release(x);
    atomic_fetch_add(&crew->over, 1);
    return NULL;
}

TEST(recent_alone, threads_release_each_others_tensors_while_one_looks_at_all_memory)
{
    struct crew crew = {.dev = open_device("cpu:cores=2")};
    struct member members[THREADS];
    weir_memory_stats stats;

    for (int i = 0; i < THREADS; i++)
        crew.streams[i] = new_stream(crew.dev, 0);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crew = &crew, .index = i};
        CHECK_EQ(pthread_create(&members[i].thread, NULL, compute, &members[i]), 0);
    }
    while (atomic_load(&crew.over) < THREADS) {
        weir_block_info blocks[512];
        size_t n = weir_memory_get_blocks(crew.dev, blocks, sizeof *blocks, 512), used = 0, free;

        CHECK_LE(n, 512);
        stats = stats_of(crew.dev);
        free = stats.idle + stats.pending;
        CHECK_EQ(stats.allocated + free, stats.reserved);
        for (size_t i = 0; i < n; i++)
            used += blocks[i].size;
        CHECK_LE(used, stats.reserved);
        CHECK_OK(weir_memory_empty_cache(crew.dev));
        pause_us(100);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    weir_tensor_release(crew.left);
    stats = stats_of(crew.dev);
    CHECK_EQ(stats.allocated, 0);
    CHECK_EQ(stats.allocations, stats.frees);
    CHECK_OK(weir_device_close(crew.dev));
}
