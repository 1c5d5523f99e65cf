/* Analyses a trace: its length, how busy cores were, and the critical path. */
#ifndef WEIR_TRACE_WRITE_ANALYSE_H
#define WEIR_TRACE_WRITE_ANALYSE_H

#include "trace/record/store.h"

/* The critical path: the chain of operators that decided when the run ended. Each operator started
 * only after the one before it. ops[] is in order of time; why[i] is the reason why ops[i] waited.
 * Free with weir__trace_path_fini.
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
