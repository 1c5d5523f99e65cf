/* The `cuda` device: streams, memory and plans of one NVIDIA GPU.
 *
 * A weir stream is an in-order sequence over one or more CUDA streams: one for each core limit
 * under which it has run. Its `tail` is the CUDA stream that has the last command. Before the next
 * command uses another CUDA stream, that stream waits for the tail.
 *
 * Progress. Each stream has a word in pinned memory, to which it writes the number of its last
 * command (a checkpoint): after every few commands, when a thread asks and no write is queued, and
 * before a host thread waits.
 *
 * Waits between streams use CUDA events, recorded where the user records an event. A queued wait
 * keeps the meaning that the event had when the wait was queued, so each stream reuses a ring of 64
 * events. If the ring no longer has an event for the awaited command, the wait uses the next later
 * event. If a gate lies between the two, it waits for the word instead, because the gate may be
 * waiting for the waiting stream.
 *
 * Kept waits. A wait is not passed to CUDA before its stream has another command, because the run
 * of a plan may make the wait unnecessary (waits.c).
 *
 * Shared streams. A program that has got a stream's CUDA stream (weir_stream_native) queues work
 * there that weir does not see. On such a stream waits are passed to CUDA at once, and commands
 * that ran on another CUDA stream are joined to the handle at once. Asking for the last command
 * queues a new command, which is ordered after that work.
 *
 * Plans. A run is one launch on the stream of its first lane, the *leader* of the other lanes'
 * streams: their commands of the run have completed when the leader's have.
 *
 * Locks, outermost first: the device lock, `tails` of the device, that of fault/faults.c.
 */
#ifndef WEIR_CUDA_CUDA_H
#define WEIR_CUDA_CUDA_H

#include <pthread.h>

#include "cuda/api.h"
#include "cuda/stream.h"

#define WEIR__CUDA_SPLITS 4 /* number of ways to split the cores */
#define WEIR__CUDA_UNITS 32 /* the most units of a split */
#define WEIR__CUDA_PEERS 15 /* the most other GPUs that access a device's memory */

/* Some of the cores, as a green context. */
struct weir__cuda_part {
    weir__cu_green green;
    int split;
    unsigned first, count; /* units */
    struct weir__cuda_part *next;
};

struct weir__cuda_split {
    unsigned unit, nunits; /* cores per unit; nunits is 0 if the GPU cannot be split this way */
    struct weir__cu_resource units[WEIR__CUDA_UNITS];
};

struct weir__cuda_cores {
    unsigned total;
    struct weir__cuda_split splits[WEIR__CUDA_SPLITS]; /* coarsest first */
    int current;                                       /* the split from which parts are taken */
    unsigned epoch;                                    /* increases when `current` changes */
    struct weir__cuda_part *parts;
};

struct weir__cuda_module; /* code.c */

struct weir__cuda_function {
    const struct weir__code *code;
    uint64_t variant;
    struct weir__cuda_module *module;
    weir__cu_function function;
    uint32_t shared; /* the dynamic shared memory that is enabled, in bytes */
};

struct weir__cuda_job; /* jobs.h */

/* A thread that runs jobs. */
struct weir__cuda_helper {
    struct weir__cuda *dev;
    struct weir__mutex lock;
    struct weir__cuda_job *jobs, **jobs_end;
    struct weir__cuda_job *late; /* finished jobs for which CUDA's call may still come */
    uint64_t awake_ns;           /* how long it polls the words of jobs before it sleeps */
    _Atomic uint32_t word;       /* its futex; changes when there may be work */
    bool started;                /* (L) */
    _Atomic bool stops;
    pthread_t thread;
};

struct weir__cuda_stamp {
    struct weir__cuda_stamp *next;
    struct weir__cuda_stream *stream;
    uint64_t seq;
    _Atomic uint64_t *ns;
    weir__cu_event event;
};

enum weir__cuda_ending {
    WEIR__CUDA_TRACE_PENDING, /* its end is not known yet */
    WEIR__CUDA_TRACE_EVENT,   /* its second event has the time of its end */
    WEIR__CUDA_TRACE_HOST,    /* its record has the time of its end */
    WEIR__CUDA_TRACE_NEVER,   /* it did not run: there is nothing to record */
};

/* A command, or the run of a plan, whose trace record is written after it has completed. */
struct weir__cuda_traced {
    struct weir__cuda_traced *next;
    struct weir__cuda_stream *stream, *source; /* source is NULL unless it is a wait */
    weir__cu_event ends[2];                    /* before and after an operator or a whole run */
    _Atomic int end;                           /* enum weir__cuda_ending */
    uint32_t cores;                            /* that it keeps busy */
    struct weir__trace_record record;          /* without times */
    struct weir__cuda_traced_run *run;         /* of trace_run.h, or NULL */
};

struct weir__cuda_product;   /* product.h */
struct weir__cuda_host_copy; /* copy.c */
struct weir__cuda_host_call; /* host.c */
struct weir__cuda_meet;      /* meet.c */

/* Properties of the GPU: read when the device is opened, then constant. */
struct weir__cuda_gpu {
    weir__cu_device device;
    weir__cu_context context;
    int major, minor;
    int priority_least, priority_greatest;
    int shared_most;
    int clusters; /* whether blocks can form clusters */
    size_t granularity;
    weir__cu_device peers[WEIR__CUDA_PEERS]; /* GPUs for which its memory is mapped */
    int npeers;
};

/* Hash table of loaded kernels. (L) */
struct weir__cuda_functions {
    struct weir__cuda_function *functions;
    unsigned n, cap;
};

/* (L) */
struct weir__cuda_products {
    void *library;                        /* cuBLASLt's handle */
    struct weir__cuda_product *lists[64]; /* by the hash of their keys */
};

/* Copies and functions that run partly on the host. */
struct weir__cuda_copies {
    struct weir__spin lock;
    struct weir__cuda_host_copy *under_way; /* queued or running; under `lock` */
    struct weir__cuda_host_call *calls;     /* likewise */
    uint64_t staged;                        /* (L) number of the last staged copy */
};

/* Failures of the device. The flags only ever become true. */
struct weir__cuda_damage {
    struct weir__code_failures *failures; /* pinned */
    weir__cu_address claims;              /* on the device: see device/report.h */
    struct weir__cuda *next; /* of the open devices, under the lock of fault/faults.c */
    _Atomic bool
        looks_abroad;    /* a stream has waited for a stream of another device that may fail */
    _Atomic bool failed; /* some command has failed */
    _Atomic bool dead;   /* the context is unusable */
    char dead_text[400]; /* why; written before `dead` is set */
};

/* Memory that other processes open (collective/share.c). */
struct weir__cuda_sharing_state {
    struct weir__mutex lock;
    struct weir__cuda_shared *pieces; /* under `lock` */
    struct weir__mutex copying;       /* guards the fields below */
    void *bounce;                     /* pinned buffer for copies to and from pageable memory */
    weir__cu_stream stream;           /* of copies for other processes */
    weir__cu_event done;
};

/* The relation of the device's time to the host's clock, and pending stamps. Under `lock`. */
struct weir__cuda_clock {
    struct weir__spin lock;
    struct weir__cuda_stamp *stamps, *spare;
    weir__cu_event base;
    double base_ns; /* the host's clock at `base` */
};

/* Commands that are not in the trace yet, in the order in which they were queued. Under the clock's
 * lock. */
struct weir__cuda_unrecorded {
    struct weir__cuda_traced *first, **end, *spare;
    unsigned nspare;
    struct weir__cuda_timer *timers; /* not used by any run */
    _Atomic bool any;
    uint32_t recording; /* (L) the recording for which the clock was set */
};

/* See stream/counters.c. */
struct weir__cuda_counters {
    weir__cu_address words;
    _Atomic uint64_t taken; /* a bit for each set of them */
};

/* Functions of collectives that lower rooms call. */
struct weir__cuda_collectives {
    /* If the failure is of a collective's part, writes its error text and returns true. */
    bool (*explain)(const struct weir__cuda_stream *s, const struct weir__code_failure *failure,
                    char *text, size_t size);
    /* Called on a helper thread when the context is unusable: breaks groups that wait on it. */
    void (*dead)(struct weir__cuda *dev);
};

struct weir__cuda {
    weir_device base;
    const struct weir__cuda_api *api;
    const struct weir__cuda_collectives *collectives;
    struct weir__cuda_gpu gpu;
    struct weir__cuda_word *words; /* pinned, by slot */
    /* All streams, for threads that do not hold the device lock: streams are only ever added. */
    _Atomic(struct weir__cuda_stream *) streams;
    struct weir__spin tails;       /* guards the streams' order, gates and progress */
    _Atomic int nshut;             /* streams whose gate is `shut` */
    struct weir__cuda_cores cores; /* (L) */
    struct weir__cuda_functions code;
    struct weir__cuda_products products;
    struct weir__cuda_copies copies;
    struct weir__cuda_damage faults;
    struct weir__cuda_meet *arrived; /* under the lock of collective/meet.c */
    struct weir__cuda_sharing_state sharing;
    struct weir__cuda_helper helpers[2]; /* one for the user's callbacks, one for the rest */
    struct weir__cuda_clock clock;
    struct weir__cuda_unrecorded traced;
    struct weir__cuda_counters counters;
};

/* Where and how a command is queued. */
/* A kernel node of a graph that is already executable. */
struct weir__cuda_patch {
    weir__cu_exec exec;
    weir__cu_node node;
    int64_t cluster; /* blocks of its clusters; 1: there are none */
    int n;           /* how often it was replaced */
};

struct weir__cuda_sink {
    struct weir__cuda *dev;
    weir__cu_stream stream;
    unsigned cores;
    struct weir__code_context context; /* for failures */
    void **workspace;                  /* memory of matrix products, allocated on first use */
    uint32_t **counters;               /* of the stream or lane, taken on first use */
    uint64_t concurrent_set;           /* of matrix products: see product.h; 0 outside plans */
    char *into;                        /* while products are timed: where they write instead */
    struct weir__cuda_stream *own;     /* the command's stream; NULL while a plan is captured */
    struct weir__cuda_patch *patch;    /* if not NULL: replace this node, and queue nothing */
};

static inline struct weir__cuda *weir__cuda_of(weir_device *dev)
{
    return (struct weir__cuda *)dev;
}

static inline struct weir__cuda_stream *weir__cuda_stream_of(weir_stream *s)
{
    return (struct weir__cuda_stream *)s;
}

/* `enter` makes the device's context current for the calling thread. Pass its result to `leave`,
 * which restores the previous context. */
bool weir__cuda_enter(struct weir__cuda *dev);
void weir__cuda_leave(const struct weir__cuda *dev, bool pushed);

/* ---- quiesce.c ---- */

/* Queues the wait for the stream's gate at its tail. Under the tails lock. */
weir_status weir__cuda_put_gate(struct weir__cuda_stream *s);
/* Call these around a call of the driver that may wait for the GPU. `quiesce` waits until no gate
 * for other devices is in CUDA's queues; none is queued before `resume`. `what` is for the error
 * text. After an error do not call `resume`. */
weir_status weir__cuda_quiesce(struct weir__cuda *dev, const char *what);
void weir__cuda_resume(struct weir__cuda *dev);
/* Free device and pinned memory between quiesce and resume. */
void weir__cuda_free(struct weir__cuda *dev, void *address);
void weir__cuda_free_host(struct weir__cuda *dev, void *address);
/* `load` loads and allocates everything that the kernel needs. `make_ready` does so only if a gate
 * on the device is shut, because the gate may have to be queued before the kernel. (L) */
weir_status weir__cuda_load(struct weir__cuda_stream *s, const struct weir__kernel *kernel);
weir_status weir__cuda_make_ready(struct weir__cuda_stream *s, const struct weir__kernel *kernel);
void weir__cuda_gates_close(struct weir__cuda *dev);

/* ---- slot.c ---- */
weir_status weir__cuda_stream_open(weir_stream *s);
void weir__cuda_stream_close(weir_stream *s);

/* ---- stream/counters.c ---- */
weir_status weir__cuda_counters_open(struct weir__cuda *dev);
void weir__cuda_counters_close(struct weir__cuda *dev);
/* Returns *own; if it is NULL, first takes WEIR__CODE_COUNTERS words for it. NULL if none are left.
 * The caller holds the lock that guards *own. */
uint32_t *weir__cuda_counters_take(struct weir__cuda *dev, uint32_t **own);
/* Gives them back. No kernel that uses them may be running. */
void weir__cuda_counters_give(struct weir__cuda *dev, uint32_t *own);
/* Returns a stream's priority in CUDA's range. */
int weir__cuda_priority(const weir_stream *s);
/* Finds or makes the CUDA stream of the stream for so many cores. It is not ordered with the
 * stream's other CUDA streams. `side`: a separate one for parts of collectives. (L) */
weir_status weir__cuda_find_queue(struct weir__cuda_stream *s, unsigned cores, bool side,
                                  weir__cu_stream *out);
/* Finds the side stream, and creates the event `parted`. (L) */
weir_status weir__cuda_side(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);

/* ---- native.c: streams and memory of other libraries ---- */

weir_status weir__cuda_wait_for_word(struct weir__cuda *dev, weir__cu_stream stream,
                                     const struct weir__cuda_event *event);
weir_status weir__cuda_native(weir_stream *s, unsigned cores, void **handle);
weir_status weir__cuda_wait_native(weir_stream *s, void *native);
weir_status weir__cuda_signal_native(struct weir__mark mark, void *native);
bool weir__cuda_reaches(weir_device *dev, const void *address);
/* True if kernels and copies of `dev` can access the memory of `other`. */
bool weir__cuda_reaches_device(const weir_device *dev, const weir_device *other);

/* ---- tail.c, waits.c, lanes.c ---- */

/* Returns the CUDA stream for a command on so many cores, ordered after everything queued. (L) */
weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);
/* The same, for other libraries to queue on: the stream is shared from now on. (L) */
weir_status weir__cuda_share(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);
/* True if the command has completed, or if asking fails (*st). If false, *out is an event at or
 * after the command. */
bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st);
/* Call it before a command that waits for the host: records an event before that command, so that
 * waits for earlier commands do not include it. The stream must have a tail. (L) */
weir_status weir__cuda_before_gate(struct weir__cuda_stream *s);
/* Shuts the gate: the stream waits here for the host. `far`: the host waits for other devices.
 * (L) */
weir_status weir__cuda_gate(struct weir__cuda_stream *s, bool far);
/* Counts n queued commands; `name` is for reports. (L) */
void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name);
/* For a run of a plan that is launched on `first` and includes commands of `lane`. `lead`, before
 * the launch, orders it after the commands of `lane`. `follow`, after the launch, counts the `n`
 * commands of `lane` and orders later ones after the launch. `on` is the CUDA stream of the launch;
 * `counted`: the run has commands on `first`, which have been counted. (L) */
weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first);
weir_status weir__cuda_follow(struct weir__cuda_stream *lane, struct weir__cuda_stream *first,
                              weir__cu_stream on, bool counted, uint64_t n);
weir_status weir__cuda_wait(weir_stream *s, struct weir__mark mark, enum weir__wait how);
weir_status weir__cuda_mark(weir_stream *s);
/* Under the tails lock: queues the wait for a shut gate and passes the kept waits to CUDA. */
weir_status weir__cuda_flush(struct weir__cuda_stream *s);
/* Under the tails lock: true if the stream's gate is shut. */
bool weir__cuda_is_shut(struct weir__cuda_stream *s);
/* Under the tails lock: if the command belongs to a plan's run that was launched on another stream,
 * replaces stream and number by those of the launch. */
static inline void weir__cuda_locate(struct weir__cuda_stream **s, uint64_t *seq)
{
    while ((*s)->order.leader && *seq <= (*s)->order.led_upto) {
        *seq = (*s)->order.leader_seq;
        *s = (*s)->order.leader;
    }
}

/* ---- progress.c ---- */

/* Queue a checkpoint, unless one is queued already. The second is called under the tails lock. */
weir_status weir__cuda_checkpoint(struct weir__cuda_stream *s);
weir_status weir__cuda_write(struct weir__cuda_stream *s);
uint64_t weir__cuda_done(weir_stream *s);
/* Asks CUDA which streams are idle and updates their progress. */
void weir__cuda_look(weir_device *dev);

/* ---- jobs.c: the rest is in jobs.h ---- */

/* Called when the context is unusable: makes the helpers call the callbacks that CUDA will not call
 * any more. */
void weir__cuda_jobs_dead(struct weir__cuda *dev);

/* ---- sync.c ---- */
weir_status weir__cuda_sync(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
/* Writes one line for each stream that has work: the command that it is at. */
void weir__cuda_report(weir_device *dev, struct weir__text *text);

/* ---- faults.c ---- */

/* Fails with an error for `r` that names `what`. A fatal error makes the device dead. */
weir_status weir__cuda_failed(struct weir__cuda *dev, weir__cu_result r, const char *what);
static inline weir_status weir__cuda_check(struct weir__cuda *dev, weir__cu_result r,
                                           const char *what)
{
    return weir__likely(!r) ? WEIR_OK : weir__cuda_failed(dev, r, what);
}
/* Makes any CUDA stream wait for the event. */
static inline weir_status weir__cuda_wait_for(struct weir__cuda *dev, weir__cu_stream stream,
                                              const struct weir__cuda_event *event)
{
    return weir__likely(!event->word)
               ? weir__cuda_check(dev, dev->api->cu.stream_wait(stream, event->event, 0), "a wait")
               : weir__cuda_wait_for_word(dev, stream, event);
}
/* Fails with the error of a device whose context is unusable. */
weir_status weir__cuda_dead(struct weir__cuda *dev);
/* Returns that error if the context is unusable, else WEIR_OK. */
static inline weir_status weir__cuda_alive(struct weir__cuda *dev)
{
    return weir__likely(!atomic_load_explicit(&dev->faults.dead, memory_order_acquire))
               ? WEIR_OK
               : weir__cuda_dead(dev);
}
/* Call it after a library has failed: returns the context's error if it has one, which is the
 * better reason to report. */
weir_status weir__cuda_ask(struct weir__cuda *dev);

/* ---- stamp.c: the time ---- */
weir_status weir__cuda_record_stamp(weir_stream *s, _Atomic uint64_t *ns);
/* Fills the stamps of the stream up to `seq`, which must have completed. */
void weir__cuda_read_stamps(struct weir__cuda_stream *s, uint64_t seq);
void weir__cuda_stamps_close(struct weir__cuda *dev);
/* Relates the device's clock to the host's. (L) */
weir_status weir__cuda_anchor(struct weir__cuda *dev);
/* Sets *ns to the host time at which the GPU passed the event. On an error, which may be
 * CU_ERROR_NOT_READY, *ns is WEIR__NO_TIME. *event may be exchanged for another event. Under the
 * clock's lock. */
weir__cu_result weir__cuda_time_of(struct weir__cuda *dev, weir__cu_event *event, uint64_t *ns);

/* ---- submit.c, issue.c, copy.c, host.c, code.c, product.c: commands ---- */

weir_status weir__cuda_submit(weir_stream *s, const struct weir__kernel *kernel);
/* Hands a kernel to CUDA. (L) */
weir_status weir__cuda_issue(const struct weir__cuda_sink *sink, const struct weir__kernel *kernel);
/* What weir__code.shape is told of a launch over so many cores, without counters. */
struct weir__code_launch weir__cuda_plan_launch(const struct weir__cuda *dev, unsigned cores);
weir_status weir__cuda_copy(struct weir__cuda_stream *s, weir__cu_stream stream,
                            const struct weir__copy *copy);
/* Loads and allocates what the copy needs. (L) */
weir_status weir__cuda_copy_ready(struct weir__cuda_stream *s, const struct weir__copy *copy);
/* Allocates the stream's pinned stage for copies between host and device. (L) */
weir_status weir__cuda_stage_ready(struct weir__cuda_stream *s);
/* Queues a host function with copies of its operands. If it fails, the command `blamed` fails.
 * (L) */
weir_status weir__cuda_call_host(struct weir__cuda_stream *s, weir__cu_stream stream,
                                 const struct weir__kernel *kernel, struct weir__mark blamed);
/* Free copies and functions that a lost GPU has never reached. */
void weir__cuda_copies_close(struct weir__cuda *dev);
void weir__cuda_host_calls_close(struct weir__cuda *dev);
/* Finds, or compiles and loads, the variant of a source for a launch with these arguments. (L) */
weir_status weir__cuda_find_function(struct weir__cuda *dev, const struct weir__code *code,
                                     const void *args, const struct weir__code_launch *launch,
                                     weir__cu_function *out);
void weir__cuda_functions_close(struct weir__cuda *dev);
/* Runs a product, or several in one call. WEIR_EUNSUPPORTED, without an error text, if the library
 * has no algorithm. (L) */
weir_status weir__cuda_product_run(const struct weir__cuda_sink *sink,
                                   const struct weir__product *products, int n);
void weir__cuda_products_close(struct weir__cuda *dev);
/* repeat.c: frees the stream's table of repeated products. */
void weir__cuda_repeats_close(struct weir__cuda_stream *s);

/* ---- trace.c: trace records ---- */

/* While a trace is recorded: call the first before a kernel is queued on `on`, and the second after
 * queueing it or failing to. If the first returns NULL, the kernel is not recorded. (L) */
struct weir__cuda_traced *weir__cuda_trace_begin(struct weir__cuda_stream *s, weir__cu_stream on,
                                                 const struct weir__kernel *k, uint64_t seq);
void weir__cuda_trace_end(struct weir__cuda_traced *h, weir__cu_stream on, bool queued);
/* For a collective, `arrive` takes the place of weir__cuda_trace_end. One of the other two reports
 * its end: `part` after its part was queued on `on`, or `ended` if the host has ended it. From any
 * thread. */
void weir__cuda_trace_arrive(struct weir__cuda_traced *h, bool queued);
void weir__cuda_trace_part(struct weir__cuda_traced *h, weir__cu_stream on);
void weir__cuda_trace_ended(struct weir__cuda_traced *h);
/* Reports the end for a plan with collectives: it was launched on `on`, or never (NULL). */
void weir__cuda_trace_launched(struct weir__cuda_traced *h, weir__cu_stream on);
/* Records that command `seq` waits for `from`. (L) */
void weir__cuda_trace_wait(struct weir__cuda_stream *s, uint64_t seq, struct weir__mark from);
/* Begins the record of other libraries' work on `native`, under the number of the last command;
 * with NULL ends it. (L) */
void weir__cuda_trace_native(weir_stream *base, void *native, const struct weir__kernel *k);
/* Writes records for everything that has completed. */
void weir__cuda_trace_flush(struct weir__cuda *dev);
void weir__cuda_trace_close(struct weir__cuda *dev);

/* ---- cores.c ---- */
weir_status weir__cuda_cores_open(struct weir__cuda *dev);
void weir__cuda_cores_close(struct weir__cuda *dev);
int weir__cuda_round_limit(const weir_device *dev, int cores);
/* Finds or makes the part for a stream that may use `cores`; *out is NULL for all cores. (L) */
weir_status weir__cuda_find_part(struct weir__cuda_stream *s, unsigned cores,
                                 const struct weir__cuda_part **out);
weir_status weir__cuda_new_stream(struct weir__cuda *dev, const struct weir__cuda_part *part,
                                  int priority, weir__cu_stream *out);

/* ---- tape.c: see struct weir__driver_tapes ---- */
weir_status weir__cuda_reel_open(weir_device *dev, struct weir__reel **out);
void weir__cuda_reel_close(struct weir__reel *reel);
weir_status weir__cuda_reel_add(struct weir__reel *reel, struct weir__program *program,
                                const struct weir__program *like, weir_stream *const *streams,
                                void *native);
weir_status weir__cuda_reel_begin(struct weir__reel *reel, weir_stream *s, void *native);

/* ---- program.c ---- */
weir_status weir__cuda_program_make(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                                    struct weir__program **out);
void weir__cuda_program_free(struct weir__program *program);
weir_status weir__cuda_program_run(struct weir__program *program, weir_stream *const *streams,
                                   const uint64_t *tickets, int ntickets);
weir_status weir__cuda_program_update(struct weir__program *program, int lane, int item,
                                      const struct weir__kernel *kernel);
bool weir__cuda_program_may_update(const struct weir__program *program);

/* ---- the kernel sources, embedded by CMake ---- */
struct weir__cuda_source {
    const char *name; /* "softmax.cu", "ops/host/row.h" */
    const char *text;
};
extern const struct weir__cuda_source weir__cuda_sources[];
extern const int weir__cuda_nsources;

#endif
