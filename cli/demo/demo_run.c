/* Measures runs, and compares a program on one stream with the same program on two. */
#include "demo/demo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

static const double LITTLE_GAIN = 1.1; /* for smaller gains the demo prints the reason */

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

/* ---- forms ---- */

static const struct {
    const char *name;
    bool two, all_cores;
} forms[DEMO_FORMS] = {
    [DEMO_ONE] = {"1 stream", false, false},
    [DEMO_TWO] = {"2 streams", true, false},
    [DEMO_ALL_CORES] = {"1 stream, all cores", false, true},
};

static bool are_close(const float *a, const float *b, size_t n)
{
    size_t right = 0;

    for (size_t i = 0; i < n; i++)
        right += fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(a[i]));
    return right == n;
}

/* The forms take turns, so that noise affects all of them alike; the first round warms up. */
void demo_compare(weir_device *dev, const struct demo_program *p, struct demo_comparison *out)
{
    size_t bytes = p->nvalues * sizeof(float);
    float *first = demo_need(malloc(bytes)), *values = demo_need(malloc(bytes));
    weir_cores all = weir_device_get_limit(dev);
    weir_cores half = {(all.cube + 1) / 2, (all.vector + 1) / 2};
    weir_stream *a = weir_stream_default(dev), *b;
    struct demo_run run = {0};
    struct demo_watch watch;

    demo_watch_begin(&watch);
    demo_must(weir_stream_tagged(dev, "second", 0, &b));
    *out = (struct demo_comparison){.same = true, .half = half.cube};
    demo_run_open(&run, dev);
    for (int round = -1; round < DEMO_REPEATS; round++)
        for (int f = 0; f < DEMO_FORMS; f++) {
            float *to = round < 0 && f == DEMO_ONE ? first : values;

            demo_must(weir_device_set_limit(dev, forms[f].all_cores ? all : half));
            p->record(p->data, a, forms[f].two ? b : a, &run, to);
            /* Another core limit leads to another tiling, which may round differently. */
            if (to == values)
                out->same &= forms[f].all_cores ? are_close(first, values, p->nvalues)
                                                : !memcmp(first, values, bytes);
            if (round == 0 || (round > 0 && run.ms < out->best[f].ms))
                out->best[f] = run;
        }
    demo_must(weir_device_set_limit(dev, all));
    demo_must(weir_stream_set_current(a));
    demo_run_close(&run);
    out->foreign = demo_watch_end(&watch);
    free(first);
    free(values);
}

/* ---- printing ---- */

struct rows {
    char labels[DEMO_MAX_ROWS][64], notes[DEMO_MAX_ROWS][32];
    const char *streams[DEMO_MAX_ROWS];
    int n;
};

/* Returns the row of the stream among the rows from `first` on; adds one if there is none. */
static int row_of(struct rows *rows, int first, const char *form, const char *stream)
{
    for (int i = first; i < rows->n; i++)
        if (!strcmp(rows->streams[i], stream))
            return i;
    if (rows->n == DEMO_MAX_ROWS)
        return rows->n - 1;
    rows->streams[rows->n] = stream;
    snprintf(rows->labels[rows->n], sizeof rows->labels[0], "%-19s  %s",
             rows->n == first ? form : "", stream);
    return rows->n++;
}

static double gain_of(const struct demo_comparison *c, enum demo_form form)
{
    return c->best[DEMO_ONE].ms / c->best[form].ms;
}

static void print_chart(const struct demo_comparison *c)
{
    struct term_bar bars[DEMO_MAX_SPANS * DEMO_FORMS];
    const char *labels[DEMO_MAX_ROWS], *notes[DEMO_MAX_ROWS];
    struct rows rows = {.n = 0};
    size_t nbars = 0;

    for (int f = 0; f < DEMO_FORMS; f++) {
        const struct demo_run *run = &c->best[f];
        int first = rows.n;

        for (size_t i = 0; i < run->nspans; i++) {
            const struct demo_span *s = &run->spans[i];

            bars[nbars++] = (struct term_bar){
                .row = row_of(&rows, first, forms[f].name, s->stream),
                .start = s->start,
                .end = s->end,
                .label = s->label,
                .family = s->family,
            };
        }
        if (first < rows.n)
            snprintf(rows.notes[first], sizeof rows.notes[0], "%s", term_ms(run->ms).text);
    }
    for (int i = 0; i < rows.n; i++) {
        labels[i] = rows.labels[i];
        notes[i] = rows.notes[i];
    }
    term_gantt_print(&(struct term_gantt){labels, notes, rows.n, bars, nbars}, 3);
}

/* Returns how long the operators of one half took, or those of both. */
static double work_of(const struct demo_run *run, int half)
{
    double ms = 0;

    for (size_t i = 0; i < run->nspans; i++)
        if (half < 0 || run->spans[i].family == half)
            ms += run->spans[i].end - run->spans[i].start;
    return ms;
}

/* Prints the reason why two streams gain little, according to the measurements. */
static void print_reason(const struct demo_comparison *c)
{
    const struct demo_run *one = &c->best[DEMO_ONE], *two = &c->best[DEMO_TWO];
    double smaller = fmin(work_of(one, 0), work_of(one, 1));
    double stretch = work_of(two, -1) / work_of(one, -1);
    weir_device_props props;
    char text[256];

    weir_device_get_props(one->dev, &props, sizeof props);
    if (props.threads == 1 && props.features & WEIR_FEATURE_REAL_TIME)
        snprintf(text, sizeof text, "The reason: this device runs on a single thread.");
    else if (one->ms / (one->ms - smaller) < LITTLE_GAIN)
        snprintf(text, sizeof text, "The reason: the part that can overlap takes only %s of %s.",
                 term_ms(smaller).text, term_ms(one->ms).text);
    else if (c->foreign > DEMO_BUSY_SHARE && props.features & WEIR_FEATURE_REAL_TIME)
        snprintf(text, sizeof text,
                 "The reason: other programs used %.0f %% of a core during the run, so two streams "
                 "had little more than one core.",
                 100 * c->foreign);
    else if (stretch > 1.3)
        snprintf(
            text, sizeof text,
            "The reason: at the same time operators take %.1fx as long as one after the other. "
            "They share a core or the memory's bandwidth, or other programs use it.",
            stretch);
    else
        snprintf(text, sizeof text,
                 "The reason: launches and waits cost as much as the overlap gains.");
    term_paragraph(3, text);
}

void demo_comparison_print(const struct demo_comparison *c)
{
    double gain = gain_of(c, DEMO_TWO);

    print_chart(c);
    if (gain >= 1.02)
        printf("   two streams: %s%.2fx%s as fast as one", term_on(TERM_BOLD), gain, term_off());
    else
        printf("   two streams: no gain here (%.2fx)", gain);
    printf("; one with all cores: %.2fx\n", gain_of(c, DEMO_ALL_CORES));
    if (gain < LITTLE_GAIN)
        print_reason(c);
    demo_verdict(c->same, c->same ? "one stream and two give the same numbers, bit for bit"
                                  : "one stream and two give different numbers");
}

void demo_comparison_json(const struct demo_comparison *c, const char *key, struct json *j)
{
    json_object(j, key);
    json_bool(j, "same_numbers", c->same);
    json_array(j, "forms");
    for (int f = 0; f < DEMO_FORMS; f++) {
        const struct demo_run *run = &c->best[f];

        json_object(j, NULL);
        json_string(j, "name", forms[f].name);
        json_number(j, "ms", run->ms);
        json_number(j, "gain", gain_of(c, (enum demo_form)f));
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
    json_object_end(j);
}
