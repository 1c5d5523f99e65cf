/* Trace records of a plan's run, which is one launch of a graph.
 *
 * The traced graph has an event after every node. The edges between nodes are the same as without a
 * trace. An event has the time at which its node completed. A node is taken to begin when its last
 * predecessor completed. Every run has its own events, because many runs may be in flight. */
#ifndef WEIR_CUDA_STREAM_TRACE_RUN_H
#define WEIR_CUDA_STREAM_TRACE_RUN_H

#include "cuda/cuda.h"

/* An event of a node. Graphs refer to it until they are destroyed, so it is freed with the
 * device. */
struct weir__cuda_timer {
    struct weir__cuda_timer *next;
    weir__cu_event event;
};

struct weir__cuda_traced_node {
    struct weir__cuda_stream *stream;
    struct weir__cuda_timer *timer; /* NULL if the node does nothing on the GPU */
    weir__cu_node mark;             /* the graph node of its timer's event, or NULL */
    bool is_wait, is_recorded;
    /* Predecessors, -1 for none: */
    int before; /* the previous node of its lane */
    int source; /* the node that it waits for */
    int call;   /* of a collective: the previous collective */
    int with;   /* the node whose launch also does this node's work; -1 for none */
    uint32_t cores;
    struct weir__trace_record record; /* without times */
    uint64_t from, over;              /* its times, while records are written */
};

/* Nodes stand after their predecessors; nodes of one launch are neighbours. */
struct weir__cuda_traced_run {
    int n;
    struct weir__cuda_traced_node nodes[];
};

/* ---- trace.c ---- */

/* Makes an entry whose end is pending and whose record is empty. (L) */
weir_status weir__cuda_trace_new(struct weir__cuda *dev, struct weir__cuda_traced **out);
/* `add` queues the entry to be written to the trace when it has ended; `drop` frees it. */
void weir__cuda_trace_add(struct weir__cuda *dev, struct weir__cuda_traced *h);
void weir__cuda_trace_drop(struct weir__cuda *dev, struct weir__cuda_traced *h);
/* Return a command's record without times, and the number of cores that are busy with it: those it
 * may use, or fewer if it has fewer blocks. */
struct weir__trace_record weir__cuda_trace_describe(const weir_stream *s, uint64_t seq,
                                                    const struct weir__kernel *k);
uint32_t weir__cuda_trace_cores(const struct weir__kernel *k);
/* Under the clock's lock. `write` writes the record of a completed command and notes its end;
 * `note` only notes the end, for later records. */
void weir__cuda_trace_write(struct weir__cuda_stream *s, struct weir__trace_record *r,
                            uint32_t cores, uint64_t from, uint64_t to);
void weir__cuda_trace_note(struct weir__cuda_stream *s, uint64_t seq, uint64_t ns);

/* ---- trace_run.c ---- */

/* Takes n timers, as a list. (L) */
weir_status weir__cuda_timers_take(struct weir__cuda *dev, int n, struct weir__cuda_timer **out);
void weir__cuda_timers_give(struct weir__cuda *dev, struct weir__cuda_timer *list);
void weir__cuda_timers_close(struct weir__cuda *dev);
/* Makes the next launch of `exec`, the traced graph, record the run's own events. Earlier launches
 * keep theirs, even if they have not begun. (L), or on the thread that launches. */
weir_status weir__cuda_run_set_events(struct weir__cuda *dev, weir__cu_exec exec,
                                      const struct weir__cuda_traced_run *run);
/* Under the clock's lock: writes the records of a completed run that began at `from`. */
void weir__cuda_run_write(struct weir__cuda *dev, struct weir__cuda_traced_run *run, uint64_t from);
void weir__cuda_run_drop(struct weir__cuda *dev, struct weir__cuda_traced_run *run);

#endif
