/* Between streams.c and its automatic half. */
#ifndef WEIR_GRAPH_STREAMS_H
#define WEIR_GRAPH_STREAMS_H

#include "graph/compile.h"

/* Clocks take nodes x streams, so the number of streams is bounded. */
#define WEIR__PLAN_MAX_STREAMS 1024
/* The most that streams=auto adds: more do not pay while all share one device. */
#define WEIR__AUTO_STREAMS 15

/* Fills positions, order and each stream's part of it from c->stream. */
void weir__streams_number(struct weir__compile *c);

/* streams_auto.c: moves nodes without a label to streams "auto:1", "auto:2", ... where
 * that is expected to pay, and says in c->notes what it expects. */
weir_status weir__streams_auto(struct weir__compile *c);

#endif
