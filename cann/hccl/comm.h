/* The internals of libhccl. A communicator is either a set of ranks that share memory (processes of
 * one host), or a group of weir: within one process (weir_group_create), or of processes on several
 * hosts (weir_group_join). With shared memory:
 *
 * Every collective is a set of messages between pairs of ranks. A pair has one slot per direction
 * and two counters: bytes that the sender has written, and bytes that the receiver has read. A
 * message larger than the slot passes through it in pieces. So a rank never waits for a third one,
 * and a timeout can name the ranks whose bytes are missing.
 *
 * One thread per communicator moves the bytes of all its jobs. Jobs of a communicator begin in the
 * order in which streams reach them; messages of a pair are matched in that order.
 */
#ifndef WEIR_HCCL_COMM_H
#define WEIR_HCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "acl/acl_rt.h"
#include "cann.h"
#include "hccl/hccl.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_RANKS = WEIR_MAX_RANKS };
/* Bytes of a slot. It is smaller with many ranks, since there is one slot per ordered pair. */
enum { SLOT = 1 << 20, SLOT_OF_MANY = 1 << 16, MANY_RANKS = 64 };

/* The start of HcclRootInfo: identifies the shared memory, and the socket to which ranks of other
 * hosts connect. */
struct root {
    char magic[24];
    int32_t pid, fd;
    uint64_t id;
    char boot[40];      /* the host's boot id */
    uint64_t processes; /* the host's pid namespace */
    char engine[8];   /* weir's engine, if one was requested: then all ranks use weir_group_join */
    char address[64]; /* of the root's host; empty if it has none */
    uint16_t store;   /* port where rank 0 will listen */
    uint16_t door;    /* port to which ranks of other hosts connect */
    int32_t store_fd, door_fd;
    char token[36];
};
enum { ROOT_BYTES = 256 };
_Static_assert(sizeof(struct root) <= ROOT_BYTES, "struct sub must be able to hold a root");

/* The counters of one direction. Each has one writer. */
struct pair {
    _Alignas(64) _Atomic uint64_t put;
    _Alignas(64) _Atomic uint64_t taken;
};

/* An entry by which one member of a sub-communicator sends its root information to the others. */
enum { MAX_SUBS = 32 };
struct sub {
    _Atomic uint32_t state;   /* SUB_FREE, SUB_WRITTEN, SUB_READY */
    _Atomic uint32_t readers; /* members that have not read it yet */
    uint64_t id;
    char root[ROOT_BYTES]; /* the start of the HcclRootInfo; the rest is 0 */
};

/* The header of the shared memory. The pairs follow, then their slots: by sender, then receiver. */
struct shared {
    _Alignas(64) _Atomic uint32_t nranks;
    _Atomic uint32_t broken;            /* 1 + the rank that broke it */
    char reason[256];                   /* written before `broken` */
    _Atomic uint32_t joined[MAX_RANKS]; /* process numbers, or ELSEWHERE */
    _Atomic uint32_t left;
    struct sub subs[MAX_SUBS];
};

/* A message of a job. */
struct part {
    int peer;
    char *bytes; /* host memory, or device memory that the host can read */
    uint64_t size, done;
    bool sends;
};

struct job {
    struct comm *comm;
    const char *name;
    struct part *parts;
    int nparts;
    /* Runs when all messages have arrived. It uses the fields below. */
    void (*finish)(struct job *job);
    char *send, *recv; /* the operands, or their copies on the host */
    char *inbox;       /* messages of the other ranks, one after the other by rank */
    uint64_t bytes;    /* of one message in the inbox */
    uint64_t count;
    HcclDataType type;
    HcclReduceOp op;
    uint64_t began_ns;
    struct weir_cann_deferred *deferred;
    struct job *next;
};

struct comm {
    uint32_t rank, nranks;
    char name[128];
    struct shared *shared;
    struct pair *pairs;
    char *slots;
    size_t slot; /* bytes of each slot */
    size_t mapped;
    int fd;
    weir_group *group;   /* not NULL if ranks are in one process or on several hosts */
    weir_device *device; /* this rank's, if ranks are on several hosts; else NULL */
    int64_t timeout_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job *first, **last; /* the jobs that streams have reached */
    bool stops;
    _Atomic HcclResult error;
};

/* ---- comm.c ---- */

/* Returns the communicator, even a broken one, or NULL. `take` also invalidates the handle. */
struct comm *comm_find(HcclComm handle, bool take);
HcclResult comm_get(const char *function, HcclComm handle, struct comm **out);
HcclResult hccl_fail(const char *function, HcclResult result, const char *format, ...)
    WEIR_PRINTF(3, 4);
/* Marks the communicator as broken: later calls of all its ranks fail with the reason. */
void comm_break(struct comm *comm, const char *reason);
/* Returns the seconds in an environment variable, converted to nanoseconds. */
int64_t seconds_of(const char *variable, int64_t otherwise);
/* Makes a sub-communicator of one whose ranks are on several hosts. This rank is ids[rank]. */
HcclResult comm_split(const char *function, struct comm *comm, uint64_t id, uint32_t nranks,
                      const uint32_t *ids, uint32_t rank, HcclComm *out);

/* ---- join.c: how ranks find each other ---- */

HcclResult root_read(const char *function, const HcclRootInfo *info, struct root *root);
/* Waits for all ranks. Ranks on one host meet in shared memory. If a rank is on another host, or
 * the root names an engine, all of them meet by weir_group_join. */
HcclResult join_ranks(const char *function, const struct root *root, struct comm *comm);
/* For ranks that are threads of one process: each rank calls it once, the last frees the group. */
void join_leave_local(struct comm *comm);
/* Unmaps the shared memory, if there is any. */
void join_unmap(struct comm *comm);

/* ---- hosts.c: ranks on several hosts ---- */

#define ELSEWHERE UINT32_MAX

/* Fills in the fields that ranks on other hosts need; leaves them empty without a network. */
void hosts_offer(struct root *root);
/* True if the root's process is on this host. */
bool hosts_is_here(const struct root *root);
/* In the root's process: accepts the ranks of other hosts that have connected. */
void hosts_answer(const struct root *root, struct shared *shared);
/* For a rank on another host: connects to the root and waits for its answer. */
HcclResult hosts_knock(const char *function, const struct root *root, const struct comm *comm);
/* Joins all ranks by weir_group_join. */
HcclResult hosts_join(const char *function, const struct root *root, struct comm *comm);
/* Closes the sockets of the root's process. */
void hosts_close(const struct root *root);

/* ---- engine.c ---- */

/* The main function of a communicator's thread. */
void *engine_run(void *comm);
/* Called when a stream reaches the job. */
void engine_begin(void *job, struct weir_cann_deferred *deferred);
void job_free(void *job);

/* ---- call.c ---- */

/* One collective call of a rank. */
struct call {
    const char *function;
    struct comm *comm;
    aclrtStream stream;
    const void *send;
    void *recv;
    uint64_t send_bytes, recv_bytes; /* the operands' whole sizes */
    HcclDataType type;
    HcclReduceOp op;
};

/* Fills in the communicator. */
HcclResult call_check(struct call *call, HcclComm comm, bool reduces);
HcclResult call_check_rank(const struct call *call, uint32_t rank, const char *what);
/* Allocates a job with room for `nparts` messages, and for an inbox of one message per rank. Sets
 * the error and returns NULL when out of memory. */
struct job *job_new(struct call *call, int nparts, uint64_t inbox);
void job_add(struct job *job, bool sends, uint32_t peer, char *bytes, uint64_t size);
/* Queues the job and takes ownership of it. */
HcclResult call_queue(struct call *call, struct job *job);

/* ---- group.c: calls by weir's groups ---- */

enum group_kind {
    ALL_REDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    SCATTER,
    ALL_TO_ALL,
    SEND,
    RECV,
    BARRIER
};
HcclResult group_call(const struct call *call, enum group_kind kind, uint32_t peer);
/* Counts and displacements of all ranks, in elements. */
HcclResult group_exchange(const struct call *call, const uint64_t *scounts, const uint64_t *sdispls,
                          const uint64_t *rcounts, const uint64_t *rdispls);
HcclResult group_reduce_scatter(const struct call *call, const uint64_t *counts,
                                const uint64_t *displs);
HcclResult group_batch(const struct call *call, const HcclSendRecvItem *items, uint32_t count);

/* ---- collective.c ---- */

/* Reduces the own operand and the inbox in the order of ranks, so that all ranks get equal bits. */
void finish_reduce(struct job *job);

/* ---- reduce.c ---- */

size_t type_size(HcclDataType type);
/* into[i] = into[i] op from[i] */
void reduce_into(void *into, const void *from, uint64_t count, HcclDataType type, HcclReduceOp op);

#endif
