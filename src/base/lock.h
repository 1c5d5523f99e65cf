/* Locks and parking, on C11 atomics and futexes.
 *
 * struct weir__mutex spins a little, then sleeps. For short critical sections; waiters must not
 * spin for long if the holder is descheduled. struct weir__light_mutex has an unlock that is a
 * plain store. For a lock that every call takes. struct weir__spin only spins. For critical
 * sections of a few instructions. Lock order of the library, outermost first: device lock or, for a
 * launch, the lock of its stream (device/device.h), stream waiter lock (soft/soft.h), scheduler
 * lock (soft/sched.h).
 */
#ifndef WEIR_BASE_LOCK_H
#define WEIR_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline void weir__relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while *word == expected, for at most timeout_ns (negative: no limit).
 * May wake spuriously. */
void weir__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
/* Wakes at most `count` sleepers on `word`. */
void weir__futex_wake(_Atomic uint32_t *word, int count);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t weir__clock_ns(void);
void weir__yield(void);

enum { WEIR__MUTEX_WANTED = 2 };
struct weir__mutex {
    _Atomic uint32_t state; /* 0 free, 1 held, WEIR__MUTEX_WANTED held and a thread may sleep */
};

void weir__mutex_lock_slow(struct weir__mutex *m);

static inline bool weir__mutex_try(struct weir__mutex *m)
{
    uint32_t is_free = 0;

    return atomic_compare_exchange_strong_explicit(&m->state, &is_free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void weir__mutex_lock(struct weir__mutex *m)
{
    if (!weir__mutex_try(m))
        weir__mutex_lock_slow(m);
}

static inline void weir__mutex_unlock(struct weir__mutex *m)
{
    if (atomic_exchange_explicit(&m->state, 0, memory_order_release) == 2)
        weir__futex_wake(&m->state, 1);
}

/* Unlocking stores `state`, then reads `wanted`, with no fence between the two. A thread that goes
 * to sleep stores `wanted`, executes a fence on every running thread of the process (membarrier),
 * then reads `state` again. So the sleeper sees that the lock is free, or the unlocking thread sees
 * `wanted`. tests/model/light_mutex.pml is the model. The memory must outlive the unlock. */
struct weir__light_mutex {
    _Atomic uint32_t state;  /* 0 free, 1 held */
    _Atomic uint32_t wanted; /* WEIR__MUTEX_WANTED: a thread sleeps or is about to; else 0 */
};

void weir__light_lock_slow(struct weir__light_mutex *m);
void weir__light_wake(struct weir__light_mutex *m);

static inline bool weir__light_try(struct weir__light_mutex *m)
{
    uint32_t is_free = 0;

    return atomic_compare_exchange_strong_explicit(&m->state, &is_free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void weir__light_lock(struct weir__light_mutex *m)
{
    if (!weir__light_try(m))
        weir__light_lock_slow(m);
}

static inline void weir__light_unlock(struct weir__light_mutex *m)
{
    atomic_store_explicit(&m->state, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* keeps the compiler from reordering */
    if (atomic_load_explicit(&m->wanted, memory_order_relaxed))
        weir__light_wake(m);
}

struct weir__spin {
    _Atomic bool held;
};

static inline void weir__spin_lock(struct weir__spin *s)
{
    for (unsigned spins = 0; atomic_exchange(&s->held, true);)
        while (atomic_load_explicit(&s->held, memory_order_relaxed))
            if (++spins & 63)
                weir__relax();
            else
                weir__yield(); /* the holder may be descheduled */
}

static inline void weir__spin_unlock(struct weir__spin *s)
{
    atomic_store_explicit(&s->held, false, memory_order_release);
}

#endif
