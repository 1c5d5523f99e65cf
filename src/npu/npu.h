/* The `npu` device: a modelled NPU in virtual time.
 *
 * Commands wait in the queues of soft/ until a host thread waits for one of them. That
 * thread then runs the machine of sim/ until the command is over: the device has no thread
 * of its own, and between two waits of the host no time passes.
 *
 * One thread at a time runs the machine, under `loop`. It takes waiter and scheduler locks
 * and never the device lock, which is outside of it. Callbacks are called without it.
 *
 * Devices that are in groups together share a clock: whoever waits for one runs them all, each
 * time the one whose next event is the earliest, so that they have one clock wherever they
 * touch. Loops nest only there, in the order of the devices' ids, and only to find out why
 * nothing moves.
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
    bool recording;         /* it is over but for the event recorded behind it */
    struct weir__spin marks_lock;
    uint64_t *marks; /* commands behind which events are recorded, ascending; under the lock */
    int nmarks, cap_marks;
    /* Picoseconds before which the collective at the head neither runs nor is over. They only
     * grow, and peers write them. */
    _Atomic uint64_t meets_at, leaves_at;
    /* deadlock.c: what the rendezvous it waits in lacks, while nothing moves. */
    weir_group *group;
    struct weir__ranks missing, uncalled; /* of the missing: those whose call is not queued */
    bool lacks_calls;
};

struct weir__npu {
    struct weir__soft_device soft; /* first */
    struct weir__model model;
    struct weir__mutex loop; /* of all below */
    struct weir__sim sim;
    struct weir__npu_stream **streams; /* by the lane's id */
    int nstreams, cap_streams;
    struct weir__soft_list woken, callbacks;  /* whose token the machine has */
    struct weir__soft_list arrived;           /* likewise: collectives that have got their cores */
    unsigned calling;                         /* callbacks under way */
    uint64_t asked;                           /* kernels: their order among equals */
    void *local;                              /* weir_block.local */
    _Atomic uint64_t now_ps, next_ps;         /* the clock, and its next event; UINT64_MAX: none */
    _Atomic(struct weir__soft_stream *) full; /* a queue past its depth; not under `loop` */
    struct weir__npu *next;                   /* in the list of open ones, under its lock */
    _Atomic unsigned visitors;                /* threads that run it for another device */
};

static inline struct weir__npu_stream *weir__npu_stream_of(struct weir__soft_stream *s)
{
    return (struct weir__npu_stream *)s;
}

static inline struct weir__npu *weir__npu_of(const struct weir__npu_stream *s)
{
    return (struct weir__npu *)s->soft.base.dev;
}

extern const struct weir__driver weir__npu_driver;

/* This thread runs a machine: what it wakes on other devices must not make it run theirs. */
extern _Thread_local bool weir__npu_in_loop;
extern _Thread_local int weir__npu_in_callback; /* how many callbacks this thread is inside of */

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

/* ---- npu.c ---- */

/* How many devices are open. */
int weir__npu_count(void);

/* ---- run.c: under the loop ---- */

/* Goes to the next instant at which anything happens on the device. False if nothing will, by
 * itself. */
bool weir__npu_step(struct weir__npu *npu);
/* The same, unless that is later than `end`. */
bool weir__npu_step_until(struct weir__npu *npu, uint64_t end);
/* Everything that happens at this instant; the clock stays. False if that is nothing. */
bool weir__npu_run_now(struct weir__npu *npu);
/* The command at the head is over but for events that are recorded behind it, and the machine
 * has the token. */
void weir__npu_end_command(struct weir__npu_stream *s, const struct weir__cmd *cmd);

/* ---- meet.c: collectives, under the loop ---- */

/* What the part asks for: s->op. */
void weir__npu_collective_op(struct weir__npu_stream *s, const struct weir__cmd *cmd,
                             struct weir__load *load);
/* It has its cores. False if it waits for its peers: the token is the rendezvous's then. */
bool weir__npu_arrive(struct weir__npu_stream *s);
/* Its part has run. False if it waits for the others'. */
bool weir__npu_depart(struct weir__npu_stream *s, const struct weir__cmd *cmd);
/* The rendezvous has woken the stream. True if the collective is over. */
bool weir__npu_met(struct weir__npu_stream *s, const struct weir__cmd *cmd);

/* ---- clock_group.c ---- */

/* Those that are in groups together, by id; one alone is its own clock group. None of them goes
 * away before weir__npu_release. */
struct weir__npu_clock_group {
    struct weir__npu **members;
    int n, cap;
    struct weir__npu *self;
};
bool weir__npu_is_in(const struct weir__npu_clock_group *c, const weir_device *dev);
/* returns  WEIR_ENOMEM. */
weir_status weir__npu_gather(struct weir__npu *npu, struct weir__npu_clock_group *out);
void weir__npu_release(struct weir__npu_clock_group *c);
/* One step of whichever is first. False if nothing happens by itself until `end`; *later is
 * then whether it does afterwards. */
bool weir__npu_step_group(const struct weir__npu_clock_group *c, uint64_t end, bool *later);
/* Waits for command `seq` of `s`, until picosecond `end`: as driver->sync. */
weir_status weir__npu_wait(weir_stream *s, uint64_t seq, uint64_t end, int64_t timeout_ns);

/* ---- deadlock.c: under the loops of all members ---- */

enum weir__npu_rest {
    WEIR__NPU_MOVES,       /* something is under way on another thread */
    WEIR__NPU_AWAITS_CALL, /* a rank that others wait for has not been called */
    WEIR__NPU_STUCK,
};
/* Why nothing moves; *awaiting is one that waits for a call. */
enum weir__npu_rest weir__npu_at_rest(const struct weir__npu_clock_group *c,
                                      struct weir__npu_stream **awaiting);
/* What the streams are at: a line for each that waits. */
void weir__npu_report(const struct weir__npu_clock_group *c, struct weir__text *text);
/* Fails what can never go on, so that the rest does. False if there is none. */
bool weir__npu_break_deadlock(const struct weir__npu_clock_group *c);

/* ---- listen.c: for traces ----
 * Blocks that started together, at picosecond `from`, are over; so is the operator; a wait is
 * reached; it is passed. */
void weir__npu_trace_part(const struct weir__npu *npu, const struct weir__npu_stream *s,
                          uint32_t blocks, uint64_t from);
void weir__npu_trace_op(const struct weir__npu *npu, const struct weir__npu_stream *s,
                        const struct weir__cmd *cmd);
void weir__npu_trace_reached(const struct weir__npu *npu, struct weir__npu_stream *s);
void weir__npu_trace_wait(const struct weir__npu *npu, struct weir__npu_stream *s,
                          const struct weir__soft_stream *source, uint64_t seq);

#endif
