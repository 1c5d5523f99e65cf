/* The `npu` device: a modelled NPU in virtual time.
 *
 * Commands stay in the queues of soft/ until a host thread waits for one of them. That thread then
 * runs the machine of sim/ until the command has completed. The device has no thread of its own,
 * and between two waits of the host no virtual time passes.
 *
 * One thread at a time runs the machine, under the lock `loop`. It may take waiter and scheduler
 * locks, but never the device lock, which is outside `loop` in the lock order. Callbacks are called
 * without `loop`.
 *
 * Devices that are in groups together share a clock: a thread that waits for one of them runs them
 * all, always the device whose next event is the earliest. So the clocks agree wherever the devices
 * interact. Several `loop` locks are held together only to find out why nothing progresses; they
 * are taken in the order of the devices' ids.
 */
#ifndef WEIR_NPU_NPU_H
#define WEIR_NPU_NPU_H

#include "sim/model.h"
#include "soft/soft.h"

struct weir__npu_stream {
    struct weir__soft_stream soft; /* first */
    struct weir__sim_lane lane;
    struct weir__sim_op op; /* of the kernel at the head */
    bool launched;          /* the head's launch time has passed */
    bool recording;         /* the head has completed except for the event recorded after it */
    struct weir__spin marks_lock;
    uint64_t *marks; /* commands after which events are recorded, ascending; under marks_lock */
    int nmarks, cap_marks;
    /* The collective at the head must not run before meets_at, and must not complete before
     * leaves_at, in picoseconds. Peers write them; they only increase. */
    _Atomic uint64_t meets_at, leaves_at;
    /* deadlock.c, while nothing progresses: the ranks that the stream's rendezvous lacks. */
    weir_group *group;
    struct weir__ranks missing, uncalled; /* uncalled: the missing ranks whose call is not queued */
    bool lacks_calls;
};

struct weir__npu {
    struct weir__soft_device soft; /* first */
    struct weir__model model;
    struct weir__mutex loop; /* guards the fields below, except where noted */
    struct weir__sim sim;
    struct weir__npu_stream **streams; /* by the lane's id */
    int nstreams, cap_streams;
    /* Streams whose tokens the machine holds. */
    struct weir__soft_list woken, callbacks;
    struct weir__soft_list arrived;           /* their collectives have got their cores */
    unsigned calling;                         /* callbacks in progress */
    uint64_t asked;                           /* number of kernels so far: breaks ties in order */
    void *local;                              /* weir_block.local */
    _Atomic uint64_t now_ps, next_ps;         /* the clock, and its next event; UINT64_MAX: none */
    _Atomic(struct weir__soft_stream *) full; /* a queue above its depth; not under `loop` */
    struct weir__npu *next;                   /* in the list of open devices, under its lock */
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

/* True while this thread runs a machine: then waking streams of other devices must not run their
 * machines. */
extern _Thread_local bool weir__npu_in_loop;
extern _Thread_local int weir__npu_in_callback; /* nesting depth of callbacks on this thread */

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

/* Returns the number of open npu devices. */
int weir__npu_count(void);

/* ---- run.c: under the loop ---- */

/* Advances to the next event of the device. False if there is none. */
bool weir__npu_step(struct weir__npu *npu);
/* The same, but not beyond the time `end`. */
bool weir__npu_step_until(struct weir__npu *npu, uint64_t end);
/* Runs everything that takes no time; the clock does not advance. False if there was nothing. */
bool weir__npu_run_now(struct weir__npu *npu);
/* Completes the command at the head, after the time of an event that is recorded after it. The
 * machine must hold the token. */
void weir__npu_end_command(struct weir__npu_stream *s, const struct weir__cmd *cmd);

/* ---- meet.c: collectives, under the loop ---- */

/* Fills s->op with the cores and the time that the part takes. */
void weir__npu_collective_op(struct weir__npu_stream *s, const struct weir__cmd *cmd,
                             struct weir__load *load);
/* Called when the part has its cores: arrives. False if it must wait for its peers: the rendezvous
 * has the token then. */
bool weir__npu_arrive(struct weir__npu_stream *s);
/* Called when the part has run: departs. False if it must wait for the other parts. */
bool weir__npu_depart(struct weir__npu_stream *s, const struct weir__cmd *cmd);
/* Called after the rendezvous has woken the stream. True if the collective has completed. */
bool weir__npu_met(struct weir__npu_stream *s, const struct weir__cmd *cmd);

/* ---- clock_group.c ---- */

/* Devices that are in groups together, sorted by id; a device without a group is alone in its clock
 * group. No member closes before weir__npu_release. */
struct weir__npu_clock_group {
    struct weir__npu **members;
    int n, cap;
    struct weir__npu *self;
};
bool weir__npu_is_in(const struct weir__npu_clock_group *c, const weir_device *dev);
/* returns  WEIR_ENOMEM. */
weir_status weir__npu_gather(struct weir__npu *npu, struct weir__npu_clock_group *out);
void weir__npu_release(struct weir__npu_clock_group *c);
/* Steps the member with the earliest event. False if no member has an event until `end`; then
 * *later is true if one has an event after `end`. */
bool weir__npu_step_group(const struct weir__npu_clock_group *c, uint64_t end, bool *later);
/* Waits for command `seq` of `s`, until picosecond `end`. Returns like driver->sync. */
weir_status weir__npu_wait(weir_stream *s, uint64_t seq, uint64_t end, int64_t timeout_ns);

/* ---- deadlock.c: under the loops of all members ---- */

enum weir__npu_rest {
    WEIR__NPU_MOVES,       /* another thread is running something */
    WEIR__NPU_AWAITS_CALL, /* the host has not made the call of a rank that others wait for */
    WEIR__NPU_STUCK,
};
/* Returns why nothing progresses; *awaiting is a stream that waits for a missing call. */
enum weir__npu_rest weir__npu_at_rest(const struct weir__npu_clock_group *c,
                                      struct weir__npu_stream **awaiting);
/* Writes a line for each waiting stream: its operator, its cores and what it waits for. */
void weir__npu_report(const struct weir__npu_clock_group *c, struct weir__text *text);
/* Fails the operators and rendezvous that are deadlocked, so that the others continue. False if
 * there are none. */
bool weir__npu_break_deadlock(const struct weir__npu_clock_group *c);

/* ---- listen.c: trace records ----
 * Called when: blocks that started together, at picosecond `from`, have completed; the operator has
 * completed; the stream reaches a wait; the wait ends. */
void weir__npu_trace_part(const struct weir__npu *npu, const struct weir__npu_stream *s,
                          uint32_t blocks, uint64_t from);
void weir__npu_trace_op(const struct weir__npu *npu, const struct weir__npu_stream *s,
                        const struct weir__cmd *cmd);
void weir__npu_trace_reached(const struct weir__npu *npu, struct weir__npu_stream *s);
void weir__npu_trace_wait(const struct weir__npu *npu, struct weir__npu_stream *s,
                          const struct weir__soft_stream *source, uint64_t seq);

#endif
