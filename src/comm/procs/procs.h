/* Ranks as processes.
 *
 *   hub     a thread of rank 0: accepts connections of ranks that know the token, gathers what
 *           members of a group tell each other, watches who lives, passes aborts on
 *   link    a thread of every rank: its connection to the hub
 *   calls   the transport: states of calls, and a thread of every rank (progress) that sleeps until
 *           its bell is rung
 *   engine  how calls meet and bytes move: shm, mpi, nccl (engine.h)
 *
 * A *world* is the ranks that one weir_group_join brought together; groups split off from it share
 * its threads. Locks, outermost first: world->lock, group->lock, conn_lock. Nobody is woken under
 * the first two.
 */
/* clang-format off */
/* Who touches what. "Joiner" is the thread in weir_group_join; it starts the link, then lets the
 * ranks meet, then starts the progress thread, then makes the first group. "Callers" are threads
 * that arrive, depart or abort: hosts, workers, a GPU's helper.
 *
 *   field                        written by                          read by                  published by
 *   rank, ranks, hub_*, device   joiner, before the link starts      all                      starting threads
 *   peers[].pid uid host kind    joiner, when the ranks have met     link                     met
 *     home_place                                                     callers, progress        the first group, under lock
 *   peers[].home, crowded,       joiner (engine->join), before the   callers, progress, link  the first group, under lock
 *     engine, mpi, cores         first group is in `groups`          (by way of a group)
 *   peers[].reached, shown       callers, progress, link             the same                 lock
 *   peers[].text                 link, once, before `gone`           all, after `gone`        gone
 *   peers[].gone, then lost      link                                all                      atomic
 *   groups, splits, uses         all                                 all                      lock
 *   gathers, conn's bytes        all                                 all                      conn_lock
 *   conn.fd                      joiner before the link starts,      link; others under       conn_lock
 *                                link under conn_lock; joiner after  conn_lock
 *                                the link has ended
 *   last_ns, quickest_ns,        link (last_ns: joiner, before)      link                     starting it
 *     watched, beside,           (beside: joiner, after it has ended)
 *     peers[].stop
 *   offset_ns, patience, stop,   link; callers; whoever leaves;      all                      atomic
 *     home->bell                 all, in other processes too
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
 *   call (rendezvous, visit)     its caller until `begin`, then      the same                 lock; what reports read
 *                                whoever has the lock; its caller                             under group->lock too
 *                                from RUNS until it departs
 *   visit->cell, generation,     its caller, in `show`               also engine->linger,     begin
 *     rendezvous->channel                                            without the lock
 *   visit->attended              its caller, under lock              all                      lock
 *   record                       its caller, in `show`; the cell's   peers, when all have     narrived; arrived for
 *                                copy under lock, before its bit     come, or its bit is set  a record that is checked
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
    int listen_fd; /* rank 0: a socket that listens already; -1 */
};
/* From options, then the environment.
 * returns  WEIR_EINVAL or WEIR_ERANGE naming what is missing or wrong. */
weir_status weir__procs_find_place(const weir_join_options *options,
                                   struct weir__place_in_job *place);

/* ---- store.c: how ranks find the hub ---- */

/* Rank 0: a socket that listens at the store's address, which may be written to its file.
 * The other ranks: a connection. Both take at most until `deadline_ns`. `file` says whether there
 * is a file to remove when everybody is there. */
weir_status weir__store_listen(struct weir__place_in_job *place, int *fd);
weir_status weir__store_connect(struct weir__place_in_job *place, uint64_t deadline_ns, int *fd);
void weir__store_forget(const struct weir__place_in_job *place);
/* Another connection to where that one goes, which may still be on its way; -1. */
int weir__store_connect_beside(int fd);

/* ---- hub.c ---- */

struct weir__hub;
weir_status weir__hub_start(int listen_fd, int ranks, const char *token, struct weir__hub **out);
void weir__hub_stop(struct weir__hub *hub);

/* Whether a process of this host runs: 'T' stopped, 'Z' dead or gone, 'R' it lives, 0 unknown. */
char weir__process_state(uint32_t pid);
/* Of a process that is looked at again and again. */
struct weir__stop {
    uint64_t since_ns; /* when it was first seen to be stopped; 0: it is not */
    uint64_t ran;      /* what the system counts of its main thread */
};
/* Whether it has been stopped for WEIR__STOPPED_NS, and has not run in between: one that is traced
 * (strace, a debugger that steps) is stopped whenever it is looked at, and runs. `state` is that of
 * weir__process_state. */
#define WEIR__STOPPED_NS UINT64_C(300000000)
bool weir__stop_lasts(struct weir__stop *stop, uint32_t pid, char state);
/* The same number for all processes of one running system and one set of process numbers. */
uint64_t weir__host_id(void);
/* Hardware threads that this process may run on. */
int weir__host_threads(void);

/* ---- beside.c: what tells of ranks that are stopped, where there are several hosts ---- */

/* Of a rank on another host than rank 0. */
struct weir__beside {
    struct weir__conn hears; /* from the process beside rank 0 */
    struct weir__conn tells; /* to the hub, until the process beside this rank has it */
    char token[WEIR__WIRE_TOKEN];
    bool begun;
    int tries; /* to open `hears` */
    uint64_t heard_ns, tried_ns;
    int control; /* of the process beside this rank (watch/); -1 */
};

/* ---- link.c: the world ---- */

struct weir__peer {
    _Atomic int gone; /* enum weir__gone; the text is there before */
    char text[WEIR__WIRE_TEXT];
    uint32_t pid, uid;
    uint64_t host;
    struct weir__shared_place home_place;
    struct weir__home *home;       /* shm: where its bell is */
    struct weir__reached *reached; /* shm: its memory that is mapped here */
    struct weir__reached *shown;   /* and that of its device, if it has its own */
    char kind[8];                  /* of its device */
    struct weir__stop stop;        /* as the link sees it */
};

struct weir__world {
    int rank, ranks;
    struct weir__mutex lock;
    struct weir__procs_group *groups;
    struct weir__peer peers[WEIR_MAX_RANKS];
    _Atomic bool lost;          /* some peer is gone */
    _Atomic bool met;           /* who the peers are is written: the link may read it */
    struct weir__split *splits; /* how many groups of the same ranks and name there were */
    int uses;                   /* groups, and whoever makes one */
    /* The link. */
    struct weir__hub *hub;
    struct weir__conn conn;
    struct weir__mutex conn_lock; /* innermost */
    pthread_t link, progress;
    bool links, progresses;
    int wake_fd;
    _Atomic bool stop;
    uint32_t hub_pid;
    uint64_t hub_host, last_ns;
    int watched; /* the peer that the link looked at last */
    struct weir__beside beside;
    _Atomic int64_t offset_ns; /* of the hub's clock, by the quickest answer */
    uint64_t quickest_ns;
    /* What somebody waits for to be gathered, under conn_lock. */
    struct weir__gather *gathers;
    struct weir__home *home; /* this rank's: where its progress thread sleeps */
    const struct weir__engine *engine;
    struct weir__mpi *mpi;
    const struct weir__sharing *sharing; /* of the device's memory; NULL: it is the host's */
    void *device;
    _Atomic int patience; /* shm: how many rounds a thread looks for its peers before it sleeps */
    bool crowded;         /* shm: the host has fewer hardware threads than ranks */
    int cores;            /* that the device's collectives may have; 0: as many as they like */
};

/* `engine`: NULL for what fits. `sharing` and its device: NULL if memory is the host's. */
weir_status weir__world_join(const struct weir__place_in_job *place,
                             const struct weir__engine *engine, const struct weir__sharing *sharing,
                             void *device, int64_t timeout_ns, struct weir__world **out);
/* One use less; the last one leaves. */
void weir__world_drop(struct weir__world *world);
/* Gives `blob` to all members and takes theirs; waits for them. */
weir_status weir__world_gather(struct weir__world *world, const char *key,
                               const struct weir__ranks *members, int64_t timeout_ns,
                               const void *blob, struct weir__wire_gathered *all);
/* Whether rank 0, which passes on what ranks say, has left. */
bool weir__world_is_left(const struct weir__world *world);
void weir__world_send_abort(struct weir__world *world, const char *key, weir_status status,
                            const char *text);

/* To a rank of the world, of a group of that key: this one closes it and has sent it so many
 * messages; or it has received what that one, which closes it, has sent. */
void weir__world_send_close(struct weir__world *world, const char *key, int to, bool closes,
                            uint64_t messages);
/* gone.c: whether messages still reach others. */
bool weir__world_is_linked(struct weir__world *world);

/* ---- calls.c: called by the link ---- */

/* A rank is gone: groups with it break. */
void weir__procs_see_gone(struct weir__world *world, int rank);
/* Somebody else has broken that group. */
void weir__procs_see_abort(struct weir__world *world, const char *key, weir_status status,
                           const char *text);
/* A member closes a group; or it has received what this rank, which closes it, sent. */
void weir__procs_see_close(struct weir__world *world, const struct weir__wire_close *message,
                           bool closes);
extern const struct weir__transport weir__procs_transport;

/* ---- members.c: a group's part of a world ---- */

/* Before and after everything else: the ranks meet, and the engine is chosen. */
weir_status weir__world_begin(struct weir__world *world, int64_t timeout_ns);
void weir__world_end(struct weir__world *world);

/* Meets the other members, ranks[i] of the world as rank i, and takes a use of the world. Groups of
 * the same ranks and name are told apart by how many of them there were.
 * returns  also WEIR_EUNAVAILABLE if members are not on one host. */
weir_status weir__procs_group_make(struct weir__world *world, const int *ranks, int nranks,
                                   const char *name, int64_t timeout_ns,
                                   struct weir__procs_group **out);
void weir__procs_group_free(struct weir__procs_group *group);
int weir__procs_group_self(const struct weir__procs_group *group);
struct weir__world *weir__procs_group_world(const struct weir__procs_group *group);
/* The rank of the world that rank `rank` of the group is. */
int weir__procs_group_world_rank(const struct weir__procs_group *group, int rank);

/* Whether that rank's call of this number is there; WEIR_EUNSUPPORTED if the engine cannot tell. */
weir_status weir__procs_has_arrived(const struct weir__procs_group *p,
                                    const struct weir__channel *channel, uint64_t call, int rank,
                                    bool *out);
/* Whether it is of messages between two ranks: weir__pair_channel names them. */
static inline bool weir__is_pair(const struct weir__channel *channel)
{
    return !strncmp(channel->name, "pair ", 5);
}

#endif
