/* Ranks as processes.
 *
 *   hub     a thread of one rank, at first of rank 0: accepts connections of ranks that know the
 *           token, gathers the data that members of a group exchange, detects dead ranks, forwards
 *           aborts. When that rank is gone, the lowest one that is left takes over
 *   link    a thread of every rank: its connection to the hub, and the move to the next hub
 *   calls   the transport: states of calls, and a thread of every rank (progress) that sleeps until
 *           its bell is rung
 *   engine  how calls meet and bytes move: shm, mpi, nccl (engine.h)
 *
 * A *world* is the set of ranks that joined by one weir_group_join; groups that are split from it
 * share its threads. Locks, outermost first: world->lock, group->lock, conn_lock. No participant is
 * woken under the first two.
 */
/* clang-format off */
/* Which thread writes and reads which field. "Joiner" is the thread in weir_group_join: it starts
 * the link, then the ranks meet, then it starts the progress thread, then it makes the first group.
 * "Callers" are threads that arrive, depart or abort: hosts, workers, a GPU's helper.
 *
 *   field                        written by                          read by                  published by
 *   rank, ranks, token, standby, joiner, before the link starts      all                      starting threads
 *     device
 *   peers[].pid uid host kind    joiner, when the ranks have met     link, hub                met
 *     home_place standby                                             callers, progress        the first group, under lock
 *   peers[].home, crowded,       joiner (engine->join), before the   callers, progress, link  the first group, under lock
 *     engine, mpi, cores         first group is in `groups`          (by way of a group)
 *   peers[].reached, shown       callers, progress, link             the same                 lock
 *   peers[].text                 link, once, before `gone`           all, after `gone`        gone
 *   peers[].gone, then lost      link                                all                      atomic
 *   groups, splits, uses         all                                 all                      lock
 *   gathers, done, conn's bytes  all                                 all                      conn_lock
 *   conn.fd                      joiner before the link starts,      link; others under       conn_lock
 *                                link under conn_lock; joiner after  conn_lock
 *                                the link has ended
 *   last_ns, quickest_ns,        link (last_ns: joiner, before)      link                     starting it
 *     watched, observers, move,  (observers, move: joiner, after it has ended)
 *     hub_*, peers[].stop
 *   hub, standby_fd              joiner; link, after `met`; joiner   link                     starting it
 *                                after the link has ended
 *   offset_ns, patience, stop,   link; callers; the closing thread;  all                      atomic
 *     leaves, home->bell         all, in other processes too
 *   moves, alone                 link under conn_lock                all                      atomic
 *
 *   group (weir__procs_group)
 *   key, self, ranks, world_rank maker, before it is in `groups`     all                      lock
 *   cells, reached, comm, nccl   maker (engine->open), before        callers; progress and    lock (`group` is set
 *                                `group`                             link if `group` is set   under it)
 *   group, early                 maker, link                         all                      lock
 *   counts                       maker (engine->open); callers,      the same                 lock
 *                                progress, link
 *   idle                         callers, progress, link             the same                 lock
 *
 *   call (rendezvous, visit)     its caller until `begin`, then      the same                 lock; fields in reports
 *                                the lock's holder; its caller                                under group->lock too
 *                                from RUNS until it departs
 *   visit->cell, generation,     its caller, in `show`               also engine->linger,     begin
 *     rendezvous->channel                                            without the lock
 *   visit->attended              its caller, under lock              all                      lock
 *   record                       its caller, in `show`; the cell's   peers, when all have     narrived; arrived for
 *                                copy under lock, before its bit     arrived, or its bit set  a record that is checked
 */
/* clang-format on */
#ifndef WEIR_COMM_PROCS_PROCS_H
#define WEIR_COMM_PROCS_PROCS_H

#include <string.h>

#include "comm/comm.h"
#include "comm/procs/share.h"
#include "comm/procs/wire.h"
#include "weir/procs.h"

/* ---- env.c: who this process is ---- */

struct weir__place_in_job {
    int rank, ranks;
    char store[256]; /* "HOST:PORT" or "file:PATH" */
    char token[WEIR__WIRE_TOKEN];
    int listen_fd; /* rank 0: a socket that listens already, or -1 */
};
/* Finds rank and store, from the options first, then from the environment.
 * returns  WEIR_EINVAL or WEIR_ERANGE naming what is missing or wrong. */
weir_status weir__procs_find_place(const weir_join_options *options,
                                   struct weir__place_in_job *place);

/* ---- store.c: how ranks find the hub ---- */

/* listen: called by rank 0. Opens a socket that listens at the store's address, and writes the
 * address to the store's file, if the store is a file. connect: called by every rank. Retries until
 * `deadline_ns`. forget: removes the store's file, if there is one, after all ranks have joined. */
weir_status weir__store_listen(struct weir__place_in_job *place, int *fd);
weir_status weir__store_connect(struct weir__place_in_job *place, uint64_t deadline_ns, int *fd);
void weir__store_forget(const struct weir__place_in_job *place);
/* Starts another connection to the peer of `fd`, without blocking. Returns -1 on an error. */
int weir__store_connect_again(int fd);

/* Where a rank listens in order to take over from the hub. */
struct weir__address {
    uint16_t family, port; /* family 0: it does not listen; port: in network order */
    uint32_t scope;        /* of the link, on that host */
    unsigned char ip[16];
};
/* Opens a socket that listens at the local address of the connection `beside`, on any port. False
 * if the system refuses. */
bool weir__store_stand_by(int beside, int ranks, int *fd, struct weir__address *out);
bool weir__address_is_loopback(const struct weir__address *address);
/* Starts a connection, without blocking. `scope` is that of this host. Returns -1 on an error. */
int weir__store_connect_to(const struct weir__address *address, uint32_t scope);

/* ---- hub/ ---- */

struct weir__hub;
struct weir__peer;
/* The hub of rank `rank`. `known` NULL: the first hub. Else the hub stands by until
 * weir__hub_take_over; `known` is what its rank knows of all ranks. */
weir_status weir__hub_start(int listen_fd, int rank, int ranks, const char *token,
                            const struct weir__peer *known, struct weir__hub **out);
/* Makes the hub's rank the one that joins the ranks. `orderly`: the earlier one has left. Called
 * once. */
void weir__hub_take_over(struct weir__hub *hub, bool orderly);
void weir__hub_stop(struct weir__hub *hub);

/* Returns the state of a process on this host: 'T' stopped, 'Z' dead, 'R' alive, 0 unknown. */
char weir__process_state(uint32_t pid);
/* What is known of a process whose state is read repeatedly. */
struct weir__stop {
    uint64_t since_ns; /* when it was first seen stopped; 0: it is not stopped */
    uint64_t ran;      /* a hash of the run time of its main thread */
};
/* True if the process has been stopped for WEIR__STOPPED_NS and has not run in between. A traced
 * process (strace, a debugger that steps) is stopped whenever it is looked at, but runs. `state` is
 * that of weir__process_state. */
#define WEIR__STOPPED_NS UINT64_C(300000000)
bool weir__stop_lasts(struct weir__stop *stop, uint32_t pid, char state);
/* Returns a number that identifies the running system and its PID namespace. */
uint64_t weir__host_id(void);
/* Returns the number of hardware threads on which this process may run. */
int weir__host_threads(void);

/* ---- observer.c: noticing stopped ranks where there are several hosts ---- */

/* Of a rank on another host than the hub. */
struct weir__observers {
    struct weir__conn reports; /* from the observer of the hub */
    struct weir__conn to_hub;  /* handed to the observer that this rank starts */
    bool begun;                /* for the hub of rank `hub` */
    int hub;
    bool lowest; /* this rank is the lowest of its host that is left, and starts the observer */
    int tries;   /* to open `reports` */
    uint64_t heard_ns, tried_ns;
    int control; /* socket of the observer that this rank has started; -1 */
};

/* ---- move.c: the way to the next hub ---- */

enum weir__moves {
    WEIR__MOVES_NOT,
    WEIR__MOVES_SOON, /* the hub's rank has left, and its hub goes on for a while */
    WEIR__MOVES,
    WEIR__MOVES_NOWHERE, /* nobody can be reached: each rank watches those of its host */
};
struct weir__move {
    enum weir__moves state;
    bool orderly;
    bool refused; /* by the system of rank `to`: it does not listen */
    int to;
    uint64_t since_ns; /* when the state, or the attempt to reach rank `to`, began */
    uint64_t retry_ns; /* when to connect again; 0: connected or connecting */
    struct weir__stop stop;
    uint64_t dead_ns;          /* since when the process of rank `to` is seen dead; 0: it is not */
    struct weir__ranks passed; /* ranks that cannot be reached */
    struct weir__conn next;
    unsigned char hello[WEIR__WIRE_PROOF]; /* the proof of what was said there */
    struct weir__conn old; /* until the old hub closes it: it may still tell who is gone */
};

/* ---- link.c, join.c: the world ---- */

struct weir__peer {
    _Atomic int gone; /* enum weir__gone; `text` is written first */
    char text[WEIR__WIRE_TEXT];
    uint32_t pid, uid;
    uint64_t host;
    struct weir__shared_place home_place;
    struct weir__address standby;
    struct weir__home *home;       /* shm: contains its bell */
    struct weir__reached *reached; /* shm: the peer's memory that is mapped here */
    struct weir__reached *shown;   /* shm: the same for the memory of its device */
    char kind[8];                  /* of its device */
    struct weir__stop stop;        /* as the link sees it */
};

enum { WEIR__TOLD = 32, WEIR__DONE = 16 };

struct weir__world {
    int rank, ranks;
    struct weir__mutex lock;
    struct weir__procs_group *groups;
    struct weir__peer peers[WEIR_MAX_RANKS];
    _Atomic bool lost;          /* some peer is gone */
    _Atomic bool met;           /* `peers` is filled: the link may read it */
    struct weir__split *splits; /* the number of groups made so far with the same ranks and name */
    int uses;                   /* references: one per group, one while a group is made */
    /* The link. */
    struct weir__hub *hub;
    struct weir__conn conn;
    struct weir__mutex conn_lock; /* innermost */
    pthread_t link, progress;
    bool links, progresses;
    int wake_fd;
    _Atomic bool stop;
    _Atomic bool leaves; /* this rank is about to leave: it does not move any more */
    _Atomic bool moves;  /* the link looks for the next hub */
    _Atomic bool alone;  /* there is no hub any more that this rank can reach */
    char alone_text[WEIR__WIRE_TEXT + 100]; /* why; written before */
    int hub_rank;
    uint32_t hub_pid;
    uint64_t hub_host, last_ns;
    int standby_fd; /* listens; -1: it does not, or the hub has it */
    struct weir__address standby;
    char token[WEIR__WIRE_TOKEN];
    struct weir__move move;
    int watched; /* the last peer whose state the link has checked */
    struct weir__observers observers;
    _Atomic int64_t offset_ns; /* of the hub's clock; measured by the fastest ping so far */
    uint64_t quickest_ns;      /* the time of that ping; 0 after a move: the clock stays */
    /* Gathers that threads wait for, and the last ones that succeeded, which another hub is told
     * again until their deadlines, under conn_lock. */
    struct weir__gather *gathers;
    struct {
        struct weir__wire_gather message;
        uint64_t deadline_ns;
    } done[WEIR__DONE];
    int ndone; /* the next entry to write */
    /* The last aborts of this rank, which another hub is told again, under conn_lock. Their groups
     * may have been destroyed. */
    struct weir__wire_text *told; /* WEIR__TOLD of them; NULL before the first */
    uint64_t ntold;
    struct weir__home *home; /* this rank's: its progress thread sleeps on the bell */
    const struct weir__engine *engine;
    struct weir__mpi *mpi;
    const struct weir__sharing *sharing; /* of the device's memory; NULL: it is host memory */
    void *device;
    _Atomic int patience; /* shm: how many rounds a thread polls for its peers before it sleeps */
    bool crowded;         /* shm: the host has fewer hardware threads than ranks */
    int cores;            /* that the device's collectives may use; 0: no limit */
};

/* Joins the ranks. `engine` NULL: weir chooses. `sharing` and `device` NULL: memory is the
 * host's. */
weir_status weir__world_join(const struct weir__place_in_job *place,
                             const struct weir__engine *engine, const struct weir__sharing *sharing,
                             void *device, int64_t timeout_ns, struct weir__world **out);
/* Drops a reference. Dropping the last one leaves the job and frees the world. */
void weir__world_drop(struct weir__world *world);
/* gathers.c: sends `blob` to all members and waits for the blobs of all members. No two gathers of
 * a world have the same key. */
weir_status weir__world_gather(struct weir__world *world, const char *key,
                               const struct weir__ranks *members, int64_t timeout_ns,
                               const void *blob, struct weir__wire_gathered *all);
void weir__world_send_abort(struct weir__world *world, const char *key, weir_status status,
                            const char *text);

/* Tells rank `to` of the world something about the group of that key. With `closes`: this rank
 * closes the group and has sent `messages` messages to rank `to`. Without: this rank has received
 * the `messages` messages that rank `to`, which closes the group, has sent. */
void weir__world_send_close(struct weir__world *world, const char *key, int to, bool closes,
                            uint64_t messages);
/* True if this rank has a hub or looks for the next one. If not, no message reaches it. */
static inline bool weir__world_is_linked(const struct weir__world *world)
{
    return !atomic_load(&world->alone);
}

/* ---- calls.c: called by the link ---- */

/* A rank is gone: breaks its groups, except where the rank has only left or closed the group. */
void weir__procs_see_gone(struct weir__world *world, int rank);
/* Another rank has broken the group of that key. */
void weir__procs_see_abort(struct weir__world *world, const char *key, weir_status status,
                           const char *text);
/* members.c: a message of weir__world_send_close has arrived. */
void weir__procs_see_close(struct weir__world *world, const struct weir__wire_close *message,
                           bool closes);
/* members.c: this rank has another hub. Sends again what the old one may not have forwarded. */
void weir__procs_tell_again(struct weir__world *world);
extern const struct weir__transport weir__procs_transport;

/* ---- members.c: a group's part of a world ---- */

/* The first and the last call for a world. `begin` lets the ranks meet and chooses the engine. */
weir_status weir__world_begin(struct weir__world *world, int64_t timeout_ns);
void weir__world_end(struct weir__world *world);

/* Meets the other members and takes a reference to the world. Rank i of the group is rank ranks[i]
 * of the world. Groups of the same ranks and name are distinguished by a counter.
 * returns  WEIR_EUNAVAILABLE, for example, if members are not on one host. */
weir_status weir__procs_group_make(struct weir__world *world, const int *ranks, int nranks,
                                   const char *name, int64_t timeout_ns,
                                   struct weir__procs_group **out);
void weir__procs_group_free(struct weir__procs_group *group);
int weir__procs_group_self(const struct weir__procs_group *group);
struct weir__world *weir__procs_group_world(const struct weir__procs_group *group);
/* Returns the rank in the world of rank `rank` of the group. */
int weir__procs_group_world_rank(const struct weir__procs_group *group, int rank);

/* Sets *out to whether call number `call` of that rank has arrived.
 * returns  WEIR_EUNSUPPORTED if the engine cannot tell. */
weir_status weir__procs_has_arrived(const struct weir__procs_group *p,
                                    const struct weir__channel *channel, uint64_t call, int rank,
                                    bool *out);
/* True if the channel is of messages between two ranks, as named by weir__pair_channel. */
static inline bool weir__is_pair(const struct weir__channel *channel)
{
    return !strncmp(channel->name, "pair ", 5);
}

#endif
