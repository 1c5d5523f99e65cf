#include "report.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory: running out of it ends the process ---- */

static void *grow(void *array, size_t count, size_t size)
{
    void *p = realloc(array, count * size);

    if (!p) {
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
    }
    return p;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(grow(NULL, size, 1), text, size);
}

/* ---- reading the harness's lines: one flat object, strings without escapes ---- */

/* The text after "key":, or NULL. */
static const char *find_key(const char *line, const char *key)
{
    char quoted[32];
    const char *at;

    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static bool read_string(const char *line, const char *key, char out[static 256])
{
    const char *at = find_key(line, key);
    size_t n;

    if (!at || *at++ != '"')
        return false;
    n = strcspn(at, "\"");
    if (at[n] != '"' || n >= 256)
        return false;
    memcpy(out, at, n);
    out[n] = '\0';
    return true;
}

static bool read_number(const char *line, const char *key, double *out)
{
    const char *at = find_key(line, key);
    char *end;

    if (!at)
        return false;
    *out = strtod(at, &end);
    return end != at;
}

/* ---- series ---- */

static struct bench_series *get_series(struct bench_report *r, const char *work,
                                       const char *subject, const char *unit)
{
    struct bench_series *s;

    for (size_t i = 0; i < r->nseries; i++)
        if (!strcmp(r->series[i].work, work) && !strcmp(r->series[i].subject, subject))
            return &r->series[i];
    r->series = grow(r->series, r->nseries + 1, sizeof *r->series);
    s = &r->series[r->nseries++];
    *s = (struct bench_series){
        .work = copy_text(work),
        .subject = copy_text(subject),
        .unit = copy_text(unit),
    };
    return s;
}

static void add_sample(struct bench_series *s, double value)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->samples = grow(s->samples, s->cap, sizeof *s->samples);
    }
    s->samples[s->count++] = value;
}

/* The series that a line of samples belongs to; *numbers is where its numbers begin. */
static struct bench_series *series_of(struct bench_report *r, const char *line,
                                      const char **numbers)
{
    char work[256], subject[256], unit[256];
    const char *at = find_key(line, "samples");

    if (!at || *at++ != '[' || !read_string(line, "work", work) ||
        !read_string(line, "subject", subject) || !read_string(line, "unit", unit))
        return NULL;
    *numbers = at;
    return get_series(r, work, subject, unit);
}

static void take_samples(struct bench_report *r, const char *line)
{
    const char *at;
    struct bench_series *s = series_of(r, line, &at);

    while (s) {
        char *end;
        double value = strtod(at, &end);

        if (end == at)
            break;
        add_sample(s, value);
        at = end + strspn(end, ", ");
    }
}

/* ---- blocks on two threads ---- */

static void free_lines(struct bench_block *b)
{
    for (size_t i = 0; i < b->nlines; i++)
        free(b->lines[i]);
    free(b->lines);
}

static void add_line(struct bench_report *r, const char *line)
{
    struct bench_block *b = &r->open;
    const char *numbers;

    /* Adds the series to the table now, which fixes its place. */
    if (!series_of(r, line, &numbers))
        return;
    b->lines = grow(b->lines, b->nlines + 1, sizeof *b->lines);
    b->lines[b->nlines++] = copy_text(line);
}

/* A probe ends the block before it and begins the next. */
static void take_probe(struct bench_report *r, double ratio, double hop, double foreign)
{
    struct bench_block *b = &r->open;

    if (b->nlines) {
        if (b->ratio < BENCH_PROBE_MIN || ratio < BENCH_PROBE_MIN)
            b->drop = BENCH_ONE_CORE;
        else if (foreign > BENCH_FOREIGN_MAX)
            b->drop = BENCH_BUSY;
        else if (!bench_hops_agree(b->hop, hop))
            b->drop = BENCH_MOVED;
        b->ratio = (b->ratio + ratio) / 2;
        b->hop = (b->hop + hop) / 2;
        r->blocks = grow(r->blocks, r->nblocks + 1, sizeof *r->blocks);
        r->blocks[r->nblocks++] = *b;
    }
    *b = (struct bench_block){.ratio = ratio, .hop = hop};
}

/* The median hop of the blocks that are good otherwise. It is one of the measured
 * values, even if the CPUs had two placements for half the time each. */
static double usual_hop(const struct bench_report *r)
{
    double *hops = grow(NULL, r->nblocks + 1, sizeof *hops), hop = 0;
    size_t count = 0;

    for (size_t i = 0; i < r->nblocks; i++)
        if (r->blocks[i].drop == BENCH_KEPT)
            hops[count++] = r->blocks[i].hop;
    if (count) {
        bench_quantile(hops, count, 0.5); /* sorts them */
        hop = hops[count / 2];
    }
    free(hops);
    return hop;
}

/* Takes the samples of dropped blocks for series without any others. */
static void take_dropped(struct bench_report *r, const struct bench_block *b)
{
    for (size_t k = 0; k < b->nlines; k++) {
        const char *numbers;
        struct bench_series *s = series_of(r, b->lines[k], &numbers);

        if (s->count && !s->disturbed)
            continue;
        s->disturbed = b->drop;
        take_samples(r, b->lines[k]);
    }
}

void bench_report_finish(struct bench_report *r)
{
    r->hop = usual_hop(r);
    for (size_t i = 0; i < r->nblocks; i++) {
        struct bench_block *b = &r->blocks[i];
        char work[256];

        if (b->drop == BENCH_KEPT && !bench_hops_agree(b->hop, r->hop))
            b->drop = BENCH_MOVED;
        r->drops[b->drop]++;
        for (size_t k = 0; k < b->nlines && b->drop == BENCH_KEPT; k++)
            take_samples(r, b->lines[k]);
        /* The machine's ratio of two threads to one, measured with the samples. */
        if (b->drop == BENCH_KEPT && read_string(b->lines[0], "work", work) &&
            !strcmp(work, "overlap_matmul"))
            add_sample(get_series(r, work, "machine: FMA on 2 threads to 1", "x"), b->ratio);
    }
    for (size_t i = 0; i < r->nblocks; i++)
        if (r->blocks[i].drop != BENCH_KEPT)
            take_dropped(r, &r->blocks[i]);
}

/* Other processes were busy during this work, so its comparisons so far are in doubt. */
static void take_busy(struct bench_report *r, const char *work)
{
    for (size_t i = 0; i < r->nseries; i++)
        if (!strcmp(r->series[i].work, work))
            r->series[i].disturbed = BENCH_BUSY;
}

static void take_skip(struct bench_report *r, const char *source, const char *work,
                      const char *reason)
{
    for (size_t i = 0; i < r->nskipped; i++)
        if (!strcmp(r->skipped[i].work, work) && !strcmp(r->skipped[i].source, source))
            return;
    r->skipped = grow(r->skipped, r->nskipped + 1, sizeof *r->skipped);
    r->skipped[r->nskipped++] = (struct bench_skipped){
        .work = copy_text(work),
        .source = copy_text(source),
        .reason = copy_text(reason),
    };
}

void bench_report_line(struct bench_report *r, const char *source, const char *line)
{
    double ratio, hop, foreign, threads, busy;
    char work[256], reason[256];

    if (read_number(line, "probe", &ratio) && read_number(line, "hop", &hop) &&
        read_number(line, "foreign", &foreign))
        take_probe(r, ratio, hop, foreign);
    else if (read_string(line, "work", work) && read_string(line, "skipped", reason))
        take_skip(r, source, work, reason);
    else if (read_string(line, "work", work) && read_number(line, "busy", &busy))
        take_busy(r, work);
    else if (read_number(line, "threads", &threads) && threads == 2)
        add_line(r, line);
    else
        take_samples(r, line);
}

void bench_report_end_source(struct bench_report *r)
{
    take_probe(r, 0, 0, 0);
}

const struct bench_series *bench_report_find(const struct bench_report *r, const char *work,
                                             const char *subject)
{
    for (size_t i = 0; i < r->nseries; i++)
        if (r->series[i].count && !strcmp(r->series[i].work, work) &&
            !strcmp(r->series[i].subject, subject))
            return &r->series[i];
    return NULL;
}

double bench_series_quantile(const struct bench_series *s, double share)
{
    return bench_quantile(s->samples, s->count, share);
}

void bench_report_free(struct bench_report *r)
{
    for (size_t i = 0; i < r->nseries; i++) {
        free(r->series[i].work);
        free(r->series[i].subject);
        free(r->series[i].unit);
        free(r->series[i].samples);
    }
    for (size_t i = 0; i < r->nskipped; i++) {
        free(r->skipped[i].work);
        free(r->skipped[i].source);
        free(r->skipped[i].reason);
    }
    for (size_t i = 0; i < r->nblocks; i++)
        free_lines(&r->blocks[i]);
    free_lines(&r->open);
    free(r->blocks);
    free(r->series);
    free(r->skipped);
}
