/* Traces: what ran where and when, recorded while a program runs.
 *
 *     weir_trace_start(NULL);
 *     ... work, weir_device_sync(dev) ...
 *     weir_trace_stop(&trace);
 *     weir_trace_write_html((const weir_trace *[]){trace}, NULL, 1, "timeline.html");
 *     weir_trace_free(trace);
 *
 * A recording covers every device of the process; one recording runs at a time. Each thread writes
 * into a ring of its own without a lock; a ring that is full loses its oldest records, and the
 * trace says how many. When nothing is recorded an operator pays one load and a branch.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_trace weir_trace;

typedef struct weir_trace_options {
    size_t size;             /* sizeof, or 0 for the fields of version 0.1 */
    size_t bytes_per_thread; /* 0: 32 MiB, some 250,000 operators */
} weir_trace_options;

/* Begins to record. `options` may be NULL.
 * returns  WEIR_ESTATE if a recording already runs; WEIR_ERANGE for rings below 4 KiB or above 16
 *          GiB.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_start(const weir_trace_options *options);

/* Ends the recording and returns it. Work that is still running is not recorded: sync first.
 * returns  WEIR_ESTATE if no recording runs; WEIR_ENOMEM: the recording is then lost.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_stop(weir_trace **out);

/* A copy of what was recorded so far; the recording goes on. If a ring is more than half full, the
 * copy holds its newest half. It holds only operators that have ended. A recording that WEIR_WATCH
 * started can be copied too.
 * returns  WEIR_ESTATE if no recording runs; WEIR_ENOMEM.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_snapshot(weir_trace **out);

/* Whether the program records. A recording that WEIR_WATCH started does not count: weir_trace_start
 * replaces it. */
WEIR_API bool weir_trace_running(void);

/* NULL is fine. */
WEIR_API void weir_trace_free(weir_trace *trace);

/* ---- contents ----
 * Times are nanoseconds of the device's clock: of devices that run in real time since the
 * recording began, of modelled ones since the device was opened. Cores are numbered with
 * cube cores first; where cube and vector cores are separate, vector cores follow. */

#define WEIR_TRACE_NONE UINT32_MAX

typedef struct weir_trace_device {
    const char *name, *model;
    weir_cores cores;
    bool split_cores; /* vector cores are numbered from cores.cube on */
    bool real_time;
    int rank; /* 0, 1, ... in the order the devices were opened */
} weir_trace_device;

typedef struct weir_trace_stream {
    const char *name;
    uint32_t device;
    int priority;
} weir_trace_stream;

typedef struct weir_trace_op {
    const char *name;
    const char *scope;  /* the super kernel it belongs to; in a loaded profile, the module; "" for
                         * none */
    const char *source; /* the program's line, as in "model.py:40 (forward)"; "" if not known */
    uint32_t device, stream; /* indices */
    uint64_t seq;            /* its number among the commands of the stream's queue */
    weir_engine engine;
    uint32_t blocks; /* blocks of the operator, over all phases */
    uint32_t cores;  /* the most cores it could use at once */
    uint64_t bytes;  /* it reads and writes; 0 if unknown */
    int64_t queued_ns, ready_ns, started_ns, ended_ns;
    uint32_t first_part, nparts; /* where it ran, in parts[] */
    uint32_t first_wait, nwaits; /* the waits before it on its stream, in waits[] */
    bool failed;
} weir_trace_op;

/* A block, or several consecutive blocks that are too short to be recorded one by one. */
typedef struct weir_trace_part {
    uint32_t op;
    uint32_t blocks;
    uint32_t ncores; /* 0 on the host engine */
    uint16_t cores[3];
    int64_t started_ns, ended_ns;
} weir_trace_part;

/* A stream waited for another one. */
typedef struct weir_trace_wait {
    uint32_t stream, source_stream;
    uint32_t op;        /* the first operator behind the wait, or WEIR_TRACE_NONE */
    uint32_t source_op; /* the last operator waited for, or WEIR_TRACE_NONE if it was not
                         * recorded */
    int64_t reached_ns, passed_ns;
} weir_trace_wait;

typedef struct weir_trace_memory {
    uint32_t device;
    int64_t time_ns;
    uint64_t allocated, reserved; /* bytes */
} weir_trace_memory;

typedef struct weir_trace_data {
    const weir_trace_device *devices;
    const weir_trace_stream *streams;
    const weir_trace_op *ops; /* by device, then stream, then seq */
    const weir_trace_part *parts;
    const weir_trace_wait *waits;
    const weir_trace_memory *memory; /* by device, then time */
    size_t ndevices, nstreams, nops, nparts, nwaits, nmemory;
    uint64_t dropped; /* records that were overwritten */
} weir_trace_data;

/* Borrowed: valid until the trace is freed.
 * threads  any. */
WEIR_API void weir_trace_get(const weir_trace *trace, weir_trace_data *out, size_t size);

/* Makes a trace from a copy of `data`. Operators must be sorted by stream; the parts of an operator
 * must be adjacent, and so must its waits.
 * returns  WEIR_EINVAL naming an index that is out of range; WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_make(const weir_trace_data *data, weir_trace **out);

/* Merges traces of ranks that are processes into one, on the clock of rank 0. Ranks measure the
 * offset of their clocks over the control channel of their group; each trace, also in a file, holds
 * its rank and offset. Devices in virtual time keep their own clock.
 * returns  WEIR_EINVAL for a trace without a rank, or two traces of one rank; WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_merge(const weir_trace *const *traces, size_t ntraces,
                                                    weir_trace **out);

/* ---- analysis ---- */

typedef struct weir_trace_summary {
    int64_t first_ns, last_ns;   /* the first start and the last end */
    double serial_ns;            /* all operators one after the other */
    double critical_ns;          /* the operators of the critical path */
    double cube_use, vector_use; /* share of all cores of a kind that was busy, 0 to 1; where
                                  * cores are shared they count as cube cores */
} weir_trace_summary;

/* returns  WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_summarise(const weir_trace *trace,
                                                        weir_trace_summary *out, size_t size);

/* Why an operator did not start earlier. */
typedef enum weir_trace_cause {
    WEIR_TRACE_CAUSE_HOST,   /* it was queued only then */
    WEIR_TRACE_CAUSE_STREAM, /* the operator before it on its stream */
    WEIR_TRACE_CAUSE_SYNC,   /* an operator of another stream that it waited for */
    WEIR_TRACE_CAUSE_CORES,  /* an operator that held its cores */
} weir_trace_cause;

typedef struct weir_trace_step {
    uint32_t op;
    weir_trace_cause cause;
} weir_trace_step;

/* The operators on the critical path, in order of time: each one had to end before the next
 * could start. Free *steps with free().
 * returns  WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_critical_path(const weir_trace *trace,
                                                            weir_trace_step **steps,
                                                            size_t *nsteps);

/* ---- files ---- */

/* Chrome's trace event format as JSON, for Perfetto and chrome://tracing: streams and cores
 * as tracks, syncs as arrows, cores in use and memory as counters. weir_trace_load gives
 * the same trace back.
 * returns  WEIR_EIO with the system's reason. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_write_chrome(const weir_trace *trace,
                                                           const char *path);

/* One self-contained HTML file: the timeline of one trace, or of two on one axis to compare. The
 * page needs no network. `titles` may be NULL.
 * returns  WEIR_EINVAL for none or more than two; WEIR_EIO. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_write_html(const weir_trace *const *traces,
                                                         const char *const *titles, size_t ntraces,
                                                         const char *path);

/* Writes the operators of one device as Kernel nodes of a graph file, each with its recorded time
 * and stream, ordered after the operators it waited for. If a profile records no waits, an operator
 * is ordered after all that had ended when it started.
 * returns  WEIR_ERANGE for a device that is not in the trace; WEIR_EIO. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_write_graph(const weir_trace *trace, uint32_t device,
                                                          const char *path);

/* Reads what weir_trace_write_chrome wrote, or another profiler's trace in that format
 * (PyTorch's, Ascend's, exports of Nsight Systems): its device work by stream, with waits guessed
 * from the times where the profile has none. Either file may be compressed with gzip or zstd.
 * returns  WEIR_EPARSE with the place and the mistake; WEIR_EUNSUPPORTED for a compressed file if
 *          zlib or libzstd is missing; WEIR_EIO. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_load(const char *path, weir_trace **out);
/* The same from memory; `path` is for messages. */
WEIR_API WEIR_MUST_USE weir_status weir_trace_parse(const char *text, size_t size, const char *path,
                                                    weir_trace **out);

#ifdef __cplusplus
}
#endif
#endif
