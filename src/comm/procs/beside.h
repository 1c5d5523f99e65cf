/* Ranks that are stopped, where a world has several hosts. A rank that is stopped says nothing, as
 * one that gets no processor; who reads its state on its own host can tell:
 *
 *   on the host of rank 0     the hub, and each rank looks at rank 0
 *   elsewhere                 the other ranks of the host, and a process beside them (watch/),
 * which the lowest of them starts: it tells the hub of rank 0, to elsewhere   a process beside rank
 * 0, which the hub starts: it has a connection to each rank of another host
 *
 * All connections go to the hub's address and begin with a hello; the hub hands those of the last
 * kind to the process. */
#ifndef WEIR_COMM_PROCS_BESIDE_H
#define WEIR_COMM_PROCS_BESIDE_H

#include <poll.h>

#include "comm/procs/procs.h"
#include "comm/procs/watch/watch.h"

enum { WEIR__BESIDE_LINES = 2 };
#define WEIR__BESIDE_QUIET_NS UINT64_C(2500000000) /* beats are not so rare */

/* ---- beside.c: the link ---- */

/* Opens what is to be opened, and says what is to be polled. */
void weir__beside_look(struct weir__world *world, struct pollfd fds[WEIR__BESIDE_LINES]);
/* After poll. `payload` has room for WEIR__WIRE_MOST.
 * returns  whether rank 0 is stopped. */
bool weir__beside_serve(struct weir__world *world, const struct pollfd fds[WEIR__BESIDE_LINES],
                        char *payload);
/* Whether the process beside rank 0 says that it is there: it would say that rank 0 is stopped. */
bool weir__beside_hears(const struct weir__world *world);
/* A rank of this host is stopped: rank 0, on another one, cannot see it. */
void weir__beside_tell(struct weir__world *world, int rank);
void weir__beside_end(struct weir__world *world);

/* ---- hub_beside.c: the hub ---- */

struct weir__hub;
struct weir__hub_peer;

/* A stranger that says hello with the right token for a line that is no rank's. */
void weir__hub_greet_line(struct weir__hub *hub, struct weir__hub_peer *peer,
                          const struct weir__wire_hello *hello);
/* The process beside ranks of another host says something. */
void weir__hub_hear_line(struct weir__hub *hub, struct weir__hub_peer *peer,
                         enum weir__wire_type type, const void *payload);
/* Whether there is one on that host, and lives. */
bool weir__hub_is_told(const struct weir__hub *hub, uint64_t host);

/* ---- both ---- */

/* What the process beside ranks is to do, but for which they are; with weir__free, NULL if there is
 * no memory. */
struct weir__watch_orders *weir__beside_orders(void);

#endif
