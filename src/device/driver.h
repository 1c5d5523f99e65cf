/* The seam: what crosses from the device layer to a driver, and the table that a driver fills.
 *
 * The device layer owns handles, numbering, clocks, memory order and limits; a driver starts work,
 * moves bytes and tells the time. Commands of a stream are numbered 1, 2, 3, ... in the order
 * they are queued; "command q of stream u is over" is all that events, memory and syncs ever ask,
 * so a driver that can say how far each stream got needs no events of its own.
 *
 * (L): called under the device lock (device/device.h). docs/writing-a-device.md has the rules that
 * tests hold a driver to; src/null is the smallest one.
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

/* A kernel: what to run, weir's implementation of it, and how it is cut and limited. The caller
 * owns everything it points to: a driver that needs something after the call copies it. */
struct weir__kernel {
    const char *name; /* of the operator, or of the plan's node; valid for ever */
    /* What to run: an operator's row, its tensors and its parameters (device/op.h). NULL if it is
     * not an operator of the table: a user's function; a copy or a fill (code->kind says which); or
     * several operators of a plan in one launch. Only devices that run functions or source get the
     * last kind. */
    const struct weir__call *call;
    /* Weir's implementation, which the row's `prepare` finds. Only for devices that run functions
     * or source. */
    weir_kernel_fn fn;             /* NULL: nothing is run */
    const struct weir__code *code; /* the same as source; NULL if there is none */
    const void *args;              /* arguments of fn and code */
    uint32_t args_size;
    /* How it is cut and limited. */
    weir_engine engine;
    uint32_t blocks, phases;
    uint32_t cores; /* blocks that may run at once */
    bool gang;
    bool own_cores; /* true: `cores` comes from a scope or a plan and is final. false: the limits of
                     * stream and device when the kernel starts apply */
    bool meets;     /* a collective: args begin with a struct weir__meet (comm/comm.h). It starts
                     * when all peers have arrived, and is over when all their parts are */
    bool tune;      /* time may be spent on finding the fastest algorithm */
    bool never_timeout; /* op_timeout does not count while it runs */
    uint32_t work_ns;   /* rough time of one block; UINT32_MAX if unknown */
    uint16_t scope;     /* weir__trace_scope of its super kernel, 0 for none */
    float bytes;        /* that it reads and writes in all; 0 if unknown */
    /* For devices that model time. */
    float flops;    /* of all blocks */
    float block_us; /* time of one block, if known; else 0, and `flops` counts */
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

struct weir__program; /* a plan as the driver keeps it: each defines its own */
struct weir__reel;
struct weir__relay;

/* What a device can do. The device layer, operators and graphs test these, never the driver's
 * name. */
enum weir__capability {
    /* It calls functions of the host (weir__kernel.fn), block by block, in memory that the host
     * sees. Graphs may then fuse several operators into one function. */
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
    /* Queues lanes[i] on streams[i]. The commands count as if they had been queued one by one. A
     * collective on channel p has the number tickets[p] + its own. On an error either nothing is
     * queued, or all commands count and the streams are in error from the one that failed. (L) */
    weir_status (*run)(struct weir__program *program, weir_stream *const *streams,
                       const uint64_t *tickets, int ntickets);
    /* Replaces a kernel while the program does not run. (L)
     * returns  WEIR_ERANGE if its arguments do not fit: nothing is replaced, and the caller makes
     *          the program again. */
    weir_status (*update)(struct weir__program *program, int lane, int item,
                          const struct weir__kernel *kernel);
};

/* Programs inside CUDA graphs that another library captures (weir_tape). */
struct weir__driver_tapes {
    weir_status (*open)(weir_device *dev, struct weir__reel **out);
    void (*close)(struct weir__reel *reel);
    /* Adds the program to the capture of `native`. It takes the kernels and algorithms of `like`,
     * another program of the same plan that has run. Both outlive the reel. (L) */
    weir_status (*add)(struct weir__reel *reel, struct weir__program *program,
                       const struct weir__program *like, weir_stream *const *streams, void *native);
    /* A failure in the next launch on `native` is a failure of the stream's next command. (L) */
    weir_status (*begin)(struct weir__reel *reel, weir_stream *s, void *native);
};

/* Collectives: kernels that meet their peers on other ranks (weir__kernel.meets). Without this
 * group the device cannot be a rank. */
struct weir__driver_collectives {
    /* For timeouts of groups: writes who waits for whom on these devices, and the cycle if there is
     * one. May be NULL. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    /* Ranks may be processes: parts read their peers' memory through weir__meet.shown, and the
     * device can allocate memory that other processes map. */
    bool between_processes;
    /* How that memory is shared, with the device as user; NULL: it is host memory
     * (comm/procs/share.h). */
    const struct weir__sharing *sharing;
    int most_ranks; /* of a group of one process; 0: WEIR_MAX_RANKS */
};

/* Order and memory across devices. Without this group the host waits for the one device before it
 * queues on one of another driver, and devices of this driver reach each other's memory. */
struct weir__driver_cross {
    /* Each queues one command (device/relay.h). (L) The signal calls weir__relay_signal with the
     * stream's error when the stream gets there. The wait is over once the relay is signalled; it
     * takes over the relay's error and drops the relay. */
    weir_status (*signal_relay)(weir_stream *s, struct weir__relay *relay);
    weir_status (*wait_relay)(weir_stream *s, struct weir__relay *relay);
    /* Whether kernels and copies reach the memory of another device of this driver. May be NULL,
     * which means yes. */
    bool (*reaches_device)(const weir_device *dev, const weir_device *other);
};

/* Native interop: streams and memory of other libraries on the same hardware. */
struct weir__driver_native {
    /* Returns the hardware queue behind the stream, limited to `cores`, for others to queue on. It
     * comes after everything queued so far. (L) */
    weir_status (*stream)(weir_stream *s, unsigned cores, void **handle);
    /* Queues a command that waits for everything on `native`. (L) */
    weir_status (*wait)(weir_stream *s, void *native);
    /* Makes work queued on `native` from now on wait for the mark. (L) */
    weir_status (*signal)(struct weir__mark mark, void *native);
    /* Whether the device can read and write memory at `address`. */
    bool (*reaches)(weir_device *dev, const void *address);
    /* While a trace is recorded: begins the record of work on `native`, which the stream's last
     * command stands for. With a NULL kernel it ends the record, if one has begun. (L) */
    void (*trace)(weir_stream *s, void *native, const struct weir__kernel *kernel);
};

/* Helping: a host thread that waits for work it has just queued may execute it itself. */
struct weir__driver_helping {
    /* Streams that become ready between hold(true) and hold(false) are kept for this thread.
     * hold(true) returns false if another thread holds already. (L) */
    bool (*hold)(weir_device *dev, bool on);
    /* Executes those streams, outside the lock. Returns when they are done or would take long. */
    void (*help)(weir_device *dev);
};

/* Hardware that may be absent or has rules of its own. Each may be NULL. */
struct weir__driver_hardware {
    /* Why it cannot be opened here, or NULL if it can. Must be quick and without side effects,
     * because listings call it. */
    const char *(*unavailable)(void);
    /* The last call: streams and the pool's memory are already freed. */
    void (*release)(weir_device *dev);
    /* The number of cores that a limit of `cores` results in. */
    int (*round_limit)(const weir_device *dev, int cores);
};

/* Notices of what the device layer is about to do. Each may be NULL. */
struct weir__driver_notices {
    /* The host is about to ask whether something is done. Called outside the lock. A device that
     * runs only while the host waits makes progress here. While dev->visitors is not 0 it must also
     * step the devices whose streams wait for it, or a copy between the two never ends. */
    void (*poll)(weir_device *dev);
    /* Other streams may wait for the last command queued so far: record an event if waits need
     * one. (L) */
    weir_status (*mark)(weir_stream *s);
    /* Freed memory waits for queued commands: a device that looks for commands only now and then
     * looks soon. (L) */
    void (*hurry)(weir_device *dev);
    /* The pool has a new piece of memory, from `map`, for a request of `asked` bytes. Nobody has
     * touched it: the device may say where its pages go. (L) */
    void (*grown)(weir_device *dev, void *address, size_t size, size_t asked);
};

struct weir__driver {
    const char *name; /* as in specs */
    const char *summary;
    size_t device_size;                 /* of a struct that begins with weir_device */
    size_t stream_size;                 /* of a struct that begins with weir_stream */
    unsigned can;                       /* enum weir__capability */
    enum weir__trace_clock trace_clock; /* of its records; anything but ticks is what now() says */

    /* ---- required ---- */

    /* Reads its options, fills dev->props, starts what runs. */
    weir_status (*open)(weir_device *dev, struct weir__spec *spec);
    /* Everything queued is done. */
    void (*close)(weir_device *dev);
    /* The generic part is filled; a stream is opened once per slot and reused. */
    weir_status (*stream_open)(weir_stream *s);
    void (*stream_close)(weir_stream *s);
    /* The next four queue one command each. They must not wait for the device. (L) */
    weir_status (*submit)(weir_stream *s, const struct weir__kernel *kernel);
    /* Waits for the mark. If that is on another device of this driver, the caller has added 1 to
     * that device's `visitors`; the driver subtracts it when it no longer needs that device. */
    weir_status (*wait)(weir_stream *s, struct weir__mark mark, enum weir__wait how);
    weir_status (*callback)(weir_stream *s, weir_callback_fn fn, void *user);
    /* Writes the device's time to *ns when the stream gets there, or WEIR__NO_TIME. */
    weir_status (*stamp)(weir_stream *s, _Atomic uint64_t *ns);
    /* After a queueing call, outside the lock: wakes whoever must run it. */
    void (*kick)(weir_device *dev);
    /* The number of the last command that is over. */
    uint64_t (*done)(weir_stream *s);
    /* Waits until `seq` is over: WEIR_OK, or WEIR_ETIMEDOUT with a report. A timeout of
     * WEIR_TIMEOUT_DEVICE runs out when nothing on the device has moved for
     * dev->op_timeout_ns. */
    weir_status (*sync)(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
    /* Large pieces of memory for the pool; NULL if there is none left. With dev->shares, memory
     * that other processes can map, if the driver has such memory (comm/procs/share.h). */
    void *(*map)(weir_device *dev, size_t size);
    void (*unmap)(weir_device *dev, void *address, size_t size);
    /* The device's clock, in nanoseconds. */
    uint64_t (*now)(const weir_device *dev);

    /* ---- optional: a group is there or NULL ---- */

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
