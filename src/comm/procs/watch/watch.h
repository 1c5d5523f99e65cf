/* The observer: a process on the host of some ranks that reads their states in /proc and reports
 * stopped ranks to other hosts. A stopped rank cannot report itself, and from another host it looks
 * like a rank that gets no processor time.
 *
 * A rank starts it (start.c), writes its orders to a socket, and then hands it connections. The
 * program (program.c) uses no library and is embedded in this one as bytes. It looks ten times a
 * second, and ends with the process that started it. */
#ifndef WEIR_COMM_PROCS_WATCH_WATCH_H
#define WEIR_COMM_PROCS_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEIR__WATCH_MOST = 1024, /* processes, connections */
    WEIR__WATCH_MESSAGE = 1024,
    /* The program's descriptors: the control socket, and a pidfd of the process that started it if
     * the system has pidfds. */
    WEIR__WATCH_CONTROL = 0,
    WEIR__WATCH_OWNER = 1,
};

/* The first message on the control socket. Each later message is one byte with a connection. */
struct weir__watch_orders {
    uint32_t owner; /* pid of the process that starts it */
    uint32_t beat_size, stop_size;
    uint32_t rank_at;                        /* offset of the rank in `stop` */
    unsigned char beat[WEIR__WATCH_MESSAGE]; /* sent on every connection once a second */
    unsigned char
        stop[WEIR__WATCH_MESSAGE]; /* sent when a rank has been stopped for WATCH_DOUBT_NS */
    uint32_t n;
    struct {
        uint32_t pid, rank;
    } of[WEIR__WATCH_MOST];
};
#define WEIR__WATCH_LOOK_NS 100000000L
#define WEIR__WATCH_BEAT_NS UINT64_C(1000000000)
#define WEIR__WATCH_DOUBT_NS UINT64_C(400000000) /* shorter stops are not reported */

/* ---- start.c: threads: any ---- */

/* Starts the observer. It is not a child of this process: neither SIGCHLD nor wait() reports it.
 * returns  its control socket, or -1 if the system refuses. */
int weir__watch_start(const struct weir__watch_orders *orders);
/* Hands a connection to the observer. The caller keeps `fd`. */
bool weir__watch_give(int control, int fd);
/* Closes the control socket, which ends the observer soon. */
void weir__watch_end(int control);

/* ---- made from program.c by the build; empty on processors that program.c does not support ----
 */

extern const unsigned char weir__watch_program[];
extern const size_t weir__watch_program_size;

#endif
