/* Finds which operators can run if cores are unlimited, and which of them are ordered. */
#ifndef WEIR_CHECK_DEADLOCK_FLOW_H
#define WEIR_CHECK_DEADLOCK_FLOW_H

#include "check/deadlock/program.h"

/* How far every stream has run. The streams of rank r are heads[first[r] .. first[r+1]-1]. */
struct weir__deadlock {
    int *first; /* nranks + 1 */
    struct weir__deadlock_head {
        int position;     /* of its first unfinished operator; nops at the end */
        bool started;     /* that operator has all it needs and waits for the other ranks */
        int cube, vector; /* cores it holds */
    } * heads;
};

weir_status weir__deadlock_init(struct weir__deadlock *deadlock,
                                const struct weir__check_program *p);
void weir__deadlock_fini(struct weir__deadlock *deadlock);

/* Runs every operator that can run, as if cores were unlimited. The outcome does not depend on
 * the timing. Sets *over if all streams finished; `deadlock` gets where streams stopped. order[r]
 * lists the operators of rank r in the order they finished, which is a topological order. All
 * lists are one allocation: free them by weir__free(order[0]). */
weir_status weir__check_flow(const struct weir__check_program *p, struct weir__deadlock *deadlock,
                             int **order, bool *over);

/* ---- order.c: which operators can overlap ---- */

struct weir__check_order {
    int nstreams;
    int *clock; /* by operator, then stream: operators of the stream at lower positions finish
                 * before the operator starts. NULL if the table would be too large: then
                 * operators of different streams count as unordered */
};

weir_status weir__check_order_init(struct weir__check_order *o, const struct weir__check_rank *rank,
                                   const int *order);
void weir__check_order_fini(struct weir__check_order *o);

/* True if the two may overlap: neither is ordered before the other. */
static inline bool weir__check_beside(const struct weir__check_order *o,
                                      const struct weir__check_rank *rank, int a, int b)
{
    const struct weir__check_op *x = &rank->ops[a], *y = &rank->ops[b];

    if (x->stream == y->stream)
        return false;
    return !o->clock ||
           (o->clock[(size_t)a * (size_t)o->nstreams + (size_t)y->stream] <= y->position &&
            o->clock[(size_t)b * (size_t)o->nstreams + (size_t)x->stream] <= x->position);
}

/* Cores that the operator can make others wait for, or must wait for itself. */
struct weir__demand {
    int cube, vector;
};
struct weir__demand weir__check_demand(const struct weir__check_op *op);

/* Whether each kind of core can be short for ever: operators that may overlap demand more cores
 * than exist, and some of them may hold cores while they wait. If a kind is not contended, no
 * operator waits for such a core for ever. */
struct weir__contended {
    bool cube, vector;
};
struct weir__contended weir__check_contended(const struct weir__check_rank *rank,
                                             const struct weir__check_order *order,
                                             enum weir__policy policy);

#endif
