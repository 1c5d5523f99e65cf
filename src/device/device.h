/* Devices and streams inside the library, and the seam that a driver fills.
 *
 * The device layer owns handles, numbering, clocks, memory order and limits; a
 * driver starts work, moves bytes and tells the time. Commands of a stream are
 * numbered 1, 2, 3, ... in the order they are queued; "command q of stream u is
 * over" is all that events, memory and syncs ever ask, so a driver that can say
 * how far each stream got needs no events of its own.
 *
 * The device lock guards everything marked (L). It is taken by host threads that
 * submit, never by the threads that run kernels.
 */
#ifndef WEIR_DEVICE_DEVICE_H
#define WEIR_DEVICE_DEVICE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "device/code.h"
#include "device/spec.h"
#include "memory/pool.h"
#include "trace/record/trace.h"
#include "weir/launch.h"

#define WEIR__DRIVER_ABI 1
#define WEIR__PRIORITY_MOST (-8)
#define WEIR__PRIORITY_LEAST 7
#define WEIR__NEVER_FAILED UINT64_MAX
#define WEIR__NO_TIME UINT64_MAX

/* A kernel with its tiling decided. */
struct weir__kernel {
    const char *name;
    weir_kernel_fn fn;             /* NULL: nothing is run */
    const struct weir__code *code; /* the same for devices that compile; NULL where there is none */
    const void *args;              /* copied by the driver */
    uint32_t args_size;
    weir_engine engine;
    uint32_t blocks, phases;
    uint32_t cores; /* the most that may run at once */
    bool gang;
    bool own_cores; /* `cores` is its own (a scope's or a plan's) and stays; otherwise the
                     * limits of stream and device when it starts count */
    bool meets;     /* args begin with a struct weir__meet (comm/comm.h): it runs when its peers are
                     * there, and is over when their parts are */
    bool tune;      /* time may be spent on finding the fastest way */
    bool never_timeout; /* while it runs, op_timeout does not */
    uint32_t work_ns;   /* of one block, roughly; UINT32_MAX if unknown */
    uint16_t scope;     /* weir__trace_scope of its super kernel, 0 for none */
    float bytes;        /* it reads and writes in all; 0 if unknown */
    /* For devices that model what it takes. */
    float flops;    /* of all blocks */
    float block_us; /* of one block, where that is known rather than the flops; else 0 */
    bool together;  /* its cores are granted at once, though it is no gang */
};

/* A point of a stream: after its command `seq`. */
struct weir__mark {
    weir_stream *stream;
    uint64_t seq;
};

enum weir__wait {
    WEIR__WAIT_ORDER,  /* order alone */
    WEIR__WAIT_ERRORS, /* an error of the mark's stream up to the mark is taken over */
    WEIR__WAIT_FRESH,  /* the same, and an error the stream had before is forgotten */
};

/* One step of a plan's lane: a kernel, or a wait for a step of another lane. */
struct weir__item {
    bool is_wait;
    int lane, item; /* of a wait: until that one is over */
    struct weir__kernel kernel;
};

struct weir__lane {
    const struct weir__item *items;
    int nitems;
};

struct weir__program;
struct weir__relay;

/* A core limit that may be read at any time; 0 where there is none. */
struct weir__limit {
    _Atomic int cube, vector;
};

struct weir_stream {
    weir_device *dev;
    uint32_t slot;       /* index into dev->streams, kept for ever */
    _Atomic uint64_t id; /* new at each create, 0 once given back */
    int priority;
    char name[48];
    bool pinned;              /* default or tagged: the device owns it */
    bool live;                /* (L) not given back */
    struct weir__limit limit; /* 0: the device's */
    struct weir__race_name race;
    struct weir__mark
        deferred;             /* (L) a wait that is queued once anybody looks; stream NULL: none */
    struct weir__clock clock; /* (L) clock.seq[slot] is the last command queued */
    struct weir__clock retired_at; /* (L) of a failed stream given back: what was queued then on
                                    * each stream, any of which may still ask for the error */
    bool unusable;                 /* (L) given back without memory for that */
    bool shared;                   /* (L) others queue on it too: weir_stream_native was called */
    _Atomic uint64_t failed_at;    /* the command that failed */
    struct weir__spin error_lock;  /* of the next two */
    weir_status error;
    char error_text[1024];
};

/* Queues the wait the stream waits, and on a shared stream a command that does nothing, behind
 * what others have queued. Before anything else is queued on it, or its last command is asked
 * for. It counts as queueing: kick afterwards. (L) */
weir_status weir__stream_queue_deferred_slow(weir_stream *s);
static inline weir_status weir__stream_queue_deferred(weir_stream *s)
{
    return weir__likely(!s->deferred.stream && !s->shared) ? WEIR_OK
                                                           : weir__stream_queue_deferred_slow(s);
}

static inline uint64_t weir__stream_submitted(const weir_stream *s)
{
    return s->clock.seq[s->slot];
}

/* The stream as the race checker is told of it. (L) */
static inline struct weir__race_stream weir__stream_race(weir_stream *s)
{
    return (struct weir__race_stream){&s->race, weir__stream_submitted(s), s->name,
                                      weir_device_name(s->dev)};
}

/* What a device does. Every pointer is required unless it says otherwise. */
struct weir__driver {
    unsigned abi;
    const char *name;
    const char *summary;
    size_t device_size; /* of a struct that begins with weir_device */
    size_t stream_size; /* of a struct that begins with weir_stream */
    bool compiles;      /* runs weir__kernel.code, not fn */
    bool meets;         /* runs collectives: kernels that wait for their peers */
    bool captures;      /* what program_update changes takes about as long as another program */
    /* Why it cannot be opened here, or NULL. */
    const char *(*unavailable)(void);
    /* Reads its options, fills dev->props, starts what runs. */
    weir_status (*open)(weir_device *dev, struct weir__spec *spec);
    /* Everything queued is done. */
    void (*close)(weir_device *dev);
    /* Optional, last of all: streams and the pool's memory are gone. */
    void (*release)(weir_device *dev);
    /* The generic part is filled; a stream is opened once per slot and reused. */
    weir_status (*stream_open)(weir_stream *s);
    void (*stream_close)(weir_stream *s);
    /* The next four queue one command each, under the device lock. They must not
     * wait for the device. */
    weir_status (*submit)(weir_stream *s, const struct weir__kernel *kernel);
    weir_status (*wait)(weir_stream *s, struct weir__mark mark, enum weir__wait how);
    weir_status (*callback)(weir_stream *s, weir_callback_fn fn, void *user);
    /* Optional, together: order with streams of other drivers (device/relay.h), (L). The command
     * calls weir__relay_signal with the stream's error; the command is over once the relay is
     * signalled, takes its error over and drops it. */
    weir_status (*signal_relay)(weir_stream *s, struct weir__relay *relay);
    weir_status (*wait_relay)(weir_stream *s, struct weir__relay *relay);
    /* Optional: whether its kernels and copies reach the memory of another device of this driver.
     * NULL: they do. */
    bool (*reaches_device)(const weir_device *dev, const weir_device *other);
    /* Optional: other streams may wait for the last command queued so far. (L) */
    weir_status (*mark)(weir_stream *s);
    /* Optional: what a limit of so many cores comes to on the device. */
    int (*round_limit)(const weir_device *dev, int cores);
    /* Optional, together: streams and memory of others on the same hardware. The driver's own
     * queue behind the stream on so many cores, after everything queued, for others to queue
     * on (L); a command after everything on `native` (L); whatever is queued on `native` from
     * now on comes after the mark (L); whether the device can work on the memory there. */
    weir_status (*native)(weir_stream *s, unsigned cores, void **handle);
    weir_status (*wait_native)(weir_stream *s, void *native);
    weir_status (*signal_native)(struct weir__mark mark, void *native);
    bool (*reaches)(weir_device *dev, const void *address);
    /* As well: while a trace is recorded, work on `native` that the stream's last command stands
     * for begins here; with a NULL kernel what has begun ends, if anything has. (L) */
    void (*hear_native)(weir_stream *s, void *native, const struct weir__kernel *kernel);
    /* Writes the device's time to *ns when the stream gets there, or WEIR__NO_TIME. */
    weir_status (*stamp)(weir_stream *s, _Atomic uint64_t *ns);
    /* After a queueing call, outside the lock: wakes whoever must run it. */
    void (*kick)(weir_device *dev);
    /* The last command that is over. */
    uint64_t (*done)(const weir_stream *s);
    /* Before the host asks whether something is done, outside the lock: lets a device that
     * runs only while it is waited for go on, and with it those that visit it. NULL where
     * devices run by themselves. */
    void (*poll)(weir_device *dev);
    /* Waits until `seq` is over: WEIR_OK, or WEIR_ETIMEDOUT with a report. A
     * timeout of WEIR_TIMEOUT_DEVICE runs out when nothing on the device has moved
     * for dev->op_timeout_ns. */
    weir_status (*sync)(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
    /* Who waits for whom on these devices, and the cycle in it: for the timeouts of groups.
     * NULL: it cannot say. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    /* Plans: a program is made once and queued many times. `run` queues lanes[i] of it
     * on streams[i], whose last command so far is the i-th base; the commands count as
     * if they had been queued one by one. A collective at place p has the number
     * tickets[p] + its own. On an error nothing is queued, or all of it counts and its streams
     * are in error from where it failed. */
    weir_status (*program_make)(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                                struct weir__program **out);
    void (*program_free)(struct weir__program *program);
    weir_status (*program_run)(const struct weir__program *program, weir_stream *const *streams,
                               const uint64_t *tickets, int ntickets);
    /* Optional, for a thread that queues work and goes on to wait for it. What becomes ready
     * between hold(true) and hold(false), (L), is shown to nobody; then the thread lends itself to
     * that, outside the lock, and comes back once it is over or would take long. hold(true) is
     * false if another thread is at it. */
    bool (*hold)(weir_device *dev, bool on);
    void (*lend)(weir_device *dev);
    /* Replaces a kernel by one with as many bytes of arguments, while nothing runs it. */
    void (*program_update)(struct weir__program *program, int lane, int item,
                           const struct weir__kernel *kernel);
    void *(*map)(weir_device *dev, size_t size);
    void (*unmap)(weir_device *dev, void *address, size_t size);
    uint64_t (*now)(const weir_device *dev);
    enum weir__trace_clock trace_clock; /* of its records; anything but ticks is what now() says */
};

/* Where the time of one recorded event is written. It outlives the event while
 * the stream has not got there. */
struct weir__stamp {
    _Atomic uint64_t ns;
    struct weir__mark mark;
    struct weir__stamp *next;
};

struct weir__tag {
    char *name;
    weir_stream *stream;
};

/* A part of something that could not be freed while work was stuck in it; the device does
 * so when it closes, since then everything is over. */
struct weir__leftover {
    void (*free)(struct weir__leftover *leftover);
    struct weir__leftover *next;
};
void weir__device_leave(weir_device *dev, struct weir__leftover *leftover);

/* A device as DLPack numbers them. */
enum { WEIR__DLPACK_CPU = 1, WEIR__DLPACK_CUDA = 2, WEIR__DLPACK_CUDA_HOST = 3 };
struct weir__dlpack_device {
    int32_t type, id;
};

struct weir__model;

struct weir_device {
    const struct weir__driver *driver;
    struct weir__dlpack_device dlpack; /* where its tensors are for others */
    const struct weir__model *model;   /* of a device in virtual time (sim/model.h); else NULL */
    uint64_t id;
    weir_device_props props;
    char label[96];        /* its name and number: tells devices of one spec apart in messages */
    int64_t op_timeout_ns; /* -1: for ever */
    struct weir__trace_source trace;
    /* Waits of other devices for this one, and their wakers: until there are none it must not
     * go away. Apart from the lock, which hosts take for every command. */
    _Alignas(WEIR__LINE) _Atomic unsigned visitors;
    _Alignas(WEIR__LINE) struct weir__mutex lock;
    weir_stream **streams; /* (L) by slot */
    unsigned nstreams, cap_streams;
    weir_stream *default_stream;
    struct weir__tag *tags; /* (L) */
    unsigned ntags, cap_tags;
    uint64_t next_stream_id;          /* (L) */
    uint64_t streams_made;            /* (L) for the hint */
    struct weir__limit limit;         /* in force for streams without their own */
    struct weir__pool pool;           /* (L) */
    size_t events_live;               /* (L) */
    size_t events_most;               /* the driver's limit; 0: none */
    weir_device *next_open;           /* of all open devices */
    _Atomic int groups_live;          /* ranks of groups that it stands for */
    _Atomic int graphs_live;          /* graphs, and plans, which have one each */
    _Atomic int tagged_live;          /* tagged events that were recorded: a tensor each */
    struct weir__stamp *spare_stamps; /* (L) oldest first */
    struct weir__stamp **spare_stamps_end;
    struct weir__leftover *leftovers; /* (L) */
    size_t tensors_live;              /* (L) */
    void *spare_tensors;              /* (L) records, linked by their first word */
};

/* The drivers, in the order they are listed. */
extern const struct weir__driver weir__cpu_driver;
extern const struct weir__driver weir__npu_driver;
extern const struct weir__driver weir__cuda_driver;

/* All open devices, by next_open. None of them closes until they are released. */
weir_device *weir__devices_hold(void);
void weir__devices_release(void);

weir_stream *weir__device_new_stream(weir_device *dev); /* (L) NULL with the error set */

/* Queue one command each; the caller holds the lock and kicks after it. */
weir_status weir__stream_submit(weir_stream *s, const struct weir__kernel *kernel);
weir_status weir__stream_wait_mark(weir_stream *s, struct weir__mark mark,
                                   const struct weir__clock *clock, enum weir__wait how);

/* Cores of the engine that an operator on `s` may use now, at least 1; `scope` is the
 * operator's own limit, 0 where it has none. */
unsigned weir__stream_cores(const weir_stream *s, weir_engine engine, weir_cores scope);
/* The same where the stream's limit is known. */
unsigned weir__cores_of(const weir_device *dev, weir_engine engine, weir_cores stream,
                        weir_cores scope);
/* returns  WEIR_ERANGE naming the range if a limit that is neither 0 nor -1 is not one
 *          the device has. */
weir_status weir__device_check_limit(const weir_device *dev, weir_cores limit);

/* ---- the thread's current streams (stream.c), which scopes save and restore ---- */

#define WEIR__CURRENT_DEVICES 8

/* Where operators of this thread go on one device. Ids, not pointers alone, say whether
 * device and stream are still the ones that were meant. */
struct weir__current {
    uint64_t device_id, stream_id;
    weir_stream *stream;
};

struct weir__current_set {
    weir_cores limit;   /* of the open core scopes; 0 where none says anything */
    bool never_timeout; /* of the open never-timeout scope */
    const char *tag;    /* of the innermost stream scope, on every device; NULL without one */
    int priority;
    struct weir__current tagged;                        /* that tag on the device last asked for */
    struct weir__current chosen[WEIR__CURRENT_DEVICES]; /* by weir_stream_set_current since */
};

struct weir__current_set *weir__current_get_set(void);
/* Whether an open core scope of this thread limits the engine. */
bool weir__scope_has_cores(weir_engine engine);

/* The stream's first error as the thread's error; WEIR_OK if it has none up to `seq`. */
weir_status weir__stream_error(weir_stream *s, uint64_t seq);
/* Puts the stream in error at `seq`, as `source` is if that is given, and forgets it
 * again. Called by the one thread that runs the stream, or when nothing does. */
void weir__stream_fail(weir_stream *s, uint64_t seq, weir_status status, const char *text);
void weir__stream_fail_like(weir_stream *s, uint64_t seq, weir_stream *source);
void weir__stream_forget_error(weir_stream *s);

/* The stream's last command so far. */
weir_status weir__stream_mark(weir_stream *s, struct weir__mark *out);

/* Waits for command `seq`, notes what that proves to the pool. The second is a wait of the
 * user's, which the race checker counts. */
weir_status weir__stream_await(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
weir_status weir__stream_sync_seq(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
/* Tells the race checker that the user knows command `seq` to be over. */
void weir__stream_saw(weir_stream *s, uint64_t seq);

/* ---- listen.c: what traces hear from every device ---- */

/* The device is open. */
void weir__device_listen(weir_device *dev);
/* The stream has its name and priority. Nothing is queued on it yet. */
void weir__stream_announce(const weir_stream *s);
/* The pool's `traced`. (L) */
void weir__device_trace_memory(void *dev);
/* Now, as the device's records have it. */
static inline uint64_t weir__device_trace_time(const weir_device *dev)
{
    return dev->driver->trace_clock == WEIR__TRACE_TICKS ? weir__trace_ticks()
                                                         : dev->driver->now(dev);
}

/* A driver's sync calls it some ten times a second while it waits for `s`, if the thread has a
 * hook, and ends the wait on an error. */
bool weir__wait_has_hook(void);
/* 1 and later -1 around waits of this thread that must not end before the work does: the
 * hook is not asked. */
void weir__wait_shield(int change);
weir_status weir__wait_check(const weir_stream *s);

/* native.c: others may use the buffer on any native stream that weir has given away, and on the
 * default stream of the hardware, up to what is queued there now. */
weir_status weir__device_used_by_others(weir_device *dev, weir_buffer *buffer);

/* Calls the release functions of wrapped memory that is no longer used. */
void weir__device_reap(weir_device *dev, bool all);

#endif
