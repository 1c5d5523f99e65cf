/* The race checker of the process: devices and tensors report to it what runs.
 *
 * Everything here costs one load while the checker is off. Streams are known to it from
 * when they are first seen; what was queued before counts as ordered.
 *
 * threads  any: it has a lock of its own, which is taken inside device locks and takes none.
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
 * returns  WEIR_EINVAL naming what it does not know. */
weir_status weir__race_from_environment(void);

/* ---- watch.c ---- */

/* Forgets everything and goes on in this mode. */
void weir__race_switch(weir_race_mode mode);

/* What a stream keeps of the checker. */
struct weir__race_name {
    int id;
    uint32_t epoch; /* of the id; another one: not known yet */
};

/* A stream as it is told to the checker. */
struct weir__race_stream {
    struct weir__race_name *name;
    uint64_t queued; /* its last command so far */
    const char *text, *device;
};

/* `s` will wait for `seq` of `source`: whatever is queued on it from now on. */
void weir__race_see_wait(struct weir__race_stream s, struct weir__race_stream source, uint64_t seq);
void weir__race_see_host(struct weir__race_stream s, uint64_t seq);
/* Command `s.queued` is call `call` on a channel between so many ranks: what comes after it
 * comes after the calls of all of them. Races that hang on it are reported once all have come. */
void weir__race_see_call(struct weir__race_stream s, const void *channel, uint64_t call, int ranks);
/* The channel is gone. */
void weir__race_see_end(const void *channel);

/* An operand of an operator that is about to be queued. */
struct weir__race_operand {
    struct weir__race_region **region; /* where its buffer keeps it; NULL: memory not weir's */
    uintptr_t first, end;              /* of the buffer */
    const void *owner;
    bool writes;
    const char *type; /* "f32", never freed */
    int ndim;
    const int64_t *size; /* of each dim; the tensor's own */
    struct weir__footprint bytes;
};

/* Waits that would order the operator, one for each stream. */
struct weir__race_missing {
    struct weir__race_wait_for {
        struct weir__race_name *name; /* of the stream to wait for */
        uint64_t seq;
    } * at;
    int n, cap;
};

/* Compares the operands with what was kept. In error mode a race is returned as WEIR_ERACE;
 * in autosync mode *missing, empty before, gets all that there is to wait for before the operator
 * is queued; weir__free its list. */
weir_status weir__race_before(struct weir__race_stream s, const char *op,
                              const struct weir__race_operand *operands, int n,
                              struct weir__race_missing *missing);
/* The operator is command `s.queued` now. */
void weir__race_after(struct weir__race_stream s, const char *op,
                      const struct weir__race_operand *operands, int n);

/* The buffer is given back: what is queued next on its bytes is ordered by the pool. */
void weir__race_forget(struct weir__race_region **region, const void *owner);

/* ---- race_text.c ---- */

/* In one sentence: both operators, and that nothing orders them. */
void weir__race_say(struct weir__text *text, const weir_race *race);
/* In full: both accesses, why they are unordered, and the missing wait. */
void weir__race_describe(struct weir__text *text, const weir_race *race);

#endif
