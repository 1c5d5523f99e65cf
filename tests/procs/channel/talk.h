/* Control messages without a job: a case talks to a hub as a rank, or to a rank's link as a hub. */
#ifndef TESTS_PROCS_TALK_H
#define TESTS_PROCS_TALK_H

#include "comm/procs/procs.h"

#define TALK_TOKEN "only friends know"

/* A socket that listens on the loopback; it is inherited. */
int listen_on_loopback(int *port);
/* A connection to it. */
int reach_port(int port);
/* A HELLO as that rank of this host, which proves TALK_TOKEN to the hub of rank `to`. */
struct weir__wire_hello hello_of(int rank, int ranks, int to);
/* Says hello to that hub as that rank of this host, and waits for the answer, WELCOME. */
void greet_as(struct weir__conn *c, int port, int rank, int ranks, int to);
/* Waits for the next message that is no PONG or PING, and copies its payload to `payload`, which
 * has room for WEIR__WIRE_MOST. Returns 0 at the end of the connection. */
enum weir__wire_type next_message(struct weir__conn *c, void *payload);

#endif
