/* Groups whose ranks are processes.
 *
 * weir_group_join makes a group of which this process is one rank, on one device. All collectives
 * of weir/comm.h work on it as on a group within a process: they are queued on streams, or captured
 * into graphs, and complete when all ranks' parts have run. weir_group_self is the rank to call
 * them with; a process calls for its own rank only.
 *
 * The rank and the number of ranks come from the options, else from the environment: WEIR_RANK and
 * WEIR_RANKS (weir launch), OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), RANK and WORLD_SIZE
 * (torchrun), PMI_RANK and PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID and SLURM_NTASKS.
 *
 * Ranks find each other through the *store*: the option, else WEIR_STORE. It is one of
 *   "HOST:PORT"  Rank 0 listens on that address only. This needs a token (the option, or
 *                WEIR_TOKEN): a secret of 8..63 bytes, the same on all ranks. A connection that
 *                does not prove that it knows it is closed; it is never sent.
 *   "file:PATH"  A file on one host, readable by this user only. Rank 0 writes a port of 127.0.0.1
 *                and a token into it and removes it when all ranks have joined.
 * Without either, weir uses a file in TMPDIR named after the job if the launcher says that all
 * ranks are on one host; else MASTER_ADDR and MASTER_PORT (under torchrun the next port, because
 * torchrun's own store listens on MASTER_PORT).
 *
 * The *engine* connects ranks: the option, else WEIR_ENGINE, else `shm` if all ranks are processes
 * of one host and one user, else `mpi`. With `shm` and `mpi`, sums are added in the order of the
 * ranks and are the same bits on every rank.
 *   shm  Processes map each other's memory to be read and never write to it. Tensors of the pool
 *        that were allocated after the group was made, and temporaries, are read in place; others
 *        are copied first. On `cuda` ranks share GPU memory through CUDA IPC: between GPUs with
 *        peer access, or on one GPU that several ranks use.
 *   mpi  Many hosts, by MPI 5's standard ABI (libmpi_abi.so.1: MPICH 5) or Open MPI 4 and 5
 *        (libmpi.so.40), found at run time; WEIR_MPI names another file. All ranks are started by
 *        the launcher of that MPI. A program that has called MPI_Init_thread, with
 *        MPI_THREAD_MULTIPLE, keeps its MPI and finalizes it after its groups are destroyed; else
 *        weir initializes MPI and finalizes it when the process exits. Ranks send each other the
 *        input that their parts need. A part that fails on one rank breaks the group, but other
 *        ranks may already have completed that call. What happens to a job with a dead rank also
 *        depends on the launcher: mpirun --with-ft ulfm (Open MPI 5) and mpiexec
 *        -disable-auto-cleanup (MPICH) leave the other ranks alone.
 *   nccl Only on `cuda` and only on request: ranks of one host with a GPU each, by NCCL 2.18 or
 *        later (libnccl.so.2, or WEIR_LIBNCCL). NCCL chooses the order of sums: bits may differ
 *        from run to run and from those of shm. NCCL's kernels have at most as many CTAs as the
 *        device's limit of vector cores when the group is joined. Mixture-of-experts calls are
 *        refused. If all collectives of a plan are of one group, they go into the plan's CUDA
 *        graph, also while a trace is recorded. Sends, receives and barriers are launched one by
 *        one. A rank that runs a plan meets ranks that make the same calls one by one.
 * A group has at most WEIR_MAX_RANKS ranks; on `cuda` with `shm` or `mpi` at most 64, whose memory
 * a kernel can find.
 *
 * Errors. A rank that dies, is stopped, loses its connection, fails, or makes another call than its
 * peers breaks the group on all ranks within a second. The error on their streams names the rank,
 * the call and both sides. A rank that does not arrive is named after the timeout. A rank that has
 * left (weir_group_destroy) breaks the group as soon as another rank waits for it. Groups without a
 * rank that is gone go on, and others can be split from them, also when rank 0, which joined the
 * ranks, is gone: the lowest rank that is left takes over. For that every rank listens at the
 * address by which it reached rank 0, on a port that the system chooses, for ranks that know the
 * token. With WEIR_STANDBY=0 it does not, and then nothing watches ranks of other hosts when rank 0
 * is gone.
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
    const char *engine;      /* "shm", "mpi" or "nccl"; NULL: WEIR_ENGINE, else by the rule above */
    const char *name;        /* for messages, at most 47 bytes; NULL: "world" */
    int64_t timeout_ns;      /* of each call: see weir_group_options */
    int64_t join_timeout_ns; /* until all ranks have joined; 0: 60 s */
    weir_comm_mode mode;
} weir_join_options;

/* Waits for all ranks. While the group exists its device cannot be closed. `options` may be NULL.
 * returns  WEIR_EINVAL or WEIR_ERANGE for a bad value in the options or the environment, and
 *          WEIR_ERANGE for more ranks than the engine can have on that device;
 *          WEIR_ETIMEDOUT naming the ranks that did not join; WEIR_EUNAVAILABLE if rank 0 cannot be
 *          reached, or the engine needs one host and the ranks are on several; WEIR_EUNSUPPORTED
 *          for an unknown engine, or a device whose ranks cannot be processes.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_group_join(weir_device *device,
                                                   const weir_join_options *options,
                                                   weir_group **out);
/* A group of some ranks of `group`: ranks[i] becomes rank i. Exactly those ranks call it, all with
 * the same list; the call waits for all of them. The k-th call with a list meets the other ranks'
 * k-th call with the same list. The new group is independent of `group` and may outlive it.
 * returns  WEIR_EUNSUPPORTED for a group within one process; WEIR_ERANGE for a number that is not a
 *          rank of `group`; WEIR_EINVAL for a rank listed twice, or a list without this process's
 *          rank; else as weir_group_join.
 * threads  any, one call at a time per group. */
WEIR_API WEIR_MUST_USE weir_status weir_group_split(weir_group *group, const int *ranks, int nranks,
                                                    const weir_group_options *options,
                                                    weir_group **out);
/* This process's rank; NULL for a group within one process. */
WEIR_API weir_rank *weir_group_self(weir_group *group);
/* What connects the group's ranks: "local", or an engine's name. */
WEIR_API const char *weir_group_engine(const weir_group *group);
/* One row per engine between processes, for listings. `promise` says which ranks it can connect and
 * whether results are the same bits on every rank. `reason` says why it cannot be used on this
 * machine; NULL if it can. */
typedef struct weir_engine_info {
    const char *name;
    const char *promise;
    const char *reason;
} weir_engine_info;
/* Fills `out` with at most `max` rows and returns how many there are. May load libraries.
 * threads  any. */
WEIR_API size_t weir_engine_list(weir_engine_info *out, size_t size, size_t max);
/* Whether a message from rank `source` has arrived for which no receive is queued: the next
 * weir_recv from that rank does not wait. A message arrives after the work queued before it on the
 * sender's stream.
 * returns  WEIR_EUNSUPPORTED for an engine other than `shm`, or a group within one process;
 *          WEIR_ERANGE for a rank that is no peer; the error that broke the group, if it is broken.
 * threads  any, but not while another queues a receive of this rank from `source`. */
WEIR_API WEIR_MUST_USE weir_status weir_recv_ready(weir_rank *self, int source, bool *ready);
/* The offset of rank 0's clock to this process's (both CLOCK_MONOTONIC): add it to a local time to
 * get rank 0's. 0 for a group within one process. */
WEIR_API int64_t weir_group_clock_offset_ns(weir_group *group);

#ifdef __cplusplus
}
#endif
#endif
