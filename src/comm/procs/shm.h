/* Inside engine `shm`: the bytes that ranks show each other (shm_bytes.c). */
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

#endif
