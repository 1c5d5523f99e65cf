#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked, before;
    bool started;

    /* A new thread inherits the signal mask of its creator. */
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(&blocked, kept[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    started = !pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool weir__thread_cpus(pthread_t thread, cpu_set_t *cpus)
{
    return !pthread_getaffinity_np(thread, sizeof *cpus, cpus);
}

int weir__thread_cpu(void)
{
    return sched_getcpu();
}

void weir__thread_bind(pthread_t thread, const cpu_set_t *cpus)
{
    (void)pthread_setaffinity_np(thread, sizeof *cpus, cpus);
}
