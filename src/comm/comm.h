/* Groups of ranks inside the library: which ranks meet, and what a transport does.
 *
 * This file does not depend on streams, devices or threads. A driver has a *participant* for each
 * stream. When a collective is at the head of the stream, the participant arrives at the rendezvous
 * that is identified by the call's channel and number:
 *
 *   AWAY ─arrive─▶ WAITS ─┐              other ranks are missing; the driver parks the stream
 *     │             │     └─▶ RUNS       all ranks have arrived: the part may run
 *     ├────────────▶ LAST ─▶ RUNS        this arrival was the last one: the driver opens the
 *     │                                  rendezvous, or runs all parts itself and closes it
 *     └─▶ REFUSED                        the group is broken, or breaks at this arrival
 *   RUNS ─depart─▶ LEAVES ─▶ OVER        its part has run; peers may still read its memory
 *     ▲                │
 *     └────────────────┘                 call in rounds: all ranks have done the first round
 *
 * A participant that must wait is woken once, by participant->wake, from the thread that ends the
 * wait. When arrive or depart returns that it must wait, the waker owns the stream. A rendezvous is
 * gathered when all its ranks have arrived. Before that, no rank accesses another rank's memory,
 * and breaking the group releases all participants at once. After that, every part runs, because
 * parts wait for nothing, and the rendezvous completes. So breaking a group does not affect
 * gathered rendezvous.
 *
 * Locks: group->lock is innermost; no participant is woken under it.
 */
#ifndef WEIR_COMM_COMM_H
#define WEIR_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/lock.h"
#include "comm/ranks.h"
#include "comm/shown.h"
#include "weir/comm.h"

#define WEIR__GROUP_NAME 48
/* The id of a rank is its group's number, then its index in the group in this many bits. */
enum { WEIR__RANK_BITS = 12 };
_Static_assert(WEIR_MAX_RANKS <= 1 << WEIR__RANK_BITS, "an id has room for the rank");
#define WEIR__CHANNEL_NAME 80
#define WEIR__FEW_RANKS 64

struct weir_block;

struct weir_rank {
    weir_group *group;
    weir_device *dev; /* not used in this folder */
    int index;
    uint64_t id;     /* unique for the life of the process: graphs name ranks by it */
    char device[96]; /* the device's label, for messages */
};

/* A channel: calls that are numbered together. They are the calls of the whole group, of one pair,
 * or of one name. */
struct weir__channel {
    struct weir__channel *next;
    weir_group *group;
    struct weir__ranks members;
    int nmembers;
    char name[WEIR__CHANNEL_NAME]; /* "" for the whole group's */
    _Alignas(WEIR__LINE) struct weir__caller {
        _Atomic uint64_t calls; /* made so far; written under the lock of the rank's device, read
                                 * by any thread */
        /* Under that lock: the queue of the latest calls, NULL if not known, and the number of the
         * first call on it. */
        const void *on;
        uint64_t on_since;
    } callers[]; /* by rank */
};

/* A rank's description of its call. Ranks that meet must agree on everything but `label` and sizes
 * of -1. Counts must fit pairwise. */
struct weir__offer {
    const char *label;  /* the operator, for messages */
    const char *what;   /* the operator that must be equal; Send and Recv have the same word */
    const char *reduce; /* "" if nothing is reduced */
    int root;           /* -1 if there is none */
    weir_dtype dtype;
    int ndim; /* -1 if shapes do not matter */
    int64_t shape[WEIR_MAX_DIMS];
    /* Offsets in bytes, from the struct weir__meet, of two arrays: the rows that are sent to each
     * rank and received from each rank. 0 if there are none. */
    uint32_t send, recv;
};

/* The first bytes of a collective's arguments. */
struct weir__meet {
    struct weir__channel *channel;
    uint64_t call;  /* its number on the channel; in a plan: relative to the run's first call */
    uint32_t place; /* in a plan: the index of the ticket that has the number of that first call */
    int rank;
    bool timed;
    bool pulls;  /* as in its group */
    bool placed; /* peers can see the call already: weir__transport.at_once has shown it */
    /* In a group that has `rounds`, the part runs twice, as weir_block.phase 0 and 1. The second
     * round starts when the first has completed on all ranks. */
    bool in_rounds;
    struct weir__offer offer;
    /* For peers in other processes: the size of the arguments, including this struct, and a
     * function that writes which memory they may read (at most WEIR__CODE_SHOWN pieces). NULL:
     * none. */
    uint32_t args_size;
    int (*shown)(const void *args, struct weir__code_shown *shown);
    /* Writes which bytes of the first piece that `shower` shows are read by the part of `reader`.
     * Both are complete arguments. NULL: all bytes. */
    void (*wanted)(const void *reader, const void *shower, int64_t *begin, int64_t *bytes);
    /* Changes the addresses of input and result; NULL: they cannot be changed. */
    void (*aim)(void *args, const void *in, void *out);
    /* Describes the call for communication libraries. NULL, or false: no library has such a
     * call. */
    bool (*spell)(const void *args, struct weir__verb *verb);
};

static inline const int64_t *weir__meet_counts(const struct weir__meet *meet, uint32_t at)
{
    return (const int64_t *)(const void *)((const char *)meet + at);
}

/* The participants and arguments at a rendezvous, by rank. */
struct weir__rank_slots {
    struct weir__rank_slots *next;           /* the list of unused slots */
    struct weir__participant **participants; /* NULL: a rank of another process */
    const void **args;                       /* what kernels see as weir_block.peers */
};

struct weir__rendezvous {
    struct weir__rendezvous *next;
    struct weir__channel *channel;
    uint64_t call;
    struct weir__ranks arrived, left;
    int narrived, nleft; /* the sizes of these sets; only in local.c */
    bool gathered;
    bool failed;                             /* a part failed */
    uint64_t since_ns;                       /* time of the first arrival; 0: no timeout */
    void *more;                              /* owned by the transport */
    struct weir__participant **participants; /* as in weir__rank_slots */
    const void **args;
};

enum weir__participant_state {
    WEIR__PARTICIPANT_AWAY,
    WEIR__PARTICIPANT_WAITS,
    WEIR__PARTICIPANT_LAST,
    WEIR__PARTICIPANT_RUNS,
    WEIR__PARTICIPANT_LEAVES,
    WEIR__PARTICIPANT_OVER,
    WEIR__PARTICIPANT_REFUSED,
};

struct weir__participant {
    void (*wake)(struct weir__participant *participant);
    enum weir__participant_state state;
    int rank;
    struct weir__rendezvous *in; /* from LAST or RUNS on */
    bool failed;                 /* OVER, but a part failed; group->reason has the text */
    int round;                   /* of a call in rounds: the round that it RUNS or LEAVES */
    struct weir__rendezvous own; /* used if this participant is the first to arrive */
    /* The rendezvous's slots in a group of one process with at most WEIR__FEW_RANKS ranks. */
    struct weir__participant *few_participants[WEIR__FEW_RANKS];
    const void *few_args[WEIR__FEW_RANKS];
    struct weir__participant *woken; /* the next participant in a list of those to be woken */
};

/* A short call that a rank makes again and again, with all data that a transport needs to run
 * it. */
struct weir__again {
    weir_group *group;
    struct weir__meet *meet;                                             /* the arguments */
    weir_status (*fn)(const void *args, const struct weir_block *block); /* one block */
    void *local;                                                         /* weir_block.local */
    /* While *wanted equals `wanted_as`, another thread waits for a lock that the caller holds: then
     * the caller must not linger. */
    const _Atomic uint32_t *wanted;
    uint32_t wanted_as;
    /* Owned by the transport. */
    struct weir__visit *visit; /* NULL at first */
    bool never;                /* at_once cannot run this call */
};

static inline bool weir__again_is_in_the_way(const struct weir__again *again)
{
    return atomic_load_explicit(again->wanted, memory_order_relaxed) == again->wanted_as;
}

enum weir__at_once {
    WEIR__AT_ONCE_NOT,   /* nothing was done */
    WEIR__AT_ONCE_SHOWN, /* peers can see the call, but some have not arrived or made another call:
                          * the caller must queue it, with meet->placed */
    WEIR__AT_ONCE_DONE,
};

/* How ranks reach each other. With weir__local_transport all ranks are in this process: rendezvous
 * are in its memory, and kernels read their peers' arguments. With weir__procs_transport (procs/)
 * each rank is a process. Arrive and depart never block. The owner of the stream calls them; a
 * participant that must wait continues through participant->wake. */
struct weir__transport {
    const char *name;
    /* Called once each: the first and the last call for a group. */
    weir_status (*open)(weir_group *group);
    void (*close)(weir_group *group);
    /* Call number `call` of the participant is at the head of its stream. Sets participant->state
     * to WAITS, LAST, RUNS or REFUSED. False if it is WAITS. */
    bool (*arrive)(struct weir__participant *participant, const struct weir__meet *meet,
                   uint64_t call);
    /* Called after LAST: all participants become RUNS, this one too. This and close_rendezvous are
     * NULL if no participant ever becomes LAST. */
    void (*open_rendezvous)(struct weir__participant *participant);
    /* Called instead after LAST if the caller has run all parts. All participants become OVER, this
     * one too. Returns the others, linked by `woken`: the caller owns their streams, and `wake` is
     * not called. `text` is the error of the part of `rank`, NULL if there is none. */
    struct weir__participant *(*close_rendezvous)(struct weir__participant *participant, int rank,
                                                  weir_status status, const char *text);
    /* Called after RUNS, when the participant's part has run. False if it must wait for other
     * ranks. */
    bool (*depart)(struct weir__participant *participant, weir_status status, const char *text);
    /* Runs the whole call on the calling thread. The stream's queue must be empty, and nothing may
     * be added to it until this returns. NULL: not supported. */
    enum weir__at_once (*at_once)(struct weir__again *again, uint64_t call);
    void (*forget)(struct weir__again *again); /* frees the transport's fields */
    /* Breaks the group; the first reason stays. */
    void (*abort)(weir_group *group, weir_status status, const char *reason);
};
extern const struct weir__transport weir__local_transport;

/* Fields with different writers are on different cache lines: hosts make calls while workers end
 * earlier ones. */
struct weir_group {
    const struct weir__transport *transport;
    char name[WEIR__GROUP_NAME];
    int nranks;
    weir_comm_mode mode;
    bool pulls;     /* parts read other ranks' memory and write only their own */
    unsigned share; /* of processes on a host: each rank's equal share of the cores; 0: no limit */
    bool rounds;    /* calls may have two rounds */
    bool twins;     /* several ranks are on the same device */
    struct weir__procs_group *procs; /* not NULL: ranks are processes */
    int64_t timeout_ns;              /* negative: no timeout */
    /* On a timeout: writes which streams wait for which. May be NULL. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    weir_group *next_known;      /* group.c's list of all groups */
    struct weir__channel *whole; /* of all ranks; made with the group */
    /* Set under the device's lock. NULL until a short call was made twice (ops/call/again.c). */
    struct weir__agains *_Atomic agains;
    void (*free_agains)(weir_group *group);
    _Atomic bool broken;
    weir_status status; /* both are set once, before `broken` */
    char reason[800];
    /* References by queued calls and plans: taken so far, and dropped so far. */
    _Alignas(WEIR__LINE) _Atomic uint64_t held;
    _Alignas(WEIR__LINE) _Atomic uint64_t dropped;
    _Alignas(WEIR__LINE) struct weir__spin lock; /* guards the fields below, and breaking */
    struct weir__rendezvous *rendezvous;
    struct weir__channel *channels;       /* only grows */
    struct weir__rank_slots *spare_slots; /* local.c: for rendezvous with many ranks */
    /* The thread that checks for late ranks (timer.c). */
    pthread_t timer;
    bool timed;
    _Atomic uint32_t stop;
    _Alignas(WEIR__LINE) struct weir_rank ranks[];
};

/* ---- group.c ---- */

/* returns  WEIR_ERANGE or WEIR_EINVAL naming what is wrong. */
weir_status weir__group_check_options(int nranks, const weir_group_options *options);
/* Makes a group without devices: the caller fills ranks[i].dev (NULL for ranks of other processes)
 * and ranks[i].device. Takes ownership of `procs`, if it is not NULL, on success. */
weir_status weir__group_make(int nranks, const weir_group_options *options,
                             const struct weir__transport *transport,
                             struct weir__procs_group *procs, weir_group **out);
/* returns  WEIR_EBUSY as weir_group_destroy. */
weir_status weir__group_free(weir_group *group);

/* Returns the rank of that id and takes a reference to its group; NULL if the group was
 * destroyed. */
weir_rank *weir__rank_hold(uint64_t id);
void weir__group_hold(weir_group *group);
void weir__group_drop(weir_group *group);

/* Calls `fn` for every group that is completely made. `fn` is called under a lock: it must take no
 * lock and must not wait. */
void weir__groups_each(void (*fn)(const weir_group *group, void *user), void *user);
/* Calls `fn` for every participant of any group that waits for its peers to arrive or to run their
 * parts; `missing` are those peers. `fn` is called under locks: it must take no lock and must not
 * wait. */
void weir__groups_each_participant(void (*fn)(const struct weir__participant *participant,
                                              const weir_group *group,
                                              const struct weir__ranks *missing, void *user),
                                   void *user);

/* Returns WEIR_OK, or WEIR_ESTATE with the reason if the group is broken. */
weir_status weir__group_check(const weir_group *group);

/* True if the k-th call of the rank, counted from 0, has been queued. */
static inline bool weir__channel_called(const struct weir__channel *channel, int rank, uint64_t k)
{
    return atomic_load_explicit(&channel->callers[rank].calls, memory_order_acquire) > k;
}
/* Counts calls of a rank that were queued on the queue `on`; NULL: on several queues. Call it under
 * the lock of the rank's device. */
void weir__channel_count(struct weir__channel *channel, int rank, uint64_t calls, const void *on);
/* Returns a rank whose call must meet the next call of `rank` and is queued ahead of it on the same
 * queue `on`: the two calls would deadlock. Returns -1 if no such rank is known. Call it under the
 * lock of the rank's device. */
int weir__channel_blocker(const struct weir__channel *channel, int rank, const void *on);

/* Returns the channel of that name between the ranks of `members`; NULL when out of memory. */
struct weir__channel *weir__group_channel(weir_group *group, const char *name,
                                          const struct weir__ranks *members);
/* Returns the channel of messages from one rank to another; NULL when out of memory. */
struct weir__channel *weir__pair_channel(weir_group *group, int from, int to);

/* ---- offer.c ---- */

/* True if two ranks' offers fit; else `text` describes both and the difference. */
bool weir__offers_fit(const struct weir__meet *a, const struct weir__meet *b, char *text,
                      size_t size);
/* "AllReduce (call 3 of group 'tp')" */
void weir__call_text(const struct weir__meet *meet, uint64_t call, char *text, size_t size);

/* ---- timer.c ---- */

weir_status weir__timer_start(weir_group *group);
void weir__timer_stop(weir_group *group);

/* ---- local.c ---- */

/* The first returns true if a rendezvous is overdue at that time. The second breaks the group
 * because of it and appends `more`, which may be NULL, to the reason. */
bool weir__local_overdue(weir_group *group, uint64_t now_ns);
void weir__local_expire(weir_group *group, uint64_t now_ns, const char *more);

#endif
