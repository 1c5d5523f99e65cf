/* Inside engine `mpi`. */
#ifndef WEIR_COMM_PROCS_MPI_MPI_H
#define WEIR_COMM_PROCS_MPI_MPI_H

#include "comm/procs/engine.h"
#include "comm/procs/mpi/api.h"

#define WEIR__MPI_PATIENCE_NS UINT64_C(900000000) /* for the link to say who died */

/* Of a world. */
struct weir__mpi {
    const struct weir__mpi_api *api;
    struct weir__mpi_call *orphans; /* given up, with requests that MPI still has */
    int polls;                      /* since something moved */
    int idle;                       /* and since the last call was over */
    int rank_of[];                  /* in MPI_COMM_WORLD */
};

/* A message with a record has room for it and for so many shown bytes. */
enum {
    WEIR__MPI_SHORT = 4096,
    WEIR__MPI_NAMED_TAG = 3 * 4, /* of records of calls by name */
    WEIR__MPI_NO_TAG,            /* nothing has it: not of a name's, which are records alone */
    WEIR__MPI_MESSAGE_ROOM = (sizeof(struct weir__record) + WEIR__MPI_SHORT + 63) & ~63
};

/* ---- requests.c: under world->lock ---- */

enum weir__mpi_role {
    WEIR__MPI_SEND_RECORD,
    WEIR__MPI_RECV_RECORD,
    WEIR__MPI_SEND_BYTES,
    WEIR__MPI_RECV_BYTES
};

/* A call under way. */
struct weir__mpi_call {
    struct weir__mpi_call *next; /* of orphans */
    struct weir__procs_group *p; /* NULL of an orphan */
    bool moves;                  /* records were exchanged; bytes are on their way */
    bool gathers;                /* of a call in rounds: what ranks made in the first is, too */
    int nrequests, room;
    struct weir__mpi_request {
        void *handle;
        short role, rank;
        bool over;
    } * requests;
    struct weir__ranks arrived; /* whose records are here */
    int narrived;
    uint64_t failed_ns;
    char error[300];
    size_t record_size;
    unsigned char *records; /* messages: this rank's at its place, then others' */
    int npieces, nplaced;
    int first_piece; /* of those that move now */
    struct weir__mpi_piece {
        void *memory;
        size_t bytes;
    } * placed,   /* the same on the device, if memory is a device's: behind the others */
        pieces[]; /* of each rank, and this one's own */
};

/* Sends or receives `bytes`, in as many messages as it takes. False for want of host memory; what
 * MPI says against it is kept in the call. */
bool weir__mpi_post(struct weir__procs_group *p, struct weir__mpi_call *c, enum weir__mpi_role role,
                    int rank, void *memory, size_t bytes, int tag);
/* Looks at all; false if none of `roles` is under way any more. What has come is counted. */
bool weir__mpi_is_under_way(const struct weir__mpi *mpi, struct weir__mpi_call *c, unsigned roles);

/* ---- names.c: under world->lock ---- */

enum weir__mpi_found { WEIR__MPI_FOUND, WEIR__MPI_NOT_YET, WEIR__MPI_NO_MEMORY };
/* The message of `rank` for that call by name, which `own` is this rank's record of: into `out`,
 * with WEIR__MPI_MESSAGE_ROOM. What MPI says against it is kept in the call. */
enum weir__mpi_found weir__mpi_find_named(struct weir__procs_group *p, struct weir__mpi_call *call,
                                          int rank, const struct weir__record *own, int tag,
                                          struct weir__record *out);
/* The group closes; not under the lock. */
void weir__mpi_forget_names(struct weir__procs_group *p);

/* ---- call.c: under world->lock ---- */

enum weir__step weir__mpi_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *arrived, struct weir__participant **woken);
enum weir__step weir__mpi_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *left, struct weir__participant **woken);
void weir__mpi_give_up(struct weir__procs_group *p, struct weir__rendezvous *m);
/* Frees orphans whose requests are over. */
void weir__mpi_bury(struct weir__mpi *mpi);

/* ---- gone.c: under world->lock ---- */

/* For a call that cannot go on yet: it waits, or if MPI failed and time is up the group breaks. */
enum weir__step weir__mpi_stay_or_break(struct weir__procs_group *p, struct weir__rendezvous *m,
                                        struct weir__participant **woken);

/* ---- close.c: under world->lock, but for what opens and closes ---- */

/* Of a group: messages between this rank and each other one. */
struct weir__mpi_counts {
    bool closes; /* this rank does */
    int nclosing;
    struct weir__mpi_count {
        uint64_t sent, received;
        uint64_t announced; /* how many it sent, once it `closes` */
        bool closes;
        bool has; /* what this rank sent: it said so */
    } of[];       /* by rank */
};

bool weir__mpi_counts_make(struct weir__procs_group *p);
/* MPI moves what it has when it is asked anything. */
void weir__mpi_keep_going(const struct weir__procs_group *p);
/* One of its messages is here. */
void weir__mpi_count_received(struct weir__procs_group *p, int rank);
void weir__mpi_quit(struct weir__procs_group *p);
void weir__mpi_see_close(struct weir__procs_group *p, int rank, bool closes, uint64_t messages,
                         struct weir__participant **woken);
bool weir__mpi_closed(const struct weir__procs_group *p, int rank);
bool weir__mpi_may_come(const struct weir__procs_group *p, int rank);

#endif
