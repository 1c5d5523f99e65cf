/* The allocation trace that weir's pool and the malloc peers replay: a set of
 * live blocks of log-uniform sizes, of which a random one is freed and replaced
 * at each step. The same seed gives the same trace everywhere. */
#ifndef WEIR_BENCH_TRACE_GEN_H
#define WEIR_BENCH_TRACE_GEN_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define TRACE_LIVE_BYTES ((double)(64 << 20)) /* on average */
#define TRACE_STEPS 20000

struct trace {
    size_t slots;         /* blocks live at once */
    uint32_t *slot;       /* TRACE_STEPS: which one is replaced */
    uint32_t *size;       /* TRACE_STEPS: by how many bytes */
    uint32_t *first_size; /* slots: what they hold before the first step */
};

static inline uint64_t trace_random(uint64_t *state)
{
    /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t trace_random_size(uint64_t *state, double low, double high)
{
    double share = (double)(trace_random(state) >> 11) * 0x1p-53;

    return (uint32_t)(low * exp(share * log(high / low)));
}

/* Sizes from `low` to `high` bytes. Aborts when out of memory: this is a bench. */
static inline struct trace trace_make(double low, double high)
{
    double mean = (high - low) / log(high / low);
    struct trace t = {.slots = (size_t)(TRACE_LIVE_BYTES / mean)};
    uint64_t state = 42;

    t.slot = (uint32_t *)malloc(TRACE_STEPS * sizeof *t.slot);
    t.size = (uint32_t *)malloc(TRACE_STEPS * sizeof *t.size);
    t.first_size = (uint32_t *)malloc(t.slots * sizeof *t.first_size);
    if (!t.slot || !t.size || !t.first_size)
        abort();
    for (size_t i = 0; i < t.slots; i++)
        t.first_size[i] = trace_random_size(&state, low, high);
    for (size_t i = 0; i < TRACE_STEPS; i++) {
        t.slot[i] = (uint32_t)(trace_random(&state) % t.slots);
        t.size[i] = trace_random_size(&state, low, high);
    }
    return t;
}

/* 512 B to 4 MiB, and 512 B to 64 KiB. */
static inline struct trace trace_make_mixed(void)
{
    return trace_make(512, 4 << 20);
}
static inline struct trace trace_make_small(void)
{
    return trace_make(512, 64 << 10);
}

#endif
