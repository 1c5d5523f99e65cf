/* Devices and streams inside the library. The seam that a driver fills is device/driver.h.
 *
 * The device layer owns handles, numbering, clocks, memory order and limits. The device lock
 * guards everything marked (L). Host threads that submit take the device lock; threads that run
 * kernels never do.
 *
 * Host threads that launch on different streams can avoid contention for the device lock. When
 * launches have found the lock held often enough, dev->per_stream is set. From then on a launch
 * takes only the lock of its stream, and so does a host thread that waits for the stream. The
 * holder of a stream's lock may change the (L) fields of that stream, and may read (L) data that
 * only the device lock allows to change: the tables of streams, buffers and their fences. A thread
 * that takes the device lock clears per_stream and waits for launches that are in progress. Either
 * the launch or that thread sees the other:
 *
 *   launch        stream->lock = held, then reads per_stream: if it is clear, the launch releases
 *                 the stream's lock and takes the device lock
 *   device lock   per_stream = false, then reads the lock of every stream until it is free
 *
 * All four accesses are sequentially consistent. per_stream is written under the device lock only.
 * The model is tests/model/per_stream.pml.
 *
 * Launches that allocate their result, and frees, need no more than a stream's lock either, as long
 * as the block is or becomes one of the stream's recent blocks (memory/pool.h). The lock is that of
 * the block's owner, whichever thread frees it:
 *
 *   what                      who may write it without the device lock
 *   recent blocks             the holder of their stream's lock
 *   state and size of a       the holder of its owner's lock; the owner does not change
 *   block in use
 *   its fence of stream u     the holder of u's lock; a block with fences of other streams
 *                             than its owner is freed under the device lock
 *   idle lists, statistics,   nobody: differences are kept with the stream (S), and added
 *   counts of the device      after the launches in progress, when per_stream is cleared;
 *                             so they are 0 while it is clear
 *
 * The model is tests/model/recent.pml.
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

/* A core limit that any thread may read without a lock; 0 means no limit. */
struct weir__limit {
    _Atomic int cube, vector;
};

struct weir_stream {
    weir_device *dev;
    uint32_t slot;       /* index into dev->streams, never changes */
    _Atomic uint64_t id; /* new at each create, 0 after destroy */
    int priority;
    char name[48];
    bool pinned;              /* default or tagged: the device owns it */
    bool live;                /* (L) created and not destroyed */
    struct weir__limit limit; /* 0: the device's limit applies */
    struct weir__race_name race;
    struct weir__spin lock;     /* taken by launches while dev->per_stream is set */
    void *spare_tensors;        /* (S) records, linked by their first word */
    unsigned nspare_tensors;    /* (S) */
    int64_t tensors_more;       /* (S) to be added to dev->tensors_live */
    struct weir__mark deferred; /* (L) a wait that is not queued yet; stream NULL: no such wait */
    struct weir__clock clock;   /* (L) clock.seq[slot] is the last command queued */
    struct weir__clock taken; /* (L) for each stream, up to which command this stream has taken its
                               * errors over. A lower bound, at most `clock`. */
    struct weir__clock retired_at; /* (L) of a failed and destroyed stream: the last command queued
                                    * on each stream at the destroy. Those commands may still ask
                                    * for the error. */
    bool unusable;                 /* (L) no memory for retired_at: a failed slot is not reused */
    bool shared; /* (L) other libraries queue on it too: weir_stream_native was called */
    _Atomic uint64_t failed_at;   /* the command that failed, or WEIR__NEVER_FAILED */
    struct weir__spin error_lock; /* guards the next two fields */
    weir_status error;
    char error_text[1024];
};

/* Queues the stream's deferred wait. On a shared stream it also queues an empty command, which is
 * ordered after the work that other libraries have queued. Call it before queueing anything on the
 * stream and before reading the stream's last command. The caller must kick the device afterwards.
 * (L) */
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

/* Describes the stream to the race checker. (L) */
static inline struct weir__race_stream weir__stream_race(weir_stream *s)
{
    return (struct weir__race_stream){&s->race, weir__stream_submitted(s), s->name,
                                      weir_device_name(s->dev)};
}

/* The memory into which a device writes the time of one recorded event. It must stay allocated
 * until the stream reaches the record, also if the event is destroyed earlier. */
struct weir__stamp {
    _Atomic uint64_t ns;
    struct weir__mark mark;
    struct weir__stamp *next;
};

struct weir__tag {
    char *name;
    weir_stream *stream;
};

/* Streams by slot. A larger table replaces a full one, which stays until the device closes: threads
 * that hold no lock may still read it. */
struct weir__stream_table {
    struct weir__stream_table *smaller;
    weir_stream *at[];
};

/* An object that could not be freed because its work did not end in time. The device frees it when
 * the device closes, because all work has completed then. */
struct weir__leftover {
    void (*free)(struct weir__leftover *leftover);
    struct weir__leftover *next;
};
void weir__device_leave(weir_device *dev, struct weir__leftover *leftover);

/* DLPack's numbers for devices. */
enum { WEIR__DLPACK_CPU = 1, WEIR__DLPACK_CUDA = 2, WEIR__DLPACK_CUDA_HOST = 3 };
struct weir__dlpack_device {
    int32_t type, id;
};

struct weir__model;

struct weir_device {
    const struct weir__driver *driver;
    struct weir__dlpack_device dlpack; /* the device that exported tensors name */
    const struct weir__model *model;   /* of a device in virtual time (sim/model.h); else NULL */
    uint64_t id;
    weir_device_props props;
    char label[96];        /* name and number: tells devices of the same spec apart in messages */
    int64_t op_timeout_ns; /* -1: no timeout */
    struct weir__trace_source trace;
    /* The number of waits of other devices for this one, and of threads that wake those waits. The
     * device must not close before it is 0. The counter has a cache line of its own because hosts
     * take the lock for every command. */
    _Alignas(WEIR__LINE) _Atomic unsigned visitors;
    _Alignas(WEIR__LINE) struct weir__light_mutex lock;
    _Atomic bool per_stream; /* launches take the lock of their stream, not `lock` */
    unsigned found_held;     /* (L) launches that found `lock` held since per_stream was cleared */
    weir_stream **streams;   /* (L) by slot: table->at */
    _Atomic(struct weir__stream_table *) table;
    unsigned nstreams, cap_streams;
    weir_stream *default_stream;
    struct weir__tag *tags; /* (L) */
    unsigned ntags, cap_tags;
    uint64_t next_stream_id;          /* (L) */
    uint64_t streams_made;            /* (L) at MANY_STREAMS a warning is logged */
    struct weir__limit limit;         /* of streams without a limit of their own */
    struct weir__pool pool;           /* (L) */
    size_t events_live;               /* (L) */
    void *spare_events;               /* (L) records, linked by their first word */
    size_t events_most;               /* the driver's limit; 0: none */
    weir_device *next_open;           /* the list of all open devices */
    _Atomic int groups_live;          /* ranks of groups on this device */
    _Atomic bool shares;              /* allocate memory that other processes can map */
    _Atomic int graphs_live;          /* graphs and plans; each plan counts once */
    _Atomic int tagged_live;          /* recorded tagged events; each holds one tensor */
    struct weir__stamp *spare_stamps; /* (L) oldest first */
    struct weir__stamp **spare_stamps_end;
    struct weir__leftover *leftovers; /* (L) */
    size_t tensors_live;              /* (L) */
    void *spare_tensors;              /* (L) records, linked by their first word */
    unsigned nspare_tensors;          /* (L) */
};

/* lock.c: clears per_stream and waits for launches that hold the lock of their stream. (L) */
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
/* Takes the device lock if nobody has it and launches do not take the locks of their streams. */
static inline bool weir__device_lock_quickly(weir_device *dev)
{
    if (atomic_load_explicit(&dev->per_stream, memory_order_relaxed) ||
        weir__unlikely(!weir__light_try(&dev->lock)))
        return false;
    if (weir__likely(!atomic_load_explicit(&dev->per_stream, memory_order_relaxed)))
        return true;
    weir__light_unlock(&dev->lock);
    return false;
}
/* Takes the lock for a launch on the stream or for a wait for it. Returns true if it took only the
 * stream's lock, false if it took the device lock. */
bool weir__stream_lock_slow(weir_stream *s);
static inline bool weir__stream_lock(weir_stream *s)
{
    return weir__likely(weir__device_lock_quickly(s->dev)) ? false : weir__stream_lock_slow(s);
}
static inline void weir__stream_unlock(weir_stream *s, bool alone)
{
    if (weir__unlikely(alone))
        weir__spin_unlock(&s->lock);
    else
        weir__device_unlock(s->dev);
}

/* Takes the device lock in place of the stream's, which this thread holds. */
static inline void weir__stream_lock_device(weir_stream *s, bool *alone)
{
    weir__spin_unlock(&s->lock);
    weir__device_lock(s->dev);
    *alone = false;
}
/* Returns the stream that owns a block in use. Needs no lock. */
static inline weir_stream *weir__device_owner(const weir_device *dev, const weir_buffer *block)
{
    return atomic_load_explicit(&dev->table, memory_order_acquire)->at[block->owner];
}

/* Allocate and free a block of the stream under its lock alone. NULL and false if the call needs
 * the device lock; nothing has changed then. Traces record the bytes of the whole device. */
static inline weir_buffer *weir__stream_alloc(weir_stream *s, size_t size)
{
    return weir__trace_on() || weir__race_on()
               ? NULL
               : weir__pool_take_recent(&s->dev->pool, s->slot, size);
}
static inline bool weir__stream_free(weir_stream *owner, weir_buffer *block)
{
    return !weir__trace_on() && weir__pool_give_recent(&owner->dev->pool, block);
}

static inline bool weir__device_can(const weir_device *dev, enum weir__capability what)
{
    return dev->driver->can & what;
}

/* True if the device runs weir's own kernels, which rows prepare. Otherwise the driver gets the
 * operator itself (weir__kernel.call). */
static inline bool weir__device_runs_kernels(const weir_device *dev)
{
    return dev->driver->can & (WEIR__RUNS_HOST_FUNCTIONS | WEIR__RUNS_SOURCE);
}

/* Call it outside the lock before the host asks whether a command has completed. */
static inline void weir__device_poll(weir_device *dev)
{
    if (dev->driver->notices && dev->driver->notices->poll)
        dev->driver->notices->poll(dev);
}

/* Returns the first of all open devices, linked by next_open. No device can finish closing until
 * weir__devices_release. */
weir_device *weir__devices_hold(void);
void weir__devices_release(void);

weir_stream *weir__device_new_stream(weir_device *dev); /* (L) NULL with the error set */

/* Queue one command each. The caller holds the lock and kicks the device after releasing it. */
weir_status weir__stream_submit(weir_stream *s, const struct weir__kernel *kernel);
weir_status weir__stream_wait_mark(weir_stream *s, struct weir__mark mark,
                                   const struct weir__clock *clock, enum weir__wait how);
/* Queues a wait for the mark that another stream has deferred; it orders only. */
weir_status weir__stream_wait_deferred(weir_stream *s, struct weir__mark deferred);
/* True if a wait for the mark is not needed: the stream is already ordered after the mark and, for
 * WEIR__WAIT_ERRORS, has taken over the errors up to the mark. (L) */
bool weir__stream_is_after(const weir_stream *s, struct weir__mark mark, enum weir__wait how);

/* Returns how many cores of the engine an operator on `s` may use now, at least 1. `scope` is the
 * operator's own limit; 0 means no limit. */
unsigned weir__stream_cores(const weir_stream *s, weir_engine engine, weir_cores scope);
/* The same for a stream limit that the caller passes. */
unsigned weir__cores_of(const weir_device *dev, weir_engine engine, weir_cores stream,
                        weir_cores scope);
/* returns  WEIR_ERANGE naming the range if a limit that is neither 0 nor -1 is out of the
 *          device's range. */
weir_status weir__device_check_limit(const weir_device *dev, weir_cores limit);

/* ---- the thread's current streams (stream.c), which scopes save and restore ---- */

#define WEIR__CURRENT_DEVICES 8

/* The thread's current stream on one device. The ids tell whether device and stream still exist:
 * a new one may have the address of one that was freed. */
struct weir__current {
    uint64_t device_id, stream_id;
    weir_stream *stream;
};

struct weir__current_set {
    weir_cores limit;   /* of the open core scopes; 0: no limit */
    bool never_timeout; /* a never-timeout scope is open */
    const char *tag;    /* of the innermost stream scope, on every device; NULL without one */
    int priority;
    struct weir__current tagged; /* the stream of `tag` on the device that was last asked for */
    /* Streams set by weir_stream_set_current since that scope was opened. */
    struct weir__current chosen[WEIR__CURRENT_DEVICES];
};

struct weir__current_set *weir__current_get_set(void);
/* True if an open core scope of this thread limits the engine. */
bool weir__scope_has_cores(weir_engine engine);

/* Returns the stream's error and makes it the thread's last error. Returns WEIR_OK if no command up
 * to `seq` has failed. */
weir_status weir__stream_error(weir_stream *s, uint64_t seq);
/* Put the stream in error from command `seq` on, unless an earlier command has failed. The second
 * copies the error of `source`. */
void weir__stream_fail(weir_stream *s, uint64_t seq, weir_status status, const char *text);
void weir__stream_fail_like(weir_stream *s, uint64_t seq, weir_stream *source);
/* Returns the error of a stream that is in error, and copies its text. Any thread may call it. */
weir_status weir__stream_copy_error(weir_stream *s, char *text, size_t size);
/* Clears the stream's error. Call it only while nothing runs on the stream. */
void weir__stream_forget_error(weir_stream *s);

/* Writes the stream's last command to *out, after queueing its deferred wait. */
weir_status weir__stream_mark(weir_stream *s, struct weir__mark *out);

/* Wait for command `seq` and tell the pool that it has completed. The second is for waits that the
 * user asked for: it also tells the race checker. */
weir_status weir__stream_await(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
weir_status weir__stream_sync_seq(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
/* Tells the race checker that the user has learned that command `seq` has completed. */
void weir__stream_saw(weir_stream *s, uint64_t seq);

/* ---- listen.c: trace records of every device ---- */

/* Registers a device that has just been opened as a source of trace records. */
void weir__device_listen(weir_device *dev);
/* Records the stream's name and priority. Call it before anything is queued on the stream. */
void weir__stream_announce(const weir_stream *s);
/* The pool's `traced`. (L) */
void weir__device_trace_memory(void *dev);
/* Returns the time now, in the clock of the device's trace records. */
static inline uint64_t weir__device_trace_time(const weir_device *dev)
{
    return dev->driver->trace_clock == WEIR__TRACE_TICKS ? weir__trace_ticks()
                                                         : dev->driver->now(dev);
}

/* True if this thread has a wait hook and no shield is set. */
bool weir__wait_has_hook(void);
/* Call it with 1 before, and with -1 after, waits of this thread that must not end before the work
 * does. The hook is not called between the two. */
void weir__wait_shield(int change);
/* Calls the hook. A driver's sync calls this some ten times a second while it waits for `s`, if
 * weir__wait_has_hook. On an error the driver ends the wait and returns the error. */
weir_status weir__wait_check(const weir_stream *s);

/* native.c: records that the buffer may be used by all work queued so far on the hardware's default
 * stream and on every native stream that weir_stream_native has returned. */
weir_status weir__device_used_by_others(weir_device *dev, weir_buffer *buffer);

/* Calls the release functions of wrapped memory whose uses have completed; with `all`, of all
 * released wrapped memory. */
void weir__device_reap(weir_device *dev, bool all);

#endif
