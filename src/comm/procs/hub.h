/* Inside the hub: its ranks (hub.c) and their gathers (hub_gather.c). Only the hub's thread uses
 * this data. */
#ifndef WEIR_COMM_PROCS_HUB_H
#define WEIR_COMM_PROCS_HUB_H

#include "comm/procs/procs.h"

struct weir__hub_peer {
    struct weir__conn conn;
    int rank;      /* -1: it has not sent a valid HELLO, or it is an observer */
    bool observes; /* an observer of the ranks of `host` */
    uint32_t pid;
    uint64_t host, last_ns; /* last_ns: time of its last message, or of the connection */
    bool left;
    struct weir__stop stop;
};

struct weir__gathering {
    struct weir__gathering *next;
    struct weir__wire_gathered all;
    struct weir__ranks here;
    int nmembers, nhere;
    uint64_t deadline_ns;
};

struct weir__hub {
    int listen_fd, wake_fd, ranks;
    char token[WEIR__WIRE_TOKEN];
    pthread_t thread;
    _Atomic uint64_t stop_ns; /* the time at which the thread must end; 0: not set */
    bool gone[WEIR_MAX_RANKS], came[WEIR_MAX_RANKS];
    char gone_text[WEIR_MAX_RANKS][80];
    struct weir__gathering *gatherings;
    int watch; /* control descriptor of rank 0's observer (watch/); -1 */
    bool watch_tried;
    int slots;                   /* of `peers`: the ranks, an observer for each, STRANGERS more */
    int slot_of[WEIR_MAX_RANKS]; /* the index in `peers` of a rank that has come */
    struct weir__hub_peer peers[];
};

/* Returns the rank's entry; NULL if the rank is not connected. */
struct weir__hub_peer *weir__hub_peer_of(struct weir__hub *hub, int rank);

#define WEIR__HUB_STOPPED "is stopped (by a signal or a debugger)"
/* A rank is gone, or a stranger; all others hear of a rank. */
void weir__hub_lose(struct weir__hub *hub, struct weir__hub_peer *peer, enum weir__gone how,
                    const char *text);

/* ---- hub_gather.c ---- */

void weir__hub_gather(struct weir__hub *hub, int rank, const struct weir__wire_gather *message);
/* The rank is gone: fails all gathers of which it is a member, with `text`. */
void weir__hub_gather_without(struct weir__hub *hub, int rank, const char *text);
void weir__hub_gather_look(struct weir__hub *hub, uint64_t now);
void weir__hub_gather_end(struct weir__hub *hub);

#endif
