/* The race checker of the process: devices and tensors report to it every command they queue.
 *
 * While the checker is off each call costs one load. The checker learns of a stream when it first
 * sees it; commands queued before that count as ordered.
 *
 * threads  any. The checker has one lock, which may be taken inside device locks; no other lock is
 *          taken while it is held.
 */
#ifndef WEIR_CHECK_RACE_WATCH_H
#define WEIR_CHECK_RACE_WATCH_H

#include <stdatomic.h>

#include "check/race/race.h"
#include "weir/race.h"

extern _Atomic int weir__race_mode; /* weir_race_mode */

static inline bool weir__race_on(void)
{
    return weir__unlikely(atomic_load_explicit(&weir__race_mode, memory_order_relaxed));
}

/* ---- mode.c ---- */

/* Reads WEIR_CHECK, once.
 * returns  WEIR_EINVAL if the value is unknown; the error names it. */
weir_status weir__race_from_environment(void);

/* ---- watch.c ---- */

/* Resets the checker and sets its mode. */
void weir__race_switch(weir_race_mode mode);

/* A stream's id in the checker; the stream stores it. */
struct weir__race_name {
    int id;
    uint32_t epoch; /* the id is valid only if this is the watch's epoch */
};

/* A stream, as callers describe it to the checker. */
struct weir__race_stream {
    struct weir__race_name *name;
    uint64_t queued; /* its last command so far */
    const char *text, *device;
};

/* Everything queued on `s` from now on waits for command `seq` of `source`. */
void weir__race_see_wait(struct weir__race_stream s, struct weir__race_stream source, uint64_t seq);
void weir__race_see_host(struct weir__race_stream s, uint64_t seq);
/* Command `s.queued` is call number `call` on a channel of `ranks` ranks: commands after it are
 * ordered after the calls of all ranks. Races that depend on it are reported once all ranks have
 * called. */
void weir__race_see_call(struct weir__race_stream s, const void *channel, uint64_t call, int ranks);
/* The channel is destroyed. */
void weir__race_see_end(const void *channel);

/* An operand of an operator that is about to be queued. */
struct weir__race_operand {
    struct weir__race_region **region; /* in its buffer; NULL for memory that weir does not own */
    uintptr_t first, end;              /* of the buffer */
    const void *owner;
    bool writes;
    const char *type; /* "f32", never freed */
    int ndim;
    const int64_t *size; /* of each dim; the tensor owns the array */
    struct weir__footprint bytes;
};

/* The waits that an operator needs, one for each stream. */
struct weir__race_missing {
    struct weir__race_wait_for {
        struct weir__race_name *name; /* of the stream to wait for */
        uint64_t seq;
    } * at;
    int n, cap;
};

/* Compares the operands with the kept accesses, before the operator is queued. In error mode a race
 * returns WEIR_ERACE. In autosync mode `missing`, which must be empty, gets all waits that the
 * caller must queue first; the caller frees missing->at with weir__free. */
weir_status weir__race_before(struct weir__race_stream s, const char *op,
                              const struct weir__race_operand *operands, int n,
                              struct weir__race_missing *missing);
/* Records the accesses of the operator, which has been queued as command `s.queued`. */
void weir__race_after(struct weir__race_stream s, const char *op,
                      const struct weir__race_operand *operands, int n);

/* The buffer was freed: the pool orders later commands that use its bytes. */
void weir__race_forget(struct weir__race_region **region, const void *owner);

/* ---- race_text.c ---- */

/* Describes the race in one sentence: both operators, and that nothing orders them. */
void weir__race_say(struct weir__text *text, const weir_race *race);
/* Describes the race in full: both accesses, why they are unordered, and the missing wait. */
void weir__race_describe(struct weir__text *text, const weir_race *race);

#endif
