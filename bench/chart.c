/* Draws how works scale with cores, as an SVG: a panel for each work measured on several numbers
 * of cores (its name ends in _t1, _t2, ...), a line for each subject. */
#include "harness.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_POINTS = 8,
    MAX_LINES = 16,
    MAX_PANELS = 32,
    COLUMNS = 2,
    WIDTH = 430,  /* of a panel, */
    HEIGHT = 250, /* with its margins: */
    LEFT = 62,
    RIGHT = 18,
    TOP = 40,
    BOTTOM = 40,
    HEAD = 84, /* of the page */
    LEGEND_STEP = 190,
};

struct point {
    int cores;
    double median, low, high;
    bool disturbed;
};

struct line {
    const char *subject;
    struct point points[MAX_POINTS];
    int count;
};

struct panel {
    char work[64]; /* without its cores */
    const char *unit;
    struct line lines[MAX_LINES];
    int nlines, most_points;
    int least_cores, most_cores;
    double low, high;  /* of all points */
    double ideal_core; /* the figure on one core that scales perfectly; 0: none is known */
};

struct chart {
    struct panel panels[MAX_PANELS];
    int npanels;
    const char *subjects[MAX_LINES]; /* in the order of their colours */
    int nsubjects;
};

/* Eight colours that colour-blind readers can tell apart too. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#888888"};

/* ---- collecting ---- */

/* The number of cores in the work's name, and the length of the name before it. 0 if the name has
 * no such ending. */
static int cores_of(const char *work, size_t *name_length)
{
    const char *at = strrchr(work, '_');
    char *end;
    long cores;

    if (!at || at[1] != 't')
        return 0;
    cores = strtol(at + 2, &end, 10);
    *name_length = (size_t)(at - work);
    return *end || cores < 1 || cores > 4096 ? 0 : (int)cores;
}

static struct panel *panel_of(struct chart *c, const char *work, size_t length, const char *unit)
{
    struct panel *p;
    int us;

    for (int i = 0; i < c->npanels; i++)
        if (strlen(c->panels[i].work) == length && !strncmp(c->panels[i].work, work, length))
            return strcmp(c->panels[i].unit, unit) ? NULL : &c->panels[i];
    if (c->npanels == MAX_PANELS || length >= sizeof p->work)
        return NULL;
    p = &c->panels[c->npanels++];
    memcpy(p->work, work, length);
    p->unit = unit;
    if (sscanf(p->work, "chains_64_%dus", &us) == 1)
        p->ideal_core = us * 1000.0;
    return p;
}

static int subject_number(struct chart *c, const char *subject)
{
    int i = 0;

    while (i < c->nsubjects && strcmp(c->subjects[i], subject))
        i++;
    if (i == c->nsubjects && i < MAX_LINES)
        c->subjects[c->nsubjects++] = subject;
    return i;
}

static void add_point(struct panel *p, const char *subject, struct point point)
{
    struct line *line;
    int i = 0, at;

    while (i < p->nlines && strcmp(p->lines[i].subject, subject))
        i++;
    if (i == MAX_LINES || p->lines[i].count == MAX_POINTS)
        return;
    line = &p->lines[i];
    line->subject = subject;
    p->nlines += i == p->nlines;
    for (at = line->count++; at && line->points[at - 1].cores > point.cores; at--)
        line->points[at] = line->points[at - 1];
    line->points[at] = point;
    if (line->count > p->most_points)
        p->most_points = line->count;
    if (!p->most_cores || point.cores < p->least_cores)
        p->least_cores = point.cores;
    if (point.cores > p->most_cores)
        p->most_cores = point.cores;
    p->low = p->low && p->low < point.low ? p->low : point.low;
    p->high = p->high > point.high ? p->high : point.high;
}

static void collect(struct chart *c, const struct bench_report *r)
{
    int kept = 0;

    for (size_t i = 0; i < r->nseries; i++) {
        const struct bench_series *s = &r->series[i];
        size_t length;
        int cores = s->count ? cores_of(s->work, &length) : 0;
        struct panel *p = cores ? panel_of(c, s->work, length, s->unit) : NULL;
        struct point point = {.cores = cores};

        if (!p)
            continue;
        point.median = bench_series_quantile(s, 0.5);
        point.low = bench_series_quantile(s, 0.1);
        point.high = bench_series_quantile(s, 0.9);
        point.disturbed = s->disturbed != BENCH_KEPT;
        if (point.low > 0) /* the scale is logarithmic */
            add_point(p, s->subject, point);
    }
    for (int i = 0; i < c->npanels; i++)
        if (c->panels[i].most_points > 1)
            c->panels[kept++] = c->panels[i];
    c->npanels = kept;
    for (int i = 0; i < c->npanels; i++)
        for (int k = 0; k < c->panels[i].nlines; k++)
            subject_number(c, c->panels[i].lines[k].subject);
}

/* ---- drawing ---- */

static double x_of(const struct panel *p, double cores)
{
    double share = log2(cores / p->least_cores) / log2((double)p->most_cores / p->least_cores);

    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct panel *p, double value)
{
    double share = log(value / p->low) / log(p->high / p->low);

    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

/* Subjects contain no quotes (report.c), so they need no escaping. */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", out);
        else
            fputc(*text, out);
}

static void draw_text(FILE *out, double x, double y, const char *how, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    put_text(out, text);
    fputs("</text>\n", out);
}

static void draw_axes(const struct panel *p, FILE *out)
{
    static const double steps[] = {1, 2, 5};
    double decades = log10(p->high / p->low);
    char text[128];

    snprintf(text, sizeof text, "%s, %s: %s is better", p->work, p->unit,
             strcmp(p->unit, "ns") ? "more" : "less");
    draw_text(out, LEFT, TOP - 16, " class=\"title\"", text);
    for (double decade = pow(10, floor(log10(p->low))); decade <= p->high; decade *= 10)
        for (int i = 0; i < (decades > 2 ? 1 : 3); i++) {
            double value = decade * steps[i], y = y_of(p, value);

            if (value < p->low || value > p->high)
                continue;
            fprintf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                    LEFT, WIDTH - RIGHT, y, y);
            snprintf(text, sizeof text, "%g", value);
            draw_text(out, LEFT - 8, y + 4, " text-anchor=\"end\"", text);
        }
    for (int cores = p->least_cores; cores <= p->most_cores; cores *= 2) {
        snprintf(text, sizeof text, cores == 1 ? "%d core" : "%d", cores);
        draw_text(out, x_of(p, cores), HEIGHT - BOTTOM + 18, " text-anchor=\"middle\"", text);
    }
}

static void draw_ideal(const struct panel *p, FILE *out)
{
    if (p->ideal_core <= 0)
        return;
    fprintf(out,
            "<line class=\"ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"><title>every "
            "core works all the time</title></line>\n",
            x_of(p, p->least_cores), y_of(p, p->ideal_core / p->least_cores),
            x_of(p, p->most_cores), y_of(p, p->ideal_core / p->most_cores));
}

static void draw_line(const struct panel *p, const struct line *line, const char *colour, FILE *out)
{
    fprintf(out, "<g class=\"series\" stroke=\"%s\" data-subject=\"", colour);
    put_text(out, line->subject);
    fputs("\">\n<polyline points=\"", out);
    for (int i = 0; i < line->count; i++)
        fprintf(out, "%s%.1f,%.1f", i ? " " : "", x_of(p, line->points[i].cores),
                y_of(p, line->points[i].median));
    fputs("\"/>\n", out);
    for (int i = 0; i < line->count; i++) {
        const struct point *at = &line->points[i];
        double x = x_of(p, at->cores);

        fprintf(out, "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                x, y_of(p, at->low), y_of(p, at->high));
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>", x,
                y_of(p, at->median), at->disturbed ? "#ffffff" : colour);
        put_text(out, line->subject);
        fprintf(out, ", %d core%s: %.4g %s (%.4g to %.4g)%s</title></circle>\n", at->cores,
                at->cores == 1 ? "" : "s", at->median, p->unit, at->low, at->high,
                at->disturbed ? ", disturbed" : "");
    }
    fputs("</g>\n", out);
}

/* Leaves room above and below the points, and for the ideal line. */
static void set_range(struct panel *p)
{
    double ideal = p->ideal_core / p->most_cores;

    if (ideal > 0 && ideal < p->low)
        p->low = ideal;
    p->low /= 1.15;
    p->high *= 1.15;
}

static void draw_legend(struct chart *c, int width, FILE *out)
{
    int per_row = (width - LEFT) / LEGEND_STEP;

    for (int i = 0; i < c->nsubjects; i++) {
        double x = LEFT + i % per_row * LEGEND_STEP, y = 52 + i / per_row * 18;

        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"4\" fill=\"%s\"/>\n", x,
                y - 6, colours[i % 8]);
        draw_text(out, x + 26, y, "", c->subjects[i]);
    }
}

bool bench_report_chart(const struct bench_report *r, FILE *out)
{
    static struct chart c;
    int rows, columns, width, height;

    collect(&c, r);
    if (!c.npanels)
        return false;
    columns = c.npanels < COLUMNS ? c.npanels : COLUMNS;
    rows = (c.npanels + columns - 1) / columns;
    width = COLUMNS * WIDTH;
    height = HEAD + 18 * (c.nsubjects / 4) + rows * HEIGHT + 24;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n<style>text{font:12px system-ui,sans-serif;fill:#333}"
            ".head{font-size:17px;font-weight:600}.title{font-weight:600}"
            ".grid{stroke:#e2e2e2}.ideal{stroke:#999;stroke-dasharray:5 4}"
            ".series{fill:none;stroke-width:2}.range{stroke-width:1;opacity:.5}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    draw_text(out, LEFT, 30, " class=\"head\"", "weir bench: works by cores");
    draw_legend(&c, width, out);
    for (int i = 0; i < c.npanels; i++) {
        struct panel *p = &c.panels[i];

        set_range(p);
        fprintf(out, "<g class=\"panel\" transform=\"translate(%d %d)\">\n", i % columns * WIDTH,
                HEAD + 18 * (c.nsubjects / 4) + i / columns * HEIGHT);
        draw_axes(p, out);
        draw_ideal(p, out);
        for (int k = 0; k < p->nlines; k++)
            draw_line(p, &p->lines[k], colours[subject_number(&c, p->lines[k].subject) % 8], out);
        fputs("</g>\n", out);
    }
    draw_text(out, LEFT, height - 12, "",
              "Medians, with the 10th to 90th percentile. Dashed: every core works all the time. "
              "Hollow: the machine was disturbed.");
    fputs("</svg>\n", out);
    return true;
}
