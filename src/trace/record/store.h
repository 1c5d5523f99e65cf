/* The representation of a trace, and the functions that build it. */
#ifndef WEIR_TRACE_RECORD_STORE_H
#define WEIR_TRACE_RECORD_STORE_H

#include "trace/record/trace.h"
#include "weir/trace.h"

/* Texts that live as long as the trace. */
struct weir__trace_texts {
    struct weir__trace_chunk *chunks;
    size_t left; /* bytes free in the first one */
};
/* Returns a copy; NULL when out of memory. */
const char *weir__trace_keep(struct weir__trace_texts *texts, const char *text, size_t size);

/* The process that recorded a trace. */
struct weir__trace_process {
    bool known; /* false if it was no rank of a group of processes */
    int rank;
    uint64_t start_ns; /* start of the recording, by the rank's own clock */
    int64_t offset_ns; /* add to get times of rank 0's clock */
};
/* Returns this process's entry, for a recording that began at `start_ns` (merge.c). */
struct weir__trace_process weir__trace_own_process(uint64_t start_ns);

struct weir_trace {
    weir_trace_device *devices;
    weir_trace_stream *streams;
    weir_trace_op *ops;
    weir_trace_part *parts;
    weir_trace_wait *waits;
    weir_trace_memory *memory;
    int ndevices, nstreams, nops, nparts, nwaits, nmemory;
    int cap_devices, cap_streams, cap_ops, cap_parts, cap_waits, cap_memory;
    uint64_t dropped;
    struct weir__trace_process process;
    bool order_guessed; /* waits[] may not be all that orders streams (read/import_order.c) */
    struct weir__trace_texts texts;
};

/* ---- the raw data of a recording (ring.c), and a trace built from it (collect.c) ---- */

struct weir__trace_raw_device {
    uint64_t id;
    char name[64], model[128];
    weir_cores cores;
    bool split, real_time;
    enum weir__trace_clock clock;
};

struct weir__trace_raw_stream {
    uint64_t device;
    uint32_t slot;
    uint64_t first;
    int priority;
    char name[48];
};

struct weir__trace_raw {
    struct weir__trace_record *records;
    size_t nrecords;
    struct weir__trace_raw_device *devices;
    int ndevices, cap_devices;
    struct weir__trace_raw_stream *streams;
    int nstreams, cap_streams;
    uint64_t dropped;
    uint64_t start_ns, start_ticks;
    double ns_per_tick;
};
void weir__trace_raw_fini(struct weir__trace_raw *raw);

/* The first bytes of each ring are populated in advance and stay so: the page fault of a first
 * write costs more than the 64 records that fill the page. */
enum { WEIR__TRACE_KEPT = 1 << 20 };
size_t weir__trace_kept(const struct weir__trace_ring *r);

/* drain.c: read the records of a recording. weir__trace_drain returns the rings' pages to the
 * system; weir__trace_look copies the newest records while threads write. */
weir_status weir__trace_drain(struct weir__trace_ring *rings, uint32_t recording,
                              struct weir__trace_raw *raw);
weir_status weir__trace_look(struct weir__trace_ring *rings, uint32_t recording,
                             struct weir__trace_raw *raw);

/* Replaces every WEIR__TRACE_ANY_CORE by a core's number. False when out of memory. */
bool weir__trace_name_cores(weir_trace *t);

/* Sorts raw->records. returns WEIR_ENOMEM. */
weir_status weir__trace_collect(struct weir__trace_raw *raw, weir_trace **out);

/* Locks or unlocks the tables of names, so that a forked child finds them consistent. */
void weir__trace_names_hold(bool hold);
/* Returns the text of a number (names.c). It lives as long as the process. */
const char *weir__trace_name_text(uint32_t id);
const char *weir__trace_scope_text(uint16_t id);

/* ticks.c: chooses the counter and reads it once; only the first call does anything. */
void weir__trace_ticks_init(void);
/* Returns the nanoseconds of one tick, measured since weir__trace_ticks_init; may wait a few
 * milliseconds for that. */
double weir__trace_tick_ns(void);

#endif
