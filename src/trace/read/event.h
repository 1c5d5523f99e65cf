/* Reads the events of the Chrome trace format one by one. */
#ifndef WEIR_TRACE_READ_EVENT_H
#define WEIR_TRACE_READ_EVENT_H

#include "trace/read/json_read.h"

enum { WEIR__EVENT_ARGS = 32, WEIR__EVENT_TEXT = 16384 /* stacks are long */ };

struct weir__event_arg {
    const char *key;
    const char *text;   /* the value if it is a string, else NULL */
    long double number; /* the value if it is a number; 1 for true; the product of a list */
    bool word;          /* true, false or null */
};

/* Texts are stored in `bytes`. Texts that do not fit there, and arguments after the first 32, are
 * left out. A pid, tid or id that is a number is converted to text. */
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

/* Reads the next event; returns false and sets j->bad if the value is no event. */
bool weir__event_read(struct weir__json *j, struct weir__event *e);
/* Returns NULL if the event has no such argument. */
const struct weir__event_arg *weir__event_find_arg(const struct weir__event *e, const char *key);
const char *weir__event_text(const struct weir__event *e, const char *key);
/* Returns a number, also one written as a string; `otherwise` if there is none. */
long double weir__event_number(const struct weir__event *e, const char *key, long double otherwise);

/* Converts to nanoseconds, clamped to [-2^61, 2^62] so that differences do not overflow. */
int64_t weir__event_ns(long double us);

#endif
