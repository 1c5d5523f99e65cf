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

/* A kernel: what is to run, what weir has for it, and how it is cut and limited. All that it points
 * to is the caller's: a driver that needs it later copies it. */
struct weir__kernel {
    const char *name; /* of the operator, or of the plan's node; it stays */
    /* What is to run: an operator's row, its tensors and its parameters (device/op.h). NULL for
     * what is no operator of the table: a function of the user's, a copy or a fill (code->kind says
     * which), or several operators of a plan in one launch, which only devices get that run
     * functions or source. */
    const struct weir__call *call;
    /* What weir has for it, found by the row's `prepare`, which is called for devices that run
     * functions or source and for no others. */
    weir_kernel_fn fn;             /* NULL: nothing is run */
    const struct weir__code *code; /* the same as source; NULL where there is none */
    const void *args;              /* of both */
    uint32_t args_size;
    /* How it is cut and limited. */
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

struct weir__program; /* a plan as the driver keeps it: each defines its own */
struct weir__reel;
struct weir__relay;

/* What a device runs. The device layer, operators and graphs ask for these, never which driver it
 * is. */
enum weir__capability {
    /* Functions of the host, block by block, in memory that the host sees: weir__kernel.fn. Graphs
     * then make one function of several operators. */
    WEIR__RUNS_HOST_FUNCTIONS = 1 << 0,
    /* Source of kernels that it compiles: weir__kernel.code. Graphs then join elementwise operators
     * in one source. */
    WEIR__RUNS_SOURCE = 1 << 1,
    /* `submit` on different streams at the same time: each caller has the lock of its stream then,
     * not the device lock. */
    WEIR__SUBMITS_BY_STREAM = 1 << 2,
};

/* Plans: a program is made once and queued many times. Without this group a device runs none. */
struct weir__driver_plans {
    /* A run is one launch, and a wait between lanes an edge of it, which costs nothing. */
    bool one_launch;
    /* The run after `update` takes about as long as making another program: plans keep programs
     * for the tensors of earlier runs. */
    bool slow_update;
    weir_status (*make)(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                        struct weir__program **out);
    void (*free)(struct weir__program *program);
    /* Queues lanes[i] on streams[i]. The commands count as if they had been queued one by one. A
     * collective at place p has the number tickets[p] + its own. On an error nothing is queued,
     * or all of it counts and its streams are in error from where it failed. (L) */
    weir_status (*run)(struct weir__program *program, weir_stream *const *streams,
                       const uint64_t *tickets, int ntickets);
    /* Replaces a kernel, while nothing runs it. (L)
     * returns  WEIR_ERANGE if it has more bytes of arguments than there is room for; nothing is
     *          replaced then, and the program must be made again. */
    weir_status (*update)(struct weir__program *program, int lane, int item,
                          const struct weir__kernel *kernel);
};

/* Programs as parts of graphs that others capture (weir_tape). */
struct weir__driver_tapes {
    weir_status (*open)(weir_device *dev, struct weir__reel **out);
    void (*close)(struct weir__reel *reel);
    /* Adds the program to what `native` is captured for, made of what `like`, another one of the
     * same plan that has run, is made of. Both outlive the reel. (L) */
    weir_status (*add)(struct weir__reel *reel, struct weir__program *program,
                       const struct weir__program *like, weir_stream *const *streams, void *native);
    /* What fails in the launch that comes next on `native` fails with the stream's next command.
     * (L) */
    weir_status (*begin)(struct weir__reel *reel, weir_stream *s, void *native);
};

/* Collectives: kernels that meet their peers on other ranks (weir__kernel.meets). Without this
 * group the device can be in no group of ranks. */
struct weir__driver_collectives {
    /* Who waits for whom on these devices, and the cycle in it, for the timeouts of groups. May be
     * NULL: it cannot say. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    /* Parts read what others show through weir__meet.shown, and its memory can be such that other
     * processes map. */
    bool between_processes;
    /* How, with the device as user; NULL: it is the host's (comm/procs/share.h). */
    const struct weir__sharing *sharing;
    int most_ranks; /* of a group of one process; 0: WEIR_MAX_RANKS */
};

/* Order and memory across devices. Without this group the host waits between two devices of
 * different drivers, and devices of this driver reach each other's memory. */
struct weir__driver_cross {
    /* Queue one command each (device/relay.h), (L). The one calls weir__relay_signal with the
     * stream's error; the other is over once the relay is signalled, takes its error over and
     * drops it. */
    weir_status (*signal_relay)(weir_stream *s, struct weir__relay *relay);
    weir_status (*wait_relay)(weir_stream *s, struct weir__relay *relay);
    /* Whether kernels and copies reach the memory of another device of this driver. May be NULL:
     * they do. */
    bool (*reaches_device)(const weir_device *dev, const weir_device *other);
};

/* Native interop: streams and memory of others on the same hardware. */
struct weir__driver_native {
    /* The driver's own queue behind the stream on so many cores, after everything queued, for
     * others to queue on. (L) */
    weir_status (*stream)(weir_stream *s, unsigned cores, void **handle);
    /* Queues a command that comes after everything on `native`. (L) */
    weir_status (*wait)(weir_stream *s, void *native);
    /* Whatever is queued on `native` from now on comes after the mark. (L) */
    weir_status (*signal)(struct weir__mark mark, void *native);
    /* Whether the device can work on the memory there. */
    bool (*reaches)(weir_device *dev, const void *address);
    /* While a trace is recorded, work on `native` that the stream's last command stands for begins
     * here; with a NULL kernel what has begun ends, if anything has. (L) */
    void (*trace)(weir_stream *s, void *native, const struct weir__kernel *kernel);
};

/* A host thread that queues work and goes on to wait for it may do it itself. */
struct weir__driver_helping {
    /* What becomes ready between hold(true) and hold(false) is shown to nobody. hold(true) is
     * false if another thread is at it. (L) */
    bool (*hold)(weir_device *dev, bool on);
    /* Then the thread helps with that, outside the lock, and comes back once it is over or
     * would take long. */
    void (*help)(weir_device *dev);
};

/* Hardware that may be absent or has rules of its own. Each may be NULL. */
struct weir__driver_hardware {
    /* Why it cannot be opened here, or NULL. Quick, without side effects: listings ask. */
    const char *(*unavailable)(void);
    /* Last of all: streams and the pool's memory are gone. */
    void (*release)(weir_device *dev);
    /* What a limit of so many cores comes to. */
    int (*round_limit)(const weir_device *dev, int cores);
};

/* What a device may want to know beforehand. Each may be NULL. */
struct weir__driver_notices {
    /* The host is about to ask whether something is done, outside the lock. A device that runs
     * only while it is waited for goes on, and with it the devices that wait for it: while
     * dev->visitors is not 0 it must step those too, or a copy between the two never ends. */
    void (*poll)(weir_device *dev);
    /* Other streams may wait for the last command queued so far. (L) */
    weir_status (*mark)(weir_stream *s);
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
    /* A wait for a stream of another device of this driver is counted in that device's `visitors`,
     * and takes itself back when it is passed. */
    weir_status (*wait)(weir_stream *s, struct weir__mark mark, enum weir__wait how);
    weir_status (*callback)(weir_stream *s, weir_callback_fn fn, void *user);
    /* Writes the device's time to *ns when the stream gets there, or WEIR__NO_TIME. */
    weir_status (*stamp)(weir_stream *s, _Atomic uint64_t *ns);
    /* After a queueing call, outside the lock: wakes whoever must run it. */
    void (*kick)(weir_device *dev);
    /* The last command that is over. */
    uint64_t (*done)(weir_stream *s);
    /* Waits until `seq` is over: WEIR_OK, or WEIR_ETIMEDOUT with a report. A timeout of
     * WEIR_TIMEOUT_DEVICE runs out when nothing on the device has moved for
     * dev->op_timeout_ns. */
    weir_status (*sync)(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
    /* Large pieces of memory for the pool; NULL if there is none. With dev->shares they are such
     * that other processes can map (comm/procs/share.h), where the driver can do that. */
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
