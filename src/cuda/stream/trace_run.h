/* What traces are told of a plan's run, which is one launch of a graph.
 *
 * The graph has an event behind every node, beside the edges that the nodes have among each other:
 * those are the same whether a trace is recorded or not. An event says when its node was over. A
 * node begins when what it comes after is over. Every run has events of its own, as many runs may
 * be under way. */
#ifndef WEIR_CUDA_STREAM_TRACE_RUN_H
#define WEIR_CUDA_STREAM_TRACE_RUN_H

#include "cuda/cuda.h"

/* An event of a node. Graphs know it until they are destroyed, so it goes with the device. */
struct weir__cuda_timer {
    struct weir__cuda_timer *next;
    weir__cu_event event;
};

struct weir__cuda_traced_node {
    struct weir__cuda_stream *stream;
    struct weir__cuda_timer *timer; /* NULL if it is nothing on the GPU */
    weir__cu_node mark;             /* in the graph, the node of its timer's event; or NULL */
    bool is_wait, is_recorded;
    int before; /* nodes that it comes after: the last one of its lane, */
    int source; /* the one that it waits for, */
    int call;   /* and, of a collective, the collective before it; -1 for none */
    int with;   /* the node whose launch does its work as well; -1 for none */
    uint32_t cores;
    struct weir__trace_record record; /* but for the times */
    uint64_t from, over;              /* while telling */
};

/* In an order that keeps to `before`, `source`, `call` and `with`; nodes of one launch are
 * neighbours. */
struct weir__cuda_traced_run {
    int n;
    struct weir__cuda_traced_node nodes[];
};

/* ---- trace.c ---- */

/* One of which nothing is known yet, and with no record. (L) */
weir_status weir__cuda_trace_new(struct weir__cuda *dev, struct weir__cuda_traced **out);
/* It will be told of, or never. */
void weir__cuda_trace_add(struct weir__cuda *dev, struct weir__cuda_traced *h);
void weir__cuda_trace_drop(struct weir__cuda *dev, struct weir__cuda_traced *h);
/* A command as a record without times, and the cores that are busy with it: those it may use, or
 * fewer if it has fewer blocks. */
struct weir__trace_record weir__cuda_trace_describe(const weir_stream *s, uint64_t seq,
                                                    const struct weir__kernel *k);
uint32_t weir__cuda_trace_cores(const struct weir__kernel *k);
/* Under the clock's lock: the command is over. The first also writes its record. */
void weir__cuda_trace_write(struct weir__cuda_stream *s, struct weir__trace_record *r,
                            uint32_t cores, uint64_t from, uint64_t to);
void weir__cuda_trace_note(struct weir__cuda_stream *s, uint64_t seq, uint64_t ns);

/* ---- trace_run.c ---- */

/* Timers for so many nodes, as a list. (L) */
weir_status weir__cuda_timers_take(struct weir__cuda *dev, int n, struct weir__cuda_timer **out);
void weir__cuda_timers_give(struct weir__cuda *dev, struct weir__cuda_timer *list);
void weir__cuda_timers_close(struct weir__cuda *dev);
/* The next launch of `exec`, the traced graph, records the run's own events. Launches before it
 * keep theirs, also those that have not begun. (L), or on the thread that launches. */
weir_status weir__cuda_run_set_events(struct weir__cuda *dev, weir__cu_exec exec,
                                      const struct weir__cuda_traced_run *run);
/* Under the clock's lock: the run began at `from`, and is over. */
void weir__cuda_run_write(struct weir__cuda *dev, struct weir__cuda_traced_run *run, uint64_t from);
void weir__cuda_run_drop(struct weir__cuda *dev, struct weir__cuda_traced_run *run);

#endif
