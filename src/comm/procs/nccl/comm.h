/* Non-blocking communicators of NCCL: weir polls operations that take time, and gives up when a
 * member is gone, the group broke or a deadline has passed. */
#ifndef WEIR_COMM_PROCS_NCCL_COMM_H
#define WEIR_COMM_PROCS_NCCL_COMM_H

#include "comm/procs/engine.h"
#include "comm/procs/nccl/api.h"

/* A communicator and its calls: of the group, or of one direction of a pair. */
struct weir__nccl_line {
    struct weir__nccl_line *next;
    const struct weir__channel *channel; /* NULL: the group's */
    void *comm;
    struct weir__mutex calling; /* held while a thread calls NCCL with it, also to record a call */
    uint64_t issued;            /* the number of calls issued; under world->lock */
    void *order; /* a mark on the device after the last call (weir__sharing.mark); NULL: no call
                  * yet. Only the thread that issues the next call accesses it. */
};

enum { WEIR__NCCL_SEEN = 256 };

/* NCCL's part of a group. */
struct weir__nccl {
    const struct weir__nccl_api *api;
    struct weir__nccl_line whole; /* lines of pairs are linked behind it; under world->lock */
    int users;                    /* threads that use a communicator without holding the lock */
    bool aborted, aborts;         /* aborts: the last user must abort; aborted: done */
    uint64_t asked_ns;            /* when NCCL was last polled for errors */
    struct weir__nccl_warm {      /* device memory of the first calls, or NULL */
        void *memory;
        size_t bytes;
    } warm;
    uint64_t seen[WEIR__NCCL_SEEN]; /* kinds of calls made so far; under world->lock */
    int nseen;
};

/* ---- comm.c ---- */

/* Returns the time at which a wait of timeout_ns ends; UINT64_MAX if timeout_ns is negative. */
uint64_t weir__nccl_deadline(int64_t timeout_ns);

/* Sets the error "NCCL: WHAT: NCCL's text". */
weir_status weir__nccl_fail(const struct weir__nccl_api *api, void *comm, const char *what,
                            int code);

/* Values of `awaited`, besides a rank of the group: the rank whose absence ends the wait. A break
 * of the group always ends it. A rank that has done its part of a call may leave. */
enum { WEIR__NCCL_NOBODY = -1, WEIR__NCCL_ANYBODY = -2 };

/* Makes a communicator of `ranks` members of the group, this one as `rank`. Takes no lock.
 * returns  WEIR_EUNAVAILABLE with NCCL's words, or naming the member that is gone;
 *          WEIR_ETIMEDOUT. */
weir_status weir__nccl_comm_make(struct weir__procs_group *p, const struct weir__nccl_api *api,
                                 const struct weir__nccl_id *id, int ranks, int rank, int awaited,
                                 uint64_t deadline_ns, void **comm);

/* Waits until the communicator has processed a call that returned `code`. Takes no lock. */
weir_status weir__nccl_await(struct weir__procs_group *p, const struct weir__nccl_api *api,
                             void *comm, const char *what, int code, int awaited,
                             uint64_t deadline_ns);

/* ---- warm.c ---- */

/* Makes the first calls of a group's communicator, without waiting for their end. Takes no lock. */
weir_status weir__nccl_warm_up(struct weir__procs_group *p, const struct weir__nccl_api *api,
                               struct weir__nccl_line *line, uint64_t deadline_ns,
                               struct weir__nccl_warm *warm);

/* ---- pairs.c ---- */

/* Returns how many calls of the channel have been issued. Under world->lock. */
uint64_t weir__nccl_issued(const struct weir__nccl *n, const struct weir__channel *channel);
/* Finds the communicator of a call at which all ranks have arrived. The first call of a pair makes
 * the pair's communicator. Takes no lock. */
weir_status weir__nccl_reach(struct weir__procs_group *p, const struct weir__rendezvous *m,
                             const struct weir__verb *verb, struct weir__nccl_line **out);

/* ---- issue.c ---- */

/* Returns NCCL's type; -1 if NCCL cannot reduce it. */
int weir__nccl_type_of(weir_dtype dtype);
/* Calls NCCL with a communicator of `ranks`; in a pair's communicator the sender is rank 0.
 * returns  NCCL's code. */
int weir__nccl_issue(const struct weir__nccl_api *api, void *comm, int ranks,
                     const struct weir__verb *verb, void *stream);

/* Destroys a communicator whose calls have completed. */
void weir__nccl_comm_end(const struct weir__nccl_api *api, void *comm);

#endif
