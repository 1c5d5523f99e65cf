/* Threads of the library. */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* Starts a thread with all signals blocked, except those that its own instructions raise and those
 * of profilers. False if the system cannot start a thread. */
bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Gets the CPUs on which the thread may run; false on failure. */
bool weir__thread_cpus(pthread_t thread, cpu_set_t *cpus);
/* Returns the CPU on which the calling thread runs; negative on failure. */
int weir__thread_cpu(void);
/* Sets the CPUs on which the thread may run, and moves it if it waits for another CPU. If the
 * system refuses, nothing changes. */
void weir__thread_bind(pthread_t thread, const cpu_set_t *cpus);

#endif
