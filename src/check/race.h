/* Who came before whom, and who touched what: the race checker without devices.
 *
 * Streams are ids; commands of a stream are numbered by whoever owns it. A stream's history
 * is a list of clocks, a new one whenever it waits, so that an event that was recorded long
 * ago is found again by its mark (stream, seq) alone. `host` is what host syncs have seen:
 * everything queued later comes after it.
 *
 * A region is memory that is checked together: one buffer, or all memory that is not weir's
 * own. It keeps the accesses that later ones could race with; one that is covered by an
 * ordered access of at least its kind can be forgotten, as whoever races with it races with
 * that one too.
 *
 * threads  none of this locks.
 */
#ifndef WEIR_CHECK_RACE_H
#define WEIR_CHECK_RACE_H

#include "check/footprint.h"

struct weir__race_clock;

struct weir__race_order {
    struct weir__race_history {
        struct weir__race_clock *clocks; /* by rising `from` */
        int n, cap;
    } * streams; /* by id */
    int nstreams, cap_streams;
    uint64_t *host; /* by id */
    int cap_host;
    uint64_t forgotten; /* clocks given up: what they ordered counts as ordered */
};

/* What an operand looks like. */
struct weir__race_shape {
    const char *type; /* "f32", never freed */
    int ndim;
    int64_t size[WEIR__FOOTPRINT_DIMS];
};

struct weir__race_record {
    uint64_t seq;
    int stream;
    bool writes;
    struct weir__footprint bytes;
    const void *owner; /* the buffer it belongs to */
    /* For reports: */
    char op[48];
    struct weir__race_shape shape;
    const char *file; /* of the call; NULL if unknown */
    int line;
};

struct weir__race_region {
    struct weir__race_record *records;
    int n, cap;
    uint32_t epoch; /* of the watch that filled it */
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
uint64_t weir__race_ordered(const struct weir__race_order *o, int stream, int source);
void weir__race_order_fini(struct weir__race_order *o);

/* The next record from `*at` on that races with such an access of `stream`; NULL at the end. */
const struct weir__race_record *weir__race_find(const struct weir__race_order *o,
                                                const struct weir__race_region *region, int stream,
                                                const struct weir__footprint *bytes, bool writes,
                                                int *at);
/* Room for an access that is about to be kept, once those it covers are gone; *slot is to be
 * filled in with it. returns WEIR_ENOMEM; WEIR_ERANGE if the region is full. */
weir_status weir__race_reserve(const struct weir__race_order *o, struct weir__race_region *region,
                               int stream, const struct weir__footprint *bytes, bool writes,
                               struct weir__race_record **slot);
/* Forgets the accesses of an owner. */
void weir__race_drop_owner(struct weir__race_region *region, const void *owner);
void weir__race_region_fini(struct weir__race_region *region);

#endif
