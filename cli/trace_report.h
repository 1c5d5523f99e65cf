/* A trace for people: its Gantt chart and its sums. */
#ifndef WEIR_CLI_TRACE_REPORT_H
#define WEIR_CLI_TRACE_REPORT_H

#include <weir/weir.h>

#include "json.h"

/* One line per stream and an axis, behind `indent` spaces; of many streams the busiest. */
void trace_gantt_print(const weir_trace *trace, int indent);

/* Sums, the chart, the critical path. Both return an exit status. */
int trace_report_print(const weir_trace *trace, const char *title);
/* Members of the object that is open. */
int trace_report_json(const weir_trace *trace, struct json *j);

#endif
