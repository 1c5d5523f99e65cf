/* Inside libhccl: a communicator is ranks that share a piece of memory, or a group of weir: of one
 * process (weir_group_create), or of processes of several hosts (weir_group_join). In memory:
 *
 * Every collective is a set of messages between pairs of ranks. A pair has a slot per direction,
 * and two counters: bytes that the sender has put there, and bytes that the receiver has taken. A
 * message larger than the slot goes through it in pieces. So nobody waits for a third, and what a
 * rank lacks is always the bytes of one other, whom a timeout names.
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
/* Bytes of a slot: of many ranks less, since there is one for each pair. */
enum { SLOT = 1 << 20, SLOT_OF_MANY = 1 << 16, MANY_RANKS = 64 };

/* What HcclRootInfo begins with: where the memory is, and where ranks of other hosts knock. */
struct root {
    char magic[24];
    int32_t pid, fd;
    uint64_t id;
    char boot[40]; /* of the host: the number of its start, and of its set of process numbers */
    uint64_t processes;
    char engine[8];   /* of weir, if the root was told one: all ranks meet by weir_group_join */
    char address[64]; /* of the root's host; empty if it has none */
    uint16_t store;   /* port where rank 0 will listen */
    uint16_t door;    /* port where ranks of other hosts knock */
    int32_t store_fd, door_fd;
    char token[36];
};
enum { ROOT_BYTES = 256 };
_Static_assert(sizeof(struct root) <= ROOT_BYTES, "a smaller communicator's root is handed on");

/* From one rank to another. Each counter has one writer. */
struct pair {
    _Alignas(64) _Atomic uint64_t put;
    _Alignas(64) _Atomic uint64_t taken;
};

/* Where a member of a smaller communicator says how the others find it. */
enum { MAX_SUBS = 32 };
struct sub {
    _Atomic uint32_t state;   /* SUB_FREE, SUB_WRITTEN, SUB_READY */
    _Atomic uint32_t readers; /* members that have still to read it */
    uint64_t id;
    char root[ROOT_BYTES]; /* the beginning of its HcclRootInfo; the rest is 0 */
};

/* The beginning of the shared memory. The pairs follow, then their slots: by sender, by receiver.
 */
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
    char *bytes; /* of the host, or of a device whose memory the host reads */
    uint64_t size, done;
    bool sends;
};

struct job {
    struct comm *comm;
    const char *name;
    struct part *parts;
    int nparts;
    /* When all messages are there: */
    void (*finish)(struct job *job);
    char *send, *recv; /* where the host has the operands */
    char *inbox;       /* messages of the others, one after the other by rank */
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
    size_t slot; /* bytes of each */
    size_t mapped;
    int fd;
    weir_group *group;   /* ranks of this process, or of several hosts: then weir does it all */
    weir_device *device; /* of this rank, where they are of several hosts; else NULL */
    int64_t timeout_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct job *first, **last; /* that streams have reached */
    bool stops;
    _Atomic HcclResult error;
};

/* ---- comm.c ---- */

/* The communicator, also one that has failed; NULL. `take`: it is no longer found. */
struct comm *comm_find(HcclComm handle, bool take);
HcclResult comm_get(const char *function, HcclComm handle, struct comm **out);
HcclResult hccl_fail(const char *function, HcclResult result, const char *format, ...)
    WEIR_PRINTF(3, 4);
/* Everybody's later calls fail with it. */
void comm_break(struct comm *comm, const char *reason);
/* Seconds that a variable says, in nanoseconds. */
int64_t seconds_of(const char *variable, int64_t otherwise);
/* A smaller communicator of one whose ranks are of several hosts: rank ids[rank] is this one. */
HcclResult comm_split(const char *function, struct comm *comm, uint64_t id, uint32_t nranks,
                      const uint32_t *ids, uint32_t rank, HcclComm *out);

/* ---- join.c: how ranks find each other ---- */

HcclResult root_read(const char *function, const HcclRootInfo *info, struct root *root);
/* Waits for all ranks. Those of one host meet in memory; with one from elsewhere, or if the root
 * was told an engine, they all meet by weir_group_join. */
HcclResult join_ranks(const char *function, const struct root *root, struct comm *comm);
/* Ranks that are threads of one process: each leaves once, the last takes the group along. */
void join_leave_local(struct comm *comm);
/* Lets go of the shared memory, if there is any. */
void join_unmap(struct comm *comm);

/* ---- hosts.c: ranks of several hosts ---- */

#define ELSEWHERE UINT32_MAX

/* Fills in what ranks of other hosts need. A host without a network leaves it empty. */
void hosts_offer(struct root *root);
bool hosts_is_here(const struct root *root);
/* The root's process: lets in who has knocked. */
void hosts_answer(const struct root *root, struct shared *shared);
/* A rank of another host. Waits until the root has answered. */
HcclResult hosts_knock(const char *function, const struct root *root, const struct comm *comm);
/* All ranks meet by weir_group_join. */
HcclResult hosts_join(const char *function, const struct root *root, struct comm *comm);
/* The sockets of the root's process. */
void hosts_close(const struct root *root);

/* ---- engine.c ---- */

/* The thread of a communicator. */
void *engine_run(void *comm);
/* A stream has reached the job. */
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
/* Room for `nparts` messages, and for an inbox of one message of each rank. NULL with the error
 * said. */
struct job *job_new(struct call *call, int nparts, uint64_t inbox);
void job_add(struct job *job, bool sends, uint32_t peer, char *bytes, uint64_t size);
/* Takes the job over. */
HcclResult call_queue(struct call *call, struct job *job);

/* ---- group.c: calls on weir's group ---- */

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

/* Reduces own bytes and the inbox in the order of the ranks, so that every rank has the same bits.
 */
void finish_reduce(struct job *job);

/* ---- reduce.c ---- */

size_t type_size(HcclDataType type);
/* into[i] = into[i] op from[i] */
void reduce_into(void *into, const void *from, uint64_t count, HcclDataType type, HcclReduceOp op);

#endif
