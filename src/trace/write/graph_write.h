#ifndef WEIR_TRACE_WRITE_GRAPH_WRITE_H
#define WEIR_TRACE_WRITE_GRAPH_WRITE_H

#include "weir/trace.h"

/* One rank: a device of a trace, and what came of it. */
struct weir__graph_rank {
    const weir_trace *trace;
    uint32_t device;
    const char *path; /* of the graph file */
    int operators;
    int edges;   /* between streams */
    int assumed; /* of them: without a wait that says so */
    int met;     /* collectives that meet those of the other ranks */
    int alone;   /* those that do not: not every rank has as many of the name */
};

/* weir_trace_write_graph for ranks that ran together. The k-th collective of a name meets the k-th
 * on every other rank, and takes what it took on the rank that came last. */
weir_status weir__trace_write_graphs(struct weir__graph_rank *ranks, int nranks);

#endif
