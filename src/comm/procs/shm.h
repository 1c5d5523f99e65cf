/* The transport of one host, inside: a group's part of a world, and calls under way. */
#ifndef WEIR_COMM_PROCS_SHM_H
#define WEIR_COMM_PROCS_SHM_H

#include "comm/procs/cells.h"

/* Shared memory of a process by itself: peers ring. */
struct weir__home {
    _Alignas(64) _Atomic uint32_t bell;
};

/* A call of this rank that is under way. */
struct weir__visit {
    struct weir__visit *next;
    struct weir__cell *cell;
    uint64_t generation;
    bool placed; /* its record is in the cell */
    int nstaged;
    struct {
        void *piece;
        size_t bytes;
    } staged[WEIR__CODE_SHOWN];
    struct weir__record record;
    _Alignas(16) unsigned char args[][WEIR_ARGS_MAX]; /* of peers, with pointers of this process */
};

struct weir__procs_group {
    weir_group *group;
    struct weir__world *world;
    struct weir__procs_group *next; /* of the world */
    char key[WEIR__WIRE_KEY];
    int self;
    int ranks;
    int world_rank[WEIR_MAX_RANKS];
    struct weir__cells *cells;
    bool owns_cells;
    struct weir__reached *reached; /* the cells of others */
    struct weir__visit *idle;      /* under world->lock */
    weir_status early;             /* others broke it before it was made here */
    char early_text[WEIR__WIRE_TEXT];
};

/* ---- visit.c: without locks ---- */

/* What this rank's record says; memory that peers cannot read is copied.
 * returns  NULL with the error said. */
struct weir__visit *weir__visit_make(struct weir__procs_group *p, struct weir__visit *idle,
                                     const struct weir__meet *meet, uint64_t call);
/* Gives the copies back. */
void weir__visit_end(struct weir__visit *visit);
/* The record of rank `rank` as arguments of this process, in visit->args[rank]; false with the
 * error said. Under world->lock. */
bool weir__visit_read(struct weir__procs_group *p, struct weir__visit *visit,
                      struct weir__channel *channel, int rank);
/* Whether that rank's record and this meet fit; else `text` says both sides. */
bool weir__visit_fits(const struct weir__visit *visit, const struct weir__meet *meet, int rank,
                      char *text, size_t size);

/* ---- shm.c ---- */

/* Breaks the group here, and with `tell` everywhere. Under world->lock. */
void weir__shm_break(struct weir__procs_group *p, weir_status status, const char *reason, bool tell,
                     struct weir__participant **woken);
/* Goes on with whatever of the group can go on. Under world->lock. */
void weir__shm_look(struct weir__procs_group *p, uint64_t now_ns, struct weir__participant **woken);
/* Rings other members, of `ranks` of the group. */
void weir__shm_ring(const struct weir__procs_group *p, uint64_t ranks);
void weir__shm_wake(struct weir__participant *list, const struct weir__participant *self);

#endif
