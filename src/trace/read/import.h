/* Between the files that read profiles of others:
 *   import.c        which tracks are streams of which devices
 *   import_event.c  what one event of a profile is
 *   import_self.c   spans around spans: what each did itself
 *   import_calls.c  calls of the host: which of them launched what, waited, synchronised
 *   import_callers.c  which module and line of the program launched what
 *   import_order.c  operators in order, and what they waited for
 */
#ifndef WEIR_TRACE_READ_IMPORT_H
#define WEIR_TRACE_READ_IMPORT_H

#include <stdio.h>

#include "trace/read/load.h"

enum weir__span_kind { WEIR__SPAN_WORK, WEIR__SPAN_WAIT, WEIR__SPAN_RECORD, WEIR__SPAN_NOTHING };

#define WEIR__SPAN_ANY (-1)

struct weir__import_span {
    const char *name;
    const char *scope;       /* the modules that launched it; NULL if they are not known */
    const char *source_line; /* the same of the line */
    const char *frame;       /* of its own call stack (weir__import_frame); NULL if it has none */
    uint64_t autograd; /* of an operator of the host: its number, which its backward pass has too;
                        * 0: none */
    bool backward;
    int track;
    enum weir__span_kind kind;
    weir_engine engine;
    uint32_t blocks;
    uint64_t bytes;
    int64_t from, to;
    uint32_t device, stream;
    bool marked; /* by its category, as work of a device */
    bool caller; /* it only says who called: a step, a Python function */
    /* Calls of the host have numbers that count up; 0: unknown. */
    uint64_t launch; /* the call that launched it */
    uint64_t event;  /* of a record, and of a wait: the event's number */
    /* Of a wait, and of work that a call made wait: */
    int source;      /* the stream waited for, or WEIR__SPAN_ANY */
    uint64_t before; /* what was launched by an earlier call; 0: any */
    bool waits;      /* of work */
    uint64_t synced; /* of work: the host's last synchronisation before its launch; 0: none */
};

enum weir__call_kind { WEIR__CALL_OTHER, WEIR__CALL_WAIT, WEIR__CALL_SYNC };

/* A call of the host that handed something to a device. */
struct weir__import_call {
    uint64_t id;
    int track;
    int64_t at;
    enum weir__call_kind kind;
};

enum weir__track_mark {
    WEIR__MARK_NONE,
    WEIR__MARK_STREAM,
    WEIR__MARK_ASCEND,
    WEIR__MARK_CATEGORY
};

struct weir__import_track {
    const char *pid, *tid;
    const char *process, *thread; /* names, NULL if not given */
    enum weir__track_mark mark;
    int number;              /* of the device in the profile's list, -1 if not given */
    uint32_t device, stream; /* WEIR_TRACE_NONE until something is taken from it */
};

/* A device as the profile describes it. */
struct weir__import_device {
    int number;
    const char *model;
    int cores;
};

struct weir__import {
    weir_trace *t;
    struct weir__import_track *tracks;
    int ntracks, cap_tracks;
    int *slots; /* of tracks by hash, -1 free */
    int nslots;
    struct weir__import_span *spans;
    int nspans, cap_spans;
    struct weir__import_call *calls;
    int ncalls, cap_calls;
    struct weir__import_device *devices;
    int ndevices, cap_devices;
    int rank; /* that the profile says it is of, -1 if it does not */
    enum weir__track_mark best;
};

/* A copy that lives as long as the trace; "" with j->bad when out of memory. */
const char *weir__import_keep(struct weir__json *j, struct weir__import *im, const char *text);
/* An index, since tracks move; -1 with j->bad when out of memory. */
int weir__import_find_track(struct weir__json *j, struct weir__import *im, const char *pid,
                            const char *tid);
/* `word` is in the text, whatever the text's case; `word` is in lower case. */
bool weir__import_has(const char *text, const char *word);

/* A span ("ph":"X"): adds work, waits and calls that it stands for. */
void weir__import_add_span(struct weir__json *j, struct weir__import *im,
                           const struct weir__event *e, int track);

/* The frame of a stack ("model.py(40): forward;...", the innermost first) whose line is to be
 * shown, and how long it is; NULL if none has a line. */
const char *weir__import_frame(const char *stack, size_t *size);
/* Says of each span of work which modules and which line launched it. */
weir_status weir__import_callers(struct weir__import *im);

/* Sorts the calls, and tells work by which of them it was made to wait. `n` spans are left. */
weir_status weir__import_calls(struct weir__import *im, int n);

/* Of spans sorted by stream and start, the longer first: what each did itself, one behind the
 * other. Callers and those that did nothing themselves are left out.
 * returns  how many are left; -1 when out of memory. */
int weir__import_self_time(struct weir__import_span *spans, int n);
int weir__import_compare_spans(const void *a, const void *b);

/* Sorts the spans and makes operators and waits of them.
 * returns  WEIR_ENOMEM. */
weir_status weir__import_order(weir_trace *t, struct weir__import_span *spans, int nspans);

#endif
