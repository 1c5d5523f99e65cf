/* The `cuda` device: streams, memory and plans of one NVIDIA GPU.
 *
 * A weir stream is an in-order sequence over one or more CUDA streams: one for each core limit
 * it has run under. Its `tail` is the one that has the last command; going on in another begins
 * with a wait for the tail.
 *
 * Progress. Each stream has a word in pinned memory, to which it writes the number of its last
 * command (a checkpoint): after every few commands, when somebody asks and no write is queued, and
 * before a host thread waits.
 *
 * Waits between streams use CUDA events, recorded where the user records an event. CUDA keeps what
 * an event meant when a wait for it was queued, so each stream reuses a ring of 64. If the ring no
 * longer has an event for the awaited command, the wait takes the next later one. If a gate lies
 * between the two, it waits for the word instead: the gate may be waiting for the waiting stream.
 *
 * Kept waits. A wait is not handed to CUDA before its stream has another command, because the run
 * of a plan may make it needless (waits.c).
 *
 * Shared streams. A program that has a stream's CUDA stream (weir_stream_native) queues work there
 * that weir does not see. On such a stream waits go to CUDA at once, commands that ran on another
 * CUDA stream are joined to the handle at once, and asking for the last command queues a new one,
 * which comes after that work.
 *
 * Plans. A run is one launch on the stream of its first lane, the *leader* of the other lanes'
 * streams: their commands of the run are over when the leader's are.
 *
 * Locks, outermost first: the device lock, `tails` of the device, that of fault/faults.c.
 */
#ifndef WEIR_CUDA_CUDA_H
#define WEIR_CUDA_CUDA_H

#include <pthread.h>

#include "cuda/api.h"
#include "cuda/stream.h"

#define WEIR__CUDA_SPLITS 4 /* ways to split the cores, */
#define WEIR__CUDA_UNITS 32 /* into so many units at most */
#define WEIR__CUDA_PEERS 15 /* GPUs beside its own that read a device's memory */

/* Some of the cores, as a green context. */
struct weir__cuda_part {
    weir__cu_green green;
    int split;
    unsigned first, count; /* units */
    struct weir__cuda_part *next;
};

struct weir__cuda_split {
    unsigned unit, nunits; /* cores in a unit; none if the GPU cannot be split so */
    struct weir__cu_resource units[WEIR__CUDA_UNITS];
};

struct weir__cuda_cores {
    unsigned total;
    struct weir__cuda_split splits[WEIR__CUDA_SPLITS]; /* coarsest first */
    int current;                                       /* the one that parts are taken from */
    unsigned epoch;                                    /* changes with it */
    struct weir__cuda_part *parts;
};

struct weir__cuda_module; /* code.c */

struct weir__cuda_function {
    const struct weir__code *code;
    uint64_t variant;
    struct weir__cuda_module *module;
    weir__cu_function function;
    uint32_t shared; /* dynamic bytes it is set up for */
};

struct weir__cuda_job; /* jobs.h */

/* A thread that does jobs. */
struct weir__cuda_helper {
    struct weir__cuda *dev;
    struct weir__mutex lock;
    struct weir__cuda_job *jobs, **jobs_end;
    struct weir__cuda_job *late; /* done before CUDA called, which it may still do */
    uint64_t awake_ns;           /* how long it looks at the words of jobs before it sleeps */
    _Atomic uint32_t word;       /* changes when there is something to look at */
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
    WEIR__CUDA_TRACE_PENDING, /* nothing says yet when it is over, */
    WEIR__CUDA_TRACE_EVENT,   /* its second event does, */
    WEIR__CUDA_TRACE_HOST,    /* or its record; */
    WEIR__CUDA_TRACE_NEVER,   /* it did not run: there is nothing to record */
};

/* A command, or the run of a plan, whose trace record is written when it is over. */
struct weir__cuda_traced {
    struct weir__cuda_traced *next;
    struct weir__cuda_stream *stream, *source; /* source is NULL unless it is a wait */
    weir__cu_event ends[2];                    /* before and after an operator, or all of a run */
    _Atomic int end;                           /* enum weir__cuda_ending */
    uint32_t cores;                            /* that it keeps busy */
    struct weir__trace_record record;          /* but for the times */
    struct weir__cuda_traced_run *run;         /* of trace_run.h, or NULL */
};

struct weir__cuda_product;   /* product.h */
struct weir__cuda_host_copy; /* copy.c */
struct weir__cuda_host_call; /* host.c */
struct weir__cuda_meet;      /* meet.c */

/* What the GPU is: read when the device is opened, and never changed. */
struct weir__cuda_gpu {
    weir__cu_device device;
    weir__cu_context context;
    int major, minor;
    int priority_least, priority_greatest;
    int shared_most;
    size_t granularity;
    weir__cu_device peers[WEIR__CUDA_PEERS]; /* whom its memory is mapped for */
    int npeers;
};

/* Kernels that are loaded, hashed. (L) */
struct weir__cuda_functions {
    struct weir__cuda_function *functions;
    unsigned n, cap;
};

/* (L) */
struct weir__cuda_products {
    void *library; /* cuBLASLt's handle */
    struct weir__cuda_product *all;
};

/* Copies that the host has a part in. */
struct weir__cuda_copies {
    struct weir__spin lock;
    struct weir__cuda_host_copy *under_way; /* under `lock` */
    struct weir__cuda_host_call *calls;     /* likewise */
    uint64_t staged;                        /* (L) so many, of which the last is being queued */
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
    struct weir__mutex copying;       /* of the rest */
    void *bounce;                     /* pinned memory between the host's and the device's */
    weir__cu_stream stream;           /* of copies to be shown */
    weir__cu_event done;
};

/* The device's time in the host's clock, and the stamps that wait for it. Under `lock`. */
struct weir__cuda_clock {
    struct weir__spin lock;
    struct weir__cuda_stamp *stamps, *spare;
    weir__cu_event base;
    double base_ns; /* the host's clock at `base` */
};

/* Commands that are not yet in the trace, in the order they were queued. Under the clock's lock. */
struct weir__cuda_unrecorded {
    struct weir__cuda_traced *first, **end, *spare;
    unsigned nspare;
    struct weir__cuda_timer *timers; /* that no run has */
    _Atomic bool any;
    uint32_t recording; /* (L) the one that the clock was set for */
};

/* See stream/counters.c. */
struct weir__cuda_counters {
    weir__cu_address words;
    _Atomic uint64_t taken; /* a bit for each set of them */
};

/* What collectives do for the rooms below theirs. */
struct weir__cuda_collectives {
    /* What a failure of the stream means, if it is that of a part. */
    bool (*explain)(const struct weir__cuda_stream *s, const struct weir__code_failure *failure,
                    char *text, size_t size);
    /* The context is unusable: groups that wait on it are broken. On a helper thread. */
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

/* Where a command goes. */
struct weir__cuda_sink {
    struct weir__cuda *dev;
    weir__cu_stream stream;
    unsigned cores;
    struct weir__code_context context; /* for failures */
    void **workspace;                  /* memory of matrix products, made when first needed */
    uint32_t **counters;               /* of the stream or lane, taken when first needed */
    uint64_t concurrent_set;           /* of matrix products: see product.h; 0 outside plans */
    char *into;                        /* where they write instead, while they are timed */
    struct weir__cuda_stream *own;     /* whose command it is; NULL while a plan is captured */
};

static inline struct weir__cuda *weir__cuda_of(weir_device *dev)
{
    return (struct weir__cuda *)dev;
}

static inline struct weir__cuda_stream *weir__cuda_stream_of(weir_stream *s)
{
    return (struct weir__cuda_stream *)s;
}

/* Makes the device's context current for the calling thread, and takes that back. */
bool weir__cuda_enter(struct weir__cuda *dev);
void weir__cuda_leave(const struct weir__cuda *dev, bool pushed);

/* ---- quiesce.c ---- */

/* The stream stops at its tail until its gate is open. Under the tails lock. */
weir_status weir__cuda_put_gate(struct weir__cuda_stream *s);
/* Around a call of the driver that may wait for the GPU: no gate for others stops it, and
 * none will until the end. `what` is for the error, after which there is no end. */
weir_status weir__cuda_quiesce(struct weir__cuda *dev, const char *what);
void weir__cuda_resume(struct weir__cuda *dev);
/* Such calls. */
void weir__cuda_free(struct weir__cuda *dev, void *address);
void weir__cuda_free_host(struct weir__cuda *dev, void *address);
/* What the kernel needs is loaded; the second where a gate may have to be put up in front of it.
 * (L) */
weir_status weir__cuda_load(struct weir__cuda_stream *s, const struct weir__kernel *kernel);
weir_status weir__cuda_make_ready(struct weir__cuda_stream *s, const struct weir__kernel *kernel);
void weir__cuda_gates_close(struct weir__cuda *dev);

/* ---- slot.c ---- */
weir_status weir__cuda_stream_open(weir_stream *s);
void weir__cuda_stream_close(weir_stream *s);

/* ---- stream/counters.c ---- */
weir_status weir__cuda_counters_open(struct weir__cuda *dev);
void weir__cuda_counters_close(struct weir__cuda *dev);
/* *own, which is NULL at first: WEIR__CODE_COUNTERS words, or NULL where none are left. Under the
 * lock of whoever *own is of. */
uint32_t *weir__cuda_counters_take(struct weir__cuda *dev, uint32_t **own);
/* Once nothing runs that uses them. */
void weir__cuda_counters_give(struct weir__cuda *dev, uint32_t *own);
/* A stream's priority as CUDA has it. */
int weir__cuda_priority(const weir_stream *s);
/* The CUDA stream of the stream for so many cores, in no order with the others; one `side` more
 * for parts of collectives. (L) */
weir_status weir__cuda_find_queue(struct weir__cuda_stream *s, unsigned cores, bool side,
                                  weir__cu_stream *out);
/* The latter, with the event `parted`. (L) */
weir_status weir__cuda_side(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);

/* ---- native.c: streams and memory of others ---- */

weir_status weir__cuda_wait_for_word(struct weir__cuda *dev, weir__cu_stream stream,
                                     const struct weir__cuda_event *event);
weir_status weir__cuda_native(weir_stream *s, unsigned cores, void **handle);
weir_status weir__cuda_wait_native(weir_stream *s, void *native);
weir_status weir__cuda_signal_native(struct weir__mark mark, void *native);
bool weir__cuda_reaches(weir_device *dev, const void *address);
/* Whether kernels and copies of one device reach the memory of another. */
bool weir__cuda_reaches_device(const weir_device *dev, const weir_device *other);

/* ---- tail.c, waits.c, lanes.c ---- */

/* The CUDA stream for a command on so many cores, ordered after everything queued. (L) */
weir_status weir__cuda_tail(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);
/* The same, for others to queue on: the stream is shared from now on. (L) */
weir_status weir__cuda_share(struct weir__cuda_stream *s, unsigned cores, weir__cu_stream *out);
/* Whether the command is over (or asking fails); if not, an event at or behind it. */
bool weir__cuda_find(struct weir__mark mark, struct weir__cuda_event *out, weir_status *st);
/* The next command will wait for the host: whoever waits for earlier ones must not wait for that.
 * It has a tail. (L) */
weir_status weir__cuda_before_gate(struct weir__cuda_stream *s);
/* It does, from here on; `far` if the host waits for other devices. (L) */
weir_status weir__cuda_gate(struct weir__cuda_stream *s, bool far);
/* The command is queued: `name` for reports. (L) */
void weir__cuda_count(struct weir__cuda_stream *s, uint64_t n, const char *name);
/* A plan runs on `first` and stands for `lane` as well: it comes after what `lane` has, and `lane`
 * goes on after it, `n` commands further. It is counted on `first` by then, if that has commands of
 * it; `on` is where it was launched. (L) */
weir_status weir__cuda_lead(struct weir__cuda_stream *lane, struct weir__cuda_stream *first);
weir_status weir__cuda_follow(struct weir__cuda_stream *lane, struct weir__cuda_stream *first,
                              weir__cu_stream on, bool counted, uint64_t n);
weir_status weir__cuda_wait(weir_stream *s, struct weir__mark mark, enum weir__wait how);
weir_status weir__cuda_mark(weir_stream *s);
/* Under the tails lock: puts up the gate that is due and hands the waits that are kept to CUDA. */
weir_status weir__cuda_flush(struct weir__cuda_stream *s);
/* Under the tails lock: whether what is queued next must wait for the host. */
bool weir__cuda_is_shut(struct weir__cuda_stream *s);
/* Under the tails lock: goes on to the stream that a plan of several lanes was launched on. */
static inline void weir__cuda_locate(struct weir__cuda_stream **s, uint64_t *seq)
{
    while ((*s)->order.leader && *seq <= (*s)->order.led_upto) {
        *seq = (*s)->order.leader_seq;
        *s = (*s)->order.leader;
    }
}

/* ---- progress.c ---- */

/* Makes the stream write how far it got, unless it will. The second is under the tails lock. */
weir_status weir__cuda_checkpoint(struct weir__cuda_stream *s);
weir_status weir__cuda_write(struct weir__cuda_stream *s);
uint64_t weir__cuda_done(weir_stream *s);
/* Finds out which streams are idle. */
void weir__cuda_look(weir_device *dev);

/* ---- jobs.c: the rest is in jobs.h ---- */

/* The context is unusable: callbacks that CUDA will not reach any more are called. */
void weir__cuda_jobs_dead(struct weir__cuda *dev);

/* ---- sync.c ---- */
weir_status weir__cuda_sync(weir_stream *s, uint64_t seq, int64_t timeout_ns, bool spin);
/* Who is where: one line per stream that has work. */
void weir__cuda_report(weir_device *dev, struct weir__text *text);

/* ---- faults.c ---- */

/* `r` as an error that names `what`; a fault of the context makes the device dead. */
weir_status weir__cuda_failed(struct weir__cuda *dev, weir__cu_result r, const char *what);
static inline weir_status weir__cuda_check(struct weir__cuda *dev, weir__cu_result r,
                                           const char *what)
{
    return weir__likely(!r) ? WEIR_OK : weir__cuda_failed(dev, r, what);
}
/* Whatever stream of CUDA's it is waits for the point. */
static inline weir_status weir__cuda_wait_for(struct weir__cuda *dev, weir__cu_stream stream,
                                              const struct weir__cuda_event *event)
{
    return weir__likely(!event->word)
               ? weir__cuda_check(dev, dev->api->cu.stream_wait(stream, event->event, 0), "a wait")
               : weir__cuda_wait_for_word(dev, stream, event);
}
/* The error of a device whose context is unusable, else WEIR_OK. */
weir_status weir__cuda_dead(struct weir__cuda *dev);
static inline weir_status weir__cuda_alive(struct weir__cuda *dev)
{
    return weir__likely(!atomic_load_explicit(&dev->faults.dead, memory_order_acquire))
               ? WEIR_OK
               : weir__cuda_dead(dev);
}
/* After a library has failed: whether the context did, which is the better reason. */
weir_status weir__cuda_ask(struct weir__cuda *dev);

/* ---- stamp.c: the time ---- */
weir_status weir__cuda_record_stamp(weir_stream *s, _Atomic uint64_t *ns);
/* Fills the stamps of the stream up to `seq`, which is over. */
void weir__cuda_read_stamps(struct weir__cuda_stream *s, uint64_t seq);
void weir__cuda_stamps_close(struct weir__cuda *dev);
/* Sets the device's clock by the host's. (L) */
weir_status weir__cuda_anchor(struct weir__cuda *dev);
/* The host's time at which the event was passed, under the stamps lock. The event may be
 * another afterwards. WEIR__NO_TIME with the error, which may be CU_ERROR_NOT_READY. */
weir__cu_result weir__cuda_time_of(struct weir__cuda *dev, weir__cu_event *event, uint64_t *ns);

/* ---- submit.c, issue.c, copy.c, host.c, code.c, product.c: commands ---- */

weir_status weir__cuda_submit(weir_stream *s, const struct weir__kernel *kernel);
/* Hands a kernel to CUDA. (L) */
weir_status weir__cuda_issue(const struct weir__cuda_sink *sink, const struct weir__kernel *kernel);
weir_status weir__cuda_copy(struct weir__cuda_stream *s, weir__cu_stream stream,
                            const struct weir__copy *copy);
/* Makes ready what the copy needs. (L) */
weir_status weir__cuda_copy_ready(struct weir__cuda_stream *s, const struct weir__copy *copy);
/* Makes ready what moves bytes between the host and the device. (L) */
weir_status weir__cuda_stage_ready(struct weir__cuda_stream *s);
/* A function of the host, with copies of its operands. If it fails, `blamed` does. (L) */
weir_status weir__cuda_call_host(struct weir__cuda_stream *s, weir__cu_stream stream,
                                 const struct weir__kernel *kernel, struct weir__mark blamed);
/* Forgets copies and functions that a lost GPU never came to. */
void weir__cuda_copies_close(struct weir__cuda *dev);
void weir__cuda_host_calls_close(struct weir__cuda *dev);
/* The compiled variant of a source that a launch with these arguments needs. (L) */
weir_status weir__cuda_find_function(struct weir__cuda *dev, const struct weir__code *code,
                                     const void *args, const struct weir__code_launch *launch,
                                     weir__cu_function *out);
void weir__cuda_functions_close(struct weir__cuda *dev);
/* A product, or several in one call. WEIR_EUNSUPPORTED, without an error text, if the library has
 * nothing for it. (L) */
weir_status weir__cuda_product_run(const struct weir__cuda_sink *sink,
                                   const struct weir__product *products, int n);
void weir__cuda_products_close(struct weir__cuda *dev);
/* repeat.c: what the stream remembers of its products. */
void weir__cuda_repeats_close(struct weir__cuda_stream *s);

/* ---- trace.c: trace records ---- */

/* While one is recorded: before a kernel is queued on `on`, and after that was tried. The first
 * may give NULL: then it is not recorded. (L) */
struct weir__cuda_traced *weir__cuda_trace_begin(struct weir__cuda_stream *s, weir__cu_stream on,
                                                 const struct weir__kernel *k, uint64_t seq);
void weir__cuda_trace_end(struct weir__cuda_traced *h, weir__cu_stream on, bool queued);
/* The same for a collective, whose end is told by one of the next two: its part is queued on `on`,
 * or the host has ended it. From any thread. */
void weir__cuda_trace_arrive(struct weir__cuda_traced *h, bool queued);
void weir__cuda_trace_part(struct weir__cuda_traced *h, weir__cu_stream on);
void weir__cuda_trace_ended(struct weir__cuda_traced *h);
/* The same for the launch of a plan with collectives: it was tried on `on`, or (NULL) never. */
void weir__cuda_trace_launched(struct weir__cuda_traced *h, weir__cu_stream on);
/* Command `seq` waits for `from`. (L) */
void weir__cuda_trace_wait(struct weir__cuda_stream *s, uint64_t seq, struct weir__mark from);
/* Work of others on `native` begins, which the last command stands for; NULL: it ends. (L) */
void weir__cuda_trace_native(weir_stream *base, void *native, const struct weir__kernel *k);
/* Puts everything that is over into the trace. */
void weir__cuda_trace_flush(struct weir__cuda *dev);
void weir__cuda_trace_close(struct weir__cuda *dev);

/* ---- cores.c ---- */
weir_status weir__cuda_cores_open(struct weir__cuda *dev);
void weir__cuda_cores_close(struct weir__cuda *dev);
int weir__cuda_round_limit(const weir_device *dev, int cores);
/* The part for a stream that may use `cores`; NULL with WEIR_OK means all. (L) */
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

/* ---- the sources, made from kernels/ by CMake ---- */
struct weir__cuda_source {
    const char *name; /* "softmax.cu", "ops/host/row.h" */
    const char *text;
};
extern const struct weir__cuda_source weir__cuda_sources[];
extern const int weir__cuda_nsources;

#endif
