/* An engine lets the ranks of a world meet and moves bytes between them. The control channel (hub,
 * link), the states of calls (calls.c) and the progress thread (members.c) are common to all
 * engines. The functions of a call:
 *
 *   show      makes the record of the call, which says what peers may read
 *   meet      WAITS, then HERE: rendezvous->args has every member's arguments, with pointers that
 *             kernels of this rank can read
 *             ... the part runs, on the rank's own device ...
 *   leave     the part has run
 *   left      WAITS, then HERE: no peer needs this rank's bytes any more
 *   give_up   at any time before: afterwards the call no longer accesses this rank's memory
 *
 * These functions except `show` are called under world->lock and do not block. To break a group,
 * engines call weir__procs_break_over. */
#ifndef WEIR_COMM_PROCS_ENGINE_H
#define WEIR_COMM_PROCS_ENGINE_H

#include "comm/procs/cells.h"

/* Shared memory of a process, in which peers ring its bell. */
struct weir__home {
    _Alignas(64) _Atomic uint32_t bell;
};

/* A call of this rank that is in progress. */
struct weir__visit {
    struct weir__visit *next;
    struct weir__cell *cell; /* shm */
    uint64_t generation;
    bool placed;             /* its record is in the cell */
    bool quick;              /* all records carry their bytes, and were copied: the cell was left */
    struct weir__ranks fits; /* the ranks whose records were found to fit */
    uint64_t slept_ns;       /* shm: since when no thread polls for peers; 0: a thread polls */
    bool attended; /* the thread that arrived or departed polls: no other thread may wake it */
    struct weir__mpi_call *mpi;
    const struct weir__meet *own; /* this rank's arguments with the address of memory that
                                   * weir__visit_make_room allocated; NULL: unchanged */
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
    /* For each cell of the whole group: the digest of this rank's latest record there; 0 if not
     * known. Written by the thread that may write the record. */
    uint64_t written[WEIR__CELLS];
    struct weir__reached *reached;   /* the mapping of `cells`, if another rank owns them */
    void *comm;                      /* mpi: the communicator */
    struct weir__mpi_names *names;   /* mpi: messages of calls by name; NULL before the first */
    struct weir__mpi_counts *counts; /* mpi: numbers of messages; NULL before `open` */
    struct weir__nccl *nccl;
    struct weir__visit *idle; /* unused visits; under world->lock */
    weir_status early;        /* not 0: another rank broke the group before it was made here */
    char early_text[WEIR__WIRE_TEXT];
    int world_rank[]; /* by rank */
};

enum weir__step {
    WEIR__STEP_WAITS,
    WEIR__STEP_HERE,
    WEIR__STEP_BROKE, /* the group broke; the call was given up */
};

struct weir__engine {
    const char *name;
    const char *promise; /* a short description, for lists */
    bool by_host;        /* peers get copies of device memory through host memory */
    bool rounds;         /* supports calls in rounds: `leave` and `left` read participant->round */
    /* Returns why the engine cannot be used on this host, as text that is never freed; NULL if it
     * can. The function NULL: always available. */
    const char *(*unavailable)(void);
    /* Called before the first group and after the last. `join` meets the other ranks.
     * returns  an error that names the rank that cannot be reached. */
    weir_status (*join)(struct weir__world *world, int64_t timeout_ns);
    void (*leave_world)(struct weir__world *world);
    /* Open and close a group. `open` meets the other members; `members` are ranks of the world. */
    weir_status (*open)(struct weir__procs_group *p, const struct weir__ranks *members,
                        int64_t timeout_ns);
    void (*close)(struct weir__procs_group *p);
    /* Called before `close`, while the link still knows the group. Returns when the other members
     * have received what this rank sent them, or are gone. Takes locks itself. NULL: sent data
     * never needs this rank again. */
    void (*quit)(struct weir__procs_group *p);
    /* A member (its rank in the group) closes the group, or has received what this rank sent. Under
     * world->lock. NULL if `quit` is. */
    void (*see_close)(struct weir__procs_group *p, int rank, bool closes, uint64_t messages,
                      struct weir__participant **woken);
    /* This rank has another hub: sends again what it has said by weir__world_send_close. Under
     * world->lock. NULL if `quit` is. */
    void (*tell_again)(struct weir__procs_group *p);
    /* Completes the visit, whose record is filled. False, with the thread's error set, on failure.
     * Takes no lock. */
    bool (*show)(struct weir__procs_group *p, struct weir__visit *visit,
                 const struct weir__meet *meet, uint64_t call, const struct weir__code_shown *shown,
                 int nshown);
    /* Writes the members that are known to have arrived to `arrived`. */
    enum weir__step (*meet)(struct weir__procs_group *p, struct weir__rendezvous *m,
                            struct weir__ranks *arrived, struct weir__participant **woken);
    /* Queues the part on the device's native queue, in place of the part's kernel. Called without
     * locks when all ranks have arrived. NULL: parts are kernels. */
    weir_status (*run)(struct weir__procs_group *p, struct weir__rendezvous *m, void *queue);
    /* Calls of a plan that become part of the device's graph. Either all four functions are NULL or
     * none. `may_record` returns true if the call can be recorded. `is_new` returns true for the
     * first call of each kind. `record` adds the call to the capture that `queue` is in; it does
     * not meet other ranks, and calls of a group are recorded in order of their numbers. `launch`
     * launches a graph with `calls` calls of the group on the queue; it is called when the first of
     * them may run. All are called without locks. */
    bool (*may_record)(const struct weir__meet *meet);
    bool (*is_new)(struct weir__procs_group *p, const struct weir__meet *meet);
    weir_status (*record)(struct weir__procs_group *p, const struct weir__meet *meet, void *queue);
    weir_status (*launch)(struct weir__procs_group *p, int calls,
                          weir_status (*launch)(void *user, void *queue), void *user, void *queue);
    void (*leave)(struct weir__procs_group *p, struct weir__rendezvous *m, bool failed);
    /* Polls for a short time until all ranks have arrived or, with `leaves`, have left. Called
     * without locks, for a call whose record is placed and that only this thread continues. Reads
     * only fields of the visit that do not change. NULL: polling does not pay. */
    void (*linger)(const struct weir__procs_group *p, const struct weir__rendezvous *m,
                   const struct weir__visit *visit, bool leaves);
    /* Called before the thread stops polling: from now on peers must ring this rank's bell. Under
     * world->lock. NULL: they always ring. */
    void (*sleep)(const struct weir__rendezvous *m);
    /* As weir__transport.at_once; the arguments of peers are in again->visit. Takes no lock. NULL:
     * not supported. */
    enum weir__at_once (*at_once)(struct weir__procs_group *p, struct weir__again *again,
                                  uint64_t call);
    /* Writes the members that are known to have left to `left`. */
    enum weir__step (*left)(struct weir__procs_group *p, struct weir__rendezvous *m,
                            struct weir__ranks *left, struct weir__participant **woken);
    void (*give_up)(struct weir__procs_group *p, struct weir__rendezvous *m);
    /* True if the rank (-1: any rank) has closed the group and will make no more calls. NULL: only
     * the link tells that. */
    bool (*closed)(const struct weir__procs_group *p, int rank);
    /* True if messages of a rank that has left are still in flight. NULL: they never are. */
    bool (*may_come)(const struct weir__procs_group *p, int rank);
    /* True if that rank's call of this number has arrived. NULL: the engine cannot tell. */
    bool (*has_arrived)(const struct weir__procs_group *p, const struct weir__channel *channel,
                        uint64_t call, int rank);
    /* Called right after the group broke. NULL: nothing to do. */
    void (*broken)(struct weir__procs_group *p);
    /* Returns how long the progress thread may sleep if nobody rings its bell. `calls_under_way`:
     * calls are in progress; *woken: participants that will be woken. NULL: no limit. */
    int64_t (*pause)(struct weir__world *world, bool calls_under_way,
                     struct weir__participant **woken);
};
extern const struct weir__engine weir__shm_engine, weir__mpi_engine, weir__nccl_engine;

/* Returns the engine of that name; NULL if there is none. */
const struct weir__engine *weir__engine_find(const char *name);
/* Returns the i-th engine; NULL past the last. */
const struct weir__engine *weir__engine_at(int i);
/* Checks that parts of collectives can read the memory of that many ranks. `engine` NULL: weir
 * chooses shm or mpi. `sharing` NULL: it is host memory. */
weir_status weir__procs_check_most(const struct weir__engine *engine,
                                   const struct weir__sharing *sharing, int ranks);

/* Why an engine cannot be used; initially zeroed. */
struct weir__engine_reason {
    struct weir__mutex lock;
    char text[300];
};
/* For `unavailable`: the first call copies the calling thread's last error. Returns the copy. */
const char *weir__engine_keep_reason(struct weir__engine_reason *why);

/* ---- members.c ---- */

/* Sends `bytes` bytes, at most WEIR__ENGINE_BLOB, to all members and receives theirs, indexed by
 * rank of the world. */
enum { WEIR__ENGINE_BLOB = 128 };
weir_status weir__engine_gather(struct weir__world *world, const char *key,
                                const struct weir__ranks *members, int64_t timeout_ns,
                                const void *mine, size_t bytes, struct weir__wire_gathered *all);

/* ---- visit.c: without locks ---- */

/* Fills this rank's record in `idle`, or in a new visit if that is NULL, and calls engine->show.
 * returns  NULL with the thread's error set. */
struct weir__visit *weir__visit_make(struct weir__procs_group *p, struct weir__visit *idle,
                                     const struct weir__meet *meet, uint64_t call);
/* Frees the staged copies. */
void weir__visit_end(const struct weir__world *world, struct weir__visit *visit);
/* Copies bytes to shared memory that is freed with the visit. False with the thread's error set. */
bool weir__visit_stage(const struct weir__world *world, struct weir__visit *visit, const void *from,
                       size_t bytes);
/* Allocates host memory for bytes that this rank's part will write and peers will read. The part
 * finds the address in visit->own. Freed with the visit. NULL with the thread's error set. */
void *weir__visit_make_room(struct weir__visit *visit, const struct weir__meet *meet,
                            const struct weir__code_shown *shown);
/* Writes to *out the arguments of rank `rank`, which wrote the record, with its shown pointers
 * replaced by `at`. False with the thread's error set if the record is malformed. */
bool weir__record_read(const struct weir__record *record, struct weir__channel *channel, int rank,
                       void *const *at, struct weir__meet *out);
/* True if that rank's record and this meet fit; else `text` describes both. */
bool weir__record_fits(const struct weir__record *record, const struct weir__meet *meet, char *text,
                       size_t size);

/* True if the call has two rounds and this rank's part has run only the first. */
bool weir__procs_round_follows(const struct weir__procs_group *p, const struct weir__rendezvous *m);

/* ---- gone.c: under world->lock ---- */

/* Writes to `gone` the members that will make no more calls; calls that they have already made may
 * still be in flight. False if there is none; then `gone` is not written. */
bool weir__procs_find_gone(const struct weir__procs_group *p, const struct weir__ranks *members,
                           struct weir__ranks *gone);
/* Writes what happened to a member that is gone. */
void weir__procs_say_gone(const struct weir__procs_group *p, int rank, char *text, size_t size);

/* ---- calls.c ---- */

/* Breaks the group on this rank and, with `tell`, on all ranks. Under world->lock. */
void weir__procs_break(struct weir__procs_group *p, weir_status status, const char *reason,
                       bool tell, struct weir__participant **woken);
/* Breaks a group that is not complete on this rank yet: the rank breaks it once it is complete. The
 * first reason is kept. Under world->lock. */
void weir__procs_break_early(struct weir__procs_group *p, weir_status status, const char *reason);
/* Breaks the group on all ranks because of a call, which the reason names. Under world->lock. */
void weir__procs_break_over(struct weir__procs_group *p, struct weir__rendezvous *m,
                            weir_status status, const char *why, struct weir__participant **woken);
/* Checks all calls of the group and continues those that can continue. Under world->lock. */
void weir__procs_look(struct weir__procs_group *p, uint64_t now_ns,
                      struct weir__participant **woken);
void weir__procs_wake(struct weir__participant *list, const struct weir__participant *self);
/* Rings this rank's own bell, so that its progress thread checks its calls. */
void weir__procs_poke(struct weir__world *world);

#endif
