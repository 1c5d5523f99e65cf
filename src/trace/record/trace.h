/* Recording, as devices see it.
 *
 * A device announces itself and its streams, and puts a record into the ring of the calling
 * thread at a few points; everything else (joining, times, names of streams) happens when
 * the recording has ended. A record names its stream by slot and its command by number,
 * which is what events and memory go by as well, so nothing is looked up while work runs.
 *
 * Whoever records asks weir__trace_on() first: one relaxed load, nothing else when off. A
 * record that comes late, from a thread that asked just before the recording ended, carries
 * the recording's number and is ignored by the next one.
 *
 * A driver's part:
 *   WEIR__TRACE_OP     once per operator when it is over; `whole` if it ran on one core
 *   WEIR__TRACE_PART   once per block, or per blocks that ran together or one behind the other
 *   WEIR__TRACE_WAIT   when a stream has passed a wait
 * Queueing, memory, devices and streams are recorded by device/ for all drivers.
 */
#ifndef WEIR_TRACE_RECORD_TRACE_H
#define WEIR_TRACE_RECORD_TRACE_H

#include <stdatomic.h>

#include "base/base.h"
#include "weir/device.h"

/* The recording's number; 0 when nothing is recorded. */
extern _Atomic uint32_t weir__trace_generation;

static inline bool weir__trace_on(void)
{
    return weir__unlikely(atomic_load_explicit(&weir__trace_generation, memory_order_relaxed));
}

/* ---- time ---- */

/* What times of a device's records are. */
enum weir__trace_clock {
    WEIR__TRACE_TICKS,   /* weir__trace_ticks */
    WEIR__TRACE_HOST_NS, /* weir__clock_ns */
    WEIR__TRACE_OWN_NS,  /* nanoseconds since the device was opened, in its own time */
};

/* Set before the first device has any work: threads that find a recording under way by a
 * relaxed load may read it plainly. */
extern bool weir__trace_has_tsc;
uint64_t weir__trace_slow_ticks(void);

/* Ticks of a counter that all threads share, which costs less than asking for the time. */
static inline uint64_t weir__trace_ticks(void)
{
#if defined(__x86_64__)
    if (weir__likely(weir__trace_has_tsc))
        return __builtin_ia32_rdtsc(); /* x86intrin.h is 60,000 lines, and half the tree is below */
#endif
    return weir__trace_slow_ticks();
}

/* ---- who records ---- */

/* A part of each device. */
struct weir__trace_source {
    uint64_t id;
    const weir_device_props *props;
    enum weir__trace_clock clock;
    void (*announce)(struct weir__trace_source *source); /* weir__trace_stream for each stream */
    struct weir__trace_source *next;
};

/* From weir_device_open to weir_device_close. With no device lock held: a recording that
 * begins asks every source to announce its streams, which may take that lock. */
void weir__trace_add_source(struct weir__trace_source *source);

/* Begins a recording for the watch (trace/watch): small rings, and it ends when the program
 * begins one of its own. returns WEIR_ESTATE if something is recorded already. */
weir_status weir__trace_watch_start(void);
void weir__trace_remove_source(struct weir__trace_source *source);

/* From command `first` on, `slot` of the device is this stream. Nothing when off. */
void weir__trace_stream(uint64_t device, uint32_t slot, uint64_t first, const char *name,
                        int priority);

/* This process is that rank of a group of processes, whose rank 0 has a clock so much later: for
 * traces that are merged. */
void weir__trace_set_rank(int rank, int64_t offset_ns);

/* ---- names ---- */

/* Names live as long as the process, so that a record may name what is gone by then: a
 * number for each text, 0 for "" and for all texts beyond the first million. */
uint32_t weir__trace_name(const char *text);
/* The same for scopes, of which there are at most 65,535. Not for every operator: makes a
 * lock. */
uint16_t weir__trace_scope(const char *text);

/* ---- records ---- */

enum weir__trace_kind {
    WEIR__TRACE_QUEUED = 1,
    WEIR__TRACE_OP,
    WEIR__TRACE_PART,
    WEIR__TRACE_WAIT,
    WEIR__TRACE_MEMORY,
};

/* Where blocks ran: at most a cube and two vector cores. Where engines share their cores,
 * those are the cube cores. */
struct weir__trace_cores {
    uint16_t cube, vector[2]; /* WEIR__TRACE_NO_CORE for none */
};
#define WEIR__TRACE_NO_CORE UINT16_MAX
/* One that the device does not name: each block gets some core that is free meanwhile. */
#define WEIR__TRACE_ANY_CORE (UINT16_MAX - 1)
#define WEIR__TRACE_NO_CORES \
    ((struct weir__trace_cores){WEIR__TRACE_NO_CORE, {WEIR__TRACE_NO_CORE, WEIR__TRACE_NO_CORE}})

/* A cache line. Fields that a kind does not name are 0. */
struct weir__trace_record {
    uint8_t kind;
    uint8_t engine;  /* op */
    bool failed;     /* op */
    bool whole;      /* op: it is its only part, on `cores` */
    uint32_t blocks; /* op, part */
    uint32_t device, slot;
    uint64_t seq;      /* queued: the first */
    uint64_t from, to; /* op, part, wait; of queued and memory the time is in `from` */
    uint64_t amount;   /* op: bytes; wait: seq of the source; memory: bytes allocated */
    union {
        struct {
            uint32_t name; /* op */
            uint16_t scope;
            uint16_t limit;
        } op;
        uint64_t reserved; /* memory */
        struct {
            uint32_t device, slot;
        } source;       /* wait */
        uint32_t count; /* queued: commands from seq on */
    } u;
    struct weir__trace_cores cores; /* whole op, part */
    uint16_t generation;            /* low bits */
};

/* Puts a copy into the thread's ring, with the number of the recording. */
void weir__trace_put(const struct weir__trace_record *record);

/* The same for those who record most often, without the copy:
 *
 *     if ((ring = weir__trace_get_ring())) {
 *         *weir__trace_slot(ring) = (struct weir__trace_record){ ... };
 *         weir__trace_written(ring);
 *     }
 *
 * The generation is weir__trace_written's to fill in. */
struct weir__trace_ring {
    _Atomic uint64_t head;      /* records written since the recording began */
    _Atomic uint32_t recording; /* that writes into it now */
    bool owned;
    size_t count; /* a power of two */
    struct weir__trace_record *records;
    struct weir__trace_ring *next;
};

/* The calling thread's. NULL if nothing is recorded any more, or memory is short. */
struct weir__trace_ring *weir__trace_get_ring(void);

static inline struct weir__trace_record *weir__trace_slot(const struct weir__trace_ring *r)
{
    return &r->records[atomic_load_explicit(&r->head, memory_order_relaxed) & (r->count - 1)];
}

static inline void weir__trace_written(struct weir__trace_ring *r)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

    r->records[head & (r->count - 1)].generation =
        (uint16_t)atomic_load_explicit(&r->recording, memory_order_relaxed);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

/* Commands seq .. seq+count-1 of the slot were queued at that time. */
static inline void weir__trace_put_queued(uint64_t device, uint32_t slot, uint64_t seq,
                                          uint32_t count, uint64_t at)
{
    struct weir__trace_ring *ring = weir__trace_get_ring();

    if (!ring)
        return;
    *weir__trace_slot(ring) = (struct weir__trace_record){.kind = WEIR__TRACE_QUEUED,
                                                          .device = (uint32_t)device,
                                                          .slot = slot,
                                                          .seq = seq,
                                                          .from = at,
                                                          .u.count = count};
    weir__trace_written(ring);
}

/* Command `seq` of the slot, a wait for command `source_seq` of a slot of `source_device`,
 * was reached and passed at those times. */
static inline void weir__trace_put_wait(uint64_t device, uint32_t slot, uint64_t seq,
                                        uint64_t source_device, uint32_t source,
                                        uint64_t source_seq, uint64_t reached, uint64_t passed)
{
    struct weir__trace_record r = {
        .kind = WEIR__TRACE_WAIT, .device = (uint32_t)device, .slot = slot, .seq = seq};

    r.from = reached;
    r.to = passed;
    r.amount = source_seq;
    r.u.source.device = (uint32_t)source_device;
    r.u.source.slot = source;
    weir__trace_put(&r);
}

static inline void weir__trace_put_memory(uint64_t device, uint64_t at, uint64_t allocated,
                                          uint64_t reserved)
{
    struct weir__trace_record r = {.kind = WEIR__TRACE_MEMORY, .device = (uint32_t)device};

    r.from = at;
    r.amount = allocated;
    r.u.reserved = reserved;
    weir__trace_put(&r);
}

#endif
