#define _GNU_SOURCE
#include "base/lock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void weir__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec left = {timeout_ns / 1000000000, timeout_ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &left, NULL, 0);
}

void weir__futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

uint64_t weir__clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void weir__yield(void)
{
    sched_yield();
}

void weir__mutex_lock_slow(struct weir__mutex *m)
{
    for (int i = 0; i < 100; i++) {
        weir__relax();
        if (atomic_load_explicit(&m->state, memory_order_relaxed) == 0 && weir__mutex_try(m))
            return;
    }
    /* From here on the lock is taken as "somebody sleeps": the unlock wakes. */
    while (atomic_exchange_explicit(&m->state, 2, memory_order_acquire) != 0)
        weir__futex_wait(&m->state, 2, -1);
}
