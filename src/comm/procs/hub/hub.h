/* Inside the hub: its ranks (hub.c), their gathers (gather.c), how it takes over from an earlier
 * hub (standby.c), and messages to ranks that have not come yet (kept.c). Only the hub's thread
 * uses this data, except for `stop_ns` and `leads`.
 */
#ifndef WEIR_COMM_PROCS_HUB_HUB_H
#define WEIR_COMM_PROCS_HUB_HUB_H

#include "comm/procs/procs.h"

struct weir__hub_peer {
    struct weir__conn conn;
    int rank;      /* -1: it has not sent a valid HELLO, or it is an observer */
    bool observes; /* an observer of the ranks of `host` */
    uint32_t pid;
    uint64_t host, last_ns; /* last_ns: time of its last message, or of the connection */
    bool left, moved;       /* moved: another hub has the rank; this connection only receives */
    unsigned char hello[WEIR__WIRE_PROOF]; /* the proof of its HELLO */
    bool held; /* a rank, `wants`, that is answered when this hub leads */
    int wants;
    struct weir__stop stop;
};

/* What a hub that has taken over knows of a rank that has not come to it. */
struct weir__hub_absent {
    struct weir__stop stop;
    uint64_t dead_ns; /* since when its process has been seen dead; 0: not seen */
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
    int rank; /* its own */
    char token[WEIR__WIRE_TOKEN];
    pthread_t thread;
    _Atomic uint64_t stop_ns; /* the time at which the thread must end; 0: not set */
    bool came[WEIR_MAX_RANKS];
    enum weir__gone gone[WEIR_MAX_RANKS];
    char gone_text[WEIR_MAX_RANKS][120];
    /* Of a hub that stands by or has taken over: */
    const struct weir__peer *known; /* what its rank knows of the ranks; NULL: the first hub */
    struct weir__hub_absent *absent;
    _Atomic int leads;          /* enum weir__lead: written by the rank's link */
    bool led;                   /* as far as the hub's thread has seen */
    uint64_t led_ns, looked_ns; /* looked_ns: when it last looked after ranks that have not come */
    struct weir__hub_kept_list {
        struct weir__hub_kept *first, **end; /* oldest first; end NULL: nothing yet */
        size_t bytes;
    } aborts, closings; /* kept.c */
    struct weir__gathering *gatherings;
    int watch; /* control descriptor of the observer of its own rank (watch/); -1 */
    bool watch_tried;
    int slots;                   /* of `peers`: the ranks, an observer for each, STRANGERS more */
    int slot_of[WEIR_MAX_RANKS]; /* the index in `peers` of a rank that has come */
    struct weir__hub_peer peers[];
};

/* Returns the rank's entry; NULL if the rank is not connected. */
struct weir__hub_peer *weir__hub_peer_of(struct weir__hub *hub, int rank);

enum weir__lead { WEIR__LEAD_NOT, WEIR__LEAD_ORDERLY, WEIR__LEAD_AFTER_LOSS };

#define WEIR__HUB_DOUBT_NS UINT64_C(400000000)
#define WEIR__HUB_SILENT_FAR_NS \
    UINT64_C(5000000000) /* on another host, which may have only one rank */
#define WEIR__HUB_STOPPED "is stopped (by a signal or a debugger)"
/* A rank is gone, or a stranger; all others hear of a rank. */
void weir__hub_lose(struct weir__hub *hub, struct weir__hub_peer *peer, enum weir__gone how,
                    const char *text);
/* The same for a rank that may have no connection. */
void weir__hub_lose_rank(struct weir__hub *hub, int rank, enum weir__gone how, const char *text);
/* Welcomes a rank, and tells it who is gone. */
void weir__hub_admit(struct weir__hub *hub, struct weir__hub_peer *peer, int rank);
void weir__hub_refuse(const struct weir__hub *hub, struct weir__hub_peer *peer, const char *text);

/* ---- standby.c ---- */

/* Holds the connection of a rank if this hub does not lead yet. False if it leads. */
bool weir__hub_hold(struct weir__hub *hub, struct weir__hub_peer *peer, int rank);
/* Called in each round: takes over if the link has said so, and looks after the ranks that have not
 * come. */
void weir__hub_standby_look(struct weir__hub *hub, uint64_t now);
/* True if a rank that is not gone has not come. */
bool weir__hub_misses_ranks(const struct weir__hub *hub);
/* Returns the host of a rank; 0 if it is not known. */
uint64_t weir__hub_host_of(const struct weir__hub *hub, int rank);

/* ---- kept.c ---- */

enum { WEIR__HUB_EVERYBODY = -1 };
/* Keeps an ABORT for everybody, or another message for rank `to`, who has not come yet. */
void weir__hub_keep(struct weir__hub *hub, int to, enum weir__wire_type type, const void *payload,
                    size_t size);
/* Sends a rank what has been kept for it. */
void weir__hub_send_kept(struct weir__hub *hub, struct weir__hub_peer *peer);
void weir__hub_forget_kept(struct weir__hub *hub);

/* ---- gather.c ---- */

void weir__hub_gather(struct weir__hub *hub, int rank, const struct weir__wire_gather *message);
/* The rank is gone: fails all gathers of which it is a member, with `text`. */
void weir__hub_gather_without(struct weir__hub *hub, int rank, const char *text);
void weir__hub_gather_look(struct weir__hub *hub, uint64_t now);
void weir__hub_gather_end(struct weir__hub *hub);

#endif
