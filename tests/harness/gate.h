/* A gate: a kernel that holds its core until the case opens the gate. Cases hold gates where they
 * would otherwise sleep and hope. */
#ifndef TESTS_HARNESS_GATE_H
#define TESTS_HARNESS_GATE_H

#include <stdatomic.h>
#include <time.h>

#include "weir/launch.h"

static inline void pause_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

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

static inline void open_gate(struct gate *g)
{
    atomic_store(&g->open, 1);
}

#endif
