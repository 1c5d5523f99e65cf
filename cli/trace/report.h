/* Prints a trace: its Gantt chart and its sums. */
#ifndef WEIR_CLI_TRACE_REPORT_H
#define WEIR_CLI_TRACE_REPORT_H

#include <weir/weir.h>

#include <stdbool.h>

#include "json.h"

/* A time as text, such as "330 ms". */
struct trace_time {
    char text[32];
};
struct trace_time trace_time_text(double ns);

/* Prints one line per stream and an axis, indented by `indent` spaces; if there are many streams,
 * only the busiest. */
void trace_gantt_print(const weir_trace *trace, int indent);

/* Prints sums, the chart and the critical path; with `wide`, full names. returns  an exit status.
 */
int trace_report_print(const weir_trace *trace, const char *title, bool wide);
/* Writes the report's members into the open JSON object. returns  an exit status. */
int trace_report_json(const weir_trace *trace, struct json *j);

/* ---- two traces ---- */

struct trace_diff_options {
    bool by_name, by_module, by_line; /* which tables */
    bool wide;                        /* full names, not grouped by short name */
    double limit;                     /* percent by which B may be slower; NAN for no limit */
};

/* Print the same comparison in three formats. Each returns an exit status, EXIT_FAILED if B exceeds
 * the limit. `titles` are those of A and B. */
int trace_diff_print(weir_trace *const *traces, const char *const *titles,
                     const struct trace_diff_options *opt);
int trace_diff_markdown(weir_trace *const *traces, const char *const *titles,
                        const struct trace_diff_options *opt);
int trace_diff_json(weir_trace *const *traces, const char *const *titles,
                    const struct trace_diff_options *opt);

/* `weir trace diff`, `import` and `watch`. */
int trace_import_command(int argc, char **argv);
int trace_diff_command(int argc, char **argv);
int trace_merge_command(int argc, char **argv);
int trace_watch_command(int argc, char **argv);

/* Reads a file and shows the progress if it takes long. returns an exit status. */
int trace_load(const char *command, const char *path, weir_trace **out);

#endif
