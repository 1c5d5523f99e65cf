/* Calls of the host. In most profiles, a call that makes a stream wait for an event names neither
 * the stream nor the event. But calls are numbered in ascending order, and an operator has the
 * number of the call that launched it. So the next operator that the call's thread launched is
 * taken to have waited, for operators launched before the call. A synchronising call orders
 * everything launched before it before everything that its thread launches after it. */
#include <stdlib.h>
#include <string.h>

#include "trace/read/import.h"

struct launched {
    uint64_t id;
    int span;
};

static int compare_calls(const void *x, const void *y)
{
    const struct weir__import_call *a = x, *b = y;

    return (a->id > b->id) - (a->id < b->id);
}

static int compare_launched(const void *x, const void *y)
{
    const struct launched *a = x, *b = y;

    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->span > b->span) - (a->span < b->span);
}

/* A thread's last wait that no launch has used yet, and its last synchronisation. */
struct pending {
    uint64_t wait, sync;
};

static void walk(struct weir__import *im, const struct launched *launched, int nlaunched,
                 struct pending *by_track, bool told)
{
    int at = 0;

    for (int i = 0; i < im->ncalls; i++) {
        const struct weir__import_call *c = &im->calls[i];
        struct pending *p = &by_track[c->track];

        if (c->kind == WEIR__CALL_WAIT)
            p->wait = c->id;
        else if (c->kind == WEIR__CALL_SYNC)
            p->sync = c->id;
        while (at < nlaunched && launched[at].id < c->id)
            at++;
        for (; at < nlaunched && launched[at].id == c->id; at++) {
            struct weir__import_span *s = &im->spans[launched[at].span];

            s->synced = p->sync;
            s->waits = p->wait && !told;
            s->before = p->wait;
            p->wait = 0;
        }
    }
}

weir_status weir__import_calls(struct weir__import *im, int n)
{
    struct launched *launched;
    struct pending *by_track;
    bool told = false; /* the profile contains the device's own waits */
    int nlaunched = 0;

    if (!im->ncalls)
        return WEIR_OK;
    launched = weir__calloc((size_t)n + 1, sizeof *launched);
    by_track = weir__calloc((size_t)im->ntracks + 1, sizeof *by_track);
    if (launched && by_track) {
        for (int i = 0; i < n; i++) {
            told |= im->spans[i].kind == WEIR__SPAN_WAIT;
            if (im->spans[i].kind == WEIR__SPAN_WORK && im->spans[i].launch)
                launched[nlaunched++] = (struct launched){im->spans[i].launch, i};
        }
        qsort(launched, (size_t)nlaunched, sizeof *launched, compare_launched);
        qsort(im->calls, (size_t)im->ncalls, sizeof *im->calls, compare_calls);
        walk(im, launched, nlaunched, by_track, told);
    }
    weir__free(launched);
    weir__free(by_track);
    return launched && by_track
               ? WEIR_OK
               : weir__fail_nomem("allocating the %d calls of a trace", im->ncalls);
}
