/* Devices and streams inside the library. The seam that a driver fills is device/driver.h.
 *
 * The device layer owns handles, numbering, clocks, memory order and limits. The device lock
 * guards everything marked (L). Host threads that submit take it; threads that run kernels never
 * do.
 *
 * Host threads that launch on different streams need not share it. When launches have found it held
 * often enough, dev->per_stream is set. From then on a launch takes the lock of its stream alone,
 * and so does a host thread that waits for the stream. Under it they may touch what is (L) and
 * belongs to this stream, and read what is (L) and does not change: the tables of streams, buffers
 * and their fences. A thread that takes the device lock clears per_stream and waits for launches
 * that are in progress. One of the two sees the other:
 *
 *   launch        stream->lock = held, then reads per_stream: if it is clear, the launch gives the
 *                 stream's lock back and takes the device lock
 *   device lock   per_stream = false, then reads the lock of every stream until it is free
 *
 * Both are sequentially consistent; per_stream is written under the device lock only. The model is
 * tests/model/per_stream.pml.
 */
#ifndef WEIR_DEVICE_DEVICE_H
#define WEIR_DEVICE_DEVICE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "device/driver.h"
#include "device/spec.h"
#include "memory/pool.h"
#include "trace/record/trace.h"
#include "weir/launch.h"

#define WEIR__PRIORITY_MOST (-8)
#define WEIR__PRIORITY_LEAST 7
#define WEIR__NEVER_FAILED UINT64_MAX

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
    struct weir__spin lock; /* of launches, while dev->per_stream */
    struct weir__mark
        deferred;             /* (L) a wait that is queued once anybody looks; stream NULL: none */
    struct weir__clock clock; /* (L) clock.seq[slot] is the last command queued */
    struct weir__clock taken; /* (L) up to where errors of others have been taken over: at most
                               * what `clock` says. May say less than is so. */
    struct weir__clock retired_at; /* (L) of a failed stream given back: what was queued then on
                                    * each stream, any of which may still ask for the error */
    bool unusable;                 /* (L) given back without memory for that */
    bool shared;                   /* (L) others queue on it too: weir_stream_native was called */
    _Atomic uint64_t failed_at;    /* the command that failed */
    struct weir__spin error_lock;  /* of the next two */
    weir_status error;
    char error_text[1024];
};

/* Queues the stream's deferred wait and, on a shared stream, a command that does nothing, after the
 * work that others have queued. Call it before anything else is queued on the stream, or its last
 * command is asked for. It counts as queueing: kick afterwards. (L) */
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

/* The place where the time of one recorded event is written. It outlives the event until the
 * stream gets there. */
struct weir__stamp {
    _Atomic uint64_t ns;
    struct weir__mark mark;
    struct weir__stamp *next;
};

struct weir__tag {
    char *name;
    weir_stream *stream;
};

/* Something that could not be freed because work in it was stuck. The device frees it when it
 * closes, because then all work is over. */
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
    /* Waits of other devices for this one, and threads that wake them: while there are any, the
     * device must not close. On another cache line than the lock, which hosts take for every
     * command. */
    _Alignas(WEIR__LINE) _Atomic unsigned visitors;
    _Alignas(WEIR__LINE) struct weir__light_mutex lock;
    _Atomic bool per_stream; /* launches take the lock of their stream instead */
    unsigned found_held;     /* (L) launches that had to wait for the lock since that ended */
    weir_stream **streams;   /* (L) by slot */
    unsigned nstreams, cap_streams;
    weir_stream *default_stream;
    struct weir__tag *tags; /* (L) */
    unsigned ntags, cap_tags;
    uint64_t next_stream_id;          /* (L) */
    uint64_t streams_made;            /* (L) for the hint */
    struct weir__limit limit;         /* in force for streams without their own */
    struct weir__pool pool;           /* (L) */
    size_t events_live;               /* (L) */
    void *spare_events;               /* (L) records, linked by their first word */
    size_t events_most;               /* the driver's limit; 0: none */
    weir_device *next_open;           /* of all open devices */
    _Atomic int groups_live;          /* ranks of groups that it stands for */
    _Atomic bool shares;              /* new memory is for other processes to map, too */
    _Atomic int graphs_live;          /* graphs, and plans, which have one each */
    _Atomic int tagged_live;          /* tagged events that were recorded: a tensor each */
    struct weir__stamp *spare_stamps; /* (L) oldest first */
    struct weir__stamp **spare_stamps_end;
    struct weir__leftover *leftovers; /* (L) */
    size_t tensors_live;              /* (L) */
    void *spare_tensors;              /* (L) records, linked by their first word */
};

/* lock.c: launches by stream are over. (L) */
void weir__device_end_per_stream(weir_device *dev);
static inline void weir__device_lock(weir_device *dev)
{
    weir__light_lock(&dev->lock);
    if (weir__unlikely(atomic_load_explicit(&dev->per_stream, memory_order_relaxed)))
        weir__device_end_per_stream(dev);
}
static inline void weir__device_unlock(weir_device *dev)
{
    weir__light_unlock(&dev->lock);
}
/* What a launch on the stream, or a wait for it, takes: true if that is the lock of the stream
 * alone, else the device lock. */
bool weir__stream_lock(weir_stream *s);
static inline void weir__stream_unlock(weir_stream *s, bool alone)
{
    if (weir__unlikely(alone))
        weir__spin_unlock(&s->lock);
    else
        weir__device_unlock(s->dev);
}

static inline bool weir__device_can(const weir_device *dev, enum weir__capability what)
{
    return dev->driver->can & what;
}

/* Whether it runs weir's own kernels, which rows must prepare; else it takes operators whole. */
static inline bool weir__device_runs_kernels(const weir_device *dev)
{
    return dev->driver->can & (WEIR__RUNS_HOST_FUNCTIONS | WEIR__RUNS_SOURCE);
}

/* Before the host asks whether something is done, outside the lock. */
static inline void weir__device_poll(weir_device *dev)
{
    if (dev->driver->notices && dev->driver->notices->poll)
        dev->driver->notices->poll(dev);
}

/* All open devices, by next_open. None of them closes until they are released. */
weir_device *weir__devices_hold(void);
void weir__devices_release(void);

weir_stream *weir__device_new_stream(weir_device *dev); /* (L) NULL with the error set */

/* Queue one command each; the caller holds the lock and kicks after it. */
weir_status weir__stream_submit(weir_stream *s, const struct weir__kernel *kernel);
weir_status weir__stream_wait_mark(weir_stream *s, struct weir__mark mark,
                                   const struct weir__clock *clock, enum weir__wait how);
/* A wait for the order of another stream's deferred wait. */
weir_status weir__stream_wait_deferred(weir_stream *s, struct weir__mark deferred);
/* Whether such a wait is needless: the stream is ordered after the mark already and, if errors are
 * asked for, has taken over those up to the mark. (L) */
bool weir__stream_is_after(const weir_stream *s, struct weir__mark mark, enum weir__wait how);

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
/* Puts the stream in error at `seq`, as `source` is if that is given, unless it is from an earlier
 * command on; and forgets it again, when nothing runs the stream. */
void weir__stream_fail(weir_stream *s, uint64_t seq, weir_status status, const char *text);
void weir__stream_fail_like(weir_stream *s, uint64_t seq, weir_stream *source);
/* The error of a stream that has one, with its text. From any thread. */
weir_status weir__stream_copy_error(weir_stream *s, char *text, size_t size);
void weir__stream_forget_error(weir_stream *s);

/* The stream's last command so far. */
weir_status weir__stream_mark(weir_stream *s, struct weir__mark *out);

/* Waits for command `seq`, notes what that proves to the pool. The second is a wait of the
 * user's, which the race checker counts. */
weir_status weir__stream_await(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
weir_status weir__stream_sync_seq(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
/* Tells the race checker that the user knows command `seq` to be over. */
void weir__stream_saw(weir_stream *s, uint64_t seq);

/* ---- listen.c: trace records of every device ---- */

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

/* native.c: notes that work queued so far on every native stream that weir has handed out, and on
 * the hardware's default stream, may use the buffer. */
weir_status weir__device_used_by_others(weir_device *dev, weir_buffer *buffer);

/* Calls the release functions of wrapped memory that is no longer used. */
void weir__device_reap(weir_device *dev, bool all);

#endif
