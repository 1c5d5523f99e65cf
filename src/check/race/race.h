/* The race checker, without devices: order of commands, and accesses to memory.
 *
 * Streams are ids; commands of a stream are numbered by whoever owns it. A stream's history
 * is a list of clocks, a new one whenever it waits, so that an event that was recorded long
 * ago is found again by its mark (stream, seq) alone. `host` is what host syncs have seen:
 * everything queued later comes after it.
 *
 * Collectives are syncs between streams: what any rank queued up to its call comes before what
 * every rank queues after its own. Calls are told as they are made, one rank after the other, so
 * that what is queued first may come last: rank 0 calls and goes on, and only then rank 1 queues
 * what it does before its call. An access behind a call that not all ranks have made is therefore
 * not judged but kept in pairs, until they have. The accesses of the collective itself are those
 * of its rank: on other transports a rank's buffers are read and written from its own arrival on.
 *
 * A region is memory that is checked together: one buffer, or all memory that is not weir's
 * own. It keeps the accesses that later ones could race with; one that is covered by an
 * ordered access of at least its kind can be forgotten, as whoever races with it races with
 * that one too.
 *
 * threads  none of this locks.
 */
#ifndef WEIR_CHECK_RACE_RACE_H
#define WEIR_CHECK_RACE_RACE_H

#include "check/race/footprint.h"

struct weir__race_clock;
struct weir__race_rendezvous;

struct weir__race_order {
    struct weir__race_history {
        struct weir__race_clock *clocks; /* by rising `from` */
        int n, cap;
    } * streams; /* by id */
    int nstreams, cap_streams;
    uint64_t *host; /* by id */
    int cap_host;
    uint64_t forgotten;                 /* clocks given up: what they ordered counts as ordered */
    struct weir__race_rendezvous *open; /* collectives that not every rank has called */
    uint64_t visit;                     /* of the last walk over rendezvous */
};

/* What an operand looks like. */
struct weir__race_shape {
    const char *type; /* "f32", never freed */
    int ndim;
    int64_t size[WEIR__FOOTPRINT_DIMS];
};

/* What every access writes stands together, the lists of dims apart from it: a record is written
 * for each operand of each operator. */
struct weir__race_record {
    char op[48];      /* for reports, as are file, line and shape */
    const char *file; /* of the call; NULL if unknown */
    int line;
    int stream;
    uint64_t seq;
    const void *owner; /* the buffer it belongs to */
    bool writes;
    struct weir__footprint bytes;
    struct weir__race_shape shape;
};

struct weir__race_region {
    struct weir__race_record *records;
    int n, cap;
    uint32_t epoch;                        /* of the watch that filled it */
    uintptr_t first, end;                  /* of the buffer */
    struct weir__race_region *next, **was; /* all of buffers, and who points here */
};

/* A new id, or -1 when out of memory. Its commands up to `seq` count as seen by the host. */
int weir__race_add_stream(struct weir__race_order *o, uint64_t seq);
/* What is queued on `stream` from its command `from` on comes after `source`'s `seq`.
 * returns  WEIR_ENOMEM: then the host counts as having seen `seq`, so that nothing is
 *          reported that is not a race. */
weir_status weir__race_wait(struct weir__race_order *o, int stream, uint64_t from, int source,
                            uint64_t seq);
/* The host saw `seq` of `stream` over, and all that comes before it. */
void weir__race_host_saw(struct weir__race_order *o, int stream, uint64_t seq);
/* The last command of `source` that work queued on `stream` now comes after. */
uint64_t weir__race_ordered(struct weir__race_order *o, int stream, int source);
/* The same for command `seq` of the stream, as far as waits and collectives order it. */
uint64_t weir__race_ordered_at(struct weir__race_order *o, int stream, uint64_t seq, int source);
/* Command `seq` of `stream`, its last one, is the call of one of `ranks` ranks: number `call` on
 * `channel`. True if it was the last of them: pairs may be judged.
 * When out of memory everything counts as ordered. */
bool weir__race_meet(struct weir__race_order *o, int stream, uint64_t seq, const void *channel,
                     uint64_t call, int ranks);
/* The channel is gone: nobody else will come to its calls. */
void weir__race_leave(struct weir__race_order *o, const void *channel);
/* Whether all ranks have made the calls that command `seq` of `stream` comes after. */
bool weir__race_is_settled(struct weir__race_order *o, int stream, uint64_t seq);
void weir__race_order_fini(struct weir__race_order *o);

/* The next record from `*at` on that races with such an access of `stream`; NULL at the end. */
const struct weir__race_record *weir__race_find(struct weir__race_order *o,
                                                const struct weir__race_region *region, int stream,
                                                const struct weir__footprint *bytes, bool writes,
                                                int *at);
/* Room for an access that is about to be kept, of the stream's last command, once those it
 * covers are gone; *slot is to be filled in with it.
 * returns  WEIR_ENOMEM; WEIR_ERANGE if the region is full. */
weir_status weir__race_reserve(struct weir__race_order *o, struct weir__race_region *region,
                               int stream, const struct weir__footprint *bytes, bool writes,
                               struct weir__race_record **slot);
/* Makes room in a full region: what a stream reads of one owner becomes one access to all bytes
 * between, and so does what it writes. What races still does; what does not may seem to. */
void weir__race_coarsen(struct weir__race_region *region);
/* Forgets the accesses of an owner. */
void weir__race_drop_owner(struct weir__race_region *region, const void *owner);
void weir__race_region_fini(struct weir__race_region *region);

/* ---- pairs of accesses that race unless a collective orders them ---- */

struct weir__race_pairs {
    struct weir__race_pair {
        struct weir__race_record first, second;
    } * at;
    int n, cap;
};

/* Whether that access and one of command `seq` of `stream` can be judged. */
bool weir__race_is_decided(struct weir__race_order *o, const struct weir__race_record *a,
                           int stream, uint64_t seq);
/* returns  WEIR_ENOMEM; WEIR_ERANGE if there are too many. */
weir_status weir__race_suspect(struct weir__race_pairs *pairs,
                               const struct weir__race_record *first,
                               const struct weir__race_record *second);
/* Takes a pair out that turned out to race; false if there is none. Pairs that turned out to be
 * ordered are dropped. */
bool weir__race_judge(struct weir__race_order *o, struct weir__race_pairs *pairs,
                      struct weir__race_pair *race);
void weir__race_pairs_fini(struct weir__race_pairs *pairs);

#endif
