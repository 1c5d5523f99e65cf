/* Describes a deadlock in words: the steps that lead to it, and the cycle of waits. */
#ifndef WEIR_CHECK_DEADLOCK_STORY_H
#define WEIR_CHECK_DEADLOCK_STORY_H

#include "check/deadlock/explore.h"
#include "check/deadlock/report.h"

/* One wait of the cycle: `op` of `rank` waits for the next entry. */
struct weir__check_wait {
    int rank, op;
    enum { WEIR__WAIT_AFTER, WEIR__WAIT_BEHIND, WEIR__WAIT_CORES, WEIR__WAIT_RENDEZVOUS } why;
};

struct weir__cycle {
    struct weir__check_wait *waits;
    int n;
};

/* Finds a shortest cycle of waits in the deadlock. out->n is 0 if there is none: then a stream
 * waits for an operator that does not exist. */
weir_status weir__deadlock_cycle(const struct weir__check_program *p,
                                 const struct weir__deadlock *deadlock, struct weir__cycle *out);
void weir__describe_cycle(struct weir__report *r, const struct weir__check_program *p,
                          const struct weir__deadlock *deadlock, const struct weir__cycle *cycle,
                          struct weir__lines *lines);
/* Describes the steps of the ranks with told[rank]; of all ranks if `told` is NULL. */
void weir__describe_trace(struct weir__report *r, const struct weir__check_program *p,
                          const struct weir__trace *trace, const bool *told,
                          struct weir__lines *lines);

/* Returns the stream's first unfinished operator, or -1. */
static inline int weir__deadlock_head_op(const struct weir__check_program *p,
                                         const struct weir__deadlock *deadlock, int rank,
                                         int stream)
{
    const struct weir__check_stream *s = &p->ranks[rank].streams[stream];
    int position = deadlock->heads[deadlock->first[rank] + stream].position;

    return position < s->nops ? s->ops[position] : -1;
}

/* True if the operator has started, or waits for nothing but cores. */
bool weir__deadlock_is_ready(const struct weir__check_program *p,
                             const struct weir__deadlock *deadlock, int rank, int op);

#endif
