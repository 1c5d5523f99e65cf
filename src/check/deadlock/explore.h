/* Decides whether a program can deadlock by exploring every timing. */
#ifndef WEIR_CHECK_DEADLOCK_EXPLORE_H
#define WEIR_CHECK_DEADLOCK_EXPLORE_H

#include "check/deadlock/space.h"

/* One step of a timing: a stream of a rank takes a step, or a rendezvous completes. */
struct weir__check_event {
    int rank, stream; /* rank -1: a rendezvous */
    int rendezvous;
    struct weir__slot *before, *after; /* of the rank; NULL for a rendezvous */
};

struct weir__trace {
    struct weir__check_event *events;
    int nevents, cap_events;
};
void weir__trace_fini(struct weir__trace *trace);

struct weir__exploration {
    enum { WEIR__SAFE, WEIR__DEADLOCKS, WEIR__TOO_LARGE } verdict;
    /* The deadlock, if one was found and the caller asked for a trace. */
    struct weir__trace trace;
    struct weir__deadlock deadlock;
};

/* Precondition: the program finishes if cores are unlimited (see weir__check_flow). `orders` is
 * indexed by rank. */
weir_status weir__explore(const struct weir__check_program *p,
                          const struct weir__check_order *orders, enum weir__policy policy,
                          struct weir__budget *budget, bool trace, struct weir__exploration *out);
void weir__exploration_fini(struct weir__exploration *x);

/* ---- replay.c ---- */

/* Finds the steps by which the rank gets to the state `ending`, with these rendezvous on the way.
 * segments[i] gets the events between the i-th rendezvous and the next, in order. */
weir_status weir__check_replay(struct weir__space *s, int rank, const int *rendezvous,
                               int nrendezvous, int ending, struct weir__trace *segments);

#endif
