/* Inside engine `mpi`. */
#ifndef WEIR_COMM_PROCS_MPI_MPI_H
#define WEIR_COMM_PROCS_MPI_MPI_H

#include "comm/procs/engine.h"
#include "comm/procs/mpi/api.h"

/* After an error, wait this long for the link to report which rank died. */
#define WEIR__MPI_PATIENCE_NS UINT64_C(900000000)

/* MPI's part of a world. */
struct weir__mpi {
    const struct weir__mpi_api *api;
    struct weir__mpi_call *orphans; /* calls given up whose requests MPI has not completed */
    int polls;                      /* polls since a call last progressed */
    int idle;                       /* polls since the last call completed */
    int rank_of[];                  /* the rank in MPI_COMM_WORLD, by rank of the world */
};

/* A message contains a record and up to WEIR__MPI_SHORT shown bytes. */
enum {
    WEIR__MPI_SHORT = 4096,
    WEIR__MPI_NAMED_TAG = 3 * 4, /* of records of calls by name */
    WEIR__MPI_NO_TAG,            /* a tag that no message has: calls by name send records only */
    WEIR__MPI_MESSAGE_ROOM = (sizeof(struct weir__record) + WEIR__MPI_SHORT + 63) & ~63
};

/* ---- requests.c: under world->lock ---- */

enum weir__mpi_role {
    WEIR__MPI_SEND_RECORD,
    WEIR__MPI_RECV_RECORD,
    WEIR__MPI_SEND_BYTES,
    WEIR__MPI_RECV_BYTES
};

/* A call in progress. */
struct weir__mpi_call {
    struct weir__mpi_call *next; /* in the list of orphans */
    struct weir__procs_group *p; /* NULL for an orphan */
    bool moves;                  /* all records have arrived; transfers of bytes have started */
    bool gathers;                /* call in rounds: transfers of the first round's results, too */
    int nrequests, room;
    struct weir__mpi_request {
        void *handle;
        short role, rank;
        bool over;
    } * requests;
    struct weir__ranks arrived; /* ranks whose records have arrived */
    int narrived;
    uint64_t failed_ns; /* when MPI reported an error; 0: none */
    char error[300];
    size_t record_size;
    unsigned char *records; /* one message per rank, this rank's included */
    int npieces, nplaced;
    int first_piece; /* the first piece of the current transfers */
    struct weir__mpi_piece {
        void *memory;
        size_t bytes;
    } * placed,   /* with device memory: copies of pieces on the device; stored behind `pieces` */
        pieces[]; /* host memory of received and of sent bytes */
};

/* Starts to send or receive `bytes`, in as many messages as needed. False when out of host memory.
 * An error of MPI is recorded in the call. */
bool weir__mpi_post(struct weir__procs_group *p, struct weir__mpi_call *c, enum weir__mpi_role role,
                    int rank, void *memory, size_t bytes, int tag);
/* Tests all requests and counts received messages. False if no request of these roles (a bit mask)
 * is pending. */
bool weir__mpi_is_under_way(const struct weir__mpi *mpi, struct weir__mpi_call *c, unsigned roles);

/* ---- names.c: under world->lock ---- */

enum weir__mpi_found { WEIR__MPI_FOUND, WEIR__MPI_NOT_YET, WEIR__MPI_NO_MEMORY };
/* Copies the message of `rank` for a call by name to `out`, which has WEIR__MPI_MESSAGE_ROOM bytes.
 * `own` is this rank's record of the call. An error of MPI is recorded in the call. */
enum weir__mpi_found weir__mpi_find_named(struct weir__procs_group *p, struct weir__mpi_call *call,
                                          int rank, const struct weir__record *own, int tag,
                                          struct weir__record *out);
/* Called without the lock when the group closes. */
void weir__mpi_forget_names(struct weir__procs_group *p);

/* ---- call.c: under world->lock ---- */

enum weir__step weir__mpi_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *arrived, struct weir__participant **woken);
enum weir__step weir__mpi_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *left, struct weir__participant **woken);
void weir__mpi_give_up(struct weir__procs_group *p, struct weir__rendezvous *m);
/* Frees orphans whose requests have completed. */
void weir__mpi_free_orphans(struct weir__mpi *mpi);

/* ---- gone.c: under world->lock ---- */

/* For a call that cannot continue yet: returns WAITS, or breaks the group if MPI reported an error
 * WEIR__MPI_PATIENCE_NS ago. */
enum weir__step weir__mpi_stay_or_break(struct weir__procs_group *p, struct weir__rendezvous *m,
                                        struct weir__participant **woken);

/* ---- close.c: under world->lock, except weir__mpi_counts_make and weir__mpi_quit ---- */

/* The numbers of messages between this rank and each other rank of a group. */
struct weir__mpi_counts {
    bool closes;  /* this rank closes the group */
    int nclosing; /* number of other ranks that close it */
    struct weir__mpi_count {
        uint64_t sent, received;
        uint64_t announced; /* valid if `closes`: how many messages that rank has sent */
        bool closes;
        bool has; /* that rank has confirmed all messages of this rank */
    } of[];       /* by rank */
};

bool weir__mpi_counts_make(struct weir__procs_group *p);
/* Makes MPI progress: any call does, so it probes for a tag that no message has. */
void weir__mpi_keep_going(const struct weir__procs_group *p);
/* Counts a message that has arrived from `rank`. */
void weir__mpi_count_received(struct weir__procs_group *p, int rank);
void weir__mpi_quit(struct weir__procs_group *p);
void weir__mpi_see_close(struct weir__procs_group *p, int rank, bool closes, uint64_t messages,
                         struct weir__participant **woken);
void weir__mpi_tell_again(struct weir__procs_group *p);
bool weir__mpi_closed(const struct weir__procs_group *p, int rank);
bool weir__mpi_may_come(const struct weir__procs_group *p, int rank);

#endif
