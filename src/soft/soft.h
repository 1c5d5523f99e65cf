/* Streams of the soft devices: queues of commands, run in order.
 *
 * Host threads add commands under the device lock. At any moment at most one holder has the
 * stream's token. Only the holder may read the head of the queue:
 *
 *   nobody          the queue is empty; adding the first command makes a token and
 *                   puts the stream into the scheduler
 *   the scheduler   the command at the head is ready and waits for a core, in a run queue
 *                   (runq.h) or in the scheduler itself (sched.h)
 *   a waiter list   the command at the head waits for another stream
 *   a worker        runs commands, one after the other
 *
 * `pending` counts commands that were added and not yet subtracted. The holder subtracts all
 * commands that it has consumed in one instruction. If that leaves 0, the holder has given up the
 * token. A thread that adds to a count of 0 makes the next token. So no command is missed, and no
 * stream runs on two workers at once.
 *
 * `completed` is the last completed command that other threads can see. It lags behind the holder
 * by at most a few short commands: the holder publishes it before a long command, and before it
 * gives the token away.
 *
 * `waiters` is a lock and a count in one word, so that registering and publishing need one locked
 * instruction each. A waiter locks the word, then reads `completed`. A publisher stores
 * `completed`, then reads the word. All are sequentially consistent, so the waiter sees the new
 * `completed` or the publisher sees the waiter. If the word already counts waiters, the publisher
 * locks the word before it stores `completed`.
 */
#ifndef WEIR_SOFT_SOFT_H
#define WEIR_SOFT_SOFT_H

#include "comm/comm.h"
#include "device/device.h"
#include "soft/runq.h"
#include "soft/sched.h"

enum weir__cmd_kind {
    WEIR__CMD_KERNEL,
    WEIR__CMD_WAIT,
    WEIR__CMD_CALLBACK,
    WEIR__CMD_STAMP,
    WEIR__CMD_RELAY,     /* a wait for a stream of another driver */
    WEIR__CMD_JUMP,      /* the queue continues in the next chunk; it has no number */
    WEIR__CMD_LANE,      /* a lane of a program: its items are numbered, this command is not.
                          * Arguments: a base for each of `blocks` lanes, then tickets */
    WEIR__CMD_LANE_WAIT, /* in a lane: waits for item v.seq of lane `blocks` of the same run */
};

struct weir__cmd {
    uint8_t kind, engine, phases;
    bool gang;
    uint32_t size; /* to the next command */
    uint32_t blocks, cores;
    uint32_t work_ns;
    uint8_t how; /* of a wait: enum weir__wait; of a kernel: enum weir__cmd_load_flags */
    bool untimed : 1;
    bool own_cores : 1;     /* as in weir__kernel */
    bool is_collective : 1; /* a collective: args begin with a struct weir__meet */
    bool recorded : 1;      /* in a lane: another lane waits for it */
    uint16_t scope;         /* weir__trace_scope */
    const char *name;
    union {
        weir_kernel_fn fn;
        weir_callback_fn callback;
        struct weir__soft_stream *source;
        _Atomic uint64_t *ns;
        struct weir__chunk *chunk;
        const struct weir__soft_lane *lane;
        struct weir__relay *relay;
    } u;
    union {
        void *user;
        uint64_t seq;
        struct weir__cmd_load {
            float work, bytes; /* work: flops of all blocks, or microseconds of each */
        } load;                /* of a kernel, for devices that only model it */
    } v;
    _Alignas(16) unsigned char args[];
};

enum weir__cmd_load_flags {
    WEIR__LOAD_TIMED = 1,    /* load.work is time */
    WEIR__LOAD_TOGETHER = 2, /* its cores are granted at once */
};

/* A lane in the form in which it runs: packed commands, as in a queue. */
struct weir__soft_lane {
    unsigned char *commands;
    size_t size;
    uint32_t nitems;
};

/* In the arguments of a lane command, one per lane of the program. */
struct weir__lane_base {
    struct weir__soft_stream *stream;
    uint64_t seq; /* of the stream's last command before the run */
};

struct weir__chunk {
    _Alignas(16) unsigned char bytes[32 << 10];
};

struct weir__waiter {
    struct weir__waiter *prev, *next;
    uint64_t seq;
    struct weir__soft_stream *stream; /* the waiting stream; NULL for a host thread */
    _Atomic uint32_t woken;           /* the futex of a host thread */
    _Atomic uint32_t *asleep; /* the number of sleeping host threads, this one included; may be
                               * NULL */
};

/* The operator at the head while several cores run its blocks. */
#define WEIR__MOST_ROWS 16
struct weir__run {
    const struct weir__cmd *cmd;
    uint32_t cores;   /* the most workers that may run its blocks */
    uint32_t running; /* workers that do; under the scheduler lock */
    uint32_t phase;
    bool parted;             /* traces record its blocks one by one */
    _Atomic uint32_t failed; /* a block failed: the remaining blocks are skipped */
    weir_status status;      /* of the first block that failed */
    char text[512];
    uint64_t gang_cube[WEIR__MAX_CORES / 64], gang_vector[WEIR__MAX_CORES / 64];
    /* For operators that several workers run. Placed last, away from `failed`, which every command
     * reads. */
    uint32_t staying;       /* of the `running` workers, those that wait for the next phase;
                             * under the scheduler lock */
    _Atomic uint32_t turns; /* how many next phases have begun; written under that lock */
    /* Row i is the blocks i, i + nrows, i + 2 nrows ...: workers have claimed claimed[i] of
     * them. */
    _Atomic uint32_t claimed[WEIR__MOST_ROWS];
    uint32_t nrows;
};

struct weir__soft_stream {
    weir_stream base;
    /* Host side, under the device lock. */
    _Alignas(WEIR__LINE) struct weir__chunk *tail;
    uint32_t tail_at;
    /* Both sides. */
    _Alignas(WEIR__LINE) _Atomic uint64_t pending;
    _Atomic(struct weir__chunk *) spare;
    _Atomic uint32_t home; /* the worker into whose run queue it is put; written by the holder */
    /* The token's holder. */
    _Alignas(WEIR__LINE) struct weir__chunk *head;
    uint32_t head_at;
    uint64_t known, consumed; /* of `pending`: the value last read; commands to be subtracted */
    uint64_t over;            /* the last completed command, published or not */
    uint64_t reached; /* while a trace is recorded: ticks when the wait at the head was reached */
    uint32_t lane_at, lane_left; /* in the lane at the head: offset in bytes, items left; else 0 */
    struct weir__soft_stream *local_next;
    struct weir__waiter waiting;
    struct weir__entry entry; /* under the scheduler lock */
    struct weir__run run;
    struct weir__participant participant; /* of the collective at the head */
    /* Read by other threads. */
    _Alignas(WEIR__LINE) _Atomic uint64_t completed;
    _Atomic uint32_t waiters; /* bit 0: locked; the other bits: the number of waiters */
    struct weir__waiter *first_waiter;
    /* For reports: */
    _Atomic(const char *) doing;                   /* the name of the long operator at the head */
    _Atomic bool untimed;                          /* op_timeout does not apply to it */
    _Atomic bool rendezvous;                       /* it is a collective that waits for its peers */
    _Atomic(struct weir__soft_stream *) waits_for; /* waits for command waits_seq of this stream */
    _Atomic uint64_t waits_seq;
    _Atomic uint64_t waits_device; /* waits for a device of another driver, with this id; else 0 */
};

struct weir__soft_device {
    weir_device base;
    bool meets_first; /* collectives take their cores after all ranks have arrived, not before */
    struct weir__soft_list *held; /* (L) new tokens are put here; NULL: into the scheduler */
    struct weir__sched sched;
    struct weir__runq *runqs; /* one for each worker; NULL: all streams go through sched */
    unsigned nrunqs;
    /* True: workers that pause must look for work now. Set when something is queued that should not
     * wait for the end of a pause, or when a host thread asks or waits. It has a cache line of its
     * own because threads that queue write it while idle workers read it. */
    _Alignas(WEIR__LINE) _Atomic bool hurry;
};

/* Shorter commands are not worth handing to another thread. */
#define WEIR__SHORT_NS 1000
/* The longest pause of a worker between two looks for work. */
#define WEIR__MOST_PAUSE_NS 16000

/* If the parts of all ranks together take at most this long, the last rank to arrive runs them all.
 * The other ranks' streams are parked, and waking their workers would take longer. */
#define WEIR__ALL_PARTS_NS 4000

static inline uint64_t weir__soft_parts_ns(const struct weir__cmd *cmd,
                                           const struct weir__meet *meet)
{
    return (uint64_t)cmd->work_ns * cmd->blocks * cmd->phases * (uint64_t)meet->channel->nmembers;
}

static inline void weir__soft_hurry(struct weir__soft_device *dev)
{
    if (dev->runqs && !atomic_load_explicit(&dev->hurry, memory_order_relaxed))
        atomic_store_explicit(&dev->hurry, true, memory_order_relaxed);
}

static inline struct weir__soft_stream *weir__soft(weir_stream *s)
{
    return (struct weir__soft_stream *)s;
}

static inline struct weir__sched *weir__soft_sched(const struct weir__soft_stream *s)
{
    return &((struct weir__soft_device *)s->base.dev)->sched;
}

static inline unsigned weir__soft_priority(const struct weir__soft_stream *s)
{
    return (unsigned)(s->base.priority - WEIR__PRIORITY_MOST);
}

/* ---- driver callbacks that the soft devices share ---- */
weir_status weir__soft_stream_open(weir_stream *s);
void weir__soft_stream_close(weir_stream *s);
weir_status weir__soft_submit(weir_stream *s, const struct weir__kernel *kernel);
weir_status weir__soft_wait(weir_stream *s, struct weir__mark mark, enum weir__wait how);
weir_status weir__soft_callback(weir_stream *s, weir_callback_fn fn, void *user);
weir_status weir__soft_stamp(weir_stream *s, _Atomic uint64_t *ns);
uint64_t weir__soft_done(weir_stream *s);
void *weir__soft_map_for(weir_device *dev, size_t size);
void weir__soft_unmap_for(weir_device *dev, void *address, size_t size);
extern const struct weir__driver_plans weir__soft_plans;
extern const struct weir__driver_cross weir__soft_cross;
/* Fills a command from a kernel. cmd->size must be large enough for the arguments. */
void weir__soft_fill(struct weir__cmd *cmd, const struct weir__kernel *kernel);
/* Returns the size of a command with that many bytes of arguments. */
uint32_t weir__soft_command_size(size_t args_size);
/* Makes room for a command of that size: adding it afterwards cannot fail. */
weir_status weir__soft_make_room(struct weir__soft_stream *s, uint32_t size);
/* Adds a lane of `lane->nitems` commands to the queue, with its bases and tickets. The caller has
 * made room. */
void weir__soft_add_lane(struct weir__soft_stream *s, const struct weir__soft_lane *lane,
                         const struct weir__lane_base *bases, int nbases, const uint64_t *tickets,
                         int ntickets);

/* ---- for the token's holder ---- */

/* Returns the command after a jump, or the next item of a lane. */
struct weir__cmd *weir__soft_follow(struct weir__soft_stream *s, struct weir__cmd *cmd);
/* Marks the next n items of the lane at the head, `size` bytes of commands, as completed. */
void weir__soft_consume_items(struct weir__soft_stream *s, uint32_t n, uint32_t size);
/* Returns the lane command that the item at the head belongs to. */
static inline const struct weir__cmd *weir__soft_lane_cmd(const struct weir__soft_stream *s)
{
    return (const struct weir__cmd *)(s->head->bytes + s->head_at);
}

/* In a lane: returns the base, in this run, of the lane that the wait `cmd` waits for. */
static inline const struct weir__lane_base *weir__soft_lane_base(const struct weir__soft_stream *s,
                                                                 const struct weir__cmd *cmd)
{
    const void *bases = weir__soft_lane_cmd(s)->args;

    return (const struct weir__lane_base *)bases + cmd->blocks;
}

/* Returns the command at the head, or NULL if the queue is empty. */
static inline struct weir__cmd *weir__soft_next(struct weir__soft_stream *s)
{
    struct weir__cmd *cmd;

    if (s->consumed == s->known) {
        s->known = atomic_load_explicit(&s->pending, memory_order_acquire);
        if (s->consumed == s->known)
            return NULL;
    }
    cmd = (struct weir__cmd *)(s->head->bytes + s->head_at);
    return weir__likely(cmd->kind < WEIR__CMD_JUMP) ? cmd : weir__soft_follow(s, cmd);
}

/* Marks the command at the head as completed and moves on. Other threads see it after
 * publishing. */
static inline void weir__soft_consume(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    if (weir__unlikely(s->lane_left)) {
        weir__soft_consume_items(s, 1, cmd->size);
        return;
    }
    s->head_at += cmd->size;
    s->consumed++;
    s->over++;
}

/* Returns the most cores that the operator may use if it starts now. The number of blocks was fixed
 * when it was queued, so values do not depend on when a limit changes. A gang runs all its blocks
 * at once and keeps the number of cores that it was queued with. */
unsigned weir__soft_cores(const struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Ends a wait after command `seq` of `source` has completed: takes errors over if `how` says so. */
void weir__soft_pass_wait(struct weir__soft_stream *s, struct weir__soft_stream *source,
                          uint64_t seq, enum weir__wait how);
/* Executes the relay wait at the head. False if the relay is not signalled yet: the relay has the
 * token then. Publish first. */
bool weir__soft_pass_relay(struct weir__soft_stream *s, struct weir__relay *relay);
/* Records that a block of the command has failed. Keeps the first failure in s->run, with the
 * thread's error message if it was set since weir__hush. */
void weir__soft_block_failed(struct weir__soft_stream *s, const struct weir__cmd *cmd,
                             weir_status status);
/* Called after the command at the head has run: puts the stream in error if a block has failed. */
void weir__soft_settle_failure(struct weir__soft_stream *s);
/* Returns the stream that takes the error of the command at the head, and whose error skips it. In
 * a plan's run it is the stream that the run was called on, otherwise the command's own stream. */
static inline weir_stream *weir__soft_error_stream(struct weir__soft_stream *s)
{
    const void *bases;

    if (weir__likely(!s->lane_left))
        return &s->base;
    bases = weir__soft_lane_cmd(s)->args;
    return &((const struct weir__lane_base *)bases)->stream->base;
}
static inline bool weir__soft_has_failed(struct weir__soft_stream *s)
{
    return atomic_load_explicit(&weir__soft_error_stream(s)->failed_at, memory_order_relaxed) !=
           WEIR__NEVER_FAILED;
}
/* Puts the stream in error because the command at the head has failed. */
void weir__soft_fail(struct weir__soft_stream *s, weir_status status, const char *text);

/* Puts the stream and its token at the end of the list. */
void weir__soft_append(struct weir__soft_list *list, struct weir__soft_stream *s);
/* Removes the first stream of the list and returns it; NULL if the list is empty. */
struct weir__soft_stream *weir__soft_take(struct weir__soft_list *list);
/* Publishes the last completed command. Streams that waited for it, with their tokens, are appended
 * to `woken`. */
void weir__soft_publish(struct weir__soft_stream *s, struct weir__soft_list *woken);
/* Gives the token to the waiter list of `source` until its command `seq` has completed. False if
 * it has completed already: the caller keeps the token. Publish first. */
bool weir__soft_park(struct weir__soft_stream *s, struct weir__soft_stream *source, uint64_t seq);
/* Gives up the token if no command is pending. False if one is: the caller keeps the token. Publish
 * first. */
bool weir__soft_surrender(struct weir__soft_stream *s);
/* Put the stream and its token into the scheduler of its device, from any thread. The second also
 * wakes a worker; after the first the caller must do that. */
void weir__soft_make_ready(struct weir__soft_stream *s);
void weir__soft_hand_back(struct weir__soft_stream *s);
/* Returns the kind of core that the command at the head needs, for weir__sched_add. */
enum weir__core_kind weir__soft_next_kind(struct weir__soft_stream *s);

/* ---- collectives: for the token's holder (meet.c says how they run) ---- */

/* Arrives at the collective at the head. False if the participant must wait for other ranks: the
 * rendezvous has the token then. Publish first. */
bool weir__soft_arrive(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Skips the collective because the stream is in error, and aborts its group, which tells the
 * peers. */
void weir__soft_miss(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Departs after the stream's part has run; the part has failed if the stream is in error now. False
 * if the participant must wait for other ranks: the rendezvous has the token then. */
bool weir__soft_depart(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Arrives if the command at the head is a collective at which the stream can arrive now. Any holder
 * of the token may call this, because arriving takes neither core nor thread. True if the
 * rendezvous has the token now. If false, the participant may have been the last to arrive; then
 * the rendezvous is open, unless this stream will run all parts. Publish first. */
bool weir__soft_arrive_early(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Called for the last rank to arrive: lets the other ranks run their parts. */
void weir__soft_open_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Called instead if the last rank has run all parts. `rank` is the rank whose part failed, if one
 * did. Each other stream continues: it arrives at its next command if that is a collective, or goes
 * back to its device. */
void weir__soft_close_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd,
                                 int rank);
/* Return the stream of rank `rank` of the rendezvous, and its command. Call them only while the
 * part of `s` may run. */
struct weir__soft_stream *weir__soft_peer(const struct weir__soft_stream *s, int rank);
const struct weir__cmd *weir__soft_peer_cmd(const struct weir__soft_stream *s, int rank);
/* Ends the collective at the head, which has completed or was refused: takes over its error. */
void weir__soft_meet_end(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* The default participant.wake. A driver may set another. */
void weir__soft_wake_participant(struct weir__participant *participant);
static inline bool weir__soft_may_run_part(const struct weir__soft_stream *s)
{
    return s->participant.state == WEIR__PARTICIPANT_LAST ||
           s->participant.state == WEIR__PARTICIPANT_RUNS;
}

/* Set what a report says about the stream while a long operator or a collective is at its head. */
static inline void weir__soft_begin_report(struct weir__soft_stream *s, const struct weir__cmd *cmd)
{
    atomic_store_explicit(&s->doing, cmd->name, memory_order_relaxed);
    if (weir__unlikely(cmd->untimed))
        atomic_store_explicit(&s->untimed, true, memory_order_relaxed);
}
static inline void weir__soft_end_report(struct weir__soft_stream *s)
{
    atomic_store_explicit(&s->doing, NULL, memory_order_relaxed);
    atomic_store_explicit(&s->untimed, false, memory_order_relaxed);
}

/* ---- memory ---- */

/* Maps zeroed pages; NULL if the system has none. */
void *weir__soft_map(size_t size);
void weir__soft_unmap(void *address, size_t size);

/* ---- for the host ---- */

/* Registers a host waiter; false if `seq` has completed already. */
bool weir__soft_host_park(struct weir__soft_stream *s, struct weir__waiter *w, uint64_t seq);
static inline void weir__soft_host_is_up(struct weir__waiter *w)
{
    if (w->asleep)
        atomic_fetch_sub(w->asleep, 1);
}
/* Removes the waiter after a timeout; false if it has been woken meanwhile. */
bool weir__soft_host_unpark(struct weir__soft_stream *s, struct weir__waiter *w);
/* Sleeps until `seq` has completed. Returns what driver->sync must return, with a report after a
 * timeout. If `asleep` is not NULL, the caller has added itself to *asleep. The thread that wakes
 * the caller subtracts it, before the caller runs again. */
weir_status weir__soft_host_wait(weir_stream *s, uint64_t seq, int64_t timeout_ns,
                                 _Atomic uint32_t *asleep);
/* Returns a number that changes whenever a command on the device completes. */
uint64_t weir__soft_progress(weir_device *dev);
/* True if an operator is running to which op_timeout does not apply. */
bool weir__soft_untimed(weir_device *dev);
/* Writes a line for each busy stream of the devices, which must be of one kind, and for each stream
 * that those wait for: its operator, the cores that it holds and what it waits for. If the waits
 * have a cycle, writes it to `cycle` in one line. */
void weir__soft_report(weir_device *const *devs, int ndevs, struct weir__text *report,
                       struct weir__text *cycle);

#endif
