/* Shared by streams.c and the files for automatic streams. */
#ifndef WEIR_GRAPH_PASS_STREAMS_H
#define WEIR_GRAPH_PASS_STREAMS_H

#include "graph/pass/simulate.h"

/* Clocks take nodes x streams entries, so the number of streams is bounded. */
#define WEIR__PLAN_MAX_STREAMS 1024
/* The most streams that streams=auto adds: more do not pay while all share one device. */
#define WEIR__AUTO_STREAMS 15

/* The assumed cost of a wait between streams: twice the real one, because the costs of operators
 * whose data fit the caches are overestimated up to two times. */
#define WEIR__AUTO_SYNC_NS 4000.0

/* The assumed cost of a second stream where streams are threads: a thread may sleep and must be
 * woken, which takes some 50 us. Doubled for the same reason. */
#define WEIR__AUTO_WAKE_NS 100000.0

/* Fills positions, order and each stream's range of it from c->stream. */
void weir__streams_number(struct weir__compile *c);

/* streams_auto.c: moves nodes without a label to streams "auto:1", "auto:2", ... if that is
 * expected to pay, and writes the expected gain to c->notes. */
weir_status weir__streams_auto(struct weir__compile *c);

/* ---- streams_chains.c: placements to choose from ----
 *
 * Each fills stream[] for the nodes with movable[v], with 0 or first .. first+n-1; the other live
 * nodes stay on c->stream[v]. */

/* Goes through the nodes in program order and puts each on the stream on which it can start first,
 * with n added streams. */
weir_status weir__place_earliest(const struct weir__compile *c, const struct weir__estimates *e,
                                 const bool *movable, int first, int n, double sync_ns,
                                 int *stream);
/* Puts products that read the same result on streams side by side. A node that follows only one of
 * them stays on its stream; where streams meet, the first of them continues. All other nodes are on
 * stream 0. */
weir_status weir__place_siblings(const struct weir__compile *c, const bool *movable, int first,
                                 int n, int *stream);
/* Chains of the graph such that independent nodes are never on the same one, and the
 * fewest edges cross between chains: the largest matching of the minimum equivalent
 * graph. *nchains may be more than n; they are then folded onto n. For small graphs:
 * takes nodes x nodes bits and nodes x edges steps. */
weir_status weir__place_chains(const struct weir__compile *c, const bool *movable, int first, int n,
                               int *stream, int *nchains);

#endif
