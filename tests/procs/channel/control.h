/* Control messages, right and wrong, and what stands between a rank and the hub. */
#ifndef TESTS_PROCS_CONTROL_H
#define TESTS_PROCS_CONTROL_H

#include <pthread.h>

#include "procs/channel/talk.h"
#include "procs/kids.h"

/* Puts a message at `to`, and returns its size. */
size_t control_message(char *to, enum weir__wire_type type, const void *payload, size_t size);
/* A message of a random kind, most of them right but for a few bytes; at most WEIR__WIRE_MOST. */
size_t control_random(char *to, uint64_t *seed);

/* A message as a hub sends it to a rank, about that rank and others, right but for its contents. */
size_t control_plausible(char *to, uint64_t *seed, int ranks);

/* A rank of a job with TALK_TOKEN connects to the relay, and the relay to the hub. It forwards what
 * both say, in whole messages to the rank, and what a case says to the rank between these. */
struct relay {
    int listen_fd, port, hub_port;
    bool elsewhere;   /* tells the rank that the hub is on another host */
    int64_t shift_ns; /* and that its clock is so far ahead */
    pthread_t thread;
    pthread_mutex_t lock; /* of the following */
    pthread_cond_t reported;
    int rank_fd, report_fd;                /* of the rank; of its reader of reports; -1 */
    int ends[2];                           /* the thread ends */
    unsigned char hello[WEIR__WIRE_PROOF]; /* of the rank's HELLO; the thread's */
};
void relay_open(struct relay *r, int hub_port, bool elsewhere, int64_t shift_ns);
/* To the rank. False if it has closed the connection. */
bool relay_say(struct relay *r, const void *bytes, size_t size);
/* To the rank's reader of reports from the hub's observer, when there is one. */
void relay_report(struct relay *r, const void *bytes, size_t size);
/* The rank gets no more. */
void relay_cut(struct relay *r);
void relay_close(struct relay *r);

#endif
