/* One rank of a program as a machine that moves from state to state.
 *
 * The rules, for any timing; they are those of sim/sim.h. An operator whose predecessors
 * are over *arrives* at some time or other. Those that want cores are served by (priority,
 * arrival) whenever cores come free: ANY takes what there is for its blocks; TOGETHER takes
 * all its cores or none; GANG takes what there is of each kind under hold, and is TOGETHER
 * under batch. ANY has started with its first block, the others with all their cores. A
 * block of ANY that ends gives its cores back; while blocks are left to start the operator
 * keeps its place and competes for them again. The others give all back at their end. A
 * collective that has started does nothing until its rendezvous, and then goes on as any
 * other. Between that, everything ends at any time. How many blocks are left to start is
 * not counted: it may be any number.
 *
 * Coarse steps. Most programs need no such detail: if all streams whose operators can keep
 * others waiting have one priority, and a block of every operator takes the same cores, an
 * operator that waits for nobody may as well run in no time, and one that would wait
 * without a core may as well arrive later. Cores that come free go to the oldest waiter
 * until it has all, so two operators never share what is left between them, and how the
 * others' blocks ended does not matter. Where that does not hold, steps are fine: every
 * block that ends is one. tests/check compares both with all timings, one by one.
 */
#ifndef WEIR_CHECK_DEADLOCK_MACHINE_H
#define WEIR_CHECK_DEADLOCK_MACHINE_H

#include "check/deadlock/flow.h"

enum weir__slot_status {
    WEIR__SLOT_IDLE,  /* the operator has not arrived */
    WEIR__SLOT_WAIT,  /* it wants cores before it can start */
    WEIR__SLOT_MEET,  /* it has started and waits for the other ranks */
    WEIR__SLOT_RUN,   /* it runs; of ANY blocks are left to start */
    WEIR__SLOT_DRAIN, /* ANY: it runs, and no block is left to start */
};

/* A state is one slot per stream. */
struct weir__slot {
    uint16_t position;
    uint16_t cube, vector; /* cores it holds */
    uint8_t status;
    uint8_t order; /* among those that want cores, from 1; 0 if it wants none */
};

struct weir__machine {
    const struct weir__check_rank *rank;
    enum weir__policy policy;
    struct weir__contended contended;
    bool fine;
    struct weir__slot_op { /* operators, less the cores that are never short */
        uint8_t take;
        bool waves; /* more blocks than can run at once */
        int blocks, cube, vector;
    } * ops;
};

/* *fits is false for a rank with more streams or operators than a state can hold; then only
 * `contended` is of use. */
weir_status weir__machine_init(struct weir__machine *m, const struct weir__check_rank *rank,
                               const struct weir__check_order *order, enum weir__policy policy,
                               bool *fits);
void weir__machine_fini(struct weir__machine *m);

/* The state before anything ran. Fills nstreams slots. */
void weir__machine_start(const struct weir__machine *m, struct weir__slot *slots);
/* What the stream's operator can do next by itself, done; false if that is nothing. */
bool weir__machine_move(const struct weir__machine *m, struct weir__slot *slots, int stream);
/* The rendezvous takes place: the stream's operator, which waits for it, goes on. */
void weir__machine_meet(const struct weir__machine *m, struct weir__slot *slots, int stream);

/* The stream's first operator that is not over; -1 at the end. */
static inline int weir__machine_head(const struct weir__machine *m, const struct weir__slot *slots,
                                     int stream)
{
    const struct weir__check_stream *s = &m->rank->streams[stream];

    return slots[stream].position < s->nops ? s->ops[slots[stream].position] : -1;
}

#endif
