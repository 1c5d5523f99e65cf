/* A program as the checker sees it: ranks with streams of operators that take cores.
 *
 * Graphs do not belong here. A rank lists its operators in program order. A stream runs its
 * operators in that order, and an operator also runs after each operator in its list `after`. The
 * k-th operator of a collective on a rank meets the k-th on every other rank, or on every other
 * rank of its group.
 */
#ifndef WEIR_CHECK_DEADLOCK_PROGRAM_H
#define WEIR_CHECK_DEADLOCK_PROGRAM_H

#include "base/base.h"

/* How an operator gets cores. */
enum weir__check_take {
    WEIR__TAKE_NONE,     /* needs no cores */
    WEIR__TAKE_ANY,      /* starts with one block's cores and takes more as they become free */
    WEIR__TAKE_TOGETHER, /* takes the cores of all blocks at once, or none */
    WEIR__TAKE_GANG,     /* needs all blocks; the policy says whether it holds cores meanwhile */
};

enum weir__policy { WEIR__POLICY_HOLD, WEIR__POLICY_BATCH, WEIR__POLICY_COUNT };

struct weir__check_op {
    char *name;
    int stream, position; /* where it runs, and its place there */
    enum weir__check_take take;
    int blocks;       /* that can run at once: its shape, its limit and the device bound them */
    int asked;        /* TOGETHER, GANG: blocks that must run at once; never starts if > `blocks` */
    int cube, vector; /* cores of one block */
    bool obeys;       /* core limits apply to it */
    int limit_cube, limit_vector; /* cores that one block counts as in a core limit */
    int rendezvous;               /* index into the program's; -1: none */
    void *meet; /* its offer to the other ranks, or NULL; used only by the maker of the program */
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
    bool split;       /* cube and vector cores are distinct; else all count as cube cores */
    struct weir__check_op *ops;
    int nops, cap_ops;
    struct weir__check_stream *streams;
    int nstreams, cap_streams;
};

/* The k-th calls, on all ranks, of one collective. */
struct weir__check_rendezvous {
    char *name;
    int k;       /* from 0 */
    int before;  /* the rendezvous k - 1; -1 if this is the first */
    int *op;     /* by rank: the operator that calls it, or -1 */
    int count;   /* ranks that call it */
    int needs;   /* ranks that must call it: all, unless weir__check_set_needs says otherwise */
    int pair[2]; /* the two ranks of a point-to-point call; -1 if they are not named */
};

struct weir__check_program {
    struct weir__check_rank *ranks;
    int nranks;
    struct weir__check_rendezvous *rendezvous;
    int nrendezvous, cap_rendezvous;
    int last_rendezvous; /* joined last; the search starts there, as ranks join in similar orders */
};

/* On failure these return a status or -1, with the error set. */
weir_status weir__check_program_init(struct weir__check_program *p, int nranks);
void weir__check_program_fini(struct weir__check_program *p);
int weir__check_add_stream(struct weir__check_rank *rank, const char *name, int priority);
/* Appends to the stream. `collective` may be NULL or "". */
int weir__check_add_op(struct weir__check_program *p, int rank, int stream, const char *name,
                       const char *collective);
/* Sets how many ranks must call the operator's rendezvous. If `needs` is 2, `from` and `to` may
 * name the two ranks; otherwise they are -1. */
void weir__check_set_needs(struct weir__check_program *p, int rank, int op, int needs, int from,
                           int to);
weir_status weir__check_add_after(struct weir__check_rank *rank, int op, int before);

/* True if both ranks run the same program on the same cores. */
bool weir__check_same_rank(const struct weir__check_program *p, int a, int b);

/* Returns the rank of an operator's global number, which is base[rank] + op. */
static inline int weir__check_rank_of(const int *base, int nranks, int number)
{
    int low = 0, high = nranks;

    while (high - low > 1) {
        int mid = low + (high - low) / 2;

        *(base[mid] <= number ? &low : &high) = mid;
    }
    return low;
}

/* True if the operator may hold cores while it waits: collectives do, and gangs under hold. */
static inline bool weir__check_holds(const struct weir__check_op *op, enum weir__policy policy)
{
    return op->take != WEIR__TAKE_NONE &&
           (op->rendezvous >= 0 || (op->take == WEIR__TAKE_GANG && policy == WEIR__POLICY_HOLD));
}

#endif
