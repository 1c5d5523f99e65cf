/* Messages of the control channel: their layout and their validation.
 *
 * A message is a header and a payload of fixed layout. Both sides have the same machine type and
 * version. Every message is validated here before it is used: magic, type, size, terminators of
 * strings, ranges of numbers. A connection that sends an invalid message is closed. */
#ifndef WEIR_COMM_PROCS_WIRE_H
#define WEIR_COMM_PROCS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/ranks.h"

enum {
    WEIR__WIRE_VERSION = 7,
    WEIR__WIRE_KEY = 96,
    WEIR__WIRE_TEXT = 800,
    WEIR__WIRE_TOKEN = 64, /* with the terminating 0 */
    WEIR__WIRE_BLOB = 128,
    WEIR__WIRE_PROOF = 32, /* proof.h */
};
#define WEIR__WIRE_MAGIC UINT32_C(0x77656972)
#define WEIR__WIRE_MESSAGES (UINT64_C(1) << 60) /* the largest valid count of messages */

enum weir__wire_type {
    WEIR__WIRE_HELLO = 1, /* to the hub: the first message of a connection */
    WEIR__WIRE_WELCOME,   /* to a rank */
    WEIR__WIRE_REFUSED,   /* to a rank; then the hub closes the connection */
    WEIR__WIRE_GATHER,    /* to the hub: a blob for all members */
    WEIR__WIRE_GATHERED,  /* to each member: the blobs of all members */
    WEIR__WIRE_FAILED,    /* to each member: the gather has failed */
    WEIR__WIRE_PING,      /* to the hub */
    WEIR__WIRE_PONG,      /* to a rank; from an observer: it lives */
    WEIR__WIRE_ABORT,     /* to the hub, which forwards it: a group is broken */
    WEIR__WIRE_GONE,      /* to all ranks: a rank is gone; to the hub: a rank on the sender's host
                           * is stopped or dead; from the observer of the hub: its rank is stopped */
    WEIR__WIRE_BYE,       /* to the hub: the rank leaves normally */
    WEIR__WIRE_CLOSES,    /* to a member of a group: the sender closes it and has sent so many
                           * messages */
    WEIR__WIRE_RECEIVED,  /* to a member that closes a group: all its messages have arrived */
    WEIR__WIRE_MOVED,     /* to the hub: the rank has another hub now */
};

struct weir__wire_header {
    uint32_t magic;
    uint16_t type, version;
    uint32_t size; /* of the payload */
};

/* What a connection to the hub is for. The two others are of a rank of another host that has
 * joined, for the processes that see who is stopped (watch/). */
enum weir__line {
    WEIR__LINE_RANK,
    WEIR__LINE_TO_HUB,            /* from the observer of that rank's host to the hub */
    WEIR__LINE_FROM_HUB_OBSERVER, /* from the observer of the hub to that rank */
    WEIR__LINES,
};
struct weir__wire_hello {
    uint32_t rank, ranks, pid;
    uint32_t line; /* enum weir__line */
    uint64_t host; /* weir__host_id() */
    uint32_t to;   /* the rank whose hub it is for */
    uint32_t reserved;
    unsigned char random[16];
    unsigned char proof[WEIR__WIRE_PROOF];
};
struct weir__wire_welcome {
    uint32_t pid, reserved; /* of the hub */
    uint64_t host;
    unsigned char proof[WEIR__WIRE_PROOF];
};
struct weir__wire_refused {
    int32_t status;
    char text[WEIR__WIRE_TEXT];
    unsigned char proof[WEIR__WIRE_PROOF]; /* zeros if HELLO does not prove the token */
};
struct weir__wire_text {
    char key[WEIR__WIRE_KEY]; /* the group */
    int32_t status;
    char text[WEIR__WIRE_TEXT];
};
struct weir__wire_gather {
    char key[WEIR__WIRE_KEY];
    struct weir__ranks members;
    int64_t timeout_ns;
    unsigned char blob[WEIR__WIRE_BLOB];
};
/* Sent up to the blob of the last member. */
struct weir__wire_gathered {
    char key[WEIR__WIRE_KEY];
    struct weir__ranks members;
    unsigned char blobs[WEIR_MAX_RANKS][WEIR__WIRE_BLOB]; /* by rank; zeros of others */
};
size_t weir__wire_gathered_size(const struct weir__ranks *members);
struct weir__wire_ping {
    uint64_t sent_ns, hub_ns;
};
enum weir__gone { WEIR__GONE_NOT, WEIR__GONE_LEFT, WEIR__GONE_DIED, WEIR__GONE_STOPPED };
struct weir__wire_gone {
    uint32_t rank;
    uint32_t how; /* enum weir__gone */
    char text[WEIR__WIRE_TEXT];
};

/* Forwarded by the hub. `from` closes a group normally: all its calls there have completed. */
struct weir__wire_close {
    char key[WEIR__WIRE_KEY];
    uint32_t from, to; /* ranks of the world */
    uint64_t messages; /* of the engine, from the closing rank to the other, in the group's life */
};

/* The largest messages: to a rank, and to the hub. */
enum {
    WEIR__WIRE_MOST = sizeof(struct weir__wire_header) + sizeof(struct weir__wire_gathered),
    WEIR__WIRE_SHORT = 2048,
};

/* Validates the first message in `bytes` and copies its payload to `payload`, which has room for
 * WEIR__WIRE_MOST. Returns the message's size with its header, 0 if more bytes are needed, or -1
 * with the fault in *wrong. */
int weir__wire_take(const void *bytes, size_t size, enum weir__wire_type *type, void *payload,
                    const char **wrong);

/* ---- connections: non-blocking; used by one thread at a time ---- */

struct weir__conn {
    int fd;    /* -1: closed */
    int error; /* the errno of the failed send or read */
    size_t have;
    char *out;
    size_t out_have, out_cap;
    char *in;
    size_t in_cap;
};

/* `most` is the largest message that may arrive, with its header. False when out of memory; then
 * `fd` is closed. Sent data must be acknowledged within WEIR__CONN_REACH_MS. The peer's kernel
 * acknowledges even if its process does not run, so only a dead host or network exceeds that. */
enum { WEIR__CONN_REACH_MS = 700 };
bool weir__conn_open(struct weir__conn *conn, int fd, size_t most);
void weir__conn_close(struct weir__conn *conn);
/* Queues a message and sends as much as the socket accepts. False if the connection is closed or
 * has failed, or too many bytes are queued already. */
bool weir__conn_send(struct weir__conn *conn, enum weir__wire_type type, const void *payload,
                     size_t size);
bool weir__conn_flush(struct weir__conn *conn);
/* Reads all available bytes. False if the connection has ended. */
bool weir__conn_fill(struct weir__conn *conn);
/* After a failure: true if the peer's host did not acknowledge or is unreachable. */
bool weir__conn_is_out_of_reach(const struct weir__conn *conn);
/* Takes the next complete message. Returns 1, 0 if none is complete yet, or -1 with the fault in
 * *wrong. */
int weir__conn_next(struct weir__conn *conn, enum weir__wire_type *type, void *payload,
                    const char **wrong);

#endif
