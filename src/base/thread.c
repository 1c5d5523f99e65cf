#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

bool weir__thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked, before;
    bool started;

    /* A new thread has the mask of the one that makes it. */
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(&blocked, kept[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    started = !pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
