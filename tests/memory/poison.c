/* poison=1: freed memory is filled with 0xfb before it is reused. */
#include "helpers.h"

enum { SIZE = 64 << 10, MIB = 1 << 20 };

static weir_status set_kernel(const void *args, const weir_block *block)
{
    (void)block;
    memset(*(void *const *)args, 0x11, SIZE);
    return WEIR_OK;
}

static void set_on(weir_stream *s, weir_buffer *b)
{
    void *bytes = weir_buffer_data(b);

    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "set",
                                                  .fn = set_kernel,
                                                  .args = &bytes,
                                                  .args_size = sizeof bytes,
                                                  .buffers = &b,
                                                  .nbuffers = 1}));
}

static void check_all(const void *bytes, int value)
{
    for (size_t i = 0; i < SIZE; i++)
        CHECK_EQ(((const unsigned char *)bytes)[i], value);
}

TEST(poison, poison_fills_blocks_that_their_own_stream_freed)
{
    weir_device *dev = open_device("cpu:poison=1");
    weir_stream *s = weir_stream_default(dev);
    weir_buffer *b = alloc_on(s, SIZE), *other = alloc_on(s, SIZE);

    set_on(s, b);
    set_on(s, other);
    weir_buffer_free(b);
    b = alloc_on(s, SIZE);
    CHECK_OK(weir_device_sync(dev));
    check_all(weir_buffer_data(b), 0xfb);
    check_all(weir_buffer_data(other), 0x11);
    set_on(s, b); /* and does not come back once it is somebody's */
    CHECK_OK(weir_device_sync(dev));
    check_all(weir_buffer_data(b), 0x11);
    weir_buffer_free(b);
    weir_buffer_free(other);
    CHECK_OK(weir_device_close(dev));
}

/* The last use is on another stream; nothing is filled before it is over. */
TEST(poison, poison_waits_for_streams_that_still_read)
{
    weir_device *dev = open_device("cpu:cores=4,threads=4,poison=1");
    weir_stream *s = weir_stream_default(dev), *s1 = new_stream(dev, 0);
    struct gate g = {0};
    weir_buffer *b = alloc_on(s, SIZE);
    void *bytes = weir_buffer_data(b);

    set_on(s, b);
    order_after(s1, s);
    use_on(s1, b, &g);
    CHECK_OK(weir_stream_sync(s));
    weir_buffer_free(b);
    CHECK_OK(weir_stream_sync(s));
    check_all(bytes, 0x11);
    order_after(s, s1);
    b = alloc_on(s, SIZE);
    CHECK_PTR_EQ(weir_buffer_data(b), bytes);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    check_all(bytes, 0xfb);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

/* Bytes that another stream gets because they are over, or because it is made to wait. */
static void give_to_another(bool over)
{
    weir_device *dev = open_device("cpu:cores=4,threads=4,poison=1,memory=2m");
    weir_stream *s = weir_stream_default(dev), *s1 = new_stream(dev, 0), *s2 = new_stream(dev, 0);
    struct gate g = {.open = over};
    weir_buffer *b = alloc_on(s, 2 * MIB);
    void *bytes = weir_buffer_data(b);

    set_on(s, b);
    order_after(s1, s);
    use_on(s1, b, &g);
    weir_buffer_free(b);
    if (over)
        CHECK_OK(weir_device_sync(dev));
    b = alloc_on(s2, 2 * MIB);
    CHECK_PTR_EQ(weir_buffer_data(b), bytes);
    open_gate(&g);
    CHECK_OK(weir_device_sync(dev));
    check_all(bytes, 0xfb);
    set_on(s2, b);
    CHECK_OK(weir_device_sync(dev));
    check_all(bytes, 0x11);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(poison, poison_fills_blocks_that_are_collected)
{
    give_to_another(true);
}
TEST(poison, poison_fills_blocks_that_a_stream_is_made_to_wait_for)
{
    give_to_another(false);
}

TEST(poison, poison_reads_as_nan_in_floats)
{
    weir_device *dev = open_device("cpu:poison=1");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *t;
    float x[4] = {1, 2, 3, 4};

    CHECK_OK(weir_tensor_from(s, WEIR_F32, 1, (int64_t[]){4}, x, &t));
    weir_tensor_release(t);
    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, (int64_t[]){4}, &t));
    CHECK_OK(weir_tensor_read(t, x, sizeof x));
    for (int i = 0; i < 4; i++)
        CHECK(x[i] < -1e36f);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(poison, an_emptied_cache_gives_back_what_was_being_filled)
{
    static const char *const specs[] = {"cpu:poison=1", "npu:a3,poison=1"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        weir_device *dev = open_device(specs[i]);

        test_note("%s", specs[i]);
        for (int k = 0; k < 4; k++)
            weir_buffer_free(alloc_on(weir_stream_default(dev), 8 * MIB));
        CHECK_GT(stats_of(dev).reserved, 0);
        CHECK_OK(weir_memory_empty_cache(dev));
        CHECK_EQ(stats_of(dev).reserved, 0);
        CHECK_OK(weir_device_close(dev));
    }
}
