/* The race checker, without devices: the order of commands, and accesses to memory.
 *
 * A stream is an id; its owner numbers its commands. A stream's history is a list of clocks, with
 * a new clock for each wait. So the clock of an old event is found by its mark (stream, seq) alone.
 * `host` holds the commands that host syncs have seen complete: everything queued later is ordered
 * after them.
 *
 * A collective orders streams: everything that a rank queued up to its call is ordered before
 * everything that any rank queues after its own call. The checker learns of the calls one rank
 * after the other, so it may see commands in the wrong order: rank 0 calls and queues more work,
 * and only then rank 1 queues the work before its call. So an access after a call that not all
 * ranks have made is not judged yet; the checker keeps it in a pair with each access it may race
 * with, until all ranks have called. The accesses of the collective itself count as its rank's own:
 * on other transports a rank's buffers are read and written as soon as that rank has arrived.
 *
 * A region is memory that is checked together: one buffer, or all memory that weir does not own.
 * It keeps the accesses that later ones could race with. An access can be dropped if a later access
 * is ordered after it, covers its bytes and writes if it writes: an access that races with the
 * dropped one then races with the later one too.
 *
 * threads  no locks here: the caller holds one.
 */
#ifndef WEIR_CHECK_RACE_RACE_H
#define WEIR_CHECK_RACE_RACE_H

#include "check/race/footprint.h"

struct weir__race_clock;
struct weir__race_rendezvous;

struct weir__race_order {
    struct weir__race_history {
        struct weir__race_clock *clocks; /* by ascending `from` */
        int n, cap;
    } * streams; /* by id */
    int nstreams, cap_streams;
    uint64_t *host; /* by id */
    int cap_host;
    uint64_t forgotten;                 /* clocks dropped; their commands count as ordered */
    struct weir__race_rendezvous *open; /* collectives that not every rank has called */
    uint64_t visit;                     /* number of the last walk over rendezvous */
};

/* The type and shape of an operand, for reports. */
struct weir__race_shape {
    const char *type; /* "f32", never freed */
    int ndim;
    int64_t size[WEIR__FOOTPRINT_DIMS];
};

/* One access. A record is written for each operand of each operator, so the fields that every
 * access fills lie together, apart from the lists of dims. */
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
    uint32_t epoch;                        /* the watch's epoch when the records were made */
    uintptr_t first, end;                  /* of the buffer */
    struct weir__race_region *next, **was; /* list of all buffers' regions; `was` points at the
                                            * pointer to this region */
};

/* Returns a new id, or -1 when out of memory. Commands up to `seq` count as seen by the host. */
int weir__race_add_stream(struct weir__race_order *o, uint64_t seq);
/* Orders commands of `stream` from number `from` on after command `seq` of `source`.
 * returns  WEIR_ENOMEM: then `seq` counts as seen by the host. So no false race is reported, but a
 *          real one may be missed. */
weir_status weir__race_wait(struct weir__race_order *o, int stream, uint64_t from, int source,
                            uint64_t seq);
/* The host saw command `seq` of `stream` complete, and so everything ordered before it. */
void weir__race_host_saw(struct weir__race_order *o, int stream, uint64_t seq);
/* Returns the last command of `source` that is ordered before work queued on `stream` now. */
uint64_t weir__race_ordered(struct weir__race_order *o, int stream, int source);
/* Returns the last command of `source` that waits and collectives order before command `seq` of
 * `stream`. */
uint64_t weir__race_ordered_at(struct weir__race_order *o, int stream, uint64_t seq, int source);
/* Records that command `seq` of `stream`, its last one, is one rank's call of a collective: number
 * `call` on `channel`, which `ranks` ranks make. True if this settled a collective: then pairs may
 * be judged. When out of memory everything counts as ordered. */
bool weir__race_meet(struct weir__race_order *o, int stream, uint64_t seq, const void *channel,
                     uint64_t call, int ranks);
/* The channel is destroyed: no further rank will make its calls. */
void weir__race_leave(struct weir__race_order *o, const void *channel);
/* True if all ranks have made every call that command `seq` of `stream` is ordered after. */
bool weir__race_is_settled(struct weir__race_order *o, int stream, uint64_t seq);
void weir__race_order_fini(struct weir__race_order *o);

/* Returns the next record from `*at` on that an access of `stream` to `bytes` would race with; NULL
 * at the end. */
const struct weir__race_record *weir__race_find(struct weir__race_order *o,
                                                const struct weir__race_region *region, int stream,
                                                const struct weir__footprint *bytes, bool writes,
                                                int *at);
/* Drops the records that an access of the stream's last command covers, and makes room for its own
 * record. The caller fills in *slot.
 * returns  WEIR_ENOMEM; WEIR_ERANGE if the region is full. */
weir_status weir__race_reserve(struct weir__race_order *o, struct weir__race_region *region,
                               int stream, const struct weir__footprint *bytes, bool writes,
                               struct weir__race_record **slot);
/* Makes room in a full region: merges what a stream reads of one owner into one access of all bytes
 * between, and what it writes likewise. Real races are still found; false ones may be reported. */
void weir__race_coarsen(struct weir__race_region *region);
/* Drops the records of an owner. */
void weir__race_drop_owner(struct weir__race_region *region, const void *owner);
void weir__race_region_fini(struct weir__race_region *region);

/* ---- pairs of accesses that race unless a collective orders them ---- */

struct weir__race_pairs {
    struct weir__race_pair {
        struct weir__race_record first, second;
    } * at;
    int n, cap;
};

/* True if the order of access `a` and command `seq` of `stream` can no longer change. */
bool weir__race_is_decided(struct weir__race_order *o, const struct weir__race_record *a,
                           int stream, uint64_t seq);
/* Keeps a pair to be judged later.
 * returns  WEIR_ENOMEM; WEIR_ERANGE if there are too many. */
weir_status weir__race_suspect(struct weir__race_pairs *pairs,
                               const struct weir__race_record *first,
                               const struct weir__race_record *second);
/* Removes a pair that is decided and races, and returns it in *race; false if there is none. Drops
 * the pairs that are ordered. */
bool weir__race_judge(struct weir__race_order *o, struct weir__race_pairs *pairs,
                      struct weir__race_pair *race);
void weir__race_pairs_fini(struct weir__race_pairs *pairs);

#endif
