#include "trace_report.h"

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

struct term_time {
    char text[32];
};

static struct term_time time_text(double ns)
{
    struct term_time out;

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

/* Streams that ran something, the busiest MAX_ROWS of them in their order. */
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
    bool several = false; /* ranks; a device that did nothing is none */

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
        for (size_t row = 0, i = 0; i < d.nops; i++) { /* operators come by stream */
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

static void print_path(const weir_trace_data *d, const weir_trace_step *steps, size_t n)
{
    static const struct term_column columns[] = {{"critical path", false},
                                                 {"stream", false},
                                                 {"started", true},
                                                 {"took", true},
                                                 {"held by", false}};
    struct term_table table = {.columns = columns, .ncolumns = 5};
    size_t shown = n > MAX_STEPS ? MAX_STEPS : n;

    for (size_t i = n - shown; i < n; i++) {
        const weir_trace_op *op = &d->ops[steps[i].op];
        struct term_time start = time_text((double)op->started_ns),
                         took = time_text((double)(op->ended_ns - op->started_ns));

        term_table_add(&table, (const char *[]){op->name, d->streams[op->stream].name, start.text,
                                                took.text, causes[steps[i].cause]});
    }
    term_table_print(&table, 0);
    if (shown < n)
        printf("(the last %zu of %zu steps)\n", shown, n);
}

int trace_report_print(const weir_trace *trace, const char *title)
{
    weir_trace_summary sum;
    weir_trace_step *steps;
    weir_trace_data d;
    size_t nsteps;
    double makespan;
    weir_status st;

    weir_trace_get(trace, &d, sizeof d);
    if ((st = weir_trace_summarise(trace, &sum, sizeof sum)) ||
        (st = weir_trace_critical_path(trace, &steps, &nsteps)))
        return cli_complain("trace", st);
    makespan = (double)(sum.last_ns - sum.first_ns);
    printf("%s%s%s: %zu operators on %zu stream%s took %s", term_on(TERM_BOLD), title, term_off(),
           d.nops, d.nstreams, d.nstreams == 1 ? "" : "s", time_text(makespan).text);
    if (makespan > 0)
        printf("; one after the other %s (%.2fx)", time_text(sum.serial_ns).text,
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
    print_path(&d, steps, nsteps);
    free(steps);
    return EXIT_FINE;
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
        json_object_end(j);
    }
    json_array_end(j);
    free(steps);
    return EXIT_FINE;
}
