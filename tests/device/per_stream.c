/* Launches that take the lock of their stream alone. */
#include "per_stream.h"
#include "helpers.h"

#include <pthread.h>

static weir_launch on_buffer(weir_buffer *const *buffer)
{
    return (weir_launch){.name = "use", .buffers = buffer, .nbuffers = 1};
}

static weir_buffer *new_buffer(weir_stream *s)
{
    weir_buffer *b;

    CHECK_OK(weir_buffer_alloc(s, 4096, &b));
    return b;
}

struct launcher {
    weir_stream *stream;
    int launches;
};

static void *launch_all(void *arg)
{
    const struct launcher *l = arg;

    for (int i = 0; i < l->launches; i++)
        CHECK_OK(weir_launch_submit(l->stream, &(weir_launch){.name = "empty"}));
    return NULL;
}

TEST(per_stream, a_lock_that_is_found_held_again_and_again_becomes_one_for_each_stream)
{
    weir_device *dev = open_device("cpu:cores=2");
    struct launcher l = {new_stream(dev, 0), 1};
    int found = 0;

    for (; found < 1000 && !locks_per_stream(dev); found++) {
        pthread_t thread;

        weir__device_lock(dev);
        CHECK_EQ(pthread_create(&thread, NULL, launch_all, &l), 0);
        while (!atomic_load(&dev->lock.wanted)) /* it sleeps there */
            pause_us(20);
        weir__device_unlock(dev);
        pthread_join(thread, NULL);
    }
    CHECK_GT(found, 1);
    CHECK_LT(found, 1000);
    /* A wait that does not sleep needs no more than the stream's. */
    for (bool done = false; !done; pause_us(20))
        CHECK_OK(weir_stream_query(l.stream, &done));
    CHECK_OK(weir_stream_sync(l.stream));
    CHECK(locks_per_stream(dev));
    weir__device_lock(dev);
    CHECK(!locks_per_stream(dev));
    weir__device_unlock(dev);
    CHECK_OK(weir_device_close(dev));
}

TEST(per_stream, a_launch_on_a_buffer_of_its_own_stream_leaves_the_device_lock_alone)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0);
    weir_buffer *b = new_buffer(s);
    weir_launch l = on_buffer(&b);

    lock_per_stream(dev);
    CHECK_OK(weir_launch_submit(s, &l));
    CHECK(locks_per_stream(dev));
    CHECK_EQ(b->own_seq, weir__stream_submitted(s));
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

/* The first use by another stream needs a place to note it in, so it takes the device lock. */
TEST(per_stream, a_buffer_is_not_reused_before_the_last_launch_of_another_stream)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *owner = new_stream(dev, 0), *user = new_stream(dev, 0);
    weir_buffer *b = new_buffer(owner), *next;
    struct gate gate = {0};
    weir_launch l = on_buffer(&b);
    const void *bytes = weir_buffer_data(b);

    lock_per_stream(dev);
    CHECK_OK(weir_launch_submit(user, &l));
    CHECK(!locks_per_stream(dev));
    CHECK_OK(weir_stream_sync(user));
    submit_gate(user, &gate);
    lock_per_stream(dev);
    CHECK_OK(weir_launch_submit(user, &l));
    CHECK(locks_per_stream(dev));
    weir_buffer_free(b);
    next = new_buffer(owner);
    CHECK(weir_buffer_data(next) != bytes);
    open_gate(&gate);
    weir_buffer_free(next);
    CHECK_OK(weir_device_close(dev));
}

TEST(per_stream, two_threads_may_launch_on_one_stream)
{
    enum { THREADS = 4, LAUNCHES = TEST_SANITIZED ? 500 : 5000 };
    weir_device *dev = open_device("cpu:cores=2");
    struct launcher l = {new_stream(dev, 0), LAUNCHES};
    pthread_t threads[THREADS];

    lock_per_stream(dev);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, launch_all, &l), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(weir__stream_submitted(l.stream), THREADS * LAUNCHES);
    CHECK_OK(weir_stream_sync(l.stream));
    CHECK_OK(weir_device_close(dev));
}
