/* Small blocks that their stream reuses without splitting or joining (memory/pool.h, recent). */
#include "helpers.h"
#include "soft/soft.h"

enum { SMALL = 4096, BLOCKS = 300 };

TEST(recent, a_small_block_is_taken_again_by_its_size_last_freed_first)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0);
    weir_buffer *a = alloc_on(s, SMALL), *b = alloc_on(s, SMALL), *between = alloc_on(s, 512);
    const void *first = weir_buffer_data(a), *second = weir_buffer_data(b);

    weir_buffer_free(a);
    weir_buffer_free(b);
    a = alloc_on(s, SMALL);
    b = alloc_on(s, SMALL - 100);
    CHECK_PTR_EQ(weir_buffer_data(a), second);
    CHECK_PTR_EQ(weir_buffer_data(b), first);
    weir_buffer_free(a);
    weir_buffer_free(b);
    weir_buffer_free(between);
    CHECK_OK(weir_device_close(dev));
}

/* All the memory there is was small blocks, some of which are recent: one block of it is left once
 * they are joined. */
TEST(recent, blocks_are_joined_before_the_pool_grows_or_fails)
{
    weir_device *dev = open_device("cpu:cores=2,memory=2m");
    weir_stream *s = new_stream(dev, 0);
    weir_buffer *all[BLOCKS], *large;
    weir_memory_stats stats;

    for (int i = 0; i < BLOCKS; i++)
        all[i] = alloc_on(s, (size_t)(i % 12 + 1) * 512);
    for (int i = 0; i < BLOCKS; i++)
        weir_buffer_free(all[i]);
    stats = stats_of(dev);
    CHECK_EQ(stats.allocated, 0);
    CHECK_EQ(stats.idle, stats.reserved);
    for (int i = 0; i < BLOCKS; i++) /* recent again */
        all[i] = alloc_on(s, (size_t)(i % 12 + 1) * 512);
    for (int i = 0; i < BLOCKS; i++)
        weir_buffer_free(all[i]);
    large = alloc_on(s, stats.reserved);
    CHECK_EQ(stats_of(dev).segments, 1);
    CHECK_EQ(stats_of(dev).host_syncs, 0);
    CHECK_EQ(stats_of(dev).idle, 0);
    weir_buffer_free(large);
    CHECK_OK(weir_device_close(dev));
}

TEST(recent, another_stream_that_is_ordered_after_the_free_gets_the_block)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0), *later = new_stream(dev, 0);
    weir_buffer *b = alloc_on(s, SMALL);
    const void *bytes = weir_buffer_data(b);
    struct gate gate = {0};

    use_on(s, b, &gate);
    weir_buffer_free(b);
    b = alloc_on(later, SMALL);
    CHECK(weir_buffer_data(b) != bytes);
    weir_buffer_free(b);
    CHECK_OK(weir_memory_empty_cache(dev));
    b = alloc_on(s, SMALL);
    bytes = weir_buffer_data(b);
    weir_buffer_free(b);
    CHECK_OK(weir_stream_wait_stream(later, s));
    b = alloc_on(later, SMALL);
    CHECK_PTR_EQ(weir_buffer_data(b), bytes);
    open_gate(&gate);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(recent, a_block_that_another_stream_reads_is_not_taken_again)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0), *reader = new_stream(dev, 0);
    weir_buffer *b = alloc_on(s, SMALL);
    const void *bytes = weir_buffer_data(b);
    struct gate gate = {0};

    use_on(reader, b, &gate);
    weir_buffer_free(b);
    b = alloc_on(s, SMALL);
    CHECK(weir_buffer_data(b) != bytes);
    open_gate(&gate);
    weir_buffer_free(b);
    CHECK_OK(weir_device_close(dev));
}

TEST(recent, a_block_whose_reader_is_over_is_taken_again_last_freed_first)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *s = new_stream(dev, 0), *reader = new_stream(dev, 0);
    weir_buffer *a = alloc_on(s, SMALL), *b = alloc_on(s, SMALL), *between = alloc_on(s, 512);
    const void *first = weir_buffer_data(a), *second = weir_buffer_data(b);

    use_on(reader, a, NULL);
    use_on(reader, b, NULL);
    CHECK_OK(weir_stream_sync(reader));
    weir_buffer_free(a);
    weir_buffer_free(b);
    a = alloc_on(s, SMALL);
    b = alloc_on(s, SMALL);
    CHECK_PTR_EQ(weir_buffer_data(a), second);
    CHECK_PTR_EQ(weir_buffer_data(b), first);
    weir_buffer_free(a);
    weir_buffer_free(b);
    weir_buffer_free(between);
    CHECK_OK(weir_device_close(dev));
}

/* The only worker is at the gate, so nobody takes the flag back. */
TEST(recent, workers_are_asked_to_look_when_several_freed_blocks_wait)
{
    weir_device *dev = open_device("cpu:cores=1");
    struct weir__soft_device *soft = (struct weir__soft_device *)dev;
    weir_stream *s = new_stream(dev, 0), *reader = new_stream(dev, 0);
    weir_buffer *all[8];
    struct gate gate = {0};

    for (int i = 0; i < 8; i++)
        use_on(reader, all[i] = alloc_on(s, SMALL), &gate);
    while (!atomic_load(&gate.arrived))
        pause_us(50);
    atomic_store(&soft->hurry, false);
    for (int i = 0; i < 8; i++) {
        CHECK(!atomic_load(&soft->hurry));
        weir_buffer_free(all[i]);
    }
    CHECK(atomic_load(&soft->hurry));
    open_gate(&gate);
    CHECK_OK(weir_device_close(dev));
}
