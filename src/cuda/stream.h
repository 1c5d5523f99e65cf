/* What a stream of the driver is made of, part by part, with the lock of each. */
#ifndef WEIR_CUDA_STREAM_H
#define WEIR_CUDA_STREAM_H

#include "cuda/api.h"
#include "device/device.h"

#define WEIR__CUDA_RING 64   /* events of a stream that may still be waited for */
#define WEIR__CUDA_NAMES 256 /* operators of a stream that a report can name */
#define WEIR__CUDA_KEPT 8    /* waits that are not yet handed to CUDA */
#define WEIR__CUDA_TOLD 64   /* ends of a stream's commands that traces remember */
#define WEIR__CUDA_WORKSPACE ((size_t)32 << 20)
#define WEIR__CUDA_STAGE ((size_t)4 << 20)

struct weir__cuda_part;
struct weir__cuda_repeat;
struct weir__cuda_traced;

/* A point of a stream that CUDA knows. */
struct weir__cuda_event {
    uint64_t seq;
    weir__cu_event event;
    weir__cu_stream on;           /* where it was recorded */
    struct weir__cuda_word *word; /* instead of an event: when `reached` here is seq */
};

/* What the host and the device both see of a stream. */
struct weir__cuda_word {
    _Alignas(WEIR__LINE) _Atomic uint64_t reached; /* the last command that is over */
    _Atomic uint64_t gate;                         /* the last gate that is open */
};

/* What a stream's next command comes after: an event, or a point for which one is found when
 * it is needed. */
struct weir__cuda_kept {
    struct weir__cuda_event event; /* where `from` is NULL */
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

/* A wait whose source may fail. */
struct weir__cuda_taken {
    uint64_t at; /* the number of the wait on its own stream */
    struct weir__mark from;
};

/* Failures of a stream, for fault/faults.c, under the lock there but for the first two. A wait is
 * listed until it is over and its source's errors up to there are known. */
struct weir__cuda_faults {
    _Atomic bool may_fail; /* some command may fail, or waits for one that may */
    _Atomic uint64_t seen; /* the command of the last failure that was read */
    struct weir__cuda_taken *waits;
    int nwaits, cap_waits;
    uint64_t over; /* while polling: the last command that was over before */
};

/* Where a stream's commands go, and what the next one waits for. Under the tails lock; is_due under
 * the device lock as well. waits.c says what is kept and when it is handed over. */
struct weir__cuda_ordering {
    weir__cu_stream tail; /* NULL before the first command that CUDA sees */
    bool busy;            /* the tail has work that no plan's run came after */
    bool is_due;          /* an event behind the last command, before anything comes there */
    unsigned ring_at;     /* the next of `ring`, modulo its size */
    _Atomic unsigned nkept;
    uint64_t kept_after;              /* the last command before the first wait that is kept */
    struct weir__cuda_stream *leader; /* commands up to led_upto are over */
    uint64_t leader_seq, led_upto;    /* when command leader_seq of that stream is */
    struct weir__cuda_kept kept[WEIR__CUDA_KEPT];
    struct weir__cuda_event ring[WEIR__CUDA_RING];
};

/* The last command that waits for the host, under the tails lock. While it is `shut` the tail does
 * not stop there yet: no gate is put up before something comes after it. */
struct weir__cuda_last_gate {
    uint64_t seq;
    bool shut;
    bool far; /* for other devices: a collective, or order with one of another kind */
};

/* Under the tails lock; others only look at `checkpoint`: how far the stream will say that it got.
 */
struct weir__cuda_progress {
    _Atomic uint64_t checkpoint; /* the last number that is written, or will be */
    unsigned since;              /* commands that CUDA has seen since */
};

/* Of streams that others queue on too (native.c). */
struct weir__cuda_handle {
    _Atomic(weir__cu_stream) stream; /* the one they have, which does not change; or NULL */
    weir__cu_event inlet;            /* (L) recorded on streams that are not weir's */
};

/* A stream's CUDA streams. (L) */
struct weir__cuda_queues {
    struct weir__cuda_queue *all;
    int n, cap;
    weir__cu_event parted; /* behind its part of a collective; made for the first */
};

/* Memory that its commands use one after the other, made when first needed. (L) */
struct weir__cuda_scratch {
    void *workspace;                   /* of matrix products, on the device */
    char *stage;                       /* pinned; for copies */
    struct weir__cuda_repeat *repeats; /* of repeat.c */
};

/* The part of the cores that its limit got. (L) */
struct weir__cuda_granted {
    unsigned cores, given, epoch; /* the limit, what it came to, and when */
    uint64_t seq;                 /* the last command that runs there */
    const struct weir__cuda_part *part;
};

/* What traces know of it, under the clock's lock but for `native`, (L). */
struct weir__cuda_told {
    struct {
        uint64_t seq, ns;
    } ends[WEIR__CUDA_TOLD];
    int at;
    bool is_behind;                   /* while telling: what is next on it is not over */
    struct weir__cuda_traced *native; /* work of others that has begun; or NULL */
};

struct weir__cuda_stream {
    weir_stream base;
    struct weir__cuda_stream *next; /* of the device's */
    struct weir__cuda_word *word;
    _Atomic uint64_t queued;             /* the last command */
    _Atomic uint64_t untimed;            /* the last one that op_timeout does not count for */
    const char *names[WEIR__CUDA_NAMES]; /* (L) by number */
    struct weir__cuda_ordering order;
    struct weir__cuda_last_gate gate;
    struct weir__cuda_progress progress;
    struct weir__cuda_handle native;
    struct weir__cuda_queues queues;
    struct weir__cuda_scratch scratch;
    struct weir__cuda_granted granted;
    struct weir__cuda_faults faults;
    struct weir__cuda_told told;
};

#endif
