#ifndef WEIR_TRACE_WRITE_GRAPH_WRITE_H
#define WEIR_TRACE_WRITE_GRAPH_WRITE_H

#include "weir/trace.h"

/* One rank: a device of a trace, and the results of writing it. */
struct weir__graph_rank {
    const weir_trace *trace;
    uint32_t device;
    const char *path; /* of the graph file */
    int operators;
    int edges;   /* between streams */
    int assumed; /* how many of these edges are assumed, not taken from a wait */
    int met;     /* collectives that were matched with those of the other ranks */
    int alone;   /* collectives that were not: ranks have different numbers of that name */
};

/* weir_trace_write_graph for ranks that ran together. The k-th collective of a name meets the k-th
 * on every other rank, and takes the time that it took on the rank that arrived last. */
weir_status weir__trace_write_graphs(struct weir__graph_rank *ranks, int nranks);

#endif
