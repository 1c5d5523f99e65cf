/* Inside engine `mpi`. */
#ifndef WEIR_COMM_PROCS_MPI_MPI_H
#define WEIR_COMM_PROCS_MPI_MPI_H

#include "comm/procs/engine.h"
#include "comm/procs/mpi/api.h"

/* Of a world. */
struct weir__mpi {
    const struct weir__mpi_api *api;
    struct weir__mpi_call *orphans; /* given up, with requests that MPI still has */
    int polls;                      /* since something moved */
    int rank_of[];                  /* in MPI_COMM_WORLD */
};

/* ---- call.c: under world->lock ---- */

enum weir__step weir__mpi_meet(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *arrived, struct weir__participant **woken);
enum weir__step weir__mpi_left(struct weir__procs_group *p, struct weir__rendezvous *m,
                               struct weir__ranks *left, struct weir__participant **woken);
void weir__mpi_give_up(struct weir__procs_group *p, struct weir__rendezvous *m);
/* Frees orphans whose requests are over. */
void weir__mpi_bury(struct weir__mpi *mpi);

#endif
