/* Groups of ranks inside the library: who meets whom, and what a transport does.
 *
 * Nothing here knows of streams, devices or threads. A driver has a *participant* for each stream.
 * When a collective is at the head of the stream, the participant arrives at the rendezvous that
 * the call's channel and number name:
 *
 *   AWAY ─arrive─▶ WAITS ─┐              others are still missing; the driver parks the stream
 *     │             │     └─▶ RUNS       everybody is here: the part may run
 *     ├────────────▶ LAST ─▶ RUNS        this arrival was the last one: the driver opens the
 *     │                                  rendezvous, or runs all parts itself and closes it
 *     └─▶ REFUSED                        the group is broken, or breaks here
 *   RUNS ─depart─▶ LEAVES ─▶ OVER        its part is done; peers may still read its memory
 *     ▲                │
 *     └────────────────┘                 of a call in rounds: all have done the first
 *
 * A participant that was told to wait is woken once, by participant->wake, from whatever thread
 * ends the waiting; from the moment arrive or depart returns "parked" the stream is the waker's. A
 * rendezvous is gathered or it is not. While it is not, nobody touches anybody's memory, and
 * breaking the group releases everyone at once. Once it is gathered, every part runs, since parts
 * wait for nobody, and it ends by itself. So breaking a group does not touch rendezvous that have
 * gathered.
 *
 * Locks: group->lock is innermost; nobody is woken under it.
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
    weir_device *dev; /* for whoever knows devices */
    int index;
    uint64_t id;     /* never used again: graphs name ranks by it */
    char device[96]; /* its label, for messages */
};

/* A channel: calls that are counted together. They are those of the whole group, of one pair, or of
 * one name. */
struct weir__channel {
    struct weir__channel *next;
    weir_group *group;
    struct weir__ranks members;
    int nmembers;
    char name[WEIR__CHANNEL_NAME]; /* "" for the whole group's */
    _Alignas(WEIR__LINE) struct weir__caller {
        _Atomic uint64_t calls; /* made so far: written under the lock of its device, read by
                                 * anybody */
        /* Under that lock: the queue of its latest calls, NULL if not known, and the first. */
        const void *on;
        uint64_t on_since;
    } callers[]; /* by rank */
};

/* What a rank says it is about to do. Ranks that meet must agree on everything but `label`,
 * sizes of -1, and counts, which must fit pairwise. */
struct weir__offer {
    const char *label;  /* the operator, for messages */
    const char *what;   /* what must be the same operator; for Send and Recv the same word */
    const char *reduce; /* "" where nothing is reduced */
    int root;           /* -1 where there is none */
    weir_dtype dtype;
    int ndim; /* -1 where shapes do not matter */
    int64_t shape[WEIR_MAX_DIMS];
    /* Rows for and from each rank: where an array of them is, in bytes from the struct
     * weir__meet; 0 where there are none. */
    uint32_t send, recv;
};

/* The first bytes of a collective's arguments. */
struct weir__meet {
    struct weir__channel *channel;
    uint64_t call;  /* its number on the channel; in a plan: counted from the run's first */
    uint32_t place; /* in a plan: which of the run's tickets that first one is */
    int rank;
    bool timed;
    bool pulls;  /* as its group */
    bool placed; /* peers see it already: weir__transport.at_once has shown it */
    /* In a group that has `rounds` its part runs twice, as weir_block.phase 0 and 1; the second
     * time when the first is over on all ranks. */
    bool in_rounds;
    struct weir__offer offer;
    /* For peers in other processes: bytes of the arguments, this struct among them, and what they
     * show (up to WEIR__CODE_SHOWN); NULL for nothing. */
    uint32_t args_size;
    int (*shown)(const void *args, struct weir__code_shown *shown);
    /* `shower` shows pieces; says which bytes of the first piece the part of `reader` reads. NULL:
     * all that is shown. Both are whole arguments. */
    void (*wanted)(const void *reader, const void *shower, int64_t *begin, int64_t *bytes);
    /* Moves the input and the result to other addresses; NULL: they stay where they are. */
    void (*aim)(void *args, const void *in, void *out);
    /* Describes the call as a communication library would take it. NULL, or it returns false: no
     * library has such a call. */
    bool (*spell)(const void *args, struct weir__verb *verb);
};

static inline const int64_t *weir__meet_counts(const struct weir__meet *meet, uint32_t at)
{
    return (const int64_t *)(const void *)((const char *)meet + at);
}

/* Who is at a rendezvous, by rank. */
struct weir__rank_slots {
    struct weir__rank_slots *next;           /* of those that nobody uses */
    struct weir__participant **participants; /* NULL: of another process */
    const void **args;                       /* what kernels see as weir_block.peers */
};

struct weir__rendezvous {
    struct weir__rendezvous *next;
    struct weir__channel *channel;
    uint64_t call;
    struct weir__ranks arrived, left;
    int narrived, nleft; /* local.c's count of them */
    bool gathered;
    bool failed;                             /* a part failed */
    uint64_t since_ns;                       /* when the first arrived; 0 if it does not time out */
    void *more;                              /* the transport's */
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
    bool failed;                 /* OVER, but a part failed: as group->reason says */
    int round;                   /* of a call in rounds: which of them RUNS, or LEAVES */
    struct weir__rendezvous own; /* a rendezvous lives with whoever came first */
    /* Its slots, of a group of one process with at most so many ranks. */
    struct weir__participant *few_participants[WEIR__FEW_RANKS];
    const void *few_args[WEIR__FEW_RANKS];
    struct weir__participant *woken; /* the next in a list of those to be woken or brought on */
};

/* A short call of a rank that comes again and again, with all that a transport needs to run it. */
struct weir__again {
    weir_group *group;
    struct weir__meet *meet;                                             /* the arguments */
    weir_status (*fn)(const void *args, const struct weir_block *block); /* one block */
    void *local;                                                         /* weir_block.local */
    /* While *wanted is `wanted_as`, somebody waits for what the caller holds: then it must not
     * linger. */
    const _Atomic uint32_t *wanted;
    uint32_t wanted_as;
    /* The transport's. */
    struct weir__visit *visit; /* NULL at first */
    bool never;                /* it has no short way */
};

static inline bool weir__again_is_in_the_way(const struct weir__again *again)
{
    return atomic_load_explicit(again->wanted, memory_order_relaxed) == again->wanted_as;
}

enum weir__at_once {
    WEIR__AT_ONCE_NOT,   /* nothing was done */
    WEIR__AT_ONCE_SHOWN, /* peers see the call, but not all of them have come, or not with the same:
                          * it must be queued, with meet->placed */
    WEIR__AT_ONCE_DONE,
};

/* How ranks reach each other. weir__local_transport has all ranks in this process: rendezvous
 * gather in memory and kernels read their peers' arguments. weir__procs_transport (procs/) has
 * each in a process of its own. Arrive and depart never block, are called by whoever has the
 * stream, and hand the participant on through participant->wake. */
struct weir__transport {
    const char *name;
    /* Called once, before and after anything else. */
    weir_status (*open)(weir_group *group);
    void (*close)(weir_group *group);
    /* The participant's call `call` is at the head of its stream. Sets participant->state to WAITS,
     * LAST, RUNS or REFUSED; true unless it waits. */
    bool (*arrive)(struct weir__participant *participant, const struct weir__meet *meet,
                   uint64_t call);
    /* After LAST: the other participants go on as RUNS, and so does this one. This and the next are
     * NULL if nobody is ever LAST. */
    void (*open_rendezvous)(struct weir__participant *participant);
    /* Instead of that, after LAST: the caller has run all parts. All participants are OVER, this
     * one too. The others are returned, linked by `woken`; their streams are the caller's, and
     * nobody wakes them. `text` is the error of the part of `rank`, NULL if there is none. */
    struct weir__participant *(*close_rendezvous)(struct weir__participant *participant, int rank,
                                                  weir_status status, const char *text);
    /* After RUNS: the participant's part is done. False if it waits for the others' parts. */
    bool (*depart)(struct weir__participant *participant, weir_status status, const char *text);
    /* Runs the whole call on the calling thread. Nothing may be queued before it on its stream, and
     * nothing may be added until this returns. NULL: the transport cannot. */
    enum weir__at_once (*at_once)(struct weir__again *again, uint64_t call);
    void (*forget)(struct weir__again *again); /* what is the transport's */
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
    bool pulls;     /* parts read others' memory and write only their own */
    unsigned share; /* of processes on a host: cores that a rank has if all have as many; 0: any */
    bool rounds;    /* calls may be in two rounds */
    bool twins;     /* a device has several of its ranks */
    struct weir__procs_group *procs; /* ranks are processes; NULL: all are of this one */
    int64_t timeout_ns;              /* negative: for ever */
    /* Who waits for whom, when the timeout is over; NULL if nobody can say. */
    void (*explain)(weir_device *const *devs, int ndevs, struct weir__text *report,
                    struct weir__text *cycle);
    weir_group *next_known;      /* group.c's list of all groups */
    struct weir__channel *whole; /* of all ranks, there from the start */
    /* Set under the lock of its device. NULL until a short call came twice (ops/call/again.c). */
    struct weir__agains *_Atomic agains;
    void (*free_agains)(weir_group *group);
    _Atomic bool broken;
    weir_status status; /* both are set once, before `broken` */
    char reason[800];
    /* Queued calls and plans that hold it: those that began, and those that are over. */
    _Alignas(WEIR__LINE) _Atomic uint64_t held;
    _Alignas(WEIR__LINE) _Atomic uint64_t dropped;
    _Alignas(WEIR__LINE) struct weir__spin lock; /* of what follows, and of breaking */
    struct weir__rendezvous *rendezvous;
    struct weir__channel *channels;       /* only grows */
    struct weir__rank_slots *spare_slots; /* local.c: of rendezvous with many ranks */
    /* The thread that looks for late ranks (timer.c). */
    pthread_t timer;
    bool timed;
    _Atomic uint32_t stop;
    _Alignas(WEIR__LINE) struct weir_rank ranks[];
};

/* ---- group.c ---- */

/* returns  WEIR_ERANGE or WEIR_EINVAL naming what is wrong. */
weir_status weir__group_check_options(int nranks, const weir_group_options *options);
/* A group without devices: the caller fills ranks[i].dev, NULL for ranks of other processes, and
 * .device. `procs` is taken over if there is one. */
weir_status weir__group_make(int nranks, const weir_group_options *options,
                             const struct weir__transport *transport,
                             struct weir__procs_group *procs, weir_group **out);
/* returns  WEIR_EBUSY as weir_group_destroy. */
weir_status weir__group_free(weir_group *group);

/* The rank of that id with a use of its group counted; NULL if its group is gone. */
weir_rank *weir__rank_hold(uint64_t id);
void weir__group_hold(weir_group *group);
void weir__group_drop(weir_group *group);

/* Every group that is whole. `fn` is called under a lock: it takes none and waits for nothing. */
void weir__groups_each(void (*fn)(const weir_group *group, void *user), void *user);
/* Every participant of any group that waits for its peers to arrive, or to have run their parts,
 * and for which of them. `fn` is called under locks: it takes none and waits for nothing. */
void weir__groups_each_participant(void (*fn)(const struct weir__participant *participant,
                                              const weir_group *group,
                                              const struct weir__ranks *missing, void *user),
                                   void *user);

/* WEIR_OK, or WEIR_ESTATE with the reason. */
weir_status weir__group_check(const weir_group *group);

/* The k-th call of a rank, counted from 0, is queued. */
static inline bool weir__channel_called(const struct weir__channel *channel, int rank, uint64_t k)
{
    return atomic_load_explicit(&channel->callers[rank].calls, memory_order_acquire) > k;
}
/* Counts calls of a rank that were queued on the queue `on`; NULL: on several. Under the lock of
 * the rank's device. */
void weir__channel_count(struct weir__channel *channel, int rank, uint64_t calls, const void *on);
/* Finds a rank whose call is to meet the next one of `rank` and is queued on the same queue `on`,
 * ahead of it: neither would ever be over. -1: none is known. Under the lock of its device. */
int weir__channel_blocker(const struct weir__channel *channel, int rank, const void *on);

/* The channel of that name between the ranks of `members`; NULL when out of memory. */
struct weir__channel *weir__group_channel(weir_group *group, const char *name,
                                          const struct weir__ranks *members);
/* That of messages from one rank to another. */
struct weir__channel *weir__pair_channel(weir_group *group, int from, int to);

/* ---- offer.c ---- */

/* True if two ranks' offers fit; else `text` says both sides and what differs. */
bool weir__offers_fit(const struct weir__meet *a, const struct weir__meet *b, char *text,
                      size_t size);
/* "AllReduce (call 3 of group 'tp')" */
void weir__call_text(const struct weir__meet *meet, uint64_t call, char *text, size_t size);

/* ---- timer.c ---- */

weir_status weir__timer_start(weir_group *group);
void weir__timer_stop(weir_group *group);

/* ---- local.c ---- */

/* Whether a rendezvous is overdue at `now`, and breaking the group over it: `more` is added to
 * the reason, NULL for nothing. */
bool weir__local_overdue(weir_group *group, uint64_t now_ns);
void weir__local_expire(weir_group *group, uint64_t now_ns, const char *more);

#endif
