/* Shared by the files that import profiles of other tools:
 *   import.c          finds which tracks are streams of which devices
 *   import_event.c    classifies one event of a profile
 *   import_self.c     computes the own time of nested spans
 *   import_calls.c    calls of the host: launches, waits and synchronisations
 *   import_callers.c  finds the module and line of the program that launched each operator
 *   import_order.c    sorts the operators, and finds what each of them waited for
 */
#ifndef WEIR_TRACE_READ_IMPORT_H
#define WEIR_TRACE_READ_IMPORT_H

#include <stdio.h>

#include "trace/read/load.h"

enum weir__span_kind { WEIR__SPAN_WORK, WEIR__SPAN_WAIT, WEIR__SPAN_RECORD, WEIR__SPAN_NOTHING };

#define WEIR__SPAN_ANY (-1)

struct weir__import_span {
    const char *name;
    const char *scope;       /* the modules that launched it; NULL if unknown */
    const char *source_line; /* the line that launched it; NULL if unknown */
    const char *frame;       /* from its own call stack (weir__import_frame); NULL if it has none */
    uint64_t autograd; /* sequence number of an operator of the host; its backward pass has the
                        * same number; 0: none */
    bool backward;
    int track;
    enum weir__span_kind kind;
    weir_engine engine;
    uint32_t blocks;
    uint64_t bytes;
    int64_t from, to;
    uint32_t device, stream;
    bool marked; /* its category says that it is work of a device */
    bool caller; /* it only encloses callees and does no work: a step, a Python function */
    /* Calls of the host are numbered in ascending order; 0: unknown. */
    uint64_t launch; /* the call that launched it */
    uint64_t event;  /* records and waits: the event's number */
    /* For a wait, and for work with `waits`: */
    int source;      /* the stream waited for, or WEIR__SPAN_ANY */
    uint64_t before; /* it waited only for launches of calls before this one; 0: for any */
    bool waits;      /* work only: a call made its stream wait before it */
    uint64_t synced; /* work only: the host's last synchronisation before its launch; 0: none */
};

enum weir__call_kind { WEIR__CALL_OTHER, WEIR__CALL_WAIT, WEIR__CALL_SYNC };

/* A call of the host to the device's runtime. */
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
    uint32_t device, stream; /* WEIR_TRACE_NONE until the trace uses a span of the track */
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
    int rank; /* the rank that the profile names, -1 if it names none */
    enum weir__track_mark best;
};

/* Returns a copy that lives as long as the trace; "" with j->bad set when out of memory. */
const char *weir__import_keep(struct weir__json *j, struct weir__import *im, const char *text);
/* Returns an index, since the array of tracks may be reallocated; -1 with j->bad set when out of
 * memory. */
int weir__import_find_track(struct weir__json *j, struct weir__import *im, const char *pid,
                            const char *tid);
/* True if the text contains `word`, ignoring the text's case. `word` must be in lower case. */
bool weir__import_has(const char *text, const char *word);

/* Reads a span ("ph":"X"): adds the work, the wait or the call that it describes. */
void weir__import_add_span(struct weir__json *j, struct weir__import *im,
                           const struct weir__event *e, int track);

/* Returns the frame of a stack ("model.py(40): forward;...", innermost first) whose line is to be
 * shown, and its length in *size; NULL if no frame has a line. */
const char *weir__import_frame(const char *stack, size_t *size);
/* Sets for each span of work the modules and the line that launched it. */
weir_status weir__import_callers(struct weir__import *im);

/* Sorts the calls, and sets for each of the `n` spans which call made it wait. */
weir_status weir__import_calls(struct weir__import *im, int n);

/* Replaces nested spans by their own times, one after the other on each stream. The spans must be
 * sorted by weir__import_compare_spans. Removes callers and spans without a time of their own.
 * returns  how many spans are left; -1 when out of memory. */
int weir__import_self_time(struct weir__import_span *spans, int n);
int weir__import_compare_spans(const void *a, const void *b);

/* Sorts the spans and adds their operators and waits to the trace.
 * returns  WEIR_ENOMEM. */
weir_status weir__import_order(weir_trace *t, struct weir__import_span *spans, int nspans);

#endif
