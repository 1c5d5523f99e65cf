/* One rank of a program as a machine that moves from state to state.
 *
 * The rules hold for any timing and are those of sim/sim.h. An operator *arrives* at any time
 * after its predecessors have finished. Operators that want cores are served in the order
 * (priority, arrival) whenever cores become free: ANY takes free cores for as many of its blocks
 * as fit; TOGETHER takes all its cores or none; GANG takes the free cores of each kind under hold,
 * and behaves like TOGETHER under batch. ANY has started when it has the cores of one block, the
 * others when they have all their cores. A block of ANY that ends frees its cores; while more
 * blocks must start, the operator keeps its place in the order and competes for those cores again.
 * The other kinds free all cores at their end. A collective that has started waits for its
 * rendezvous, and then runs like any other operator. A running operator ends at any time. The
 * machine does not count how many blocks are left to start: it may be any number.
 *
 * Coarse steps suffice for most programs. The conditions: all streams whose operators can make
 * others wait have one priority, and a block of every operator takes the same cores. Then an
 * operator that waits for no other rank can run in zero time, and an operator that would wait
 * without holding a core can arrive later instead. Freed cores go to the oldest waiter until it has
 * all its cores, so two operators never share free cores, and the order in which the others'
 * blocks end does not matter. Otherwise steps are fine: the end of each block is a step.
 * tests/check compares both kinds of steps with an enumeration of all timings.
 */
#ifndef WEIR_CHECK_DEADLOCK_MACHINE_H
#define WEIR_CHECK_DEADLOCK_MACHINE_H

#include "check/deadlock/flow.h"

enum weir__slot_status {
    WEIR__SLOT_IDLE,  /* the operator has not arrived */
    WEIR__SLOT_WAIT,  /* it wants cores before it can start */
    WEIR__SLOT_MEET,  /* it has started and waits for the other ranks */
    WEIR__SLOT_RUN,   /* it runs; if it is ANY, it has blocks left to start */
    WEIR__SLOT_DRAIN, /* ANY only: it runs, and all its blocks have started */
};

/* A state is one slot per stream. */
struct weir__slot {
    uint16_t position;
    uint16_t cube, vector; /* cores it holds */
    uint8_t status;
    uint8_t order; /* of arrival among operators that want cores, from 1; 0 if it wants none */
};

struct weir__machine {
    const struct weir__check_rank *rank;
    enum weir__policy policy;
    struct weir__contended contended;
    bool fine;
    struct weir__slot_op { /* operators, without the kinds of cores that are never short */
        uint8_t take;
        bool waves; /* more blocks than can run at once */
        int blocks, cube, vector;
    } * ops;
};

/* Sets *fits to false for a rank with more streams or operators than a state can hold. Then only
 * `contended` is valid. */
weir_status weir__machine_init(struct weir__machine *m, const struct weir__check_rank *rank,
                               const struct weir__check_order *order, enum weir__policy policy,
                               bool *fits);
void weir__machine_fini(struct weir__machine *m);

/* Fills nstreams slots with the initial state. */
void weir__machine_start(const struct weir__machine *m, struct weir__slot *slots);
/* Takes the next step of the stream's current operator; false if it has no step of its own. */
bool weir__machine_move(const struct weir__machine *m, struct weir__slot *slots, int stream);
/* Completes the rendezvous that the stream's current operator waits for. */
void weir__machine_meet(const struct weir__machine *m, struct weir__slot *slots, int stream);

/* Returns the stream's first unfinished operator; -1 at the end. */
static inline int weir__machine_head(const struct weir__machine *m, const struct weir__slot *slots,
                                     int stream)
{
    const struct weir__check_stream *s = &m->rank->streams[stream];

    return slots[stream].position < s->nops ? s->ops[slots[stream].position] : -1;
}

#endif
