/* The thread that looks for late ranks. It looks a few times per timeout, so that arriving
 * costs no system call, and an error is late by an eighth of it at most. */
#include "comm/comm.h"

enum { LOOKS_PER_TIMEOUT = 8 };

static void *timer_main(void *arg)
{
    weir_group *g = arg;
    int64_t pause = g->timeout_ns / LOOKS_PER_TIMEOUT + 1;

    while (!atomic_load(&g->stop)) {
        weir__futex_wait(&g->stop, 0, pause);
        weir__local_expire(g, weir__clock_ns());
    }
    return NULL;
}

weir_status weir__timer_start(weir_group *g)
{
    if (g->timeout_ns < 0)
        return WEIR_OK;
    if (pthread_create(&g->timer, NULL, timer_main, g))
        return weir__fail(WEIR_EUNAVAILABLE,
                          "the system gave no thread for the timeouts of group '%s'", g->name);
    g->timed = true;
    return WEIR_OK;
}

void weir__timer_stop(weir_group *g)
{
    if (!g->timed)
        return;
    atomic_store(&g->stop, 1);
    weir__futex_wake(&g->stop, 1);
    pthread_join(g->timer, NULL);
}
