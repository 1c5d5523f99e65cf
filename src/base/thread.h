/* Threads of the library. */
#ifndef WEIR_BASE_THREAD_H
#define WEIR_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that takes none of the signals meant for the program; only those that its
 * own instructions raise, and profilers' ticks, reach it. False if the system has no thread
 * to give. */
bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
