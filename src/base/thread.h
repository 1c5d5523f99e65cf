/* Threads of the library. */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* Starts a thread that takes none of the signals meant for the program; only those that its
 * own instructions raise, and profilers' ticks, reach it. False if the system has no thread
 * to give. */
bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* The CPUs that the thread may run on; false if the system does not say. */
bool weir__thread_cpus(pthread_t thread, cpu_set_t *cpus);
/* The one that the calling thread runs on; negative if the system does not say. */
int weir__thread_cpu(void);
/* Lets the thread run there alone. If it waits for another CPU, it is moved. The system may refuse:
 * then the thread stays where it is. */
void weir__thread_bind(pthread_t thread, const cpu_set_t *cpus);

#endif
