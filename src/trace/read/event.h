/* Events of the Chrome trace format, one after the other. */
#ifndef WEIR_TRACE_READ_EVENT_H
#define WEIR_TRACE_READ_EVENT_H

#include "trace/read/json_read.h"

enum { WEIR__EVENT_ARGS = 32, WEIR__EVENT_TEXT = 16384 /* stacks are long */ };

struct weir__event_arg {
    const char *key;
    const char *text;   /* of a string; NULL otherwise */
    long double number; /* of a number; 1 for true; of a grid, its blocks */
    bool word;          /* true, false or null */
};

/* Texts are in `bytes`; what does not fit there, and arguments beyond the first 32, are
 * left out. A pid, tid or id that is a number becomes its text. */
struct weir__event {
    char phase; /* 0 if it has none */
    const char *name, *category, *pid, *tid;
    long double ts, dur; /* microseconds */
    bool has_dur;
    struct weir__event_arg args[WEIR__EVENT_ARGS];
    int nargs;
    size_t used;
    char bytes[WEIR__EVENT_TEXT];
};

/* The event that comes next; false with j->bad if it is none. */
bool weir__event_read(struct weir__json *j, struct weir__event *e);
/* NULL if there is none. */
const struct weir__event_arg *weir__event_find_arg(const struct weir__event *e, const char *key);
const char *weir__event_text(const struct weir__event *e, const char *key);
/* A number, also one written as a string; `otherwise` if there is none. */
long double weir__event_number(const struct weir__event *e, const char *key, long double otherwise);

/* Nanoseconds; times that no clock shows are cut to [-2^61, 2^62], so that differences fit. */
int64_t weir__event_ns(long double us);

#endif
