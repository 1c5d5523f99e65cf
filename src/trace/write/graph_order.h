/* The order of a trace's operators, which graph_order.c derives for graph_write.c. */
#ifndef WEIR_TRACE_WRITE_GRAPH_ORDER_H
#define WEIR_TRACE_WRITE_GRAPH_ORDER_H

#include "trace/record/store.h"

struct weir__graph_op {
    uint32_t op;                 /* in the trace */
    uint32_t first_edge, nedges; /* its predecessors, in edges[] */
    uint32_t cores, of;          /* it uses `cores` of its engine's `of` cores; of: 0 if unknown */
    int64_t delay_ns;            /* from the end of its last predecessor to its start */
};

/* The operators of one device, sorted by start. Every edge comes from an operator earlier in the
 * list. */
struct weir__graph_order {
    struct weir__graph_op *ops;
    int nops;
    uint32_t *edges; /* operators of the trace */
    int nedges, cap_edges;
    int nassumed; /* how many edges between streams are assumed, not taken from a wait */
};

/* Call weir__graph_order_fini even after a failure.
 * returns  WEIR_ENOMEM. */
weir_status weir__graph_order_init(struct weir__graph_order *o, const weir_trace *t,
                                   uint32_t device);
void weir__graph_order_fini(struct weir__graph_order *o);

#endif
