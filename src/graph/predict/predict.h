/* What a graph takes on a modelled device: its whole timeline, without running anything.
 *
 *     weir_device_open("npu:a3", &dev);
 *     weir_graph_load_file(dev, path, &graph);
 *     weir__predict(&graph, 1, &(struct weir__predict_options){0}, &p);
 *     ... p.makespan, p.run.spans[rank][node] ...
 *     weir__prediction_fini(&p);
 *
 * Streams, waits and limits are those a plan of the graph would have; the machine is that
 * of sim/sim.h, the same that runs commands on the device.
 */
#ifndef WEIR_GRAPH_PREDICT_PREDICT_H
#define WEIR_GRAPH_PREDICT_PREDICT_H

#include "graph/pass/compile.h"
#include "sim/model.h"
#include "sim/replay.h"

struct weir__predict_options {
    const weir_compile_options *compile; /* NULL: as the graph says */
    bool makespan_only;                  /* no critical path, no spans: for searches */
    bool memory;                         /* place memory, for the peak */
    bool fused;                          /* elementwise chains are one launch, as in max-autotune */
    bool parts;                          /* keep when blocks ran */
};

/* One graph as a program. `nodes` and `program.nodes` have the graph's own indices. */
struct weir__predict_graph {
    const weir_graph *g;
    struct weir__compile c;
    struct weir__replay_program program;
    struct weir__replay_node *nodes;
    struct weir__replay_wait *waits;
    struct weir__replay_stream *streams;
    struct weir__sim_op *ops; /* each that differs once; the first asks for nothing */
    uint32_t *order;
    weir_engine *engine; /* by node */
    uint64_t serial;     /* one node after the other on one stream */
    uint64_t modelled;   /* of that, what the file gives no time of */
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
    uint64_t makespan; /* picoseconds, as all of these */
    uint64_t serial;   /* the longest of any rank */
    uint64_t critical; /* the makespan if every node had the machine to itself: what
                        * dependencies, stream order and rendezvous alone cost */
    double error;      /* the makespan is within this share of it, as the profile says: 0 where
                        * the file gives every time */
    uint64_t dispatch; /* of the host, before the run; in none of the above */
    uint64_t streams;  /* of that, what the streams of a graph beyond its first cost */
};

/* graphs[r] is rank r's; ranks may share one. All are on modelled devices of one spec, and
 * must outlive the prediction.
 * returns  WEIR_OK also for a deadlock, which p->run tells; WEIR_EUNSUPPORTED on a device
 *          of real time; what compiling returns.
 * threads  any, with no change of the graphs under way. */
weir_status weir__predict(weir_graph *const *graphs, uint32_t nranks,
                          const struct weir__predict_options *options,
                          struct weir__prediction *out);
void weir__prediction_fini(struct weir__prediction *p);

/* A deadlock for people: a line per stream that is stuck (rank, operator at its head, cores
 * it holds, what it waits for), then the cycle. "" without one. */
void weir__prediction_report(const struct weir__prediction *p, struct weir__text *text);
/* Both halves of one line of it. */
void weir__prediction_holds(const struct weir__stuck *s, struct weir__text *text);
void weir__prediction_waits(const struct weir__prediction *p, const struct weir__stuck *s,
                            struct weir__text *text);

/* Names for people. */
const char *weir__predict_node_name(const struct weir__prediction *p, uint32_t rank, uint32_t node);
const char *weir__predict_stream_name(const struct weir__prediction *p, uint32_t rank,
                                      uint32_t stream);

#endif
