/* The states of one rank, and sets of them: where the rank can be after given rendezvous.
 *
 * Ranks touch each other at rendezvous only. So once it is known which rendezvous took place,
 * and in which order, where one rank can be does not depend on where the others are: the
 * states of the whole program are all combinations. Instead of visiting them, the set of
 * each rank's own is kept. That is what makes many ranks no harder than one, and ranks
 * that run the same program share one space.
 */
#ifndef WEIR_CHECK_DEADLOCK_SPACE_H
#define WEIR_CHECK_DEADLOCK_SPACE_H

#include "check/deadlock/machine.h"

/* How much may still be looked at. */
struct weir__budget {
    size_t states; /* new ones */
    size_t steps;  /* visits */
    size_t all_states, all_steps;
    const char *doing; /* for weir__progress_report */
    bool spent;
};
static inline struct weir__budget weir__budget_of(size_t states, size_t steps, const char *doing)
{
    return (struct weir__budget){
        .states = states, .steps = steps, .all_states = states, .all_steps = steps, .doing = doing};
}

/* A table of numbers by hash, which owns nothing else. */
struct weir__index {
    uint32_t *slots; /* number + 1; 0 is empty */
    size_t mask;
    int n;
};

struct weir__space {
    const struct weir__check_program *p;
    int rank; /* one of those that it stands for */
    struct weir__machine machine;
    struct weir__budget *budget;

    unsigned char *states; /* nstreams slots each */
    int nstates, cap_states;
    struct weir__state_info {
        int succ, nsucc; /* nsucc -1: not looked at yet */
        int pend, npend; /* rendezvous it waits for */
        int visited;     /* by the last walk that came here */
    } * info;
    int cap_info;
    struct weir__succ {
        int state, stream;
    } * succ;
    int nsucc, cap_succ;
    int *pend;
    int npend, cap_pend;
    struct weir__index by_state;
    int walks;

    struct weir__set {
        int first, n;          /* states, ascending */
        int endings, nendings; /* ways to come to rest */
    } * sets;
    int nsets, cap_sets;
    int *members;
    int nmembers, cap_members;
    /* A way to come to rest: what such states wait for. Each is there once. */
    struct weir__ending {
        int state;
        bool finished;
    } * endings;
    int nendings, cap_endings;
    struct weir__index by_set;

    struct weir__space_step { /* sets[to] is where sets[from] gets by the rendezvous */
        int from, rendezvous, to;
    } * steps;
    int nsteps, cap_steps;
    struct weir__index by_step;

    int *queue; /* of walks */
    int cap_queue;
};

/* *fits: see weir__machine_init. */
weir_status weir__space_init(struct weir__space *s, const struct weir__check_program *p, int rank,
                             const struct weir__check_order *order, enum weir__policy policy,
                             struct weir__budget *budget, bool *fits);
void weir__space_fini(struct weir__space *s);

/* All below return -1 with the error set, or with the budget spent. */

/* The set of what can be reached from the start without a rendezvous. */
int weir__space_begin(struct weir__space *s);
/* The set after the rendezvous, from those states of `set` that wait for it; it may be empty. */
int weir__space_meet(struct weir__space *s, int set, int rendezvous);

/* A walk: the states that can be reached from the seeds without a rendezvous, seeds first,
 * into s->queue; came[i], if given, says from which place of the queue the i-th was
 * reached first, -1 for a seed. Returns how many. */
int weir__space_walk(struct weir__space *s, const int *seeds, int nseeds, int **came,
                     int *cap_came);
/* The state that the rendezvous leads to. */
int weir__space_after(struct weir__space *s, int state, int rendezvous);
/* The first state. */
int weir__space_first(struct weir__space *s);

static inline const struct weir__slot *weir__space_slots(const struct weir__space *s, int state)
{
    return (const void *)(s->states + (size_t)state * (size_t)s->machine.rank->nstreams *
                                          sizeof(struct weir__slot));
}

static inline bool weir__space_waits_for(const struct weir__space *s, int state, int rendezvous)
{
    for (int i = 0; i < s->info[state].npend; i++)
        if (s->pend[s->info[state].pend + i] == rendezvous)
            return true;
    return false;
}

#endif
