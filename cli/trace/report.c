#include "trace/report.h"
#include "trace/record/kernel_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "term.h"

enum { MAX_ROWS = 24, MAX_STEPS = 12 };

static const char *const causes[] = {
    [WEIR_TRACE_CAUSE_HOST] = "host",
    [WEIR_TRACE_CAUSE_STREAM] = "stream order",
    [WEIR_TRACE_CAUSE_SYNC] = "sync",
    [WEIR_TRACE_CAUSE_CORES] = "cores",
};

struct trace_time trace_time_text(double ns)
{
    struct trace_time out;

    if (ns < 1e3)
        snprintf(out.text, sizeof out.text, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out.text, sizeof out.text, "%.3g us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(out.text, sizeof out.text, "%.4g ms", ns / 1e6);
    else
        snprintf(out.text, sizeof out.text, "%.4g s", ns / 1e9);
    return out;
}

/* ---- streams ---- */

struct stream {
    uint32_t index;
    size_t nops;
    double busy_ns;
};

static int busiest_first(const void *x, const void *y)
{
    const struct stream *a = x, *b = y;

    return (a->busy_ns < b->busy_ns) - (a->busy_ns > b->busy_ns);
}

static int by_index(const void *x, const void *y)
{
    const struct stream *a = x, *b = y;

    return (a->index > b->index) - (a->index < b->index);
}

/* Finds the streams that ran something: the busiest MAX_ROWS of them, in their order. */
static struct stream *find_streams(const weir_trace_data *d, size_t *n, size_t *left_out)
{
    struct stream *s = calloc(d->nstreams + 1, sizeof *s);
    size_t used = 0;

    if (!s)
        return NULL;
    for (size_t i = 0; i < d->nstreams; i++)
        s[i].index = (uint32_t)i;
    for (size_t i = 0; i < d->nops; i++) {
        s[d->ops[i].stream].nops++;
        s[d->ops[i].stream].busy_ns += (double)(d->ops[i].ended_ns - d->ops[i].started_ns);
    }
    for (size_t i = 0; i < d->nstreams; i++)
        if (s[i].nops)
            s[used++] = s[i];
    qsort(s, used, sizeof *s, busiest_first);
    *n = used < MAX_ROWS ? used : MAX_ROWS;
    *left_out = used - *n;
    qsort(s, *n, sizeof *s, by_index);
    return s;
}

/* ---- the chart ---- */

struct rows {
    char labels[MAX_ROWS][40], notes[MAX_ROWS][40];
    const char *label[MAX_ROWS], *note[MAX_ROWS];
};

static void name_rows(struct rows *rows, const weir_trace_data *d, const struct stream *s, size_t n,
                      double makespan)
{
    bool several = false; /* whether more than one device ran something */

    for (size_t i = 1; i < n; i++)
        several |= d->streams[s[i].index].device != d->streams[s[0].index].device;
    for (size_t i = 0; i < n; i++) {
        const weir_trace_stream *stream = &d->streams[s[i].index];

        if (several)
            snprintf(rows->labels[i], sizeof rows->labels[i], "%d: %.20s",
                     d->devices[stream->device].rank, stream->name);
        else
            snprintf(rows->labels[i], sizeof rows->labels[i], "%.24s", stream->name);
        snprintf(rows->notes[i], sizeof rows->notes[i], "%3.0f %%  %zu op%s",
                 makespan > 0 ? 100 * s[i].busy_ns / makespan : 0, s[i].nops,
                 s[i].nops == 1 ? "" : "s");
        rows->label[i] = rows->labels[i];
        rows->note[i] = rows->notes[i];
    }
}

void trace_gantt_print(const weir_trace *trace, int indent)
{
    struct rows rows;
    size_t n = 0, left_out = 0, nbars = 0;
    struct term_bar *bars;
    struct stream *streams;
    weir_trace_summary sum;
    weir_trace_data d;

    weir_trace_get(trace, &d, sizeof d);
    if (weir_trace_summarise(trace, &sum, sizeof sum) || !d.nops)
        return;
    streams = find_streams(&d, &n, &left_out);
    if ((bars = calloc(d.nops, sizeof *bars)) && streams) {
        name_rows(&rows, &d, streams, n, (double)(sum.last_ns - sum.first_ns));
        for (size_t row = 0, i = 0; i < d.nops; i++) { /* operators are sorted by stream */
            const weir_trace_op *op = &d.ops[i];

            for (row = 0; row < n && streams[row].index != op->stream;)
                row++;
            if (row < n)
                bars[nbars++] = (struct term_bar){
                    .row = (int)row,
                    .start = (double)(op->started_ns - sum.first_ns) / 1e6,
                    .end = (double)(op->ended_ns - sum.first_ns) / 1e6,
                    .label = op->name,
                    .family = (int)op->engine,
                };
        }
        term_gantt_print(&(struct term_gantt){rows.label, rows.note, (int)n, bars, nbars}, indent);
        if (left_out)
            printf("%*sand %zu stream%s that did less\n", indent, "", left_out,
                   left_out == 1 ? "" : "s");
    }
    free(bars);
    free(streams);
}

/* ---- the report ---- */

/* True if at least one step has a line of the program; then the table has a column for lines. */
static bool has_lines(const weir_trace_data *d, const weir_trace_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (*d->ops[steps[i].op].source)
            return true;
    return false;
}

static void print_steps(const weir_trace_data *d, const weir_trace_step *steps, size_t n, bool wide)
{
    static const struct term_column columns[] = {{"critical path", false}, {"stream", false},
                                                 {"started", true},        {"took", true},
                                                 {"held by", false},       {"line", false}};
    struct term_table table = {.columns = columns, .ncolumns = has_lines(d, steps, n) ? 6 : 5};

    for (size_t i = 0; i < n; i++) {
        const weir_trace_op *op = &d->ops[steps[i].op];
        struct weir__short_name name = weir__shorten_name(op->name);

        term_table_add(
            &table, (const char *[]){wide ? op->name : name.text, d->streams[op->stream].name,
                                     trace_time_text((double)op->started_ns).text,
                                     trace_time_text((double)(op->ended_ns - op->started_ns)).text,
                                     causes[steps[i].cause], op->source});
    }
    term_table_print(&table, 0);
}

/* A group of steps with the same operator, stream, line and cause. */
struct repeat {
    const char *name, *stream, *source;
    weir_trace_cause cause;
    size_t count;
    double ns;
};

static int alike(const void *x, const void *y)
{
    const struct repeat *a = x, *b = y;
    int by = strcmp(a->name, b->name);

    if (!by)
        by = strcmp(a->stream, b->stream);
    if (!by)
        by = strcmp(a->source, b->source);
    return by ? by : (a->cause > b->cause) - (a->cause < b->cause);
}

static int longest_first(const void *x, const void *y)
{
    const struct repeat *a = x, *b = y;
    int by = (a->ns < b->ns) - (a->ns > b->ns);

    return by ? by : alike(x, y);
}

/* Prints a long path as groups of equal steps, the longest group first. */
static int print_repeats(const weir_trace_data *d, const weir_trace_step *steps, size_t n,
                         bool wide)
{
    static const struct term_column columns[] = {
        {"critical path", false}, {"stream", false},  {"times", true}, {"took", true},
        {"share", true},          {"held by", false}, {"line", false}};
    struct term_table table = {.columns = columns, .ncolumns = has_lines(d, steps, n) ? 7 : 6};
    struct repeat *r = calloc(n, sizeof *r);
    size_t groups = 0, shown;
    double all = 0;

    if (!r) {
        fprintf(stderr, "weir trace: out of memory\n");
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < n; i++) {
        const weir_trace_op *op = &d->ops[steps[i].op];

        r[i] = (struct repeat){op->name,   d->streams[op->stream].name,
                               op->source, steps[i].cause,
                               1,          (double)(op->ended_ns - op->started_ns)};
        all += r[i].ns;
    }
    qsort(r, n, sizeof *r, alike);
    for (size_t i = 0; i < n; i++)
        if (groups && !alike(&r[groups - 1], &r[i])) {
            r[groups - 1].count++;
            r[groups - 1].ns += r[i].ns;
        } else {
            r[groups++] = r[i];
        }
    qsort(r, groups, sizeof *r, longest_first);
    shown = groups < MAX_STEPS ? groups : MAX_STEPS;
    for (size_t i = 0; i < shown; i++) {
        struct weir__short_name name = weir__shorten_name(r[i].name);
        char times[24], share[24];

        snprintf(times, sizeof times, "%zu", r[i].count);
        snprintf(share, sizeof share, "%.1f %%", all > 0 ? 100 * r[i].ns / all : 0);
        term_table_add(&table, (const char *[]){wide ? r[i].name : name.text, r[i].stream, times,
                                                trace_time_text(r[i].ns).text, share,
                                                causes[r[i].cause], r[i].source});
    }
    term_table_print(&table, 0);
    printf("(%zu steps", n);
    if (shown < groups)
        printf("; %zu kinds of them that took less are not shown", groups - shown);
    printf(")\n");
    free(r);
    return EXIT_FINE;
}

int trace_report_print(const weir_trace *trace, const char *title, bool wide)
{
    weir_trace_summary sum;
    weir_trace_step *steps;
    weir_trace_data d;
    size_t nsteps;
    double makespan;
    weir_status st;
    int status = EXIT_FINE;

    weir_trace_get(trace, &d, sizeof d);
    if ((st = weir_trace_summarise(trace, &sum, sizeof sum)) ||
        (st = weir_trace_critical_path(trace, &steps, &nsteps)))
        return cli_complain("trace", st);
    makespan = (double)(sum.last_ns - sum.first_ns);
    printf("%s%s%s: %zu operators on %zu stream%s took %s", term_on(TERM_BOLD), title, term_off(),
           d.nops, d.nstreams, d.nstreams == 1 ? "" : "s", trace_time_text(makespan).text);
    if (makespan > 0)
        printf("; one after the other %s (%.2fx)", trace_time_text(sum.serial_ns).text,
               sum.serial_ns / makespan);
    printf("\n");
    if (sum.cube_use > 0 || sum.vector_use > 0) {
        printf("cores busy: %.0f %%", 100 * sum.cube_use);
        if (sum.vector_use > 0)
            printf(" of cube, %.0f %% of vector cores", 100 * sum.vector_use);
        printf("\n");
    }
    if (d.dropped)
        printf("%s%" PRIu64 " records were lost: the rings were too small%s\n", term_on(TERM_BAD),
               d.dropped, term_off());
    printf("\n");
    trace_gantt_print(trace, 0);
    printf("\n");
    if (nsteps <= MAX_STEPS)
        print_steps(&d, steps, nsteps, wide);
    else
        status = print_repeats(&d, steps, nsteps, wide);
    free(steps);
    return status;
}

int trace_report_json(const weir_trace *trace, struct json *j)
{
    size_t n, left_out, nsteps;
    weir_trace_summary sum;
    weir_trace_step *steps;
    weir_trace_data d;
    weir_status st;

    weir_trace_get(trace, &d, sizeof d);
    if ((st = weir_trace_summarise(trace, &sum, sizeof sum)) ||
        (st = weir_trace_critical_path(trace, &steps, &nsteps)))
        return cli_complain("trace", st);
    json_int(j, "operators", (int64_t)d.nops);
    json_int(j, "dropped", (int64_t)d.dropped);
    json_number(j, "makespan_us", (double)(sum.last_ns - sum.first_ns) / 1e3);
    json_number(j, "serial_us", sum.serial_ns / 1e3);
    json_number(j, "critical_path_us", sum.critical_ns / 1e3);
    json_object(j, "utilisation");
    json_number(j, "cube", sum.cube_use);
    json_number(j, "vector", sum.vector_use);
    json_object_end(j);
    json_array(j, "streams");
    struct stream *streams = find_streams(&d, &n, &left_out);
    for (size_t i = 0; streams && i < n; i++) {
        const weir_trace_stream *s = &d.streams[streams[i].index];

        json_object(j, NULL);
        json_string(j, "name", s->name);
        json_int(j, "rank", d.devices[s->device].rank);
        json_int(j, "priority", s->priority);
        json_int(j, "operators", (int64_t)streams[i].nops);
        json_number(j, "busy_us", streams[i].busy_ns / 1e3);
        json_object_end(j);
    }
    free(streams);
    json_array_end(j);
    json_array(j, "critical_path");
    for (size_t i = 0; i < nsteps; i++) {
        const weir_trace_op *op = &d.ops[steps[i].op];

        json_object(j, NULL);
        json_string(j, "name", op->name);
        json_string(j, "stream", d.streams[op->stream].name);
        json_number(j, "start_us", (double)(op->started_ns - sum.first_ns) / 1e3);
        json_number(j, "us", (double)(op->ended_ns - op->started_ns) / 1e3);
        json_string(j, "held_by", causes[steps[i].cause]);
        if (*op->scope)
            json_string(j, "module", op->scope);
        if (*op->source)
            json_string(j, "source", op->source);
        json_object_end(j);
    }
    json_array_end(j);
    free(steps);
    return EXIT_FINE;
}
