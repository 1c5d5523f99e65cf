/* Host kernels that a case steers; only where need_gates holds. */
#ifndef TESTS_CONFORMANCE_DEVICE_GATES_H
#define TESTS_CONFORMANCE_DEVICE_GATES_H

#include "conformance/conformance.h"

#include <stdatomic.h>
#include <time.h>

static inline void pause_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* A kernel that holds its core until it is let go. */
struct gate {
    atomic_int arrived, open;
};

static inline weir_status gate_kernel(const void *args, const weir_block *block)
{
    struct gate *g = *(struct gate *const *)args;

    (void)block;
    atomic_fetch_add(&g->arrived, 1);
    while (!atomic_load(&g->open))
        pause_us(50);
    return WEIR_OK;
}

static inline void submit_gate(weir_stream *s, struct gate *g)
{
    CHECK_OK(weir_launch_submit(
        s, &(weir_launch){.name = "gate", .fn = gate_kernel, .args = &g, .args_size = sizeof g}));
}

/* Until the kernel is in it. */
static inline void wait_gate(struct gate *g)
{
    while (!atomic_load(&g->arrived))
        pause_us(50);
}

static inline void open_gate(struct gate *g)
{
    atomic_store(&g->open, 1);
}

#endif
