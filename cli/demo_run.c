/* Measured runs, and one program compared in several forms. */
#include "demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

void *demo_need(void *memory)
{
    if (!memory) {
        fputs("weir demo: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* ---- one run ---- */

void demo_run_open(struct demo_run *run, weir_device *dev)
{
    static const weir_event_options timing = {.timing = true};

    run->dev = dev;
    run->nspans = 0;
    demo_must(weir_event_create(dev, &timing, &run->began));
    for (size_t i = 0; i < DEMO_MAX_SPANS; i++) {
        demo_must(weir_event_create(dev, &timing, &run->spans[i].before));
        demo_must(weir_event_create(dev, &timing, &run->spans[i].after));
    }
}

void demo_run_close(struct demo_run *run)
{
    weir_event_destroy(run->began);
    for (size_t i = 0; i < DEMO_MAX_SPANS; i++) {
        weir_event_destroy(run->spans[i].before);
        weir_event_destroy(run->spans[i].after);
    }
}

void demo_run_begin(struct demo_run *run, weir_stream *stream)
{
    run->nspans = 0;
    demo_must(weir_event_record(run->began, stream));
}

struct demo_span *demo_span_begin(struct demo_run *run, weir_stream *stream, const char *label,
                                  int family)
{
    struct demo_span *span = &run->spans[run->nspans++];

    span->stream = weir_stream_name(stream);
    span->label = label;
    span->family = family;
    demo_must(weir_event_record(span->before, stream));
    return span;
}

void demo_span_end(struct demo_span *span, weir_stream *stream)
{
    demo_must(weir_event_record(span->after, stream));
}

void demo_run_end(struct demo_run *run)
{
    demo_must(weir_device_sync(run->dev));
    run->ms = 0;
    for (size_t i = 0; i < run->nspans; i++) {
        struct demo_span *span = &run->spans[i];

        demo_must(weir_event_elapsed(run->began, span->before, &span->start));
        demo_must(weir_event_elapsed(run->began, span->after, &span->end));
        run->ms = span->end > run->ms ? span->end : run->ms;
    }
}

/* ---- several forms ---- */

/* Forms take turns, so that a noisy moment hits all alike; the first round warms up. */
void demo_compare(weir_device *dev, const struct demo_form *forms, int nforms, void *program,
                  size_t nvalues, struct demo_comparison *out)
{
    size_t bytes = nvalues * sizeof(float);
    float *first = demo_need(malloc(bytes)), *values = demo_need(malloc(bytes));
    struct demo_run run = {0};

    *out = (struct demo_comparison){.forms = forms, .nforms = nforms, .same = true};
    out->best = demo_need(calloc((size_t)nforms, sizeof *out->best));
    demo_run_open(&run, dev);
    for (int round = -1; round < DEMO_REPEATS; round++)
        for (int f = 0; f < nforms; f++) {
            bool is_first = round < 0 && f == 0;

            forms[f].record(program, &run, is_first ? first : values);
            out->same = out->same && (is_first || !memcmp(first, values, bytes));
            if (round == 0 || (round > 0 && run.ms < out->best[f].ms))
                out->best[f] = run;
        }
    demo_run_close(&run);
    free(first);
    free(values);
}

void demo_comparison_free(struct demo_comparison *c)
{
    free(c->best);
}

/* ---- telling ---- */

struct rows {
    char labels[DEMO_MAX_ROWS][64], notes[DEMO_MAX_ROWS][32];
    const char *streams[DEMO_MAX_ROWS];
    int n;
};

/* The row of that stream among those from `first` on; a new one if it has none. */
static int row_of(struct rows *rows, int first, const char *form, const char *stream)
{
    for (int i = first; i < rows->n; i++)
        if (!strcmp(rows->streams[i], stream))
            return i;
    if (rows->n == DEMO_MAX_ROWS)
        return rows->n - 1;
    rows->streams[rows->n] = stream;
    snprintf(rows->labels[rows->n], sizeof rows->labels[0], "%-10s %s",
             rows->n == first ? form : "", stream);
    return rows->n++;
}

static void print_gain(const struct demo_comparison *c, int form)
{
    double gain = c->best[0].ms / c->best[form].ms;
    weir_device_props props;
    char text[160];

    weir_device_get_props(c->best[0].dev, &props);
    if (gain >= 1.05)
        snprintf(text, sizeof text, "%s: %.2fx as fast as %s", c->forms[form].name, gain,
                 c->forms[0].name);
    else
        snprintf(text, sizeof text, "%s: no gain here (%.2fx)%s", c->forms[form].name, gain,
                 props.threads == 1 ? ": this device has a single thread to run on" : "");
    printf("   %s\n", text);
}

void demo_comparison_print(const struct demo_comparison *c)
{
    struct term_bar bars[DEMO_MAX_SPANS * 4];
    const char *labels[DEMO_MAX_ROWS], *notes[DEMO_MAX_ROWS];
    struct rows rows = {.n = 0};
    size_t nbars = 0;

    for (int f = 0; f < c->nforms; f++) {
        const struct demo_run *run = &c->best[f];
        int first = rows.n;

        for (size_t i = 0; i < run->nspans && nbars < sizeof bars / sizeof *bars; i++) {
            const struct demo_span *s = &run->spans[i];

            bars[nbars++] = (struct term_bar){
                row_of(&rows, first, c->forms[f].name, s->stream), s->start, s->end, s->label,
                s->family};
        }
        if (first < rows.n)
            snprintf(rows.notes[first], sizeof rows.notes[0], "%.1f ms", run->ms);
    }
    for (int i = 0; i < rows.n; i++) {
        labels[i] = rows.labels[i];
        notes[i] = rows.notes[i];
    }
    term_gantt_print(&(struct term_gantt){labels, notes, rows.n, bars, nbars}, 3);
    printf("\n");
    for (int f = 1; f < c->nforms; f++)
        print_gain(c, f);
    demo_verdict(c->same, c->same ? "the numbers are the same, bit for bit, in every run"
                                  : "the numbers differ from run to run");
}

void demo_comparison_json(const struct demo_comparison *c, struct json *j)
{
    json_bool(j, "identical", c->same);
    json_array(j, "forms");
    for (int f = 0; f < c->nforms; f++) {
        const struct demo_run *run = &c->best[f];

        json_object(j, NULL);
        json_string(j, "name", c->forms[f].name);
        json_number(j, "ms", run->ms);
        json_number(j, "gain", c->best[0].ms / run->ms);
        json_array(j, "spans");
        for (size_t i = 0; i < run->nspans; i++) {
            json_object(j, NULL);
            json_string(j, "stream", run->spans[i].stream);
            json_string(j, "label", run->spans[i].label);
            json_number(j, "start_ms", run->spans[i].start);
            json_number(j, "end_ms", run->spans[i].end);
            json_object_end(j);
        }
        json_array_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}
