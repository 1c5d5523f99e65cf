/* Groups whose ranks are processes.
 *
 * weir_group_join makes a group of which this process is one rank, on one device. All collectives
 * of weir/comm.h work on it as on a group within a process: they are queued on streams, or captured
 * into graphs, and are over when all ranks' parts have run. weir_group_self is the rank to call
 * them with; a process calls for its own rank only.
 *
 * Which rank of how many this is comes from the options, else from the environment: WEIR_RANK and
 * WEIR_RANKS (weir launch), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), RANK and WORLD_SIZE
 * (torchrun), PMI_RANK and PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID and SLURM_NTASKS.
 *
 * Where they meet, the *store*, is the option, else WEIR_STORE: "HOST:PORT", where rank 0 listens
 * and nowhere else, or "file:PATH", a file of one host in which rank 0 leaves a port of 127.0.0.1
 * and a token, for this user only, until all ranks have come. Without either: a file in TMPDIR
 * named for the job, where the launcher says that all ranks are on one host; else MASTER_ADDR and
 * MASTER_PORT (under torchrun the next port, as its own store has that one). A store "HOST:PORT"
 * needs a token, the option or WEIR_TOKEN: 8..63 bytes that strangers do not know, the same for
 * all ranks. Who does not present it is disconnected.
 *
 * Engines say what connects ranks; the option, else WEIR_ENGINE, else what fits: `shm` if all ranks
 * are processes of one host and one user, else `mpi`. By these, sums are in the order of the ranks
 * and the same bits on every rank.
 *   shm  Processes map each other's memory to be read and never write to it. Tensors of the pool
 *        that were allocated after the group was made, and temporaries, are read in place; others
 *        are copied first. On `cuda` the same through CUDA IPC: GPUs that reach each other, or one
 *        GPU for several ranks.
 *   mpi  Many hosts, by MPI 5's standard ABI (libmpi_abi.so.1: MPICH 5) or Open MPI 4 and 5
 *        (libmpi.so.40), found at run time; WEIR_MPI names another file. All ranks are started by
 *        the launcher of that MPI. A program that has called MPI_Init_thread, with
 *        MPI_THREAD_MULTIPLE, keeps its MPI, and ends it after its groups; else weir starts it and
 *        ends it with the process. Each rank gets what it needs of the others' input as messages;
 *        a part that fails on one rank is an error there and breaks the group, but others may have
 *        ended that call. What happens to a job with a dead rank is up to the launcher as well:
 *        mpirun --with-ft ulfm (Open MPI 5) and mpiexec -disable-auto-cleanup (MPICH) leave the
 *        others alone.
 *
 *   nccl On `cuda`, if asked for: ranks of one host with a GPU each, by NCCL 2.18 or later
 *        (libnccl.so.2, or WEIR_LIBNCCL). Sums are in NCCL's order: bits may differ from run to run
 *        and from those of shm. The limit of the device's vector cores when the group is joined is
 *        the most CTAs of NCCL's kernels. No mixture of experts. Collectives of a plan that are all
 * of one group go into the plan's CUDA graph, but for sends, receives and barriers, which are
 *        launched one by one, as are all while a trace is recorded. A rank that runs a plan meets
 *        those that make its calls one by one.
 *
 * Errors. A rank that dies, is stopped, is cut off, leaves, fails, or calls something else than the
 * others breaks the group on all ranks, within a second: the error of their streams names the rank,
 * the call and both sides. One that does not come is named after the timeout. A rank that has left
 * (weir_group_destroy) breaks the group when somebody waits for it. When rank 0 has left, nobody
 * watches the others any longer.
 */
#ifndef WEIR_PROCS_H
#define WEIR_PROCS_H

#include "comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_join_options {
    size_t size;             /* sizeof */
    int rank, ranks;         /* ranks 0: both from the environment */
    const char *store;       /* NULL: from the environment */
    const char *token;       /* NULL: from the environment */
    const char *engine;      /* "shm", "mpi" or "nccl"; NULL: WEIR_ENGINE, else what fits */
    const char *name;        /* for messages, at most 47 bytes; NULL: "world" */
    int64_t timeout_ns;      /* of calls, as for weir_group_options */
    int64_t join_timeout_ns; /* for all ranks to come; 0: 60 s */
    weir_comm_mode mode;
} weir_join_options;

/* Waits for all ranks. While the group exists its device cannot be closed. `options` may be NULL.
 * returns  WEIR_EINVAL, WEIR_ERANGE for what options or the environment say; WEIR_ETIMEDOUT naming
 *          ranks that did not come; WEIR_EUNAVAILABLE if rank 0 cannot be reached or ranks are not
 *          on one host; WEIR_EUNSUPPORTED for a device whose ranks cannot be processes, and an
 *          engine that there is not.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_group_join(weir_device *device,
                                                   const weir_join_options *options,
                                                   weir_group **out);
/* A group of some ranks of `group`: ranks[i] becomes rank i. All of them call it with the same
 * ranks, and no others; it waits for them. The k-th call with the same ranks meets the k-th of the
 * others. The new group works beside the old one, also after that was destroyed.
 * returns  WEIR_EUNSUPPORTED for a group within one process; WEIR_ERANGE, WEIR_EINVAL for ranks
 *          that are none, come twice or do not have this process among them; else as
 *          weir_group_join.
 * threads  any, one call at a time per group. */
WEIR_API WEIR_MUST_USE weir_status weir_group_split(weir_group *group, const int *ranks, int nranks,
                                                    const weir_group_options *options,
                                                    weir_group **out);
/* This process's rank; NULL for a group within one process. */
WEIR_API weir_rank *weir_group_self(weir_group *group);
/* What connects its ranks: "local", or an engine's name. */
WEIR_API const char *weir_group_engine(const weir_group *group);
/* One row per engine between processes, for listings. `promise` says whom it joins and whether
 * results are the same bits on every rank; `reason` is NULL where it can be used here, else why
 * not. */
typedef struct weir_engine_info {
    const char *name;
    const char *promise;
    const char *reason;
} weir_engine_info;
/* Fills `out` with at most `max` rows and returns how many there are. May load libraries.
 * threads  any. */
WEIR_API size_t weir_engine_list(weir_engine_info *out, size_t size, size_t max);
/* What to add to this process's clock (CLOCK_MONOTONIC) to have that of rank 0; 0 for a group
 * within one process. */
WEIR_API int64_t weir_group_clock_offset_ns(weir_group *group);

#ifdef __cplusplus
}
#endif
#endif
