/* The thread that checks for late ranks. It checks LOOKS_PER_TIMEOUT times per timeout, so arriving
 * needs no system call, and an error is late by at most an eighth of the timeout. */
#include "base/thread.h"
#include "comm/comm.h"

enum { LOOKS_PER_TIMEOUT = 8 };

/* Logs the whole report, and adds the cycle to the error. */
static void expire(weir_group *g)
{
    struct weir__text report = {0}, cycle = {0};
    weir_device *devs[WEIR_MAX_RANKS];

    for (int i = 0; i < g->nranks; i++)
        devs[i] = g->ranks[i].dev;
    if (g->explain)
        g->explain(devs, g->nranks, &report, &cycle);
    if (report.data)
        weir__log(WEIR_LOG_WARN, "group '%s' timed out:%s", g->name, report.data);
    weir__local_expire(g, weir__clock_ns(), cycle.data);
    weir__text_free(&report);
    weir__text_free(&cycle);
}

static void *timer_main(void *arg)
{
    weir_group *g = arg;
    int64_t pause = g->timeout_ns / LOOKS_PER_TIMEOUT + 1;

    while (!atomic_load(&g->stop)) {
        weir__futex_wait(&g->stop, 0, pause);
        if (weir__local_overdue(g, weir__clock_ns()))
            expire(g);
    }
    return NULL;
}

weir_status weir__timer_start(weir_group *g)
{
    if (g->timeout_ns < 0)
        return WEIR_OK;
    if (!weir__thread_start(&g->timer, timer_main, g))
        return weir__fail(WEIR_EUNAVAILABLE, "cannot start a thread for the timeouts of group '%s'",
                          g->name);
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
