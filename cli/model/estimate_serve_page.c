/* `weir estimate --serve --html`: draws the requests' latencies as charts that need no network. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "commands.h"
#include "graph/estimate/serve.h"
#include "model/estimate.h"

enum { WIDTH = 900, HEIGHT = 320, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 50 };

struct page {
    const struct estimate_job *job;
    const struct weir__served *s;
    double *values; /* scratch space for one value per request */
};

/* A chart whose axes start at 0. */
struct chart {
    const char *title, *x, *y;
    double most_x, most_y;
};

static double x_of(const struct chart *c, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (c->most_x > 0 ? x / c->most_x : 0);
}

static double y_of(const struct chart *c, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (c->most_y > 0 ? y / c->most_y : 0);
}

/* Rounds up to a number of one or two digits times a power of ten. */
static double round_up(double value)
{
    static const double steps[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};
    double power = pow(10, floor(log10(fmax(value, 1e-9))));

    for (size_t i = 0; i + 1 < sizeof steps / sizeof *steps; i++)
        if (value <= steps[i] * power)
            return steps[i] * power;
    return 10 * power;
}

static void begin_chart(FILE *f, const struct chart *c)
{
    fprintf(f, "<h2>%s</h2>\n<svg viewBox='0 0 %d %d' width=%d height=%d>\n", c->title, WIDTH,
            HEIGHT, WIDTH, HEIGHT);
    for (int i = 0; i <= 5; i++) {
        double x = c->most_x * i / 5, y = c->most_y * i / 5;

        fprintf(f,
                "<line class=g x1=%.1f x2=%.1f y1=%d y2=%d /><text x=%.1f y=%d "
                "text-anchor=middle>%g</text>\n",
                x_of(c, x), x_of(c, x), TOP, HEIGHT - BOTTOM, x_of(c, x), HEIGHT - BOTTOM + 18, x);
        fprintf(f,
                "<line class=g x1=%d x2=%d y1=%.1f y2=%.1f /><text x=%d y=%.1f "
                "text-anchor=end>%g</text>\n",
                LEFT, WIDTH - RIGHT, y_of(c, y), y_of(c, y), LEFT - 8, y_of(c, y) + 4, y);
    }
    fprintf(f,
            "<text x=%d y=%d text-anchor=middle>%s</text><text transform='translate(16 %d) "
            "rotate(-90)' text-anchor=middle>%s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, c->x, HEIGHT / 2, c->y);
}

static void write_arrivals(FILE *f, const struct page *p)
{
    struct chart c = {"First tokens, by arrival", "seconds since the first request",
                      "ms to the first token", 0, round_up(p->s->ttft_ms.most)};

    for (size_t i = 0; i < p->s->n; i++)
        c.most_x = fmax(c.most_x, p->s->requests[i].at / 1e3);
    c.most_x = round_up(c.most_x);
    begin_chart(f, &c);
    for (size_t i = 0; i < p->s->n; i++) {
        const struct weir__served_request *r = &p->s->requests[i];

        fprintf(f,
                "<circle class=o cx=%.1f cy=%.1f r=2><title>%.3f s: first token %.0f ms, of which "
                "it waited %.0f</title></circle>\n",
                x_of(&c, r->at / 1e3), y_of(&c, r->ttft), r->at / 1e3, r->ttft, r->wait);
    }
    fputs("</svg>\n", f);
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* Draws the share of requests whose latency is at most x milliseconds. */
static void write_shares(FILE *f, const struct page *p, const char *title, bool first)
{
    size_t n = 0;
    struct chart c = {title, "ms", "% of requests", 0, 100};

    for (size_t i = 0; i < p->s->n; i++) {
        double value = first ? p->s->requests[i].ttft : p->s->requests[i].tpot;

        if (!isnan(value))
            p->values[n++] = value;
    }
    if (!n)
        return;
    qsort(p->values, n, sizeof *p->values, compare);
    c.most_x = round_up(p->values[n - 1]);
    begin_chart(f, &c);
    fputs("<polyline points='", f);
    for (size_t i = 0; i <= 200; i++) {
        size_t at = i * (n - 1) / 200;

        fprintf(f, "%.1f,%.1f ", x_of(&c, p->values[at]),
                y_of(&c, 100 * (double)(at + 1) / (double)n));
    }
    fputs("' />\n</svg>\n", f);
}

static void write_row(FILE *f, const char *name, const struct weir__percentiles *p)
{
    fprintf(f, "<tr><th>%s<td>%.2f<td>%.2f<td>%.2f<td>%.2f<td>%.2f\n", name, p->p50, p->p90, p->p99,
            p->mean, p->most);
}

static weir_status write_page(FILE *f, const void *user)
{
    const struct page *p = user;
    weir_device_props props;

    weir_device_get_props(p->job->dev, &props, sizeof props);
    estimate_write_head(f, "weir estimate --serve");
    fprintf(
        f,
        "<h1>%s on %u x %s</h1><p>%zu requests in %.1f s: %.0f answer tokens/s, %.0f prompt "
        "tokens/s; %.1f %% of the prompts' tokens were in the cache. Times are within %.0f %% by "
        "the profile's error.</p>\n"
        "<table><tr><th>ms<th>p50<th>p90<th>p99<th>mean<th>most\n",
        p->job->llm.family, p->job->d.ranks, props.name, p->s->n, p->s->seconds, p->s->tokens_s,
        p->s->prompt_tokens_s, 100 * p->s->hit_share, 100 * p->s->error);
    write_row(f, "first token", &p->s->ttft_ms);
    write_row(f, "each token", &p->s->tpot_ms);
    write_row(f, "wait before", &p->s->wait_ms);
    fputs("</table>\n", f);
    write_arrivals(f, p);
    write_shares(f, p, "Time to the first token", true);
    write_shares(f, p, "Time between tokens", false);
    return WEIR_OK;
}

int estimate_write_served(const struct estimate_job *job, const struct weir__served *s)
{
    struct page p = {job, s, calloc(s->n + 1, sizeof(double))};
    struct cli_output out;
    weir_status st;
    int status;

    if (!p.values)
        return cli_complain("estimate", weir__fail_nomem("a page of %zu requests", s->n));
    if ((status = cli_output_open("estimate", job->html, &out)) < 0) {
        st = weir__file_write(out.path, write_page, &p);
        status = cli_output_close("estimate", &out, st ? cli_complain("estimate", st) : EXIT_FINE);
        if (!status && !cli_is_standard(job->html))
            fprintf(stderr, "the page is %s\n", job->html);
    }
    free(p.values);
    return status;
}
