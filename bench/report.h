/* Turns the harness's JSON lines into a table, the targets and a JSON document. */
#ifndef WEIR_BENCH_REPORT_H
#define WEIR_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum bench_drop {
    BENCH_KEPT,
    BENCH_ONE_CORE, /* FMA said that the two CPUs were one core */
    BENCH_BUSY,     /* other processes took too much */
    BENCH_MOVED,    /* the CPUs were at another distance than in most blocks */
    BENCH_DROPS
};

/* All samples of one subject at one work, from every block that counts. If none counts, they are
 * from the dropped blocks, and `disturbed` says why. */
struct bench_series {
    char *work, *subject, *unit;
    double *samples;
    size_t count, cap;
    enum bench_drop disturbed; /* why the samples are to be doubted; BENCH_KEPT: they are not */
};

/* A work that gave no samples, and why. */
struct bench_skipped {
    char *work, *source, *reason;
};

/* The lines between two probes: one case on two threads. */
struct bench_block {
    char **lines;
    size_t nlines;
    double ratio, hop; /* what the probes say */
    enum bench_drop drop;
};

struct bench_report {
    struct bench_series *series;
    size_t nseries;
    struct bench_skipped *skipped;
    size_t nskipped;
    struct bench_block *blocks;
    size_t nblocks;
    int drops[BENCH_DROPS]; /* blocks by what became of them */
    double hop;             /* of the blocks that count */
    double foreign_share;   /* of a core that other processes took in all */
    /* The current block, with its first probe. */
    struct bench_block open;
};

/* Adds one line; `source` is the program that printed it. Lines of another form are ignored.
 * All of these end the process when out of memory. */
void bench_report_line(struct bench_report *r, const char *source, const char *line);

/* Ends a source. A block without a second probe does not count. */
void bench_report_end_source(struct bench_report *r);

/* Ends the run: decides which blocks on two threads count, and only then adds their
 * samples to the series. A disturbance never leaves a series empty: figures with a
 * warning are better than none. */
void bench_report_finish(struct bench_report *r);

/* NULL if there is none with samples. */
const struct bench_series *bench_report_find(const struct bench_report *r, const char *work,
                                             const char *subject);

/* The value at `share` (0..1) of the sorted samples. */
double bench_series_quantile(const struct bench_series *s, double share);

void bench_report_print(const struct bench_report *r, FILE *out);
void bench_report_print_json(const struct bench_report *r, FILE *out);
/* Draws the works measured on several numbers of cores, as an SVG. returns false, with
 * nothing written, if there are none. */
bool bench_report_chart(const struct bench_report *r, FILE *out);
void bench_report_free(struct bench_report *r);

/* ---- targets ---- */

struct bench_target {
    const char *name;
    /* The figure judged: a work and a subject. */
    const char *work, *subject;
    /* The divisor: another work (NULL: the same one) and the best of the
     * subjects separated by '|', or "peers" for all but weir and the machine.
     * NULL judges the figure itself. */
    const char *base_work, *base;
    bool at_least; /* otherwise at most */
    double limit;
};

struct bench_verdict {
    bool measured;
    bool met;
    bool disturbed; /* by samples that are to be doubted */
    double ratio;
    const char *base; /* the subject it was compared with, NULL for none */
};

extern const struct bench_target bench_targets[];
extern const size_t bench_ntargets;

/* Whether the run measured that target's work. */
bool bench_target_applies(const struct bench_report *r, const struct bench_target *t);

struct bench_verdict bench_judge(const struct bench_report *r, const struct bench_target *t);

#endif
