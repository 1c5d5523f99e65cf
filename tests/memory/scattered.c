/* Idle memory in pieces of many streams (memory/pool.c, is_scattered). */
#include "helpers.h"

enum { STREAMS = 16, PIECES = 5 * STREAMS, MIB = 1 << 20 };

/* The pieces of 2 MiB lie side by side and have different owners. All are free: requests of 3 MiB
 * fit into neighbours joined, and no longer make the pool grow. */
TEST(scattered, idle_pieces_of_many_streams_are_joined_before_the_pool_grows_on)
{
    weir_device *dev = open_device("cpu:cores=2");
    weir_stream *streams[STREAMS], *asks = new_stream(dev, 0);
    weir_buffer *pieces[PIECES], *large[PIECES / 2];
    weir_memory_stats before, after;

    for (int i = 0; i < STREAMS; i++)
        streams[i] = new_stream(dev, 0);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = alloc_on(streams[i % STREAMS], 2 * MIB);
    for (int i = 0; i < PIECES; i++)
        weir_buffer_free(pieces[i]);
    before = stats_of(dev);
    CHECK_EQ(before.idle, before.reserved);
    CHECK_LE(PIECES * 2 * MIB, before.reserved);
    for (int i = 0; i < PIECES / 4; i++)
        large[i] = alloc_on(asks, 3 * MIB);
    after = stats_of(dev);
    CHECK_EQ(after.reserved, before.reserved);
    CHECK_EQ(after.grown, before.grown);
    CHECK_EQ(after.host_syncs, 0);
    for (int i = 0; i < PIECES / 4; i++)
        weir_buffer_free(large[i]);
    CHECK_OK(weir_device_close(dev));
}
