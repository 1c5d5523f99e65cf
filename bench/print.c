/* Prints a report as text and as JSON. */
#include "harness.h"
#include "report.h"

#include <string.h>

enum { LOW = 10, HIGH = 90 }; /* percentiles of the spread */

struct row {
    double median, low, high;
};

static struct row row_of(const struct bench_series *s)
{
    return (struct row){
        bench_series_quantile(s, 0.5),
        bench_series_quantile(s, LOW / 100.0),
        bench_series_quantile(s, HIGH / 100.0),
    };
}

/* Three or four significant digits. */
static const char *number(double x, char out[static 32])
{
    snprintf(out, 32, x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f", x);
    return out;
}

static const char *disturbance(enum bench_drop why)
{
    static const char *const texts[BENCH_DROPS] = {
        [BENCH_KEPT] = "",
        [BENCH_ONE_CORE] = "  disturbed: two CPUs were one core",
        [BENCH_BUSY] = "  disturbed: others were busy",
        [BENCH_MOVED] = "  disturbed: the CPUs moved",
    };

    return texts[why];
}

static void print_row(const struct bench_series *s, bool first, FILE *out)
{
    char median[32], low[32], high[32];
    struct row row;

    fprintf(out, "%-24s  %-38s  ", first ? s->work : "", s->subject);
    if (!s->count) {
        fprintf(out, "%10s   (no samples)\n", "-");
        return;
    }
    row = row_of(s);
    fprintf(out, "%10s  %8s - %-8s  %s%s\n", number(row.median, median), number(row.low, low),
            number(row.high, high), s->unit, disturbance(s->disturbed));
}

/* Groups series of the same work, in the order of their first lines. */
static void print_rows(const struct bench_report *r, FILE *out)
{
    for (size_t i = 0; i < r->nseries; i++) {
        bool seen = false;

        for (size_t j = 0; j < i && !seen; j++)
            seen = !strcmp(r->series[j].work, r->series[i].work);
        for (size_t j = i; !seen && j < r->nseries; j++)
            if (!strcmp(r->series[j].work, r->series[i].work))
                print_row(&r->series[j], j == i, out);
    }
}

static void print_targets(const struct bench_report *r, FILE *out)
{
    const char *heading = "\ntarget                                        is  must be\n";

    for (size_t i = 0; i < bench_ntargets; i++) {
        const struct bench_target *t = &bench_targets[i];
        struct bench_verdict v = bench_judge(r, t);
        char is[32], limit[32];

        if (!bench_target_applies(r, t))
            continue;
        fputs(heading, out);
        heading = "";
        snprintf(limit, sizeof limit, "%s %g%s", t->at_least ? ">=" : "<=", t->limit,
                 t->base ? "x" : "");
        if (!v.measured) {
            fprintf(out, "%-38s  %8s  %-13s  not measured\n", t->name, "-", limit);
            continue;
        }
        fprintf(out, "%-38s  %7s%s  %-13s  %-7s  %s", t->name, number(v.ratio, is),
                t->base ? "x" : " ", limit, v.met ? "met" : "NOT MET", t->subject);
        if (v.base)
            fprintf(out, " / %s", v.base);
        fputs(v.disturbed ? "  (disturbed)\n" : "\n", out);
    }
}

static void print_drops(const struct bench_report *r, FILE *out)
{
    fprintf(out, "%d of %zu blocks on two threads count", r->drops[BENCH_KEPT], r->nblocks);
    if (r->drops[BENCH_ONE_CORE])
        fprintf(out, "; %d dropped: FMA on two threads was below %.1fx of one",
                r->drops[BENCH_ONE_CORE], BENCH_PROBE_MIN);
    if (r->drops[BENCH_BUSY])
        fprintf(out, "; %d dropped: others took over %.0f %% of a core", r->drops[BENCH_BUSY],
                BENCH_FOREIGN_MAX * 100);
    if (r->drops[BENCH_MOVED])
        fprintf(out, "; %d dropped: the CPUs were not %.0f ns apart as in most",
                r->drops[BENCH_MOVED], r->hop);
    fprintf(out, ".\n");
}

void bench_report_print(const struct bench_report *r, FILE *out)
{
    fprintf(out, "%-24s  %-38s  %10s  %8s - %-8s  %s\n", "work", "subject", "median", "low", "high",
            "unit");
    print_rows(r, out);
    print_targets(r, out);
    fprintf(out,
            "\nLow and high are the %dth and %dth percentile of the samples. GFLOP/s, GB/s and x: "
            "more is better; ns and %%: less.\n",
            LOW, HIGH);
    if (r->nblocks)
        print_drops(r, out);
    if (r->foreign_share > 0.05)
        fprintf(out, "Other processes took %.0f %% of a core meanwhile: the figures are noisy.\n",
                r->foreign_share * 100);
    for (size_t i = 0; i < r->nskipped; i++)
        fprintf(out, "%s: %s was not measured: %s\n", r->skipped[i].source, r->skipped[i].work,
                r->skipped[i].reason);
}

void bench_report_print_json(const struct bench_report *r, FILE *out)
{
    const char *separator = "";

    fprintf(out, "{\n  \"rows\": [");
    for (size_t i = 0; i < r->nseries; i++) {
        const struct bench_series *s = &r->series[i];
        struct row row;

        if (!s->count)
            continue;
        row = row_of(s);
        fprintf(out,
                "%s\n    {\"work\": \"%s\", \"subject\": \"%s\", \"median\": %.6g, \"low\": %.6g, "
                "\"high\": %.6g, \"unit\": \"%s\", \"disturbed\": %s}",
                separator, s->work, s->subject, row.median, row.low, row.high, s->unit,
                s->disturbed ? "true" : "false");
        separator = ",";
    }
    fprintf(out, "\n  ],\n  \"targets\": [");
    separator = "";
    for (size_t i = 0; i < bench_ntargets; i++) {
        const struct bench_target *t = &bench_targets[i];
        struct bench_verdict v = bench_judge(r, t);

        if (!bench_target_applies(r, t))
            continue;
        fprintf(out, "%s\n    {\"work\": \"%s\", ", separator, t->name);
        separator = ",";
        if (v.measured)
            fprintf(out, "\"ratio\": %.4g, ", v.ratio);
        else
            fprintf(out, "\"ratio\": null, ");
        fprintf(out, "\"target\": %g, \"bound\": \"%s\", \"met\": %s}", t->limit,
                t->at_least ? "at least" : "at most",
                !v.measured ? "null"
                : v.met     ? "true"
                            : "false");
    }
    fprintf(out, "\n  ],\n  \"skipped\": [");
    for (size_t i = 0; i < r->nskipped; i++)
        fprintf(out, "%s\n    {\"work\": \"%s\", \"subject\": \"%s\", \"reason\": \"%s\"}",
                i ? "," : "", r->skipped[i].work, r->skipped[i].source, r->skipped[i].reason);
    fprintf(out, "%s],\n", r->nskipped ? "\n  " : "");
    fprintf(out,
            "  \"blocks\": {\"kept\": %d, \"one_core\": %d, \"busy\": %d, \"moved\": %d},\n"
            "  \"hop_ns\": %.1f,\n  \"foreign_share\": %.3f\n}\n",
            r->drops[BENCH_KEPT], r->drops[BENCH_ONE_CORE], r->drops[BENCH_BUSY],
            r->drops[BENCH_MOVED], r->hop, r->foreign_share);
}
