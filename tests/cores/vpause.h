/* Included before every source of the `cpu` device that runs on the virtual machine (machine.h). */
#ifndef TESTS_CORES_VPAUSE_H
#define TESTS_CORES_VPAUSE_H

#include <pthread.h>
#include <time.h>

void machine_pause(void);
int machine_gettime(clockid_t clock, struct timespec *t);
int machine_join(pthread_t thread, void **result);

#define __builtin_ia32_pause machine_pause
#define pthread_join machine_join
#define clock_gettime machine_gettime

#endif
