/* Host kernels that a case steers; only where need_gates holds. */
#ifndef TESTS_CONFORMANCE_DEVICE_GATES_H
#define TESTS_CONFORMANCE_DEVICE_GATES_H

#include "conformance/conformance.h"
#include "harness/gate.h"

#include <stdatomic.h>
#include <time.h>

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

#endif
