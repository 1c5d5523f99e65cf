/* A plan's program in this driver. */
#ifndef WEIR_CUDA_PROGRAM_PROGRAM_H
#define WEIR_CUDA_PROGRAM_PROGRAM_H

#include "cuda/cuda.h"

enum {
    WEIR__CUDA_MERGES = 16, /* the most merges of a program */
    WEIR__CUDA_MERGED = 8,  /* the most products of a merge */
    WEIR__CUDA_LANES = 1024,
};

/* The kernel nodes of an item, last one first. Products have up to three. */
struct weir__cuda_nodes {
    weir__cu_node at[3];
    int64_t clusters[3]; /* blocks of their clusters; 1: there are none */
    int n;
};

struct weir__cuda_item {
    bool is_wait;
    int lane, item; /* of a wait: the item that it waits for */
    int height;     /* number of kernels on the longest chain from here to the end */
    bool critical;  /* it is on a longest chain */
    int merge;      /* the number + 1 of its merge, or 0 */
    struct weir__kernel kernel;
    unsigned char *args;  /* the kernel's arguments */
    weir__cu_event event; /* while capturing: after the item, if another lane waits for it */
    bool awaited;         /* an item of another lane waits for it */
    struct weir__cuda_timer *timer; /* while a traced run is queued */
    weir__cu_node mark;             /* the node of its event in the traced graph */
    struct weir__cuda_nodes noted;  /* while capturing: its nodes */
    struct weir__cuda_nodes nodes;  /* those in the plain graph; none if they cannot be replaced */
    const struct weir__code *code;  /* the kernel's source in that graph */
    bool changed;                   /* its kernel is not the one in that graph */
    int position;                   /* its index in `order`, while a run is described */
};

struct weir__cuda_lane {
    struct weir__cuda_item *items;
    int nitems;
    void *workspace;
    uint32_t *counters;  /* see counters.c */
    int priority;        /* of its stream at the last capture */
    int at;              /* while ordering: the next item */
    weir_stream *stream; /* its stream in the last run */
    uint64_t base;       /* the stream's last command before that run */
};

struct weir__cuda_place {
    int lane, item;
};

/* Products of several lanes that are merged into one call of the library. */
struct weir__cuda_merge {
    struct weir__cuda_place members[WEIR__CUDA_MERGED];
    int n;
};

/* The choices in making a graph from a program: see autotune.c. */
struct weir__cuda_arrangement {
    int longest_first; /* nodes are made longest chain first; else lane after lane */
    int urgent;        /* nodes on the longest chains have a higher priority */
    int nmerges;
    struct weir__cuda_merge merges[WEIR__CUDA_MERGES];
};

/* A CUDA graph of the program. The traced graph also has an event after every kernel
 * (trace_run.h). */
struct weir__cuda_graph {
    bool stale;           /* the program has changed since the capture */
    weir__cu_exec exec;   /* NULL before the first capture */
    weir__cu_graph graph; /* its nodes are those that items name; NULL if there are none */
};

struct weir__program {
    struct weir__cuda *dev;
    int nlanes;
    bool fallible;           /* a kernel may fail */
    bool has_collectives;    /* it has collectives: it runs node by node unless `records` */
    bool records;            /* its collectives are library calls of one group, and can be in the
                              * graph */
    bool loaded;             /* the kernels of a run node by node are loaded */
    bool on_host;            /* it has host functions: it runs node by node */
    bool moved;              /* a kernel has changed since the last run */
    int nchanged;            /* number of items that are not as in the plain graph */
    int npatched;            /* runs that changed the plain graph since its capture */
    weir__cu_stream scratch; /* where single products are captured; NULL before the first */
    bool autotuned;          /* the algorithms of its products are chosen */
    uint64_t concurrent_set; /* the number under which they are chosen */
    unsigned epoch;          /* of the cores at the last capture */
    struct weir__cuda_graph plain, traced;
    struct weir__mark launched; /* the end of the last launch of a graph; stream NULL before it */
    struct weir__cuda_arrangement arrangement;
    weir__cu_address run; /* if `fallible`: device memory from which the graph's kernels read which
                           * run they belong to (weir__code_context); 0 before the first capture */
    bool run_is_new;      /* that memory has not been written yet */
    /* With `records`: its collectives by number, and the number of pending launches. */
    const struct weir__kernel **calls;
    int ncalls;
    _Atomic int pending;
    struct weir__cuda_place *order; /* of capturing: each item after those that it waits for */
    int norder, nitems;
    struct weir__cuda_lane lanes[];
};

static inline struct weir__cuda_item *weir__cuda_item_at(const struct weir__program *p,
                                                         struct weir__cuda_place at)
{
    return &p->lanes[at.lane].items[at.item];
}

/* capture.c: makes a graph of the program; the caller destroys it. With `into`, for timing,
 * products write there and other kernels are replaced by kernels that only take time. With
 * `marked`, every item that has a timer has the timer's event after it. (L) */
weir_status weir__cuda_program_graph(struct weir__program *p, char *into, bool marked,
                                     weir__cu_graph *out);

/* The same for a single kernel, as far as its stream; the caller sets that. */
struct weir__cuda_sink weir__cuda_capture_sink(struct weir__program *p, int lane,
                                               const struct weir__kernel *k);

/* ---- patch.c: kernels of an executable graph ---- */

/* While the graph is captured, after an item: finds the item's nodes. *nnodes is the number of
 * nodes before the item, or SIZE_MAX if that is not known, and then after it. (L) */
void weir__cuda_note_nodes(struct weir__program *p, struct weir__cuda_item *item,
                           weir__cu_stream stream, size_t *nnodes);
/* After a capture: the graph has the present kernels. With `any`, their nodes may be replaced. */
void weir__cuda_nodes_take(struct weir__program *p, bool any);
/* Replaces the kernels that have changed in the plain graph. False if that is not possible, or
 * takes longer than to queue all kernels: then the graph may have some of them, and must be
 * captured again before its next launch. (L) */
bool weir__cuda_program_patch(struct weir__program *p);

/* program.c: captures the program if `g`, which is one of its two graphs, is stale. (L) */
weir_status weir__cuda_program_ready(struct weir__program *p, struct weir__cuda_graph *g);

/* nodes.c: runs the program without a graph, as weir__driver_plans.run. (L) */
weir_status weir__cuda_run_nodes(struct weir__program *p, const uint64_t *tickets);

/* ---- record.c: collectives in the graph ---- */

/* Finds the program's collectives, after its order is made, and sets `records`. */
weir_status weir__cuda_find_calls(struct weir__program *p);
/* True if the collectives are in order of their numbers in the capture order. */
bool weir__cuda_calls_in_order(const struct weir__program *p);
/* Queues a launch of the graph at `tail`; with `traced`, of the traced graph. (L) */
weir_status weir__cuda_launch_calls(struct weir__program *p, weir__cu_stream tail,
                                    struct weir__cuda_traced *traced, const uint64_t *tickets);

/* ---- traced.c: runs while a trace is recorded ---- */

/* Finds the event nodes in the traced graph, which has just been captured. (L) */
weir_status weir__cuda_find_marks(struct weir__program *p);
/* Prepares the traced graph for one run, with its own events. NULL on failure: then the run is not
 * recorded. (L) */
struct weir__cuda_traced *weir__cuda_run_traced(struct weir__program *p);

/* Streams and events that a capture needs until it ends. */
struct weir__cuda_props {
    weir__cu_stream *streams;
    int nstreams, cap_streams;
    weir__cu_event *events;
    int nevents, cap_events;
};
void weir__cuda_props_free(const struct weir__cu *cu, struct weir__cuda_props *props);
/* Adds the program to a capture that another library has begun on `origin`. (L) */
weir_status weir__cuda_program_join(struct weir__program *p, weir__cu_stream origin,
                                    struct weir__cuda_props *props);
/* program.c: sets the streams of the lanes for the next run. */
void weir__cuda_program_begin(struct weir__program *p, weir_stream *const *streams);

/* Returns the command that fails if a kernel of the run fails: the run's first on the caller's
 * stream. */
static inline struct weir__mark weir__cuda_blamed(const struct weir__program *p)
{
    return (struct weir__mark){p->lanes[0].stream, p->lanes[0].base + 1};
}

/* order.c: measures the chains and orders the items lane after lane. */
weir_status weir__cuda_order(struct weir__program *p);
/* Orders the items by the arrangement, with the members of a merge next to each other. False if
 * merges wait for each other: then some items are not in the order. */
bool weir__cuda_line_up(struct weir__program *p);

/* ---- merge.c ---- */

/* Applies the program's arrangement. Merges that are not possible at the current addresses of its
 * tensors are left out. (L) */
void weir__cuda_arrange(struct weir__program *p);
/* Makes one stack of the products of a merge; false if that is not possible. (L) */
bool weir__cuda_merge_stack(const struct weir__program *p, const struct weir__cuda_merge *m,
                            bool packed, struct weir__product *out);
/* Queues the merge to CUDA. (L) */
weir_status weir__cuda_merge_issue(const struct weir__cuda_sink *sink,
                                   const struct weir__program *p, const struct weir__cuda_merge *m);

/* choice.c: `read` loads the arrangement that an earlier process chose, if there is one; `keep`
 * stores the arrangement for later processes. (L) */
bool weir__cuda_read_arrangement(struct weir__program *p);
void weir__cuda_keep_arrangement(const struct weir__program *p);

/* autotune.c: chooses the algorithms of the program's products and its arrangement, once. (L) */
void weir__cuda_autotune(struct weir__program *p);

#endif
