/* Communicators of NCCL that never block: whatever takes its time is asked for, and given up when a
 * member is gone, the group broke or time is over. */
#ifndef WEIR_COMM_PROCS_NCCL_COMM_H
#define WEIR_COMM_PROCS_NCCL_COMM_H

#include "comm/procs/engine.h"
#include "comm/procs/nccl/api.h"

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
weir_status weir__nccl_settle(struct weir__procs_group *p, const struct weir__nccl_api *api,
                              void *comm, const char *what, int code, int awaited,
                              uint64_t deadline_ns);

/* The end of one whose calls are over. */
void weir__nccl_comm_end(const struct weir__nccl_api *api, void *comm);

#endif
