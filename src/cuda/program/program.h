/* A plan's program as this driver keeps it. */
#ifndef WEIR_CUDA_PROGRAM_PROGRAM_H
#define WEIR_CUDA_PROGRAM_PROGRAM_H

#include "cuda/cuda.h"

enum {
    WEIR__CUDA_MERGES = 16, /* of a program, */
    WEIR__CUDA_MERGED = 8,  /* and products of one */
    WEIR__CUDA_LANES = 1024,
};

struct weir__cuda_item {
    bool is_wait;
    int lane, item; /* what is waited for */
    int height;     /* kernels from here to the end, along the longest chain */
    bool critical;  /* it is on a chain as long as any */
    int merge;      /* the number + 1 of the merge that it is in, or 0 */
    struct weir__kernel kernel;
    unsigned char *args;  /* the kernel's */
    weir__cu_event event; /* after it, if some other lane waits for it; while capturing */
    bool awaited;
    struct weir__cuda_timer *timer; /* of a traced run that is being queued */
    weir__cu_node mark;             /* in the traced graph, the node of the event behind it */
    int position;                   /* in `order`, while a run is described */
};

struct weir__cuda_lane {
    struct weir__cuda_item *items;
    int nitems;
    void *workspace;
    uint32_t *counters;  /* see counters.c */
    int priority;        /* of its stream when last captured */
    int at;              /* while lining up: the next item */
    weir_stream *stream; /* of the last run, */
    uint64_t base;       /* and its last command before it */
};

struct weir__cuda_place {
    int lane, item;
};

/* Products of several lanes that are one call of the library. */
struct weir__cuda_merge {
    struct weir__cuda_place members[WEIR__CUDA_MERGED];
    int n;
};

/* How a program becomes a graph, as far as there is a choice: see autotune.c. */
struct weir__cuda_arrangement {
    int longest_first; /* whether the nodes are made in that order, or lane after lane, */
    int urgent;        /* and those on the longest chains have a higher priority */
    int nmerges;
    struct weir__cuda_merge merges[WEIR__CUDA_MERGES];
};

/* The program as CUDA has it. The traced one has an event behind every kernel and is the same but
 * for that: trace_run.h says how. */
struct weir__cuda_graph {
    bool stale;           /* something has changed since it was captured */
    weir__cu_exec exec;   /* NULL before */
    weir__cu_graph graph; /* of the traced one: its nodes are known by this */
};

struct weir__program {
    struct weir__cuda *dev;
    int nlanes;
    bool fallible;           /* some kernel may fail */
    bool meets;              /* some are collectives: it is run node by node, unless */
    bool records;            /* they go into the graph: those of one group, by a library's calls */
    bool loaded;             /* all that is run node by node */
    bool on_host;            /* some are functions of the host: likewise */
    bool moved;              /* a kernel has changed since the last run */
    bool autotuned;          /* its products have their algorithms, */
    uint64_t concurrent_set; /* chosen under this number */
    unsigned epoch;          /* of the cores when it was last captured */
    struct weir__cuda_graph plain, traced;
    struct weir__cuda_arrangement arrangement;
    weir__cu_address run; /* of one that may fail: on the device, where its graph's kernels find
                           * the run they are of (weir__code_context); 0 before it has a graph */
    bool run_is_new;      /* and nothing is there yet */
    /* With `records`: its collectives, by number, and launches that are still to come. */
    const struct weir__kernel **calls;
    int ncalls;
    _Atomic int pending;
    struct weir__cuda_place *order; /* of capturing: none before what it waits for */
    int norder, nitems;
    struct weir__cuda_lane lanes[];
};

static inline struct weir__cuda_item *weir__cuda_item_at(const struct weir__program *p,
                                                         struct weir__cuda_place at)
{
    return &p->lanes[at.lane].items[at.item];
}

/* capture.c: the program as a graph that the caller destroys. With `into` its products write there,
 * and kernels that only take time stand for the rest. With `marked` the event of its timer is
 * behind every item that has one. (L) */
weir_status weir__cuda_program_graph(struct weir__program *p, char *into, bool marked,
                                     weir__cu_graph *out);

/* program.c: captures the program if `g`, which is one of its two graphs, is stale. (L) */
weir_status weir__cuda_program_ready(struct weir__program *p, struct weir__cuda_graph *g);

/* nodes.c: a run without a graph. As weir__driver_plans.run. (L) */
weir_status weir__cuda_run_nodes(struct weir__program *p, const uint64_t *tickets);

/* ---- record.c: collectives in the graph ---- */

/* Finds them, once the program is whole, and whether all can be in it. */
weir_status weir__cuda_find_calls(struct weir__program *p);
/* Whether the order that the graph is captured in has them by number. */
bool weir__cuda_calls_in_order(const struct weir__program *p);
/* Queues a launch of the graph at `tail`, of the traced one with `traced`. (L) */
weir_status weir__cuda_launch_calls(struct weir__program *p, weir__cu_stream tail,
                                    struct weir__cuda_traced *traced, const uint64_t *tickets);

/* ---- traced.c: runs that a trace is told of ---- */

/* Finds the events in the traced graph, which has just been captured. (L) */
weir_status weir__cuda_find_marks(struct weir__program *p);
/* Makes the traced graph ready for one run, with events of its own. NULL if that cannot be: then
 * the run is not recorded. (L) */
struct weir__cuda_traced *weir__cuda_run_traced(struct weir__program *p);

/* Streams and events that a capture needs until it ends. */
struct weir__cuda_props {
    weir__cu_stream *streams;
    int nstreams, cap_streams;
    weir__cu_event *events;
    int nevents, cap_events;
};
void weir__cuda_props_free(const struct weir__cu *cu, struct weir__cuda_props *props);
/* The same into a capture that somebody else has begun on `origin`. (L) */
weir_status weir__cuda_program_join(struct weir__program *p, weir__cu_stream origin,
                                    struct weir__cuda_props *props);
/* program.c: the streams that the lanes stand for. */
void weir__cuda_program_begin(struct weir__program *p, weir_stream *const *streams);

/* The command that fails with the run, if any of its kernels does: the first of its caller's. */
static inline struct weir__mark weir__cuda_blamed(const struct weir__program *p)
{
    return (struct weir__mark){p->lanes[0].stream, p->lanes[0].base + 1};
}

/* order.c: measures the chains, and lines up the items lane after lane. */
weir_status weir__cuda_order(struct weir__program *p);
/* Lines them up as the arrangement says, those of a merge next to each other; false if merges wait
 * for one another, so that some items have no place. */
bool weir__cuda_line_up(struct weir__program *p);

/* ---- merge.c ---- */

/* Makes the program as its arrangement says. Merges that its tensors, where they lie now, do not
 * allow are left out. (L) */
void weir__cuda_arrange(struct weir__program *p);
/* The products of a merge as one; false if they cannot be. (L) */
bool weir__cuda_merge_stack(const struct weir__program *p, const struct weir__cuda_merge *m,
                            bool packed, struct weir__product *out);
/* Hands the merge to CUDA. (L) */
weir_status weir__cuda_merge_issue(const struct weir__cuda_sink *sink,
                                   const struct weir__program *p, const struct weir__cuda_merge *m);

/* choice.c: the arrangement that an earlier process chose, if one did, and for later ones. (L) */
bool weir__cuda_read_arrangement(struct weir__program *p);
void weir__cuda_keep_arrangement(const struct weir__program *p);

/* autotune.c: chooses the algorithms of the program's products and its arrangement, once. (L) */
void weir__cuda_autotune(struct weir__program *p);

#endif
