/* Communicators of NCCL that never block: whatever takes its time is asked for, and given up when a
 * member is gone, the group broke or time is over. */
#ifndef WEIR_COMM_PROCS_NCCL_COMM_H
#define WEIR_COMM_PROCS_NCCL_COMM_H

#include "comm/procs/engine.h"
#include "comm/procs/nccl/api.h"

/* A communicator and its calls: of the group, or of a pair and a direction. */
struct weir__nccl_line {
    struct weir__nccl_line *next;
    const struct weir__channel *channel; /* NULL: the group's */
    void *comm;
    struct weir__mutex calling; /* of calls of NCCL with it: one at a time, be it to record one */
    uint64_t issued;            /* calls, by number; under world->lock */
    void *order; /* after the last of them on the device (weir__sharing.mark); NULL: none yet.
                  * Touched by whoever issues the next one alone. */
};

enum { WEIR__NCCL_SEEN = 256 };

/* Of a group. */
struct weir__nccl {
    const struct weir__nccl_api *api;
    struct weir__nccl_line whole; /* pairs follow it; under world->lock */
    int users;                    /* threads that call NCCL with one of these, without the lock */
    bool aborted, aborts;         /* it is to be aborted, by the last user */
    uint64_t asked_ns;            /* when NCCL was last asked for errors */
    struct weir__nccl_warm {      /* what first calls work on: memory of the device, or NULL */
        void *memory;
        size_t bytes;
    } warm;
    uint64_t seen[WEIR__NCCL_SEEN]; /* kinds of calls, under world->lock */
    int nseen;
};

/* ---- comm.c ---- */

/* When waiting ends; UINT64_MAX: never. Negative: for ever. */
uint64_t weir__nccl_deadline(int64_t timeout_ns);

/* "NCCL: what: its words" */
weir_status weir__nccl_fail(const struct weir__nccl_api *api, void *comm, const char *what,
                            int code);

/* Whose leaving ends the waiting, as dying and breaking the group always do: a rank of the group,
 * or one of these. Whoever has done its part of a call may leave. */
enum { WEIR__NCCL_NOBODY = -1, WEIR__NCCL_ANYBODY = -2 };

/* A communicator of `ranks` members of the group, this one as `rank`. Takes no lock.
 * returns  WEIR_EUNAVAILABLE with NCCL's words, or naming the member that is gone;
 *          WEIR_ETIMEDOUT. */
weir_status weir__nccl_comm_make(struct weir__procs_group *p, const struct weir__nccl_api *api,
                                 const struct weir__nccl_id *id, int ranks, int rank, int awaited,
                                 uint64_t deadline_ns, void **comm);

/* What a call returned: waits until the communicator has taken it. Takes no lock. */
weir_status weir__nccl_await(struct weir__procs_group *p, const struct weir__nccl_api *api,
                             void *comm, const char *what, int code, int awaited,
                             uint64_t deadline_ns);

/* ---- warm.c ---- */

/* The first calls of a group's communicator. Nobody waits for their end. Takes no lock. */
weir_status weir__nccl_warm_up(struct weir__procs_group *p, const struct weir__nccl_api *api,
                               struct weir__nccl_line *line, uint64_t deadline_ns,
                               struct weir__nccl_warm *warm);

/* ---- pairs.c ---- */

/* How many calls of the channel are issued. Under world->lock. */
uint64_t weir__nccl_issued(const struct weir__nccl *n, const struct weir__channel *channel);
/* The communicator of a call whose members are all there; that of a pair is made by its first.
 * Takes no lock. */
weir_status weir__nccl_reach(struct weir__procs_group *p, const struct weir__rendezvous *m,
                             const struct weir__verb *verb, struct weir__nccl_line **out);

/* ---- issue.c ---- */

/* -1: NCCL does not reduce it. */
int weir__nccl_type_of(weir_dtype dtype);
/* Calls NCCL with a communicator of `ranks`; of a pair the sender is the first.
 * returns  NCCL's code. */
int weir__nccl_issue(const struct weir__nccl_api *api, void *comm, int ranks,
                     const struct weir__verb *verb, void *stream);

/* The end of one whose calls are over. */
void weir__nccl_comm_end(const struct weir__nccl_api *api, void *comm);

#endif
