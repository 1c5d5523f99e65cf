/* The parts of `weir demo`: each measures, checks and reports. */
#ifndef WEIR_CLI_DEMO_H
#define WEIR_CLI_DEMO_H

#include <weir/weir.h>

#include "json.h"

/* Ends the program with the library's last error if `status` is an error: after a failed call there
 * is no result to show. */
void demo_must(weir_status status);
void *demo_need(void *memory);

/* ---- other programs ---- */

/* If other programs use more than this share of a core, times are unreliable. */
#define DEMO_BUSY_SHARE 0.2

struct demo_watch {
    double foreign, start_ns;
};
void demo_watch_begin(struct demo_watch *w);
/* returns  the share of a core that other programs and the hypervisor used since
 *          demo_watch_begin. */
double demo_watch_end(const struct demo_watch *w);

/* ---- timed runs ---- */

enum { DEMO_MAX_SPANS = 64, DEMO_MAX_ROWS = 8, DEMO_REPEATS = 40 };

/* One operator, or a few that form a unit, between two timed events. */
struct demo_span {
    weir_event *before, *after;
    const char *stream, *label;
    int family;        /* for the chart */
    double start, end; /* ms after the run began */
};

/* One run of a program. */
struct demo_run {
    weir_device *dev;
    weir_event *began;
    struct demo_span spans[DEMO_MAX_SPANS];
    size_t nspans;
    double ms; /* from its beginning to the end of the last span */
};

/* Creates the events; the run is then recorded many times. */
void demo_run_open(struct demo_run *run, weir_device *dev);
void demo_run_close(struct demo_run *run);
/* Discards the spans and records the start of a run on `stream`. */
void demo_run_begin(struct demo_run *run, weir_stream *stream);
/* The span covers everything queued on `stream` between demo_span_begin and demo_span_end. */
struct demo_span *demo_span_begin(struct demo_run *run, weir_stream *stream, const char *label,
                                  int family);
void demo_span_end(struct demo_span *span, weir_stream *stream);
/* Waits for the device and reads the times. */
void demo_run_end(struct demo_run *run);

/* ---- one program on one stream and on two ---- */

/* A program of two halves. */
struct demo_program {
    /* Runs the program with its halves on streams `a` and `b`, which may be equal, and reads the
     * results into `values`. */
    void (*record)(const void *data, weir_stream *a, weir_stream *b, struct demo_run *run,
                   float *values);
    const void *data;
    size_t nvalues;
};

/* On one stream and on two, with operators limited to half of the cores; and on one stream with all
 * cores. */
enum demo_form { DEMO_ONE, DEMO_TWO, DEMO_ALL_CORES, DEMO_FORMS };

struct demo_comparison {
    struct demo_run best[DEMO_FORMS]; /* the fastest run of each */
    bool same;      /* runs under the same limit gave equal bits, other runs close values */
    int half;       /* half of the device's cores */
    double foreign; /* share of a core that other programs used meanwhile */
};

/* Runs each form in turn, DEMO_REPEATS times. */
void demo_compare(weir_device *dev, const struct demo_program *program,
                  struct demo_comparison *out);
void demo_comparison_print(const struct demo_comparison *c);
void demo_comparison_json(const struct demo_comparison *c, const char *key, struct json *j);

/* ---- the parts ---- */

/* Each prints to stdout, or to `j` if that is not NULL, and returns whether all its checks
 * succeeded. */
bool demo_overlap(weir_device *dev, struct json *j);
bool demo_lifetime(weir_device *dev, struct json *j);
bool demo_moe(weir_device *dev, struct json *j);
/* The file for the timeline, and the user's name for it. */
struct demo_page {
    const char *path, *name;
};
/* On `cpu` and `npu:a3`. */
bool demo_graph(const struct demo_page *page, struct json *j);
/* A large model on 64 dies of `npu:a3`. */
bool demo_cards(struct json *j);
bool demo_deadlock(struct json *j);
bool demo_race(struct json *j);

/* Prints a headline and a paragraph. */
void demo_headline(int number, const char *title, const char *format, ...) WEIR_PRINTF(3, 4);
/* Prints a line that says whether a check succeeded. */
void demo_verdict(bool held, const char *text);

#endif
