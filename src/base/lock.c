#define _GNU_SOURCE
#include "base/lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
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
    /* From here on take the lock with state 2, because other threads may sleep: the unlock
     * wakes. */
    while (atomic_exchange_explicit(&m->state, 2, memory_order_acquire) != 0)
        weir__futex_wait(&m->state, 2, -1);
}

/* Executes a fence on every running thread of the process. False if the system cannot do that. */
static bool fence_everybody(void)
{
    static _Atomic int known; /* 0: not asked yet; 1: it can; 2: it cannot */
    int can = atomic_load_explicit(&known, memory_order_relaxed);

    if (!can) {
        can = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ? 2 : 1;
        atomic_store_explicit(&known, can, memory_order_relaxed);
    }
    return can == 1 && !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void weir__light_lock_slow(struct weir__light_mutex *m)
{
    const int64_t look_ns = 1000000; /* without fences a wake may be missed: check again */

    for (int i = 0; i < 100; i++) {
        weir__relax();
        if (atomic_load_explicit(&m->state, memory_order_relaxed) == 0 && weir__light_try(m))
            return;
    }
    for (;;) {
        bool fenced;

        atomic_store(&m->wanted, WEIR__MUTEX_WANTED);
        fenced = fence_everybody();
        if (weir__light_try(m))
            return; /* `wanted` stays set: at worst the unlock wakes no thread */
        weir__futex_wait(&m->wanted, WEIR__MUTEX_WANTED, fenced ? -1 : look_ns);
        if (weir__light_try(m))
            break;
    }
    /* An unlock wakes one thread: others may still sleep. */
    atomic_store_explicit(&m->wanted, WEIR__MUTEX_WANTED, memory_order_relaxed);
}

void weir__light_wake(struct weir__light_mutex *m)
{
    atomic_store(&m->wanted, 0);
    weir__futex_wake(&m->wanted, 1);
}
