/* What a program of a trace has to keep: between graph_write.c and graph_order.c. */
#ifndef WEIR_TRACE_WRITE_GRAPH_ORDER_H
#define WEIR_TRACE_WRITE_GRAPH_ORDER_H

#include "trace/record/store.h"

struct weir__graph_op {
    uint32_t op;                 /* in the trace */
    uint32_t first_edge, nedges; /* operators that it comes after, in edges[] */
    uint32_t cores, of;          /* of so many that its engine has; of: 0 if unknown */
    int64_t delay_ns;            /* from when all of them had ended to its start */
};

/* The operators of one device by start, which no edge goes against. */
struct weir__graph_order {
    struct weir__graph_op *ops;
    int nops;
    uint32_t *edges; /* operators of the trace */
    int nedges, cap_edges;
    int nassumed; /* of the edges: between streams, without a wait that says so */
};

/* returns  WEIR_ENOMEM. Fini also after a failure. */
weir_status weir__graph_order_init(struct weir__graph_order *o, const weir_trace *t,
                                   uint32_t device);
void weir__graph_order_fini(struct weir__graph_order *o);

#endif
