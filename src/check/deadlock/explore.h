/* Whether a program can deadlock, by exploring every timing. */
#ifndef WEIR_CHECK_DEADLOCK_EXPLORE_H
#define WEIR_CHECK_DEADLOCK_EXPLORE_H

#include "check/deadlock/space.h"

/* One step of a timing: a stream of a rank moves on, or a rendezvous takes place. */
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
    /* Where it deadlocks, if it does and a trace was asked for. */
    struct weir__trace trace;
    struct weir__deadlock deadlock;
};

/* `orders` by rank. The program runs to its end without cores: weir__check_flow. */
weir_status weir__explore(const struct weir__check_program *p,
                          const struct weir__check_order *orders, enum weir__policy policy,
                          struct weir__budget *budget, bool trace, struct weir__exploration *out);
void weir__exploration_fini(struct weir__exploration *x);

/* ---- replay.c ---- */

/* Finds how the rank gets to a state that comes to rest as `ending` does, with these
 * rendezvous on the way. segments[i] gets the events after i rendezvous, in order. */
weir_status weir__check_replay(struct weir__space *s, int rank, const int *rendezvous,
                               int nrendezvous, int ending, struct weir__trace *segments);

#endif
