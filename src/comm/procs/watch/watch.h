/* A process beside the ranks of a host that reads their states and tells other hosts who is
 * stopped: a rank that is stopped cannot say so, and from afar it looks like one that gets no
 * processor.
 *
 * Whoever starts it (start.c) writes its orders to a socket, and then hands it connections. The
 * program (program.c) has no library below it and is part of this one as bytes; it looks ten times
 * a second, and ends with the process that started it. */
#ifndef WEIR_COMM_PROCS_WATCH_WATCH_H
#define WEIR_COMM_PROCS_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR__WATCH_MOST = 1024, /* processes, connections */
    WEIR__WATCH_MESSAGE = 1024,
    /* The program's files: what starts it, and a pidfd of that, if the system has them. */
    WEIR__WATCH_CONTROL = 0,
    WEIR__WATCH_OWNER = 1,
};

/* The first message. Then each one is a byte with a connection. */
struct weir__watch_orders {
    uint32_t owner; /* process that starts it */
    uint32_t beat_size, stop_size;
    uint32_t rank_at;                        /* where in `stop` the rank is */
    unsigned char beat[WEIR__WATCH_MESSAGE]; /* sent on every connection once a second */
    unsigned char stop[WEIR__WATCH_MESSAGE]; /* and when a rank has been stopped for a while */
    uint32_t n;
    struct {
        uint32_t pid, rank;
    } of[WEIR__WATCH_MOST];
};
#define WEIR__WATCH_LOOK_NS 100000000L
#define WEIR__WATCH_BEAT_NS UINT64_C(1000000000)
#define WEIR__WATCH_DOUBT_NS UINT64_C(400000000) /* a stop as short as this is not told */

/* ---- start.c: threads: any ---- */

/* The process, which is no child of this one: neither a signal nor wait() tells of it.
 * returns  its socket, or -1 where the system does not let it. */
int weir__watch_start(const struct weir__watch_orders *orders);
/* `fd` is the caller's still. */
bool weir__watch_give(int control, int fd);
/* It ends soon. */
void weir__watch_end(int control);

/* ---- made of program.c by the build; no bytes for a processor that it is not written for ---- */

extern const unsigned char weir__watch_program[];
extern const size_t weir__watch_program_size;

#endif
