/* Reconstructs the steps that lead to the end of a search. */
#include "check/deadlock/explore.h"

#include <string.h>

/* The states that a walk visited between two rendezvous. */
struct segment {
    int *states, *came; /* came: the predecessor's index in `states`; for a seed, -1 minus its
                         * predecessor's index in the segment before */
    int n;
};

static weir_status keep(struct segment *seg, const struct weir__space *s, int n, int *came)
{
    if (!(seg->states = weir__calloc((size_t)n, sizeof *seg->states))) {
        weir__free(came);
        return weir__fail_nomem("allocating the steps to a deadlock");
    }
    memcpy(seg->states, s->queue, (size_t)n * sizeof *seg->states);
    seg->came = came;
    seg->n = n;
    return WEIR_OK;
}

/* Walks from the states after the rendezvous, or from the start if `before` is NULL. */
static weir_status walk_segment(struct weir__space *s, const struct segment *before, int rendezvous,
                                struct segment *seg)
{
    int *seeds, *origin, *came = NULL, cap = 0, n = 0, found = -1;
    int stamp = ++s->walks; /* marks the seeds, so that each is added once */
    size_t most = before ? (size_t)before->n : 1;
    weir_status st = WEIR_ENOMEM;

    seeds = weir__calloc(most, sizeof *seeds);
    origin = weir__calloc(most, sizeof *origin);
    if (!seeds || !origin)
        weir__fail_nomem("allocating the steps to a deadlock");
    else if (!before)
        n = (seeds[0] = weir__space_first(s)) >= 0;
    for (int i = 0; seeds && origin && before && i < before->n; i++) {
        int to;

        if (!weir__space_waits_for(s, before->states[i], rendezvous))
            continue;
        if ((to = weir__space_after(s, before->states[i], rendezvous)) < 0)
            break;
        if (s->info[to].visited == stamp)
            continue;
        s->info[to].visited = stamp;
        seeds[n] = to;
        origin[n++] = i;
    }
    if (n)
        found = weir__space_walk(s, seeds, n, &came, &cap);
    if (found >= 0 && !(st = keep(seg, s, found, came)))
        for (int i = 0; i < n; i++)
            seg->came[i] = -1 - origin[i];
    else if (found < 0)
        weir__free(came);
    weir__free(seeds);
    weir__free(origin);
    return st;
}

static weir_status add_event(struct weir__trace *t, const struct weir__space *s, int rank, int from,
                             int to)
{
    int nstreams = s->machine.rank->nstreams;
    const struct weir__state_info *info = &s->info[from];
    struct weir__check_event e = {.rank = rank, .rendezvous = -1};

    for (int i = 0; i < info->nsucc; i++)
        if (s->succ[info->succ + i].state == to)
            e.stream = s->succ[info->succ + i].stream;
    e.before = weir__calloc(2 * (size_t)nstreams, sizeof *e.before);
    if (!e.before || !weir__grow(&t->events, t->nevents, &t->cap_events, sizeof *t->events)) {
        weir__free(e.before);
        return weir__fail_nomem("allocating the steps to a deadlock");
    }
    e.after = e.before + nstreams;
    memcpy(e.before, weir__space_slots(s, from), (size_t)nstreams * sizeof *e.before);
    memcpy(e.after, weir__space_slots(s, to), (size_t)nstreams * sizeof *e.after);
    t->events[t->nevents++] = e;
    return WEIR_OK;
}

static void reverse(struct weir__trace *t)
{
    for (int i = 0, j = t->nevents - 1; i < j; i++, j--) {
        struct weir__check_event e = t->events[i];

        t->events[i] = t->events[j];
        t->events[j] = e;
    }
}

weir_status weir__check_replay(struct weir__space *s, int rank, const int *rendezvous,
                               int nrendezvous, int ending, struct weir__trace *segments)
{
    struct weir__budget plenty = weir__budget_of(SIZE_MAX, SIZE_MAX, "how it comes to it");
    struct weir__budget *budget = s->budget;
    struct segment *segs = weir__calloc((size_t)nrendezvous + 1, sizeof *segs);
    weir_status st = segs ? WEIR_OK : weir__fail_nomem("allocating the steps to a deadlock");
    int at = 0;

    s->budget = &plenty; /* the search visited all these states within its budget */
    for (int i = 0; i <= nrendezvous && !st; i++)
        st = walk_segment(s, i ? &segs[i - 1] : NULL, i ? rendezvous[i - 1] : -1, &segs[i]);
    while (!st && segs[nrendezvous].states[at] != ending)
        at++;
    for (int i = nrendezvous; i >= 0 && !st; i--) {
        for (; segs[i].came[at] >= 0 && !st; at = segs[i].came[at])
            st = add_event(&segments[i], s, rank, segs[i].states[segs[i].came[at]],
                           segs[i].states[at]);
        reverse(&segments[i]);
        if (!st)
            at = -1 - segs[i].came[at];
    }
    s->budget = budget;
    for (int i = 0; segs && i <= nrendezvous; i++) {
        weir__free(segs[i].states);
        weir__free(segs[i].came);
    }
    weir__free(segs);
    return st;
}
