/* The `npu` device: a modelled NPU in virtual time.
 *
 * Commands wait in the queues of soft/ until a host thread waits for one of them. That
 * thread then runs the machine of sim/ until the command is over: the device has no thread
 * of its own, and between two waits of the host no time passes.
 *
 * One thread at a time runs the machine, under `loop`. It takes waiter and scheduler locks
 * and never the device lock, which is outside of it. Callbacks are called without it.
 */
#ifndef WEIR_NPU_NPU_H
#define WEIR_NPU_NPU_H

#include "sim/model.h"
#include "soft/soft.h"

struct weir__npu_stream {
    struct weir__soft_stream soft; /* first */
    struct weir__sim_lane lane;
    struct weir__sim_op op; /* of the kernel at the head */
    bool launched;          /* the head has been slept for */
};

struct weir__npu {
    struct weir__soft_device soft; /* first */
    struct weir__model model;
    struct weir__mutex loop; /* of all below */
    struct weir__sim sim;
    struct weir__npu_stream **streams; /* by the lane's id */
    int nstreams, cap_streams;
    struct weir__soft_list woken, callbacks; /* whose token the machine has */
    unsigned calling;                        /* callbacks under way */
    uint64_t asked;                          /* kernels: their order among equals */
    void *local;                             /* weir_block.local */
    _Atomic uint64_t now_ns;
    _Atomic(struct weir__soft_stream *) full; /* a queue past its depth; not under `loop` */
    struct weir__npu *next;                   /* in the list of open ones, under its lock */
    _Atomic unsigned guests;                  /* threads that run it for another device */
};

static inline struct weir__npu_stream *weir__npu_stream(struct weir__soft_stream *s)
{
    return (struct weir__npu_stream *)s;
}

/* This thread runs a machine: what it wakes on other devices must not make it run theirs. */
extern _Thread_local bool weir__npu_in_loop;

static inline void weir__npu_lock(struct weir__npu *npu)
{
    weir__mutex_lock(&npu->loop);
    weir__npu_in_loop = true;
}

static inline void weir__npu_unlock(struct weir__npu *npu)
{
    weir__npu_in_loop = false;
    weir__mutex_unlock(&npu->loop);
}

/* run.c: goes to the next instant at which anything happens on the device. False if
 * nothing will, by itself. */
bool weir__npu_step(struct weir__npu *npu);
/* The same, unless that is later than `end`. */
bool weir__npu_step_until(struct weir__npu *npu, uint64_t end);
/* listen.c: for traces. Blocks that started together, at picosecond `from`, are over; so is
 * the operator; a wait is reached; it is passed. */
void weir__npu_trace_part(const struct weir__npu *npu, const struct weir__npu_stream *s,
                          uint32_t blocks, uint64_t from);
void weir__npu_trace_op(const struct weir__npu *npu, const struct weir__npu_stream *s,
                        const struct weir__cmd *cmd);
void weir__npu_trace_reached(const struct weir__npu *npu, struct weir__npu_stream *s);
void weir__npu_trace_wait(const struct weir__npu *npu, struct weir__npu_stream *s,
                          const struct weir__soft_stream *source, uint64_t seq);
/* run.c: what the streams are at, and a cycle if there is one. */
void weir__npu_report(const struct weir__npu *npu, struct weir__text *text);
/* run.c: fails what can never start, so that the rest goes on. False if there is none. */
bool weir__npu_break_deadlock(struct weir__npu *npu);

#endif
