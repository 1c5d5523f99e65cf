/* What an engine is: how the ranks of a world meet and how bytes get from one to another. The
 * control channel (hub, link), the states of calls (calls.c) and the progress thread (members.c)
 * are common to all.
 *
 *   arrives  ─ show ─▶ a record of the call, with what peers may read
 *            ─ meet ─▶ WAITS … HERE: rendezvous->args has every member's arguments, with pointers
 *                      that kernels of this rank can read
 *   the part runs, on the rank's own device
 *   departs  ─ leave ▶ the part is done
 *            ─ left ─▶ nobody needs this rank's bytes any more
 *   is given up at any time before ─ give_up ─▶ nothing of the call touches the rank's memory
 *
 * All but `show` are called under world->lock and do not block. A group breaks through
 * weir__procs_break_over. */
#ifndef WEIR_COMM_PROCS_ENGINE_H
#define WEIR_COMM_PROCS_ENGINE_H

#include "comm/procs/cells.h"

/* Shared memory of a process by itself: peers ring. */
struct weir__home {
    _Alignas(64) _Atomic uint32_t bell;
};

/* A call of this rank that is under way. */
struct weir__visit {
    struct weir__visit *next;
    struct weir__cell *cell; /* shm */
    uint64_t generation;
    bool placed;             /* its record is in the cell */
    bool quick;              /* all records carry their bytes, and are copied: the cell is left */
    struct weir__ranks fits; /* whose records were found to fit */
    uint64_t slept_ns;       /* shm: since when nobody looks for peers; 0: somebody does */
    bool attended; /* the thread that arrived or departed looks after it: nobody else wakes it */
    struct weir__mpi_call *mpi;
    const struct weir__meet
        *own; /* this rank's arguments with room that was made; NULL: as given */
    int nstaged;
    struct {
        void *piece;
        size_t bytes;
    } staged[WEIR__CODE_SHOWN];
    /* Of the rendezvous, by rank. */
    struct weir__participant **participants;
    const void **peer_args;
    struct weir__record record;
    _Alignas(16) unsigned char args[][WEIR_ARGS_MAX]; /* of peers, with pointers of this process */
};

struct weir__procs_group {
    weir_group *group;
    struct weir__world *world;
    struct weir__procs_group *next; /* of the world */
    char key[WEIR__WIRE_KEY], name[WEIR__WIRE_KEY];
    int self;
    int ranks;
    struct weir__cells *cells; /* shm */
    bool owns_cells;
    /* Of the whole group's cells: the digest of this rank's latest record there; 0 if that may be
     * any. Written by whoever may write the record. */
    uint64_t written[WEIR__CELLS];
    struct weir__reached *reached;   /* the cells of others */
    void *comm;                      /* mpi: the communicator */
    struct weir__mpi_names *names;   /* mpi: of calls by name; NULL before the first */
    struct weir__mpi_counts *counts; /* mpi: of messages; NULL before `open` */
    struct weir__nccl *nccl;
    struct weir__visit *idle; /* under world->lock */
    weir_status early;        /* others broke it before it was made here */
    char early_text[WEIR__WIRE_TEXT];
    int world_rank[]; /* by rank */
};

enum weir__step {
    WEIR__STEP_WAITS,
    WEIR__STEP_HERE,
    WEIR__STEP_BROKE, /* the group is broken; the call is gone */
};

struct weir__engine {
    const char *name;
    const char *promise; /* in a few words, for lists */
    bool by_host;        /* what peers get of a device's memory goes through the host's */
    bool rounds;         /* calls in rounds: `leave` and `left` look at participant->round */
    /* Why it cannot be used on this host, in words that stay; NULL if it can. NULL: always. */
    const char *(*unavailable)(void);
    /* Before the first group and after the last. `join` meets the other ranks.
     * returns  an error that names the rank that cannot be reached. */
    weir_status (*join)(struct weir__world *world, int64_t timeout_ns);
    void (*part)(struct weir__world *world);
    /* A group's own. `open` meets the other members; bits are ranks of the world. */
    weir_status (*open)(struct weir__procs_group *p, const struct weir__ranks *members,
                        int64_t timeout_ns);
    void (*close)(struct weir__procs_group *p);
    /* Before `close`, while the group is whole and still known to the link: returns when others
     * have what this rank sent them, or are gone. Takes locks by itself. NULL: they always have. */
    void (*quit)(struct weir__procs_group *p);
    /* The link heard that a member, by its rank of the group, closes it, or has received what this
     * rank sent. Under world->lock. NULL if `quit` is. */
    void (*see_close)(struct weir__procs_group *p, int rank, bool closes, uint64_t messages,
                      struct weir__participant **woken);
    /* Fills the visit, whose record is there; false with the error said. Takes no lock. */
    bool (*show)(struct weir__procs_group *p, struct weir__visit *visit,
                 const struct weir__meet *meet, uint64_t call, const struct weir__code_shown *shown,
                 int nshown);
    /* `arrived` gets the members that are known to be here. */
    enum weir__step (*meet)(struct weir__procs_group *p, struct weir__rendezvous *m,
                            struct weir__ranks *arrived, struct weir__participant **woken);
    /* Queues the part on the device's own queue instead of the part's kernel; called without locks
     * when all are there. NULL: parts are kernels. */
    weir_status (*run)(struct weir__procs_group *p, struct weir__rendezvous *m, void *queue);
    /* Calls of a plan that go into the device's graph of it; all four are there or none is.
     * `may_record`: whether it can be one of them. `is_new` says once of every kind of call that
     * there was none like it. `record` puts it into the capture that `queue` is in: nobody is met,
     * and calls of a group are recorded by number. `launch` has the graph, which has `calls` of the
     * group, launched on the queue, when the first of them may run. All without locks. */
    bool (*may_record)(const struct weir__meet *meet);
    bool (*is_new)(struct weir__procs_group *p, const struct weir__meet *meet);
    weir_status (*record)(struct weir__procs_group *p, const struct weir__meet *meet, void *queue);
    weir_status (*launch)(struct weir__procs_group *p, int calls,
                          weir_status (*launch)(void *user, void *queue), void *user, void *queue);
    void (*leave)(struct weir__procs_group *p, struct weir__rendezvous *m, bool failed);
    /* Without locks, for a call whose record is placed and that only this thread goes on with:
     * looks for a little while whether all have arrived or, with `leaves`, left. Of the visit it
     * reads what stays as it is. NULL: it does not pay. */
    void (*linger)(const struct weir__procs_group *p, const struct weir__rendezvous *m,
                   const struct weir__visit *visit, bool leaves);
    /* The thread stops looking: the others ring from now on. Under world->lock. NULL: they do. */
    void (*sleep)(const struct weir__rendezvous *m);
    /* As weir__transport.at_once; the arguments of peers are in again->visit. Takes no lock. NULL:
     * it has no such way. */
    enum weir__at_once (*at_once)(struct weir__procs_group *p, struct weir__again *again,
                                  uint64_t call);
    /* `left` gets the members that are known to be done. */
    enum weir__step (*left)(struct weir__procs_group *p, struct weir__rendezvous *m,
                            struct weir__ranks *left, struct weir__participant **woken);
    void (*give_up)(struct weir__procs_group *p, struct weir__rendezvous *m);
    /* Whether a rank, or for -1 any, will never come to this group again. NULL: the link knows all.
     */
    bool (*closed)(const struct weir__procs_group *p, int rank);
    /* Whether messages of a rank that has left are still on their way. NULL: they never are. */
    bool (*may_come)(const struct weir__procs_group *p, int rank);
    /* Whether that rank's call of this number is there. NULL: nobody can tell before it is met. */
    bool (*has_arrived)(const struct weir__procs_group *p, const struct weir__channel *channel,
                        uint64_t call, int rank);
    /* The group has just been broken. NULL: nothing to do. */
    void (*broken)(struct weir__procs_group *p);
    /* How long the progress thread may sleep if nobody rings its bell; calls_under_way says
     * whether there is anything to wait for, *woken who goes on. NULL: as long as it likes. */
    int64_t (*pause)(struct weir__world *world, bool calls_under_way,
                     struct weir__participant **woken);
};
extern const struct weir__engine weir__shm_engine, weir__mpi_engine, weir__nccl_engine;

/* By name; NULL if there is none. */
const struct weir__engine *weir__engine_find(const char *name);
/* All of them, for lists; NULL past the last. */
const struct weir__engine *weir__engine_at(int i);

/* Why an engine cannot be used; zero at first. */
struct weir__engine_reason {
    struct weir__mutex lock;
    char text[300];
};
/* For `unavailable`: the calling thread's last error, kept at the first call. */
const char *weir__engine_keep_reason(struct weir__engine_reason *why);

/* ---- members.c ---- */

/* Gives `bytes` bytes, at most WEIR__ENGINE_BLOB, to all members and takes theirs, by rank of the
 * world. */
enum { WEIR__ENGINE_BLOB = 128 };
weir_status weir__engine_gather(struct weir__world *world, const char *key,
                                const struct weir__ranks *members, int64_t timeout_ns,
                                const void *mine, size_t bytes, struct weir__wire_gathered *all);

/* ---- visit.c: without locks ---- */

/* What this rank's record says, and what the engine makes of it.
 * returns  NULL with the error said. */
struct weir__visit *weir__visit_make(struct weir__procs_group *p, struct weir__visit *idle,
                                     const struct weir__meet *meet, uint64_t call);
/* Gives the copies back. */
void weir__visit_end(const struct weir__world *world, struct weir__visit *visit);
/* Copies bytes to shared memory, for as long as the visit; false with the error said. */
bool weir__visit_stage(const struct weir__world *world, struct weir__visit *visit, const void *from,
                       size_t bytes);
/* The same for bytes that are not there yet, in the host's memory: this rank's part finds the room
 * in visit->own, and peers read there what it writes. NULL with the error said. */
void *weir__visit_make_room(struct weir__visit *visit, const struct weir__meet *meet,
                            const struct weir__code_shown *shown);
/* The arguments of rank `rank`, which wrote the record; the pointers that it shows are `at`. False
 * with the error said. */
bool weir__record_read(const struct weir__record *record, struct weir__channel *channel, int rank,
                       void *const *at, struct weir__meet *out);
/* Whether that rank's record and this meet fit; else `text` says both sides. */
bool weir__record_fits(const struct weir__record *record, const struct weir__meet *meet, char *text,
                       size_t size);

/* Whether this rank's part of the call runs again when all have run it. */
bool weir__procs_round_follows(const struct weir__procs_group *p, const struct weir__rendezvous *m);

/* ---- gone.c: under world->lock ---- */

/* Which of the members will not come any more, but for what they have done already. False if there
 * is none, and then `gone` is not written. */
bool weir__procs_find_gone(const struct weir__procs_group *p, const struct weir__ranks *members,
                           struct weir__ranks *gone);
/* What happened to one of them. */
void weir__procs_say_gone(const struct weir__procs_group *p, int rank, char *text, size_t size);

/* ---- calls.c ---- */

/* Breaks the group here, and with `tell` everywhere. Under world->lock. */
void weir__procs_break(struct weir__procs_group *p, weir_status status, const char *reason,
                       bool tell, struct weir__participant **woken);
/* Before the group is made here, which is broken then. */
void weir__procs_break_early(struct weir__procs_group *p, weir_status status, const char *reason);
/* The first over a call, which is named. */
void weir__procs_break_over(struct weir__procs_group *p, struct weir__rendezvous *m,
                            weir_status status, const char *why, struct weir__participant **woken);
/* Goes on with whatever of the group can go on. Under world->lock. */
void weir__procs_look(struct weir__procs_group *p, uint64_t now_ns,
                      struct weir__participant **woken);
void weir__procs_wake(struct weir__participant *list, const struct weir__participant *self);
/* Rings this rank's own bell: the progress thread looks. */
void weir__procs_poke(struct weir__world *world);

#endif
