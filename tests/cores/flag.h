/* A flag that one operator sets and a callback waits for. */
#ifndef TESTS_CORES_FLAG_H
#define TESTS_CORES_FLAG_H

#include "cores/machine.h"
#include "weir/weir.h"

/* A kernel; its argument is the flag's address. */
static inline weir_status set_flag(const void *args, const weir_block *block)
{
    (void)block;
    **(bool *const *)args = true;
    return WEIR_OK;
}

/* A callback that computes until then. */
static inline void wait_for_flag(void *user, weir_status status)
{
    (void)status;
    while (!*(const volatile bool *)user)
        machine_work(1000);
}

#endif
