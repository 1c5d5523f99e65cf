/* The MPI functions that weir calls, loaded at run time without MPI's headers.
 *
 * Two ABIs are supported; handles are pointers in both. In the standard ABI of MPI 5
 * (libmpi_abi.so: MPICH 5, Open MPI 6) handles have fixed values. In the ABI of Open MPI 4 and 5
 * (libmpi.so.40) they are addresses of exported objects. */
#ifndef WEIR_COMM_PROCS_MPI_API_H
#define WEIR_COMM_PROCS_MPI_API_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

/* name in the struct, name in the library, arguments; all return an int, 0 for success */
#define WEIR__MPI_FUNCTIONS(X)                                                                    \
    X(initialized, "MPI_Initialized", (int *flag))                                                \
    X(finalized, "MPI_Finalized", (int *flag))                                                    \
    X(init_thread, "MPI_Init_thread", (int *argc, char ***argv, int required, int *provided))     \
    X(query_thread, "MPI_Query_thread", (int *provided))                                          \
    X(finalize, "MPI_Finalize", (void))                                                           \
    X(comm_rank, "MPI_Comm_rank", (void *comm, int *rank))                                        \
    X(comm_size, "MPI_Comm_size", (void *comm, int *size))                                        \
    X(comm_group, "MPI_Comm_group", (void *comm, void **group))                                   \
    X(group_incl, "MPI_Group_incl", (void *group, int n, const int *ranks, void **out))           \
    X(group_free, "MPI_Group_free", (void **group))                                               \
    X(comm_create_group, "MPI_Comm_create_group", (void *comm, void *group, int tag, void **out)) \
    X(comm_set_errhandler, "MPI_Comm_set_errhandler", (void *comm, void *handler))                \
    X(comm_free, "MPI_Comm_free", (void **comm))                                                  \
    X(isend, "MPI_Isend",                                                                         \
      (const void *from, int count, void *type, int to, int tag, void *comm, void **request))     \
    X(irecv, "MPI_Irecv",                                                                         \
      (void *to, int count, void *type, int from, int tag, void *comm, void **request))           \
    X(iprobe, "MPI_Iprobe", (int from, int tag, void *comm, int *flag, void *status))             \
    X(test, "MPI_Test", (void **request, int *flag, void *status))                                \
    X(error_string, "MPI_Error_string", (int code, char *text, int *length))

struct weir__mpi_api {
    const char *family;
    int thread_multiple;
    void *comm_world, *byte, *errors_return;
#define X(id, name, args) int(*id) args;
    WEIR__MPI_FUNCTIONS(X)
#undef X
    int (*comm_revoke)(void *comm); /* ULFM; NULL if the library has no such function */
};

/* Loads the file that WEIR_MPI names. Without it: the MPI that this process has loaded, else the
 * launcher's, else any. The library stays loaded. NULL with the thread's error set. threads:
 * any. */
const struct weir__mpi_api *weir__mpi_load(void);
/* Writes MPI's text for an error code. `text` has room for `size`. */
void weir__mpi_error_text(const struct weir__mpi_api *api, int code, char *text, size_t size);

#endif
