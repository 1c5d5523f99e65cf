/* Analysis of a trace: its length, how busy cores were, and the critical path. */
#ifndef WEIR_TRACE_WRITE_ANALYSE_H
#define WEIR_TRACE_WRITE_ANALYSE_H

#include "trace/record/store.h"

/* The chain of operators that decided when the run ended: each step is what the next one
 * could not start before. ops[] is in order of time; why[i] says what ops[i] waited for
 * last. Free with weir__trace_path_fini.
 * returns  WEIR_ENOMEM. */
struct weir__trace_path {
    uint32_t *ops;
    uint8_t *why; /* weir_trace_cause */
    int n, cap, cap_why;
    double busy_ns; /* of its operators */
};
weir_status weir__trace_find_path(const weir_trace *t, struct weir__trace_path *out);
void weir__trace_path_fini(struct weir__trace_path *path);

#endif
