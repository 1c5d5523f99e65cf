/* Noticing stopped ranks in a world of several hosts. A stopped rank sends nothing, and neither
 * does a rank that gets no processor time. Only a process on the same host can tell them apart, by
 * the rank's state in /proc:
 *
 *   stopped rank on            noticed by
 *   the host of the hub        the hub; its own rank is checked by each rank of its host
 *   another host               the other ranks of that host, and an observer process (watch/) that
 *                              the lowest rank of the host starts; it reports to the hub. If that
 *                              rank is gone, the lowest one that is left starts another
 *   the hub, for other hosts   an observer process that the hub starts; it has a connection to each
 *                              rank of another host
 *
 * All these connections are made to the hub's address and begin with a HELLO. The hub hands those
 * of the last kind to its observer. */
#ifndef WEIR_COMM_PROCS_OBSERVER_H
#define WEIR_COMM_PROCS_OBSERVER_H

#include <poll.h>

#include "comm/procs/procs.h"
#include "comm/procs/watch/watch.h"

enum { WEIR__OBSERVER_LINES = 2 };
#define WEIR__OBSERVER_QUIET_NS UINT64_C(2500000000) /* longer than the time between heartbeats */

/* ---- observer.c: called by the link thread ---- */

/* Opens the connections that are due, and fills in the descriptors to poll. */
void weir__observer_prepare_poll(struct weir__world *world,
                                 struct pollfd fds[WEIR__OBSERVER_LINES]);
/* Handles the result of poll. `payload` is a buffer of WEIR__WIRE_MOST bytes.
 * returns  true if the hub's rank is stopped. */
bool weir__observer_serve(struct weir__world *world, const struct pollfd fds[WEIR__OBSERVER_LINES],
                          char *payload);
/* True if the observer of the hub sends heartbeats: it would report a stopped hub. */
bool weir__observer_of_hub_is_alive(const struct weir__world *world);
/* Reports a stopped or dead rank of this host to the hub, which is on another host. */
void weir__observer_report(struct weir__world *world, int rank, enum weir__gone how);
void weir__observer_end(struct weir__world *world);

/* ---- hub/observers.c: called by the hub ---- */

struct weir__hub;
struct weir__hub_peer;

/* Handles a valid HELLO for a connection of an observer. */
void weir__hub_accept_observer(struct weir__hub *hub, struct weir__hub_peer *peer,
                               const struct weir__wire_hello *hello);
/* Handles a message from an observer on another host. */
void weir__hub_take_report(struct weir__hub *hub, struct weir__hub_peer *peer,
                           enum weir__wire_type type, const void *payload);
/* True if that host has an observer that sends heartbeats. */
bool weir__hub_has_observer(const struct weir__hub *hub, uint64_t host);

/* ---- both ---- */

/* Returns the orders for an observer, without the list of its ranks; NULL if there is no memory.
 * Free with weir__free. */
struct weir__watch_orders *weir__observer_orders(void);

#endif
