/* Ranks started by an MPI's launcher: the process of a case starts this program again under it. */
#ifndef TESTS_PROCS_MPI_LAUNCH_H
#define TESTS_PROCS_MPI_LAUNCH_H

#include "procs/kids.h"

struct family {
    const char *launcher, *variable, *library;
    const char *options[6];
    const char *settings[3]; /* of the environment */
    const char *own_names;   /* of files that a rank that dies leaves in /dev/shm */
    const char
        *hosts; /* as tests/procs/mpi/two-hosts names it: ranks are on two hosts; NULL: on one */
};

extern const struct family open_mpi, mpich, open_mpi_far, mpich_far; /* far: on two hosts */

/* UCX, which MPICH has between hosts, makes shared memory on one host, too, without using it: 5 MiB
 * of /dev/shm a rank, where it crashes if there is less. And it writes over the first bytes of mmap
 * and the like, which other threads may be in. Both are left out. */
#define MPICH_SETTINGS                     \
    {                                      \
        "UCX_TLS=^sm", "UCX_MEM_EVENTS=no" \
    }

/* The launcher; the case is skipped where there is none. */
const char *mpi_need(const struct family *f);
/* Runs n ranks to their end; what they say is in `text`. Returns the launcher's status. */
int mpi_launch(const struct family *f, int n, const char *scenario, char *text, size_t size);
/* The same; all must end well. */
void mpi_run_well(const struct family *f, int n, const char *scenario);
void remove_folder(const char *path);

#endif
