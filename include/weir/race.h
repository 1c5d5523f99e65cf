/* The race checker: finds two operators of different streams that access the same bytes, at least
 * one writing, without anything that orders them.
 *
 * Streams, event waits, wait_tensor, tokens, plans, copies between devices, collectives and host
 * syncs order operators. Timing does not: two operators that happened to run one after the other
 * are reported all the same. weir itself orders the reuse of pool memory. Views are compared
 * element by element, so that two columns of one matrix do not conflict.
 *
 * A collective, or a plan that contains one, comes after everything its ranks did before their
 * calls and before everything they do after them. Its ranks are called one after the other, so the
 * checker judges operators behind a collective only when the last rank has made its call. Such a
 * race is reported in every mode: the operator is already queued and cannot be refused, and a wait
 * inserted so late could deadlock.
 *
 * Switched on by weir_race_set_mode, or by the environment when the first device is opened:
 * WEIR_CHECK=race (report), race=error or race=autosync. Switch it on before the work that
 * is to be checked: what was queued before counts as ordered.
 *
 * threads  any, for all of these.
 */
#ifndef WEIR_RACE_H
#define WEIR_RACE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weir_race_mode {
    WEIR_RACE_OFF,
    WEIR_RACE_REPORT,   /* keep the races found, warn in the log */
    WEIR_RACE_ERROR,    /* refuse the operator that would race: WEIR_ERACE, nothing is queued */
    WEIR_RACE_AUTOSYNC, /* queue the missing wait, and keep a record of it */
} weir_race_mode;

/* Sets the mode and forgets everything seen so far.
 * returns  WEIR_EINVAL for an unknown mode. */
WEIR_API weir_status weir_race_set_mode(weir_race_mode mode);
WEIR_API weir_race_mode weir_race_get_mode(void);

/* One of the two operators. */
typedef struct weir_race_access {
    char op[48];
    char stream[48];
    char device[64];
    char tensor[96];   /* "f32[3, 3]" */
    uintptr_t address; /* of its first element */
    bool writes;
    uint64_t command; /* its number on the stream */
    char file[128];   /* where it was called, as weir_source_set said; "" if it did not */
    int line;
} weir_race_access;

typedef struct weir_race {
    weir_race_access first, second; /* in the order they were queued */
    uint64_t ordered_up_to; /* the last command of first.stream that second's stream waits for */
    bool fixed;             /* autosync queued the missing wait */
    uint64_t times;         /* how often this pair of calls was found */
} weir_race;

/* The races found since the mode was set, in the order they were found; pairs of the same
 * operators, streams and places are counted in one row. Fills at most `max` rows and returns
 * how many there are. */
WEIR_API size_t weir_race_list(weir_race *out, size_t size, size_t max);

/* `lost` counts records that did not fit into host memory; each may hide a race. */
typedef struct weir_race_stats {
    uint64_t operators, races, waits_inserted, lost;
} weir_race_stats;
WEIR_API void weir_race_get_stats(weir_race_stats *out, size_t size);

/* The races as a readable report: both accesses, why they are unordered, and the missing wait.
 * Free with free(). NULL when out of memory. */
WEIR_API char *weir_race_report(void);

/* Says where this thread's next calls come from, for reports; a binding sets it from its
 * own frames. `file` is copied when a race is kept, so it must outlive the queued work.
 * NULL forgets it. */
WEIR_API void weir_source_set(const char *file, int line);

#ifdef __cplusplus
}
#endif
#endif
