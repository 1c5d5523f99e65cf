/* The scheduler of the soft devices: it grants cores to streams.
 *
 * A stream is in the scheduler while it wants a core: because its next command is
 * ready (WEIR__WANTS_CORE), because its running operator has blocks for more cores
 * (WEIR__WANTS_HELP), or because its next operator needs all its cores at once
 * (WEIR__WANTS_GANG). Streams are ordered by priority, then by arrival.
 *
 * A gang holds no core while it waits. Instead it closes the door behind itself: streams that
 * arrive after it get no core of that kind until the gang has started. So it waits only for
 * operators that already run. Every 64th pick tries the stream that has waited longest first, so
 * that no priority starves. That stream may be a gang that does not fit yet, or a mix block, which
 * also takes several cores at once. Then it becomes the *elder*: the door is closed to every
 * stream, more urgent or not, until the elder starts. Invariant: at most one stream is the elder.
 *
 * Nothing here depends on threads or time. On `cpu`, many threads pick under the lock, one core at
 * a time. In virtual time there are no threads that could take cores: `npu` takes the streams in
 * order of arrival (weir__sched_take) and grants cores by the rules of sim/sim.h.
 */
#ifndef WEIR_SOFT_SCHED_H
#define WEIR_SOFT_SCHED_H

#include <stdatomic.h>

#include "base/lock.h"
#include "weir/device.h"

#define WEIR__MAX_CORES 1024
#define WEIR__PRIORITIES 16

struct weir__soft_stream;

struct weir__coreset {
    unsigned total, nfree;
    uint64_t free[WEIR__MAX_CORES / 64];
};

enum weir__want { WEIR__WANTS_NOTHING, WEIR__WANTS_CORE, WEIR__WANTS_HELP, WEIR__WANTS_GANG };

/* Cores of one block. */
struct weir__grant {
    uint8_t kind; /* enum weir__core_kind that was asked for */
    uint8_t ncube, nvector;
    uint16_t cube, vector[2];
};

/* Which cores an engine takes. Where cube and vector share cores, everything that
 * takes one takes a cube core. */
enum weir__core_kind { WEIR__CORE_NONE, WEIR__CORE_CUBE, WEIR__CORE_VECTOR, WEIR__CORE_MIX };

struct weir__sched {
    struct weir__spin lock;
    _Atomic uint32_t ready; /* bit p: a stream of priority p - 8 wants a core */
    bool split;             /* cube and vector cores are separate */
    struct weir__coreset cube, vector;
    uint64_t arrivals, picks;
    _Atomic unsigned gangs;          /* number of waiting gangs; written under the lock */
    struct weir__soft_stream *elder; /* it starts next, as soon as all its cores are free */
    struct weir__queue {
        struct weir__soft_stream *first, *last;
    } queues[WEIR__PRIORITIES];
};

/* The scheduler's part of a stream. */
struct weir__entry {
    struct weir__soft_stream *prev, *next;
    uint64_t arrival;
    uint8_t want; /* enum weir__want */
    uint8_t kind; /* enum weir__core_kind of what it wants */
};

void weir__sched_init(struct weir__sched *sched, int cube, int vector, bool split);

enum weir__core_kind weir__sched_kind(const struct weir__sched *sched, weir_engine engine);

/* All functions below are called under sched->lock. */

/* Adds the stream at the end of the queue of its priority. */
void weir__sched_add(struct weir__sched *sched, struct weir__soft_stream *s, enum weir__want want,
                     enum weir__core_kind kind);
void weir__sched_remove(struct weir__sched *sched, struct weir__soft_stream *s);

/* Picks the next stream that can run and takes its cores; NULL if none can. A stream that wanted a
 * core is removed from the scheduler. A stream that wants help stays as long as more cores may
 * join. A gang's cores are recorded in s->run. With `aged` the stream that has waited longest is
 * tried before the most urgent one. */
struct weir__soft_stream *weir__sched_pick(struct weir__sched *sched, struct weir__grant *grant,
                                           enum weir__want *was, bool aged);

/* Removes the stream that arrived first and returns it, without regard to free cores; NULL if there
 * is none. For devices that count cores themselves. */
struct weir__soft_stream *weir__sched_take(struct weir__sched *sched);

/* Takes the cores of one block. False if too few are free, or a gang or the elder waits. */
bool weir__sched_try(struct weir__sched *sched, enum weir__core_kind kind,
                     struct weir__grant *grant);
void weir__sched_release(struct weir__sched *sched, struct weir__grant *grant);
void weir__sched_release_gang(struct weir__sched *sched, struct weir__soft_stream *s);

#endif
