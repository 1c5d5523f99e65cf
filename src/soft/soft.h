/* Streams of the soft devices: queues of commands, run in order.
 *
 * Host threads add commands under the device lock. At any moment at most one
 * holder has the stream's token and may look at its head:
 *
 *   nobody          the queue is empty; adding the first command makes a token and
 *                   puts the stream into the scheduler
 *   the scheduler   the head is ready and waits for a core, in a run queue (runq.h) or in the
 *                   scheduler itself (sched.h)
 *   a waiter list   the head waits for another stream
 *   a worker        runs commands, one after the other
 *
 * `pending` counts commands that were added and not yet subtracted. The holder subtracts
 * at once all that it has consumed; if that leaves 0, the same instruction gives up the
 * token. A thread that adds to a count of 0 makes the next token. So no command is missed,
 * and no stream runs twice.
 *
 * `completed` is what other threads see. It lags behind the holder by at most a few
 * short commands: the holder publishes it before a long command, and before it gives
 * the token away.
 *
 * `waiters` is a lock and a count in one word, so that registering and publishing need
 * one locked instruction each. A waiter locks the word, then reads `completed`. A publisher
 * stores `completed`, then reads the word. Both are sequentially consistent, so one of them
 * sees the other. If the word already counts waiters, the publisher locks it first and
 * stores inside.
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
    WEIR__CMD_JUMP,      /* the queue goes on in the next chunk; not counted */
    WEIR__CMD_LANE,      /* a lane of a program: its items are counted, this is not. Its arguments:
                          * a base for each of `blocks` lanes, then tickets */
    WEIR__CMD_LANE_WAIT, /* in a lane: waits for item v.seq of lane `blocks` of the same run */
};

struct weir__cmd {
    uint8_t kind, engine, phases;
    bool gang;
    uint32_t size; /* to the next command */
    uint32_t blocks, cores;
    uint32_t work_ns;
    uint8_t how; /* enum weir__wait; of a kernel enum weir__cmd_load_flags */
    bool untimed : 1;
    bool own_cores : 1; /* as in weir__kernel */
    bool meets : 1;     /* a collective: args begin with a struct weir__meet */
    bool recorded : 1;  /* in a lane: another lane waits for it */
    uint16_t scope;     /* weir__trace_scope */
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

/* A lane as it is run: commands one behind the other, as in a queue. */
struct weir__soft_lane {
    unsigned char *commands;
    size_t size;
    uint32_t nitems;
};

/* In the arguments of a lane command, one per lane of the program. */
struct weir__lane_base {
    struct weir__soft_stream *stream;
    uint64_t seq; /* of its last command before the run */
};

struct weir__chunk {
    _Alignas(16) unsigned char bytes[32 << 10];
};

struct weir__waiter {
    struct weir__waiter *prev, *next;
    uint64_t seq;
    struct weir__soft_stream *stream; /* who waits; NULL for the host */
    _Atomic uint32_t woken;           /* the host's futex */
    _Atomic uint32_t *asleep; /* of a host: counts it until it is woken; NULL: nobody counts */
};

/* The operator at the head while several cores run its blocks. */
#define WEIR__MOST_ROWS 16
struct weir__run {
    const struct weir__cmd *cmd;
    uint32_t cores;   /* the most that may be in it */
    uint32_t running; /* workers in it; under the scheduler lock */
    uint32_t phase;
    bool parted;             /* traces record its blocks one by one */
    _Atomic uint32_t failed; /* a block failed: the rest is not run */
    weir_status status;      /* of the first block that failed */
    char text[512];
    uint64_t gang_cube[WEIR__MAX_CORES / 64], gang_vector[WEIR__MAX_CORES / 64];
    /* Of an operator that several workers run; at the end, since every command reads `failed`. */
    uint32_t staying;       /* of those in it those that wait for the next phase; likewise */
    _Atomic uint32_t turns; /* how often a next phase began; written under that lock */
    /* Blocks i, i + nrows, i + 2 nrows ... are row i: so many of it workers have claimed. */
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
    _Atomic uint32_t home; /* the worker whose run queue it goes to; the token's holder writes it */
    /* The token's holder. */
    _Alignas(WEIR__LINE) struct weir__chunk *head;
    uint32_t head_at;
    uint64_t known, consumed; /* of pending */
    uint64_t over;            /* the last command that is over, published or not */
    uint64_t reached;         /* ticks when the wait at the head was, while a trace is recorded */
    uint32_t lane_at, lane_left; /* within the lane at the head: bytes, items; 0 outside */
    struct weir__soft_stream *local_next;
    struct weir__waiter waiting;
    struct weir__entry entry; /* under the scheduler lock */
    struct weir__run run;
    struct weir__participant participant; /* of the collective at the head */
    /* Read by other threads. */
    _Alignas(WEIR__LINE) _Atomic uint64_t completed;
    _Atomic uint32_t waiters; /* bit 0: locked; the rest: how many */
    struct weir__waiter *first_waiter;
    _Atomic(const char *) doing;                   /* for reports: the long operator */
    _Atomic bool untimed;                          /* and that op_timeout does not count */
    _Atomic bool rendezvous;                       /* and that it waits for its peers */
    _Atomic(struct weir__soft_stream *) waits_for; /* for reports: whom, and up to what */
    _Atomic uint64_t waits_seq;
    _Atomic uint64_t waits_device; /* for reports: another driver's, by id; else 0 */
};

struct weir__soft_device {
    weir_device base;
    bool meets_first; /* collectives take their cores after all ranks have arrived, not before */
    struct weir__soft_list *held; /* (L) where new tokens go; NULL: to the scheduler */
    struct weir__sched sched;
    struct weir__runq *runqs; /* one for each worker; NULL: all streams go through sched */
    unsigned nrunqs;
    /* Something was queued that should not wait for a worker's pause to end, or a host asked. On a
     * line of its own, since threads that queue write it while idle workers read it. */
    _Alignas(WEIR__LINE) _Atomic bool hurry;
};

/* Shorter commands are not worth handing to another thread. */
#define WEIR__SHORT_NS 1000
/* The longest pause of a worker between two looks for work. */
#define WEIR__MOST_PAUSE_NS 16000

/* A collective whose parts take no longer, all ranks' together, is run by the last to arrive: the
 * others are parked and would have to be woken, for less than that takes. */
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
/* Fills a command from a kernel; cmd->size and room for the arguments are there. */
void weir__soft_fill(struct weir__cmd *cmd, const struct weir__kernel *kernel);
/* The size of a command with that many bytes of arguments, and making room for it: afterwards
 * adding it cannot fail. */
uint32_t weir__soft_command_size(size_t args_size);
weir_status weir__soft_make_room(struct weir__soft_stream *s, uint32_t size);
/* Adds a lane of `lane->nitems` commands to the queue, with its bases and tickets. There is
 * room. */
void weir__soft_add_lane(struct weir__soft_stream *s, const struct weir__soft_lane *lane,
                         const struct weir__lane_base *bases, int nbases, const uint64_t *tickets,
                         int ntickets);

/* ---- for the token's holder ---- */

/* The next command behind a jump, or the next item of a lane. */
struct weir__cmd *weir__soft_follow(struct weir__soft_stream *s, struct weir__cmd *cmd);
/* The next n items of the lane at the head, so many bytes of them, are over. */
void weir__soft_consume_items(struct weir__soft_stream *s, uint32_t n, uint32_t size);
/* The lane command that the item at the head belongs to. */
static inline const struct weir__cmd *weir__soft_lane_cmd(const struct weir__soft_stream *s)
{
    return (const struct weir__cmd *)(s->head->bytes + s->head_at);
}

/* In a lane: where the lane that the wait `cmd` is for begins in this run. */
static inline const struct weir__lane_base *weir__soft_lane_base(const struct weir__soft_stream *s,
                                                                 const struct weir__cmd *cmd)
{
    const void *bases = weir__soft_lane_cmd(s)->args;

    return (const struct weir__lane_base *)bases + cmd->blocks;
}

/* The next command, or NULL if there is none yet. */
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

/* The command is over. */
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

/* The most cores the operator may use if it starts now. Its blocks stay as they were cut
 * when it was queued, so that values do not depend on when a limit came. A gang needs all
 * its blocks at once and keeps what it was cut for. */
unsigned weir__soft_cores(const struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* What a wait does once `seq` of `source` is over: errors are passed on if it asks for them. */
void weir__soft_pass_wait(struct weir__soft_stream *s, struct weir__soft_stream *source,
                          uint64_t seq, enum weir__wait how);
/* The wait at the head. False if it is not over: the token is the relay's then. Publish first. */
bool weir__soft_pass_relay(struct weir__soft_stream *s, struct weir__relay *relay);
/* A block of the command failed: keeps the first failure in s->run, with the thread's error message
 * if it was set since weir__hush. */
void weir__soft_block_failed(struct weir__soft_stream *s, const struct weir__cmd *cmd,
                             weir_status status);
/* The command at the head is over: a failure of its blocks puts the stream in error. */
void weir__soft_settle_failure(struct weir__soft_stream *s);
/* The stream whose error stops the command at the head, and which gets the command's error: inside
 * a plan's run the stream that the run was called on, else the command's own stream. */
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
/* The command at the head fails. */
void weir__soft_fail(struct weir__soft_stream *s, weir_status status, const char *text);

/* Puts the stream and its token at the end of the list. */
void weir__soft_append(struct weir__soft_list *list, struct weir__soft_stream *s);
/* The first of the list, out of it; NULL if there is none. */
struct weir__soft_stream *weir__soft_take(struct weir__soft_list *list);
/* Publishes what is over; streams that waited for it are appended to `woken`, their
 * tokens with them. */
void weir__soft_publish(struct weir__soft_stream *s, struct weir__soft_list *woken);
/* Gives the token to the waiter list of `source` until its command `seq` is over;
 * false if that is over already. Publish first. */
bool weir__soft_park(struct weir__soft_stream *s, struct weir__soft_stream *source, uint64_t seq);
/* Gives the token up if nothing is pending; false if something is. Publish first. */
bool weir__soft_surrender(struct weir__soft_stream *s);
/* Put the stream and its token into the scheduler of its device, from any thread. After the first
 * the caller wakes a worker. */
void weir__soft_make_ready(struct weir__soft_stream *s);
void weir__soft_hand_back(struct weir__soft_stream *s);
/* What the next command needs, so that the stream can be put into the scheduler. */
enum weir__core_kind weir__soft_next_kind(struct weir__soft_stream *s);

/* ---- collectives: for the token's holder (meet.c says how they run) ---- */

/* The participant arrives for the collective at the head. False if it waits: the token is the
 * rendezvous's then. Publish first. */
bool weir__soft_arrive(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* The stream is in error and skips the collective: its peers are told. */
void weir__soft_miss(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* The stream's part has run; it failed if the stream is in error now. False if it waits for the
 * others: the rendezvous has the token then. */
bool weir__soft_depart(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Arrives if the command at the head is a collective that can be arrived at: by whoever has
 * the token, since it takes neither core nor thread. True if the stream is the rendezvous's now;
 * the participant may also have become the last: then it has let the others run their parts, unless
 * it will run them all. Publish first. */
bool weir__soft_arrive_early(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* The last to arrive lets the others run their parts. */
void weir__soft_open_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* Or it has run them all: `rank` is whose part failed, if one did. The others' streams go on:
 * to their next collective if that is what follows, else to their devices. */
void weir__soft_close_rendezvous(struct weir__soft_stream *s, const struct weir__cmd *cmd,
                                 int rank);
/* Rank `rank` of the rendezvous and its command, while the stream's own part may run. */
struct weir__soft_stream *weir__soft_peer(const struct weir__soft_stream *s, int rank);
const struct weir__cmd *weir__soft_peer_cmd(const struct weir__soft_stream *s, int rank);
/* The collective is over or was refused: takes its error over. */
void weir__soft_meet_end(struct weir__soft_stream *s, const struct weir__cmd *cmd);
/* participant.wake of a stream that a driver does not give another. */
void weir__soft_wake_participant(struct weir__participant *participant);
static inline bool weir__soft_may_run_part(const struct weir__soft_stream *s)
{
    return s->participant.state == WEIR__PARTICIPANT_LAST ||
           s->participant.state == WEIR__PARTICIPANT_RUNS;
}

/* What a report says of the stream while a long operator or a collective is at its head. */
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

/* Zeroed pages, NULL if the system has none. */
void *weir__soft_map(size_t size);
void weir__soft_unmap(void *address, size_t size);

/* ---- for the host ---- */

/* Registers a host waiter; false if `seq` is over already. */
bool weir__soft_host_park(struct weir__soft_stream *s, struct weir__waiter *w, uint64_t seq);
static inline void weir__soft_host_is_up(struct weir__waiter *w)
{
    if (w->asleep)
        atomic_fetch_sub(w->asleep, 1);
}
/* Takes it back after a timeout; false if it was woken meanwhile. */
bool weir__soft_host_unpark(struct weir__soft_stream *s, struct weir__waiter *w);
/* Sleeps until `seq` is over: what driver->sync returns, with a report if the time is up. The
 * caller has counted itself in *asleep, unless that is NULL; it is no longer counted from the
 * moment that somebody wakes it, before it has a CPU. */
weir_status weir__soft_host_wait(weir_stream *s, uint64_t seq, int64_t timeout_ns,
                                 _Atomic uint32_t *asleep);
/* A number that changes whenever anything on the device completes. */
uint64_t weir__soft_progress(weir_device *dev);
/* Whether an operator runs that op_timeout does not count for. */
bool weir__soft_untimed(weir_device *dev);
/* Writes a line for each busy stream of the devices, which are of one kind, and of the streams they
 * wait for: what it runs, what it holds and what it waits for. Writes the cycle of waits in one
 * line, if there is one. */
void weir__soft_report(weir_device *const *devs, int ndevs, struct weir__text *report,
                       struct weir__text *cycle);

#endif
