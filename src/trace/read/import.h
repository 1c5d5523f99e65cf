/* Between import.c, which finds the work in a profile, and import_order.c, which orders it. */
#ifndef WEIR_TRACE_READ_IMPORT_H
#define WEIR_TRACE_READ_IMPORT_H

#include <stdio.h>

#include "trace/read/load.h"

enum weir__span_kind { WEIR__SPAN_WORK, WEIR__SPAN_WAIT, WEIR__SPAN_NOTHING };

#define WEIR__SPAN_ANY (-1)

struct weir__import_span {
    const char *name;
    int track;
    enum weir__span_kind kind;
    weir_engine engine;
    uint32_t blocks;
    uint64_t bytes;
    int64_t from, to;
    uint32_t device, stream;
    int source;  /* of a wait: the stream waited for, or WEIR__SPAN_ANY */
    bool marked; /* by its category, as work of a device */
};

/* Sorts the spans and makes operators and waits of them.
 * returns  WEIR_ENOMEM. */
weir_status weir__import_order(weir_trace *t, struct weir__import_span *spans, int nspans);

#endif
