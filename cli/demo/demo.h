/* The parts of `weir demo`: each measures, checks, and tells what it found. */
#ifndef WEIR_CLI_DEMO_H
#define WEIR_CLI_DEMO_H

#include <weir/weir.h>

#include "json.h"

/* Ends the program with the library's sentence if `status` is an error: the demo
 * shows results, and a failed call leaves none to show. */
void demo_must(weir_status status);
void *demo_need(void *memory);

/* ---- what others took ---- */

/* From this share of a core on, times say little. */
#define DEMO_BUSY_SHARE 0.2

struct demo_watch {
    double foreign, start_ns;
};
void demo_watch_begin(struct demo_watch *w);
/* returns  the share of a core that other programs and the hypervisor took since then. */
double demo_watch_end(const struct demo_watch *w);

/* ---- what ran when ---- */

enum { DEMO_MAX_SPANS = 64, DEMO_MAX_ROWS = 8, DEMO_REPEATS = 40 };

/* One operator, or a few that belong together, between two timed events. */
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

/* Makes the events; a run is recorded many times. */
void demo_run_open(struct demo_run *run, weir_device *dev);
void demo_run_close(struct demo_run *run);
/* Forgets the spans and marks the beginning on `stream`. */
void demo_run_begin(struct demo_run *run, weir_stream *stream);
/* What is queued on `stream` between the two is the span. */
struct demo_span *demo_span_begin(struct demo_run *run, weir_stream *stream, const char *label,
                                  int family);
void demo_span_end(struct demo_span *span, weir_stream *stream);
/* Waits for the device and reads the times. */
void demo_run_end(struct demo_run *run);

/* ---- one program on one stream and on two ---- */

/* A program of two halves. */
struct demo_program {
    /* Runs it with its halves on streams `a` and `b`, which may be the same one, and
     * reads what it computed. */
    void (*record)(const void *data, weir_stream *a, weir_stream *b, struct demo_run *run,
                   float *values);
    const void *data;
    size_t nvalues;
};

/* On one stream and on two with operators held to half of the cores, and on one
 * stream with all of them. */
enum demo_form { DEMO_ONE, DEMO_TWO, DEMO_ALL_CORES, DEMO_FORMS };

struct demo_comparison {
    struct demo_run best[DEMO_FORMS]; /* the fastest run of each */
    bool same;      /* all runs under the same limit gave the same bits, the others close ones */
    int half;       /* cores */
    double foreign; /* of a core, what other programs took meanwhile */
};

/* Runs each form in turn, DEMO_REPEATS times. */
void demo_compare(weir_device *dev, const struct demo_program *program,
                  struct demo_comparison *out);
void demo_comparison_print(const struct demo_comparison *c);
void demo_comparison_json(const struct demo_comparison *c, const char *key, struct json *j);

/* ---- the parts ---- */

/* Each prints to stdout, or to `j` if that is not NULL, and says whether all that it
 * checked held. */
bool demo_overlap(weir_device *dev, struct json *j);
bool demo_lifetime(weir_device *dev, struct json *j);
bool demo_moe(weir_device *dev, struct json *j);
/* Where the timeline goes, and what the user calls that. */
struct demo_page {
    const char *path, *name;
};
/* On `cpu` and `npu:a3`. */
bool demo_graph(const struct demo_page *page, struct json *j);
/* A large model on 64 dies of `npu:a3`. */
bool demo_cards(struct json *j);
bool demo_deadlock(struct json *j);
bool demo_race(struct json *j);

/* A headline and a paragraph. */
void demo_headline(int number, const char *title, const char *format, ...) WEIR_PRINTF(3, 4);
/* A line that says whether something held. */
void demo_verdict(bool held, const char *text);

#endif
