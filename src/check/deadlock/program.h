/* A program as the checker sees it: ranks with streams of operators that take cores.
 *
 * It knows nothing of graphs. Operators are those of one rank in program order; on their
 * stream they run in that order, and each runs after those that it names. The k-th
 * operator of a collective on a rank meets the k-th on every other rank, or on every other rank of
 * its group.
 */
#ifndef WEIR_CHECK_DEADLOCK_PROGRAM_H
#define WEIR_CHECK_DEADLOCK_PROGRAM_H

#include "base/base.h"

/* How an operator gets cores. */
enum weir__check_take {
    WEIR__TAKE_NONE,     /* it needs none */
    WEIR__TAKE_ANY,      /* starts with one block's cores and takes more as they come free */
    WEIR__TAKE_TOGETHER, /* all blocks at once or none */
    WEIR__TAKE_GANG,     /* all blocks; whether it keeps what it got so far is the policy */
};

enum weir__policy { WEIR__POLICY_HOLD, WEIR__POLICY_BATCH, WEIR__POLICY_COUNT };

struct weir__check_op {
    char *name;
    int stream, position; /* where it runs, and its place there */
    enum weir__check_take take;
    int blocks;       /* that run at once: what its shape, its limit and the device allow */
    int asked;        /* what TOGETHER and GANG need at once: more than `blocks` never starts */
    int cube, vector; /* cores of one block */
    bool obeys;       /* a core limit reaches it */
    int limit_cube, limit_vector; /* what a block counts for in such a limit */
    int rendezvous;               /* index into the program's; -1: none */
    void *meet; /* what it says to those it meets, for who made it; NULL if that is not known */
    int *after; /* operators of the rank, in any order */
    int nafter, cap_after;
};

struct weir__check_stream {
    char *name;
    int priority; /* lower is more urgent */
    int *ops;
    int nops, cap_ops;
};

struct weir__check_rank {
    int cube, vector; /* cores */
    bool split;       /* the two are apart; else all are counted as cube cores */
    struct weir__check_op *ops;
    int nops, cap_ops;
    struct weir__check_stream *streams;
    int nstreams, cap_streams;
};

/* The k-th operators of one name. */
struct weir__check_rendezvous {
    char *name;
    int k;       /* from 0 */
    int before;  /* the rendezvous k - 1; -1 if this is the first */
    int *op;     /* by rank; -1 where there is none */
    int count;   /* ranks that have one */
    int needs;   /* ranks that it takes: all, unless it is said */
    int pair[2]; /* the two whom it takes; -1 if they are not named */
};

struct weir__check_program {
    struct weir__check_rank *ranks;
    int nranks;
    struct weir__check_rendezvous *rendezvous;
    int nrendezvous, cap_rendezvous;
    int last_rendezvous; /* joined: ranks mostly join them in the same order */
};

/* All return a status with the error set, or -1. */
weir_status weir__check_program_init(struct weir__check_program *p, int nranks);
void weir__check_program_fini(struct weir__check_program *p);
int weir__check_add_stream(struct weir__check_rank *rank, const char *name, int priority);
/* Appends to the stream. `collective` may be NULL or "". */
int weir__check_add_op(struct weir__check_program *p, int rank, int stream, const char *name,
                       const char *collective);
/* The rendezvous of that operator is of so many ranks; of these two, if `needs` is 2 and they are
 * named, else -1. */
void weir__check_set_needs(struct weir__check_program *p, int rank, int op, int needs, int from,
                           int to);
weir_status weir__check_add_after(struct weir__check_rank *rank, int op, int before);

/* The two ranks run the same program on the same cores. */
bool weir__check_same_rank(const struct weir__check_program *p, int a, int b);

/* Where operators of all ranks are numbered through, base[r] + op: the rank of one. */
static inline int weir__check_rank_of(const int *base, int nranks, int number)
{
    int low = 0, high = nranks;

    while (high - low > 1) {
        int mid = low + (high - low) / 2;

        *(base[mid] <= number ? &low : &high) = mid;
    }
    return low;
}

/* While it waits the operator may keep cores: a collective does, and a gang under hold. */
static inline bool weir__check_holds(const struct weir__check_op *op, enum weir__policy policy)
{
    return op->take != WEIR__TAKE_NONE &&
           (op->rendezvous >= 0 || (op->take == WEIR__TAKE_GANG && policy == WEIR__POLICY_HOLD));
}

#endif
