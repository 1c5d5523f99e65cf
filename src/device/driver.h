/* The seam: the types that the device layer passes to a driver, and the table that a driver fills.
 *
 * The device layer owns handles, numbering, clocks, memory order and limits; a driver starts work,
 * moves bytes and tells the time. Commands of a stream are numbered 1, 2, 3, ... in the order
 * they are queued. Events, memory and syncs ask one question only: has command q of stream u
 * completed? So a driver that reports the last completed command of each stream needs no events.
 *
 * (L): called under the device lock (device/device.h). docs/writing-a-device.md has the rules that
 * the tests check; src/null is the smallest driver.
 */
#ifndef WEIR_DEVICE_DRIVER_H
#define WEIR_DEVICE_DRIVER_H

#include <stdatomic.h>

#include "base/base.h"
#include "device/code.h"
#include "device/spec.h"
#include "trace/record/trace.h"
#include "weir/device.h"
#include "weir/launch.h"

#define WEIR__NO_TIME UINT64_MAX

struct weir__call;

/* A kernel: what to run, weir's implementation of it, its blocks and its limits. The caller owns
 * everything that the struct points to; a driver that needs any of it after the call copies it. */
struct weir__kernel {
    const char *name; /* of the operator, or of the plan's node; never freed */
    /* What to run: an operator's row, its tensors and its parameters (device/op.h). NULL if the
     * kernel is not an operator of the table: a user's function; a copy or a fill (code->kind says
     * which); or several operators of a plan in one launch. Only devices that run functions or
     * source get launches of several operators. */
    const struct weir__call *call;
    /* Weir's implementation, which the row's `prepare` finds. Only for devices that run functions
     * or source. */
    weir_kernel_fn fn;             /* NULL: nothing is run */
    const struct weir__code *code; /* the same implementation as source; NULL without source */
    const void *args;              /* arguments of fn and code */
    uint32_t args_size;
    /* Blocks and limits. */
    weir_engine engine;
    uint32_t blocks, phases;
    uint32_t cores; /* blocks that may run at once */
    bool gang;
    bool own_cores; /* true: `cores` comes from a scope or a plan and is final. false: the limits of
                     * stream and device when the kernel starts apply */
    /* Collectives: args begin with a struct weir__meet (comm/comm.h). They start when all ranks
     * have arrived, and complete when all parts have completed. */
    bool is_collective;
    bool tune;          /* time may be spent on finding the fastest algorithm */
    bool never_timeout; /* op_timeout does not apply while it runs */
    uint32_t work_ns;   /* rough time of one block; UINT32_MAX if unknown */
    uint16_t scope;     /* weir__trace_scope of its super kernel, 0 for none */
    float bytes;        /* read and written in all; 0 if unknown */
    /* For devices that model time. */
    float flops;    /* of all blocks */
    float block_us; /* time of one block; 0 if unknown: `flops` is used instead */
    bool together;  /* not a gang, but its cores are granted all at once */
};

/* A point of a stream: after its command `seq`. */
struct weir__mark {
    weir_stream *stream;
    uint64_t seq;
};

enum weir__wait {
    WEIR__WAIT_ORDER,  /* orders, and takes over no error */
    WEIR__WAIT_ERRORS, /* orders, and takes over an error of the mark's stream up to the mark */
};

/* One step of a plan's lane: a kernel, or a wait for a step of another lane. */
struct weir__item {
    bool is_wait;
    int lane, item; /* of a wait: the step that it waits for */
    struct weir__kernel kernel;
};

struct weir__lane {
    const struct weir__item *items;
    int nitems;
};

struct weir__program; /* a plan in the driver's own form: each driver defines the struct */
struct weir__reel;
struct weir__relay;

/* What a device can do. The device layer, operators and graphs test these, never the driver's
 * name. */
enum weir__capability {
    /* It calls host functions (weir__kernel.fn), block by block, in memory that the host can
     * access. Graphs may then fuse several operators into one function. */
    WEIR__RUNS_HOST_FUNCTIONS = 1 << 0,
    /* It compiles kernels from source (weir__kernel.code). Graphs may then fuse elementwise
     * operators into one source. */
    WEIR__RUNS_SOURCE = 1 << 1,
    /* `submit` may be called for different streams at the same time: the caller then holds the lock
     * of its stream, not the device lock. */
    WEIR__SUBMITS_BY_STREAM = 1 << 2,
};

/* Plans: a program is made once and queued many times. Without this group the device cannot run
 * plans. */
struct weir__driver_plans {
    /* A run is one launch. A wait between lanes is then an edge of a graph and costs nothing. */
    bool one_launch;
    /* The first run after `update` takes about as long as making another program. Plans then keep
     * programs for the tensors of earlier runs. */
    bool slow_update;
    weir_status (*make)(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                        struct weir__program **out);
    void (*free)(struct weir__program *program);
    /* Queues lanes[i] on streams[i]. The commands are numbered as if they had been queued one by
     * one. The call number of a collective on channel p is tickets[p] plus its own number. If it
     * fails, either nothing is queued, or all commands are numbered and the streams are in error
     * from the command that failed. (L) */
    weir_status (*run)(struct weir__program *program, weir_stream *const *streams,
                       const uint64_t *tickets, int ntickets);
    /* Replaces a kernel. The program must not be running, unless `may_update` allows it. (L)
     * returns  WEIR_ERANGE if its arguments do not fit: nothing is replaced, and the caller makes
     *          a new program. */
    weir_status (*update)(struct weir__program *program, int lane, int item,
                          const struct weir__kernel *kernel);
    /* True if kernels may be replaced while runs are pending, because those runs do not read the
     * program any more. NULL: never. (L) */
    bool (*may_update)(const struct weir__program *program);
};

/* Programs inside CUDA graphs that another library captures (weir_tape). */
struct weir__driver_tapes {
    weir_status (*open)(weir_device *dev, struct weir__reel **out);
    void (*close)(struct weir__reel *reel);
    /* Adds the program to the capture of `native`. The program takes the kernels and algorithms of
     * `like`, another program of the same plan that has run. Both programs outlive the reel. (L) */
    weir_status (*add)(struct weir__reel *reel, struct weir__program *program,
                       const struct weir__program *like, weir_stream *const *streams, void *native);
    /* A failure in the next launch on `native` is a failure of the stream's next command. (L) */
    weir_status (*begin)(struct weir__reel *reel, weir_stream *s, void *native);
};

/* Collectives: kernels that meet their peers on other ranks (weir__kernel.is_collective). Without
 * this group the device cannot be a rank. */
struct weir__driver_collectives {
    /* For timeouts of groups: writes which streams of these devices wait for which, and the cycle
     * of waits if there is one. May be NULL. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    /* Ranks may be processes: parts read their peers' memory through weir__meet.shown, and the
     * device can allocate memory that other processes map. */
    bool between_processes;
    /* How processes share device memory; its functions get the device as `user`. NULL: the memory
     * is host memory (comm/procs/share.h). */
    const struct weir__sharing *sharing;
    int most_ranks; /* in a group of one process; 0: WEIR_MAX_RANKS */
};

/* Order and memory across devices. Without this group, the host waits for this device before it
 * queues dependent work on a device of another driver, and all devices of this driver can access
 * each other's memory. */
struct weir__driver_cross {
    /* Each queues one command (device/relay.h). (L) When the stream reaches the signal, it calls
     * weir__relay_signal with the stream's error. The wait completes once the relay is signalled;
     * it takes over the relay's error and drops the relay. */
    weir_status (*signal_relay)(weir_stream *s, struct weir__relay *relay);
    weir_status (*wait_relay)(weir_stream *s, struct weir__relay *relay);
    /* True if kernels and copies can access the memory of another device of this driver. NULL means
     * always true. */
    bool (*reaches_device)(const weir_device *dev, const weir_device *other);
};

/* Native interop: streams and memory of other libraries on the same hardware. */
struct weir__driver_native {
    /* Writes to *handle the hardware queue behind the stream, limited to `cores`, so that other
     * libraries can queue on it. Their work is ordered after everything queued so far. (L) */
    weir_status (*stream)(weir_stream *s, unsigned cores, void **handle);
    /* Queues a command that waits for everything on `native`. (L) */
    weir_status (*wait)(weir_stream *s, void *native);
    /* Makes work queued on `native` from now on wait for the mark. (L) */
    weir_status (*signal)(struct weir__mark mark, void *native);
    /* True if the device can read and write memory at `address`. */
    bool (*reaches)(weir_device *dev, const void *address);
    /* While a trace is recorded: begins the record of work on `native`. The record has the number
     * of the stream's last command. With a NULL kernel it ends the record, if one has begun. (L) */
    void (*trace)(weir_stream *s, void *native, const struct weir__kernel *kernel);
};

/* Helping: a host thread that waits for work it has just queued may execute it itself. */
struct weir__driver_helping {
    /* Streams that become ready between hold(true) and hold(false) are kept for this thread.
     * hold(true) returns false if another thread has called it and not yet called hold(false).
     * (L) */
    bool (*hold)(weir_device *dev, bool on);
    /* Executes the kept streams, outside the lock. Returns when they have no more commands or the
     * next command would take long. */
    void (*help)(weir_device *dev);
};

/* Hardware that may be absent or has rules of its own. Each may be NULL. */
struct weir__driver_hardware {
    /* Returns why the device cannot be opened here, or NULL if it can. Must be quick and without
     * side effects, because listings call it. */
    const char *(*unavailable)(void);
    /* The last call to the driver: streams and the pool's memory are already freed. */
    void (*release)(weir_device *dev);
    /* Rounds a core limit to a number of cores that the hardware can give. */
    int (*round_limit)(const weir_device *dev, int cores);
};

/* Notices of what the device layer is about to do. Each may be NULL. */
struct weir__driver_notices {
    /* The host is about to ask whether a command has completed. Called outside the lock. A device
     * that runs only while the host waits makes progress here. While dev->visitors is not 0 it must
     * also step the devices whose streams wait for it, or a copy between the two never ends. */
    void (*poll)(weir_device *dev);
    /* Other streams may wait for the last command queued so far: record an event if waits need
     * one. (L) */
    weir_status (*mark)(weir_stream *s);
    /* Freed memory waits for queued commands: a device that looks for commands at intervals should
     * look now. (L) */
    void (*hurry)(weir_device *dev);
    /* The pool has got new memory from `map` for a request of `asked` bytes. No page has been
     * touched yet, so the device may choose the NUMA nodes of the pages. (L) */
    void (*grown)(weir_device *dev, void *address, size_t size, size_t asked);
};

struct weir__driver {
    const char *name; /* as in specs */
    const char *summary;
    size_t device_size;                 /* of a struct that begins with weir_device */
    size_t stream_size;                 /* of a struct that begins with weir_stream */
    unsigned can;                       /* enum weir__capability */
    enum weir__trace_clock trace_clock; /* of its records: ticks, or the time that now() returns */

    /* ---- required ---- */

    /* Reads its options, fills dev->props and starts its threads or hardware. */
    weir_status (*open)(weir_device *dev, struct weir__spec *spec);
    /* Called after everything queued has completed. */
    void (*close)(weir_device *dev);
    /* Called with the generic part filled. A stream is opened once per slot and then reused. */
    weir_status (*stream_open)(weir_stream *s);
    void (*stream_close)(weir_stream *s);
    /* The next four queue one command each. They must not wait for the device. (L) */
    weir_status (*submit)(weir_stream *s, const struct weir__kernel *kernel);
    /* Waits for the mark. If the mark is on another device of this driver, the caller has added 1
     * to that device's `visitors`; the driver subtracts it when it no longer needs that device. */
    weir_status (*wait)(weir_stream *s, struct weir__mark mark, enum weir__wait how);
    weir_status (*callback)(weir_stream *s, weir_callback_fn fn, void *user);
    /* When the stream reaches the command, writes the device's time or WEIR__NO_TIME to *ns. */
    weir_status (*stamp)(weir_stream *s, _Atomic uint64_t *ns);
    /* Called outside the lock after queueing: wakes the threads that must run the commands. */
    void (*kick)(weir_device *dev);
    /* Returns the number of the last command that has completed. */
    uint64_t (*done)(weir_stream *s);
    /* Waits until `seq` has completed. Returns WEIR_OK, or WEIR_ETIMEDOUT with a report. A timeout
     * of WEIR_TIMEOUT_DEVICE ends the wait when nothing on the device has completed for
     * dev->op_timeout_ns. */
    weir_status (*sync)(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
    /* Allocates a large piece of memory for the pool; NULL if out of memory. With dev->shares, it
     * is memory that other processes can map, if the driver has any (comm/procs/share.h). */
    void *(*map)(weir_device *dev, size_t size);
    void (*unmap)(weir_device *dev, void *address, size_t size);
    /* The device's clock, in nanoseconds. */
    uint64_t (*now)(const weir_device *dev);

    /* ---- optional: NULL if the driver does not have the group ---- */

    const struct weir__driver_plans *plans;
    const struct weir__driver_tapes *tapes;
    const struct weir__driver_collectives *collectives;
    const struct weir__driver_cross *cross;
    const struct weir__driver_native *native;
    const struct weir__driver_helping *helping;
    const struct weir__driver_hardware *hardware;
    const struct weir__driver_notices *notices;
};

/* The drivers, in the order they are listed. */
extern const struct weir__driver weir__cpu_driver;
extern const struct weir__driver weir__npu_driver;
extern const struct weir__driver weir__cuda_driver;
extern const struct weir__driver weir__null_driver;

#endif
