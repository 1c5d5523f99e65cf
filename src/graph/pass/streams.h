/* Between streams.c and its automatic half. */
#ifndef WEIR_GRAPH_PASS_STREAMS_H
#define WEIR_GRAPH_PASS_STREAMS_H

#include "graph/pass/simulate.h"

/* Clocks take nodes x streams, so the number of streams is bounded. */
#define WEIR__PLAN_MAX_STREAMS 1024
/* The most that streams=auto adds: more do not pay while all share one device. */
#define WEIR__AUTO_STREAMS 15

/* The price of a wait between streams: twice what one takes, since costs of operators
 * that fit the caches are estimated up to two times too high. */
#define WEIR__AUTO_SYNC_NS 4000.0

/* The price of a second stream where streams are threads: one may sleep and must be woken,
 * which takes some 50 us. Twice that, for the same reason. */
#define WEIR__AUTO_WAKE_NS 100000.0

/* Fills positions, order and each stream's part of it from c->stream. */
void weir__streams_number(struct weir__compile *c);

/* streams_auto.c: moves nodes without a label to streams "auto:1", "auto:2", ... where
 * that is expected to pay, and says in c->notes what it expects. */
weir_status weir__streams_auto(struct weir__compile *c);

/* ---- streams_chains.c: placements to choose from ----
 *
 * Each fills stream[] for the nodes with movable[v], with 0 or first .. first+n-1; the
 * other live nodes are where c->stream says. */

/* Program order; each node goes where it can start first, if n streams are added. */
weir_status weir__place_earliest(const struct weir__compile *c, const struct weir__estimates *e,
                                 const bool *movable, int first, int n, double sync_ns,
                                 int *stream);
/* Products that read the same result go on streams side by side. A node that follows only one of
 * them stays on its stream; where streams meet, the first of them goes on. All other nodes are on
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
