/* `weir estimate --search --html`: draws the deployments as a chart that needs no network. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "commands.h"
#include "model/estimate.h"

enum { WIDTH = 900, HEIGHT = 520, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 50 };

struct page {
    const struct estimate_job *job;
    const struct weir__candidate *c;
    size_t n;
    double least_ms, most_ms, most_rate;
};

/* The axis of latency is logarithmic: the useful values are in the first few per cent of the
 * range. */
static double x_of(const struct page *p, double ms)
{
    double span = log(p->most_ms / p->least_ms);

    return LEFT + (WIDTH - LEFT - RIGHT) * (span > 0 ? log(ms / p->least_ms) / span : 0.5);
}

static double y_of(const struct page *p, double rate)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / p->most_rate;
}

static void write_axes(FILE *f, const struct page *p)
{
    static const double steps[] = {1, 2, 5};

    for (int decade = -3; decade < 9; decade++)
        for (int i = 0; i < 3; i++) {
            double ms = steps[i] * pow(10, decade);

            if (ms >= p->least_ms && ms <= p->most_ms)
                fprintf(f,
                        "<line class=g x1=%.1f x2=%.1f y1=%d y2=%d /><text x=%.1f y=%d "
                        "text-anchor=middle>%g</text>\n",
                        x_of(p, ms), x_of(p, ms), TOP, HEIGHT - BOTTOM, x_of(p, ms),
                        HEIGHT - BOTTOM + 18, ms);
        }
    for (int i = 0; i <= 4; i++) {
        double rate = p->most_rate * i / 4;

        fprintf(f,
                "<line class=g x1=%d x2=%d y1=%.1f y2=%.1f /><text x=%d y=%.1f "
                "text-anchor=end>%.0f</text>\n",
                LEFT, WIDTH - RIGHT, y_of(p, rate), y_of(p, rate), LEFT - 8, y_of(p, rate) + 4,
                rate);
    }
    fprintf(f,
            "<text x=%d y=%d text-anchor=middle>milliseconds between tokens</text>"
            "<text transform='translate(16 %d) rotate(-90)' text-anchor=middle>tokens a second of "
            "the system</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, HEIGHT / 2);
}

/* Draws the points of the Pareto front if `front` is set, else the other points. */
static void write_points(FILE *f, const struct page *p, bool front)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct weir__candidate *c = &p->c[i];
        char how[64];

        if (c->pareto != front)
            continue;
        estimate_placement(&c->d, how, sizeof how);
        fprintf(f,
                "<circle class=%s cx=%.1f cy=%.1f r=%d><title>tp %u, pp %u, ep %u, batch %g, %s: "
                "%.2f ms, %.0f tokens/s, first token %.0f ms</title></circle>\n",
                front ? "p" : "o", x_of(p, c->tpot_ms), y_of(p, c->rate), front ? 5 : 3, c->d.tp,
                c->d.pp, c->d.ep ? c->d.ep : c->d.ranks / c->d.pp, c->d.batch, how, c->tpot_ms,
                c->rate, c->ttft_ms);
    }
}

static void write_line(FILE *f, const struct page *p)
{
    fputs("<polyline points='", f);
    for (size_t i = 0; i < p->n; i++)
        if (p->c[i].pareto)
            fprintf(f, "%.1f,%.1f ", x_of(p, p->c[i].tpot_ms), y_of(p, p->c[i].rate));
    fputs("' />\n", f);
    if (p->job->tpot > p->least_ms && p->job->tpot < p->most_ms)
        fprintf(f, "<line class=l x1=%.1f x2=%.1f y1=%d y2=%d />\n", x_of(p, p->job->tpot),
                x_of(p, p->job->tpot), TOP, HEIGHT - BOTTOM);
}

static void write_table(FILE *f, const struct page *p)
{
    fputs("<table><tr><th>tp<th>pp<th>ep<th>batch<th>placement<th>TTFT ms<th>TPOT ms<th>tokens/s\n",
          f);
    for (size_t i = 0; i < p->n; i++) {
        const struct weir__candidate *c = &p->c[i];
        char how[64];

        if (!c->pareto)
            continue;
        estimate_placement(&c->d, how, sizeof how);
        fprintf(f, "<tr><td>%u<td>%u<td>%u<td>%g<td>%s<td>%.0f<td>%.2f<td>%.0f\n", c->d.tp, c->d.pp,
                c->d.ep ? c->d.ep : c->d.ranks / c->d.pp, c->d.batch, how, c->ttft_ms, c->tpot_ms,
                c->rate);
    }
    fputs("</table>\n", f);
}

void estimate_write_head(FILE *f, const char *title)
{
    fprintf(f,
            "<!doctype html><meta charset=utf-8><title>%s</title><style>"
            "body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}"
            "text{font-size:12px;fill:#555}.g{stroke:#e4e4e4}.l{stroke:#c33;stroke-dasharray:4}"
            ".o{fill:#9ab;fill-opacity:.5}.p{fill:#c33}polyline{fill:none;stroke:#c33}"
            "td,th{padding:2px 10px;text-align:right}"
            "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
            "text{fill:#aaa}.g{stroke:#333}}</style>\n",
            title);
}

static weir_status write_page(FILE *f, const void *user)
{
    const struct page *p = user;
    weir_device_props props;

    weir_device_get_props(p->job->dev, &props, sizeof props);
    estimate_write_head(f, "weir estimate");
    fprintf(f,
            "<h1>%s on %u x %s</h1><p>%zu deployments, %g + %g tokens, %s. Red: no other is better "
            "in both latency and throughput; times are within %.0f %% by the profile's error."
            "</p>\n<svg viewBox='0 0 %d %d' width=%d height=%d>\n",
            p->job->llm.family, p->job->d.ranks, props.name, p->n, p->job->d.prompt,
            p->job->d.output, weir__quant_names[p->job->d.quant],
            100 * p->job->dev->model->profile.error, WIDTH, HEIGHT, WIDTH, HEIGHT);
    write_axes(f, p);
    write_points(f, p, false);
    write_line(f, p);
    write_points(f, p, true);
    fputs("</svg>\n", f);
    write_table(f, p);
    return WEIR_OK;
}

int estimate_write_page(const struct estimate_job *job, const struct weir__candidate *c, size_t n)
{
    struct page p = {.job = job, .c = c, .n = n, .least_ms = INFINITY};
    struct cli_output out;
    weir_status st;
    int status;

    for (size_t i = 0; i < n; i++) {
        p.least_ms = fmin(p.least_ms, c[i].tpot_ms);
        p.most_ms = fmax(p.most_ms, c[i].tpot_ms);
        p.most_rate = fmax(p.most_rate, c[i].rate);
    }
    if ((status = cli_output_open("estimate", job->html, &out)) >= 0)
        return status;
    st = weir__file_write(out.path, write_page, &p);
    status = cli_output_close("estimate", &out, st ? cli_complain("estimate", st) : EXIT_FINE);
    if (!status && !cli_is_standard(job->html))
        fprintf(stderr, "the page is %s\n", job->html);
    return status;
}
