/* Predicts the timeline of a graph on a modelled device, without running anything.
 *
 *     weir_device_open("npu:a3", &dev);
 *     weir_graph_load_file(dev, path, &graph);
 *     weir__predict(&graph, 1, &(struct weir__predict_options){0}, &p);
 *     ... p.makespan, p.run.spans[rank][node] ...
 *     weir__prediction_fini(&p);
 *
 * Streams, waits and limits are the same as in a plan of the graph. The machine is that of
 * sim/sim.h, which also runs commands on the device.
 */
#ifndef WEIR_GRAPH_PREDICT_PREDICT_H
#define WEIR_GRAPH_PREDICT_PREDICT_H

#include "graph/pass/compile.h"
#include "sim/model.h"
#include "sim/replay.h"

struct weir__predict_options {
    const weir_compile_options *compile; /* NULL: the graph's own settings */
    bool makespan_only;                  /* no critical path and no spans: for searches */
    bool memory;                         /* plan memory, for the peak */
    bool fused;                          /* elementwise chains are one launch, as in max-autotune */
    bool parts;                          /* keep the times at which blocks ran */
};

/* One graph as a program. `nodes` and `program.nodes` are indexed as in the graph. */
struct weir__predict_graph {
    const weir_graph *g;
    struct weir__compile c;
    struct weir__replay_program program;
    struct weir__replay_node *nodes;
    struct weir__replay_wait *waits;
    struct weir__replay_stream *streams;
    struct weir__sim_op *ops; /* each distinct operator once; the first needs nothing */
    uint32_t *order;
    weir_engine *engine; /* by node */
    uint64_t serial;     /* one node after the other on one stream */
    uint64_t modelled;   /* share of `serial` whose times are modelled because the file gives
                          * none */
    size_t memory_bytes; /* arena, inputs, outputs and constants */
};

static inline const struct weir__sim_op *weir__predict_op(const struct weir__predict_graph *pg,
                                                          int node)
{
    return &pg->ops[pg->nodes[node].op];
}

struct weir__prediction {
    struct weir__predict_graph *graphs; /* without repetition */
    uint32_t ngraphs;
    uint32_t *graph_of; /* by rank */
    uint32_t nranks;
    struct weir__replay_result run;
    uint64_t makespan; /* picoseconds, like all times here */
    uint64_t serial;   /* the longest of any rank */
    uint64_t critical; /* the makespan if every node had the machine to itself: what
                        * dependencies, stream order and rendezvous alone cost */
    double error;      /* relative error bound of the makespan, from the profile: 0 if the file
                        * gives every time */
    uint64_t dispatch; /* host time before the run; not contained in the above */
    uint64_t streams;  /* share of `dispatch` for streams beyond a graph's first */
};

/* graphs[r] is rank r's; ranks may share one. All are on modelled devices of one spec, and
 * must outlive the prediction.
 * returns  WEIR_OK also for a deadlock, which p->run describes; WEIR_EUNSUPPORTED on a device of
 *          real time; the errors of compiling.
 * threads  any, while nobody changes the graphs. */
weir_status weir__predict(weir_graph *const *graphs, uint32_t nranks,
                          const struct weir__predict_options *options,
                          struct weir__prediction *out);
void weir__prediction_fini(struct weir__prediction *p);

/* Describes a deadlock: a line for each stuck stream (rank, operator at its head, cores it holds,
 * what it waits for), then the cycle. "" without a deadlock. */
void weir__prediction_report(const struct weir__prediction *p, struct weir__text *text);
/* The two halves of one of these lines. */
void weir__prediction_holds(const struct weir__stuck *s, struct weir__text *text);
void weir__prediction_waits(const struct weir__prediction *p, const struct weir__stuck *s,
                            struct weir__text *text);

/* Names for people. */
const char *weir__predict_node_name(const struct weir__prediction *p, uint32_t rank, uint32_t node);
const char *weir__predict_stream_name(const struct weir__prediction *p, uint32_t rank,
                                      uint32_t stream);

#endif
