/* The parts of a cuda stream. Each part has one job and one lock; its comment names both.
 * (L) is the device lock. */
#ifndef WEIR_CUDA_STREAM_H
#define WEIR_CUDA_STREAM_H

#include "cuda/api.h"
#include "device/device.h"

#define WEIR__CUDA_RING 64   /* recorded CUDA events that a stream remembers */
#define WEIR__CUDA_NAMES 256 /* names of recent operators of a stream, for reports */
#define WEIR__CUDA_KEPT 8    /* waits of a stream that are not yet handed to CUDA */
#define WEIR__CUDA_ENDS 64   /* end times of recent commands of a stream, for traces */
#define WEIR__CUDA_WORKSPACE ((size_t)32 << 20)
#define WEIR__CUDA_STAGE ((size_t)4 << 20)

struct weir__cuda_part;
struct weir__cuda_repeat;
struct weir__cuda_traced;

/* A recorded CUDA event: it has completed only if command `seq` of its stream has. */
struct weir__cuda_event {
    uint64_t seq;
    weir__cu_event event;
    weir__cu_stream on;           /* the CUDA stream it was recorded on; NULL: never recorded */
    struct weir__cuda_word *word; /* not NULL: wait until word->reached is seq, not for `event` */
};

/* The state of a stream in pinned memory, which host and GPU both read and write. */
struct weir__cuda_word {
    _Alignas(WEIR__LINE) _Atomic uint64_t reached; /* the last completed command */
    _Atomic uint64_t gate;                         /* the last open gate */
    _Atomic uint64_t at_job;  /* the last command at which the stream waits for the helper thread */
    _Atomic uint64_t at_look; /* the number of the last look that a side stream has reached */
};

/* A kept wait: the stream's next command waits for `event` or, if `from` is not NULL, for command
 * `seq` of `from`, whose event is looked up when the wait is handed to CUDA. */
struct weir__cuda_kept {
    struct weir__cuda_event event;
    struct weir__cuda_stream *from;
    uint64_t seq;
};

/* A CUDA stream of a weir stream, for one priority and part of the cores. */
struct weir__cuda_queue {
    int priority;
    const struct weir__cuda_part *part; /* NULL: all cores */
    bool side;                          /* for parts of collectives, beside the stream's order */
    weir__cu_stream stream;
};

/* A wait that takes over errors: if `from` fails, so does command `at` of the waiting stream. */
struct weir__cuda_taken {
    uint64_t at;
    struct weir__mark from;
};

/* Job: failures of the stream, and errors it takes over. Lock: that of fault/faults.c, except for
 * the two atomics. Invariant: a wait stays listed until it has completed and every error of its
 * source up to the awaited command has been read. */
struct weir__cuda_faults {
    _Atomic bool may_fail; /* some command may fail, or waits for one that may */
    _Atomic uint64_t seen; /* the command of the last failure that the host has read */
    struct weir__cuda_taken *waits;
    int nwaits, cap_waits;
    uint64_t over; /* while polling: `reached` before failures were read */
};

/* Job: which CUDA stream takes the next command, and what that command waits for. Lock: tails;
 * is_due also (L). Invariant (see waits.c): the tail has every command up to kept_after if waits
 * are kept, else all of them, except a gate that is still shut and the commands after it. */
struct weir__cuda_ordering {
    weir__cu_stream tail; /* the CUDA stream with the last command; NULL before the first */
    bool busy;            /* the tail has had work since the last plan's run that joined it */
    bool is_due;          /* record an event after the last command before queueing another */
    unsigned ring_at;     /* the next slot of `ring`, modulo its size */
    _Atomic unsigned nkept;
    uint64_t kept_after;              /* the last command before the first kept wait */
    struct weir__cuda_stream *leader; /* the stream of the plan's run: commands up to led_upto */
    uint64_t leader_seq, led_upto;    /* have completed when the leader's command leader_seq has */
    struct weir__cuda_kept kept[WEIR__CUDA_KEPT];
    struct weir__cuda_event ring[WEIR__CUDA_RING];
};

/* Job: the last command that waits for the host. Lock: tails. Invariant: while `shut`, CUDA has no
 * wait for the gate; weir__cuda_raise_gate queues one before anything that comes after the gate. */
struct weir__cuda_last_gate {
    uint64_t seq;
    bool shut;
    bool far; /* it waits for other devices: a collective, or a relay */
};

/* Job: the checkpoints of the stream, which report its progress. Lock: tails; `checkpoint` may be
 * read without it. */
struct weir__cuda_progress {
    _Atomic uint64_t checkpoint; /* the last number whose write to word->reached is queued */
    unsigned since;              /* commands queued to CUDA since then */
};

/* Job: the CUDA stream that the program has got (native.c), on which other libraries queue. */
struct weir__cuda_handle {
    _Atomic(weir__cu_stream) stream; /* the CUDA stream that the program has; NULL: none */
    weir__cu_event inlet;            /* (L) for waits for streams that are not weir's */
};

/* Job: the CUDA streams of this stream. Lock: (L). */
struct weir__cuda_queues {
    struct weir__cuda_queue *all;
    int n, cap;
    weir__cu_event parted; /* recorded after its part of a collective; created on first use */
};

/* Job: memory that the stream's commands use one after the other, allocated on first use. Lock:
 * (L). */
struct weir__cuda_scratch {
    void *workspace;                   /* of matrix products, on the device */
    uint32_t *counters;                /* of counters.c */
    char *stage;                       /* pinned; for copies */
    struct weir__cuda_repeat *repeats; /* of repeat.c */
};

/* Job: the part of the cores that the stream's limit was granted. Lock: (L). */
struct weir__cuda_granted {
    unsigned cores, given, epoch; /* the limit, the cores granted for it, the epoch of cores.c */
    uint64_t seq;                 /* the last command that runs there */
    const struct weir__cuda_part *part;
};

/* Job: the stream's data for traces. Lock: the clock's; `native`: (L). */
struct weir__cuda_tracing {
    struct {
        uint64_t seq, ns;
    } ends[WEIR__CUDA_ENDS];
    int at;
    bool is_behind;                   /* while writing records: its next command is still pending */
    struct weir__cuda_traced *native; /* work of other libraries between begin and end; or NULL */
};

struct weir__cuda_stream {
    weir_stream base;
    struct weir__cuda_stream *next; /* in the device's list */
    struct weir__cuda_word *word;
    _Atomic uint64_t queued;             /* the last command */
    _Atomic uint64_t untimed;            /* the last command without op_timeout */
    _Atomic uint64_t looks;              /* number of looks queued on side streams (jobs.h) */
    const char *names[WEIR__CUDA_NAMES]; /* (L) of commands, by number modulo the size */
    struct weir__cuda_ordering order;
    struct weir__cuda_last_gate gate;
    struct weir__cuda_progress progress;
    struct weir__cuda_handle native;
    struct weir__cuda_queues queues;
    struct weir__cuda_scratch scratch;
    struct weir__cuda_granted granted;
    struct weir__cuda_faults faults;
    struct weir__cuda_tracing tracing;
};

#endif
