/* Common code of the tests of memory and lifetimes. */
#ifndef TESTS_MEMORY_HELPERS_H
#define TESTS_MEMORY_HELPERS_H

#include "device/helpers.h"

static inline weir_memory_stats stats_of(weir_device *dev)
{
    weir_memory_stats stats;

    weir_memory_get_stats(dev, &stats, sizeof stats);
    return stats;
}

static inline weir_buffer *alloc_on(weir_stream *s, size_t size)
{
    weir_buffer *b;

    CHECK_OK(weir_buffer_alloc(s, size, &b));
    return b;
}

/* Queues something on `s` that uses the buffer and is over once the gate opens;
 * without a gate, at once. */
static inline void use_on(weir_stream *s, weir_buffer *b, struct gate *g)
{
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "use",
                                                  .fn = g ? gate_kernel : NULL,
                                                  .args = &g,
                                                  .args_size = sizeof g,
                                                  .buffers = &b,
                                                  .nbuffers = 1}));
}

/* xorshift: the same program for the same seed, everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline size_t pick(uint64_t *state, size_t n)
{
    return (next_random(state) >> 16) % n;
}

#endif
