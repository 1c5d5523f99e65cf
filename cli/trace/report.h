/* A trace for people: its Gantt chart and its sums. */
#ifndef WEIR_CLI_TRACE_REPORT_H
#define WEIR_CLI_TRACE_REPORT_H

#include <weir/weir.h>

#include <stdbool.h>

#include "json.h"

/* "330 ms". */
struct trace_time {
    char text[32];
};
struct trace_time trace_time_text(double ns);

/* One line per stream and an axis, behind `indent` spaces; of many streams the busiest. */
void trace_gantt_print(const weir_trace *trace, int indent);

/* Sums, the chart, the critical path; with `wide` names are whole. Both return an exit status. */
int trace_report_print(const weir_trace *trace, const char *title, bool wide);
/* Members of the object that is open. */
int trace_report_json(const weir_trace *trace, struct json *j);

/* ---- two traces ---- */

struct trace_diff_options {
    bool by_name, by_module, by_line; /* which tables */
    bool wide;                        /* whole names, each by itself */
    double limit;                     /* percent that B may be slower; NAN for any */
};

/* Three ways to say the same; each returns an exit status, EXIT_FAILED past the limit.
 * `titles` are those of A and B. */
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

/* Reads a file and says so while that takes long. returns an exit status. */
int trace_load(const char *command, const char *path, weir_trace **out);

#endif
