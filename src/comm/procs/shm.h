/* Inside engine `shm`: cells (shm.c), the bytes that ranks show each other (shm_bytes.c), and calls
 * that come again and again (shm_again.c). */
#ifndef WEIR_COMM_PROCS_SHM_H
#define WEIR_COMM_PROCS_SHM_H

#include "comm/procs/engine.h"

/* Fills the record of the visit with where the bytes are, or with the bytes. False with the error
 * said. */
bool weir__shm_show_bytes(const struct weir__world *w, struct weir__visit *v,
                          const struct weir__meet *meet, const struct weir__code_shown *shown,
                          int n);
/* Whether that record, which carries its bytes, says what this rank's own says: then the arguments
 * of `rank` are this rank's but for the bytes. Reads one cache line of it, and the bytes. */
bool weir__shm_is_alike(const struct weir__visit *v, const struct weir__record *r);
void weir__shm_read_alike(struct weir__visit *v, const struct weir__meet *mine, int rank,
                          const struct weir__record *r);
/* Where this rank reads what the record of `rank` shows. Bytes that came with the record are copied
 * behind the arguments in `args`. False with the error said. */
bool weir__shm_reach_bytes(const struct weir__world *w, struct weir__peer *peer, int rank,
                           const struct weir__record *r, unsigned char *args, void **at);

/* ---- shm.c ---- */

/* Rings other members, of `ranks` of the group. */
void weir__shm_ring(const struct weir__procs_group *p, const struct weir__ranks *ranks);
/* Copies the visit's record of the call into its cell, which is free for it. */
void weir__shm_put_record(struct weir__procs_group *p, const struct weir__channel *channel,
                          const struct weir__visit *v, uint64_t call);
/* This rank has read all records of the cell, which all carry their bytes. */
void weir__shm_leave_quick(const struct weir__procs_group *p, const struct weir__channel *channel,
                           struct weir__cell *cell);
/* Looks for a little while whether a count of the cell becomes `members`; `again`: for whom, if it
 * may be in the way of others. */
void weir__shm_linger(struct weir__world *w, const struct weir__cell *cell,
                      const _Atomic uint32_t *count, uint32_t members, uint64_t generation,
                      const struct weir__again *again);

/* ---- shm_again.c ---- */

enum weir__at_once weir__shm_at_once(struct weir__procs_group *p, struct weir__again *again,
                                     uint64_t call);

#endif
