/* Messages of the control channel: what they look like, and what is refused.
 *
 * A message is a header and a payload of fixed layout. Both sides are of one machine type and one
 * version. Whatever arrives is checked here before anybody looks at it: magic, type, size, ends of
 * strings, ranges of numbers. A connection that sent anything else is closed. */
#ifndef WEIR_COMM_PROCS_WIRE_H
#define WEIR_COMM_PROCS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/ranks.h"

enum {
    WEIR__WIRE_VERSION = 5,
    WEIR__WIRE_KEY = 96,
    WEIR__WIRE_TEXT = 800,
    WEIR__WIRE_TOKEN = 64, /* with its end */
    WEIR__WIRE_BLOB = 128,
};
#define WEIR__WIRE_MAGIC UINT32_C(0x77656972)
#define WEIR__WIRE_MESSAGES (UINT64_C(1) << 60) /* more than were ever sent */

enum weir__wire_type {
    WEIR__WIRE_HELLO = 1, /* to the hub, first of all */
    WEIR__WIRE_WELCOME,   /* to a rank */
    WEIR__WIRE_REFUSED,   /* to a rank; then the hub closes */
    WEIR__WIRE_GATHER,    /* to the hub: a few bytes for all members */
    WEIR__WIRE_GATHERED,  /* to each member: the bytes of all */
    WEIR__WIRE_FAILED,    /* to each member: they will not be gathered */
    WEIR__WIRE_PING,      /* to the hub */
    WEIR__WIRE_PONG,      /* to a rank; from the processes of watch/: they live */
    WEIR__WIRE_ABORT,     /* to the hub, which passes it on: a group is broken */
    WEIR__WIRE_GONE,      /* to all ranks: one of them is; to the hub: one of the sender's host is;
                             from the process beside rank 0: it is */
    WEIR__WIRE_BYE,       /* to the hub: a rank leaves in peace */
    WEIR__WIRE_CLOSES,    /* to a member of a group: the sender closes it, and sent so much */
    WEIR__WIRE_RECEIVED,  /* to a member that closes: what it sent has come */
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
    WEIR__LINE_TELLS, /* of the process beside that rank, which tells the hub */
    WEIR__LINE_HEARS, /* handed to the process beside rank 0, which tells that rank */
    WEIR__LINES,
};
struct weir__wire_hello {
    uint32_t rank, ranks, pid;
    uint32_t line; /* enum weir__line */
    uint64_t host; /* the same on one running system */
    char token[WEIR__WIRE_TOKEN];
};
struct weir__wire_welcome {
    uint32_t pid, reserved; /* of the hub */
    uint64_t host;
};
struct weir__wire_text {
    char key[WEIR__WIRE_KEY]; /* the group; "" for REFUSED */
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

/* Passed on by the hub. A group is left in peace: all calls of `from` are over there. */
struct weir__wire_close {
    char key[WEIR__WIRE_KEY];
    uint32_t from, to; /* ranks of the world */
    uint64_t messages; /* by the engine, from one to the other, since the group was made */
};

/* What is sent to a rank; what is sent to the hub is short. */
enum {
    WEIR__WIRE_MOST = sizeof(struct weir__wire_header) + sizeof(struct weir__wire_gathered),
    WEIR__WIRE_SHORT = 2048,
};

/* The first message in `bytes`: its size with its header, 0 if more bytes are needed, or -1 with
 * what is wrong. The payload is copied to `payload`, which has room for WEIR__WIRE_MOST. */
int weir__wire_take(const void *bytes, size_t size, enum weir__wire_type *type, void *payload,
                    const char **wrong);

/* ---- a connection: not blocking; one thread at a time ---- */

struct weir__conn {
    int fd;    /* -1: closed */
    int error; /* of the system, when sending or reading failed */
    size_t have;
    char *out;
    size_t out_have, out_cap;
    char *in;
    size_t in_cap;
};

/* `most`: the largest message that may come, with its header. False when out of memory, with the
 * file closed. What is sent must be acknowledged within WEIR__CONN_REACH_MS. The peer's system does
 * that also while its process gets no processor: only a host or a network that is gone does not. */
enum { WEIR__CONN_REACH_MS = 700 };
bool weir__conn_open(struct weir__conn *conn, int fd, size_t most);
void weir__conn_close(struct weir__conn *conn);
/* Queues a message and sends what the system takes. False if the peer does not take any, for too
 * long, or is gone. */
bool weir__conn_send(struct weir__conn *conn, enum weir__wire_type type, const void *payload,
                     size_t size);
bool weir__conn_flush(struct weir__conn *conn);
/* Reads what is there. False if the peer is gone. */
bool weir__conn_fill(struct weir__conn *conn);
/* Of a peer that is gone: its host did not acknowledge, or the network says that it has no host. */
bool weir__conn_is_out_of_reach(const struct weir__conn *conn);
/* The next whole message: 1, 0 if there is none yet, -1 with what is wrong. */
int weir__conn_next(struct weir__conn *conn, enum weir__wire_type *type, void *payload,
                    const char **wrong);

#endif
