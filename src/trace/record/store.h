/* A trace as it is kept, and how it is put together. */
#ifndef WEIR_TRACE_RECORD_STORE_H
#define WEIR_TRACE_RECORD_STORE_H

#include "trace/record/trace.h"
#include "weir/trace.h"

/* Texts that live as long as the trace. */
struct weir__trace_texts {
    struct weir__trace_chunk *chunks;
    size_t left; /* in the first one */
};
/* A copy; NULL when out of memory. */
const char *weir__trace_keep(struct weir__trace_texts *texts, const char *text, size_t size);

/* The rank that recorded it, when that began by its own clock, and what to add for rank 0's. */
struct weir__trace_process {
    bool known; /* else it was no rank of a group of processes */
    int rank;
    uint64_t start_ns;
    int64_t offset_ns;
};
/* Of this process, for a recording that began then (merge.c). */
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

/* ---- what a recording leaves (ring.c), and a trace of it (collect.c) ---- */

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

/* So many bytes of each ring are there before they are written, and stay: a page that comes
 * with the first write to it costs more than the 64 records that fill it. */
enum { WEIR__TRACE_KEPT = 1 << 20 };
size_t weir__trace_kept(const struct weir__trace_ring *r);

/* drain.c: the records of a recording. The first gives the rings' pages back; the second copies
 * the newest ones while their threads write on. */
weir_status weir__trace_drain(struct weir__trace_ring *rings, uint32_t recording,
                              struct weir__trace_raw *raw);
weir_status weir__trace_look(struct weir__trace_ring *rings, uint32_t recording,
                             struct weir__trace_raw *raw);

/* Gives every core that is WEIR__TRACE_ANY_CORE a number. False when out of memory. */
bool weir__trace_name_cores(weir_trace *t);

/* Sorts raw->records. returns WEIR_ENOMEM. */
weir_status weir__trace_collect(struct weir__trace_raw *raw, weir_trace **out);

/* While they are held nobody is inside the tables of names, so that a fork finds them whole. */
void weir__trace_names_hold(bool hold);
/* The text of a number (names.c). It lives as long as the process. */
const char *weir__trace_name_text(uint32_t id);
const char *weir__trace_scope_text(uint16_t id);

/* ticks.c: the counter is chosen and first read on first use. */
void weir__trace_ticks_init(void);
/* Nanoseconds of one tick, measured since then; may wait a millisecond for that. */
double weir__trace_tick_ns(void);

#endif
