/* Inside libhccl: a communicator is ranks that share a piece of memory.
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

enum { MAX_RANKS = 64, SLOT = 1 << 20 };

/* From one rank to another. Each counter has one writer. */
struct pair {
    _Alignas(64) _Atomic uint64_t put;
    _Alignas(64) _Atomic uint64_t taken;
};

/* Where a member of a smaller communicator says how the others find it. */
enum { MAX_SUBS = 32, ROOT_BYTES = 64 };
struct sub {
    _Atomic uint32_t state;   /* SUB_FREE, SUB_WRITTEN, SUB_READY */
    _Atomic uint32_t readers; /* members that have still to read it */
    uint64_t id;
    char root[ROOT_BYTES]; /* the beginning of its HcclRootInfo; the rest is 0 */
};

/* The beginning of the shared memory. Slots follow. */
struct shared {
    _Atomic uint32_t nranks;
    _Atomic uint32_t broken; /* 1 + the rank that broke it */
    char reason[256];        /* written before `broken` */
    _Atomic uint32_t joined[MAX_RANKS];
    _Atomic uint32_t left;
    struct sub subs[MAX_SUBS];
    struct pair pairs[MAX_RANKS][MAX_RANKS];
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
    char *staging; /* copies of the operands, where the host cannot read the device's */
    uint64_t began_ns;
    struct weir_cann_deferred *deferred;
    struct job *next;
};

struct comm {
    uint32_t rank, nranks;
    char name[128];
    struct shared *shared;
    char *slots;
    size_t mapped;
    int fd;
    weir_group *group; /* all ranks are of this process: then weir does it all */
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
char *comm_slot(struct comm *comm, uint32_t from, uint32_t to);

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

/* What weir has within one process. */
enum local_kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    ALL_TO_ALL,
    SEND,
    RECV,
    BARRIER
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
HcclResult call_local(const struct call *call, enum local_kind kind, uint32_t peer);
HcclResult call_not_local(const struct call *call);

/* ---- collective.c ---- */

/* Reduces own bytes and the inbox in the order of the ranks, so that every rank has the same bits.
 */
void finish_reduce(struct job *job);

/* ---- reduce.c ---- */

size_t type_size(HcclDataType type);
/* into[i] = into[i] op from[i] */
void reduce_into(void *into, const void *from, uint64_t count, HcclDataType type, HcclReduceOp op);

#endif
