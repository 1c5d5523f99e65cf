/* Inside engine `shm`: cells (shm.c), the bytes that ranks show each other (shm_bytes.c), and
 * repeated short calls (shm_again.c). */
#ifndef WEIR_COMM_PROCS_SHM_H
#define WEIR_COMM_PROCS_SHM_H

#include "comm/procs/engine.h"

/* Writes to the visit's record the places of the shown bytes, or the bytes themselves. False with
 * the thread's error set. */
bool weir__shm_show_bytes(const struct weir__world *w, struct weir__visit *v,
                          const struct weir__meet *meet, const struct weir__code_shown *shown,
                          int n);
/* True if both records carry their bytes and have the same digest. Then the arguments of the two
 * ranks differ only in the shown bytes. Reads one cache line of `r`. */
bool weir__shm_is_alike(const struct weir__visit *v, const struct weir__record *r);
/* Makes the arguments of `rank`, whose record is alike, from this rank's arguments and the bytes in
 * the record. */
void weir__shm_read_alike(struct weir__visit *v, const struct weir__meet *mine, int rank,
                          const struct weir__record *r);
/* Writes to `at` the addresses at which this rank reads the bytes that the record of `rank` shows.
 * Bytes in the record are copied behind the arguments in `args`. False with the thread's error
 * set. */
bool weir__shm_reach_bytes(const struct weir__world *w, struct weir__peer *peer, int rank,
                           const struct weir__record *r, unsigned char *args, void **at);
/* As weir__share_reach, writable. An error names the rank, or the member of the group (NULL: the
 * rank of the world) that has died. */
void *weir__shm_reach(const struct weir__world *w, const struct weir__procs_group *p, int rank,
                      struct weir__reached **list, const struct weir__shared_place *place);

/* ---- shm.c ---- */

/* Rings the bells of `ranks` of the group, except this rank's. */
void weir__shm_ring(const struct weir__procs_group *p, const struct weir__ranks *ranks);
/* Copies the visit's record into its cell. The cell must be in the generation of the call. */
void weir__shm_put_record(struct weir__procs_group *p, const struct weir__channel *channel,
                          const struct weir__visit *v, uint64_t call);
/* Leaves a cell whose records all carry their bytes, after this rank has read them. */
void weir__shm_leave_quick(const struct weir__procs_group *p, const struct weir__channel *channel,
                           struct weir__cell *cell);
/* Polls for a short time until a count of the cell becomes `members`. If `again` is not NULL, stops
 * when another thread waits for the caller's lock. */
void weir__shm_linger(struct weir__world *w, const struct weir__cell *cell,
                      const _Atomic uint32_t *count, uint32_t members, uint64_t generation,
                      const struct weir__again *again);

/* ---- shm_again.c ---- */

enum weir__at_once weir__shm_at_once(struct weir__procs_group *p, struct weir__again *again,
                                     uint64_t call);

#endif
