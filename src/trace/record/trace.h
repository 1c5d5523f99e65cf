/* The recording interface for devices.
 *
 * A device announces itself and its streams, and writes records into the ring of the calling
 * thread. Everything else (joining records, converting times, naming streams) happens after the
 * recording has ended. A record identifies its stream by slot and its command by number, as events
 * and memory do, so recording needs no lookup.
 *
 * Every recording thread first calls weir__trace_on(), which costs one relaxed load. A thread may
 * call it just before the recording ends and write its record after that. Such a late record
 * carries the number of its recording, so the next recording ignores it.
 *
 * A driver records:
 *   WEIR__TRACE_OP     once per operator at its end; `whole` if it ran on one core
 *   WEIR__TRACE_PART   once per block, or once for blocks that ran together or consecutively
 *   WEIR__TRACE_WAIT   when a stream has passed a wait
 * device/ records queueing, memory, devices and streams for all drivers.
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

/* The clock of the times in a device's records. */
enum weir__trace_clock {
    WEIR__TRACE_TICKS,   /* weir__trace_ticks */
    WEIR__TRACE_HOST_NS, /* weir__clock_ns */
    WEIR__TRACE_OWN_NS,  /* nanoseconds since the device was opened, in its own time */
};

/* Set before the first device has work, so threads that see a recording by a relaxed load may read
 * it without atomics. */
extern bool weir__trace_has_tsc;
uint64_t weir__trace_slow_ticks(void);

/* Reads a counter that all threads share; it is cheaper to read than the clock. */
static inline uint64_t weir__trace_ticks(void)
{
#if defined(__x86_64__)
    if (weir__likely(weir__trace_has_tsc))
        return __builtin_ia32_rdtsc(); /* avoids x86intrin.h: 60,000 lines in half of all files */
#endif
    return weir__trace_slow_ticks();
}

/* ---- recorded devices ---- */

/* Each device embeds one. */
struct weir__trace_source {
    uint64_t id;
    const weir_device_props *props;
    enum weir__trace_clock clock;
    void (*announce)(struct weir__trace_source *source); /* weir__trace_stream for each stream */
    struct weir__trace_source *next;
};

/* Registers a device; it stays registered until weir_device_close. Call without a device lock: a
 * recording that begins makes every source announce its streams, which may take that lock. */
void weir__trace_add_source(struct weir__trace_source *source);

/* Begins a recording for the watch (trace/watch) with small rings. It ends when the program begins
 * its own recording. returns WEIR_ESTATE if a trace is being recorded already. */
weir_status weir__trace_watch_start(void);
void weir__trace_remove_source(struct weir__trace_source *source);

/* Announces that from command `first` on, `slot` of the device is this stream. Does nothing while
 * no trace is recorded. */
void weir__trace_stream(uint64_t device, uint32_t slot, uint64_t first, const char *name,
                        int priority);

/* Sets this process's rank in its group of processes, and by how much rank 0's clock is ahead of
 * its own. Merging traces needs both. */
void weir__trace_set_rank(int rank, int64_t offset_ns);

/* ---- names ---- */

/* Returns the number of a text: 0 for "" and for all texts after the first million. Texts live as
 * long as the process, so a record may name an object that no longer exists. */
uint32_t weir__trace_name(const char *text);
/* The same for scopes, of which there are at most 65,535. May take a lock, so do not call it for
 * every operator. */
uint16_t weir__trace_scope(const char *text);

/* ---- records ---- */

enum weir__trace_kind {
    WEIR__TRACE_QUEUED = 1,
    WEIR__TRACE_OP,
    WEIR__TRACE_PART,
    WEIR__TRACE_WAIT,
    WEIR__TRACE_MEMORY,
};

/* The cores that blocks ran on: at most a cube and two vector cores. On devices whose engines share
 * their cores, shared cores count as cube cores. */
struct weir__trace_cores {
    uint16_t cube, vector[2]; /* WEIR__TRACE_NO_CORE for none */
};
#define WEIR__TRACE_NO_CORE UINT16_MAX
/* A core without a number: weir__trace_name_cores assigns one that is free at that time. */
#define WEIR__TRACE_ANY_CORE (UINT16_MAX - 1)
#define WEIR__TRACE_NO_CORES \
    ((struct weir__trace_cores){WEIR__TRACE_NO_CORE, {WEIR__TRACE_NO_CORE, WEIR__TRACE_NO_CORE}})

/* One cache line. The comments name the kinds that use a field; it is 0 for the other kinds. */
struct weir__trace_record {
    uint8_t kind;
    uint8_t engine;  /* op */
    bool failed;     /* op */
    bool whole;      /* op: it ran as one part, on `cores`, and has no part records */
    uint32_t blocks; /* op, part */
    uint32_t device, slot;
    uint64_t seq;      /* queued: the first command */
    uint64_t from, to; /* op, part, wait; queued and memory: the time is `from` */
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
    uint16_t generation;            /* low bits of weir__trace_generation */
};

/* Copies the record into the thread's ring and sets its generation. */
void weir__trace_put(const struct weir__trace_record *record);

/* The same without the copy, for the most frequent records:
 *
 *     if ((ring = weir__trace_get_ring())) {
 *         *weir__trace_slot(ring) = (struct weir__trace_record){ ... };
 *         weir__trace_written(ring);
 *     }
 *
 * weir__trace_written sets the generation. */
struct weir__trace_ring {
    _Atomic uint64_t head;      /* records written since the recording began */
    _Atomic uint32_t recording; /* number of the recording that its records belong to */
    bool owned;
    size_t count; /* a power of two */
    struct weir__trace_record *records;
    struct weir__trace_ring *next;
};

/* Returns the calling thread's ring. NULL if no trace is being recorded, or memory is short. */
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

/* Records that commands seq .. seq+count-1 of the slot were queued at that time. */
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

/* Records when command `seq` of the slot, a wait for command `source_seq` of a slot of
 * `source_device`, was reached and passed. */
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
