/* The states of one rank, and sets of them: the states the rank can be in after given rendezvous.
 *
 * Ranks interact only at rendezvous. Once the sequence of completed rendezvous is fixed, the state
 * of one rank does not depend on the states of the others: the states of the whole program are all
 * combinations of the ranks' states. The checker does not visit the combinations; it keeps one set
 * of states per rank. So the cost grows with the number of ranks only linearly, and ranks that run
 * the same program share one space.
 */
#ifndef WEIR_CHECK_DEADLOCK_SPACE_H
#define WEIR_CHECK_DEADLOCK_SPACE_H

#include "check/deadlock/machine.h"

/* How much work the search may still do. */
struct weir__budget {
    size_t states;                /* new states that may still be added */
    size_t steps;                 /* visits of states that may still be made */
    size_t all_states, all_steps; /* the same at the start */
    const char *doing;            /* for weir__progress_report */
    bool spent;
};
static inline struct weir__budget weir__budget_of(size_t states, size_t steps, const char *doing)
{
    return (struct weir__budget){
        .states = states, .steps = steps, .all_states = states, .all_steps = steps, .doing = doing};
}

/* A hash table of numbers. The caller owns what the numbers index. */
struct weir__index {
    uint32_t *slots; /* number + 1; 0 is empty */
    size_t mask;
    int n;
};

struct weir__space {
    const struct weir__check_program *p;
    int rank; /* a representative of the ranks that share this space */
    struct weir__machine machine;
    struct weir__budget *budget;

    unsigned char *states; /* nstreams slots each */
    int nstates, cap_states;
    struct weir__state_info {
        int succ, nsucc; /* nsucc -1: not expanded yet */
        int pend, npend; /* rendezvous that the rank waits for in this state */
        int visited;     /* number of the last walk that visited the state */
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
        int endings, nendings; /* states without successors, one per kind of ending */
    } * sets;
    int nsets, cap_sets;
    int *members;
    int nmembers, cap_members;
    /* A state without successors. Those that wait for the same rendezvous are kept once. */
    struct weir__ending {
        int state;
        bool finished;
    } * endings;
    int nendings, cap_endings;
    struct weir__index by_set;

    struct weir__space_step { /* the rendezvous leads from sets[from] to sets[to] */
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

/* On failure all of these return -1, with the error set or with the budget marked as spent. */

/* Returns the set of states that are reachable from the start without a rendezvous. */
int weir__space_begin(struct weir__space *s);
/* Returns the set of states after the rendezvous, starting from the states of `set` that wait for
 * it. The set may be empty. */
int weir__space_meet(struct weir__space *s, int set, int rendezvous);

/* Collects in s->queue the states that are reachable from the seeds without a rendezvous, seeds
 * first, and returns how many there are. If `came` is given, came[i] is the place in the queue of
 * the state from which the i-th state was first reached, -1 for a seed. */
int weir__space_walk(struct weir__space *s, const int *seeds, int nseeds, int **came,
                     int *cap_came);
/* Returns the state that the rendezvous leads to. */
int weir__space_after(struct weir__space *s, int state, int rendezvous);
/* Returns the initial state. */
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
