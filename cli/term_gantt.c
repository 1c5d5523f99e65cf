/* Prints Gantt charts. */
#include "term.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CELLS = 160, MIN_CELLS = 16 };

/* The characters for the bars of a family: one for the last cell, which separates a bar from the
 * next, and one for the other cells. */
struct look {
    const char *fill, *end;
    enum term_style style;
};

enum { FAMILIES = 5 };

static const struct look unicode_looks[FAMILIES] = {
    {"█", "▉", TERM_BLUE}, {"▒", "░", TERM_YELLOW}, {"▓", "▒", TERM_VIOLET},
    {"━", "╸", TERM_GOOD}, {"─", "╴", TERM_DIM},
};
static const struct look ascii_looks[FAMILIES] = {
    {"#", "|", TERM_BLUE}, {"=", "|", TERM_YELLOW}, {"%", "|", TERM_VIOLET},
    {"~", "|", TERM_GOOD}, {"-", "|", TERM_DIM},
};

struct cell {
    char text[8]; /* one character, "" for nothing */
    enum term_style style;
    double filled; /* share filled by bars shorter than a cell; `family` is that of one of them */
    int family;
};

struct chart {
    struct cell cells[MAX_CELLS];
    int n;
    double span; /* ms over n cells */
};

static int cell_of(const struct chart *c, double ms)
{
    int at = (int)lround(ms / c->span * c->n);

    return at < 0 ? 0 : at > c->n ? c->n : at;
}

static void put(struct cell *cell, const char *text, enum term_style style)
{
    snprintf(cell->text, sizeof cell->text, "%s", text);
    cell->style = style;
}

/* Writes the label in the middle of the bar, if a filled cell remains on each side. */
static void put_label(struct chart *c, int from, int to, const char *label)
{
    int length = (int)strlen(label), at = from + (to - from - length) / 2;

    if (to - from < length + 2)
        return;
    for (int i = 0; i < length; i++)
        put(&c->cells[at + i], (char[]){label[i], '\0'}, TERM_PLAIN);
}

static const struct look *look_of(int family)
{
    const struct look *looks = term_get()->unicode ? unicode_looks : ascii_looks;

    return &looks[family >= 0 && family < FAMILIES ? family : 0];
}

static void put_bar(struct chart *c, const struct term_bar *bar)
{
    const struct look *look = look_of(bar->family);
    int from = cell_of(c, bar->start), to = cell_of(c, bar->end);

    if (from == to && from < c->n) {
        int at = (int)(bar->start / c->span * c->n);

        at = at < 0 ? 0 : at < c->n ? at : c->n - 1;
        c->cells[at].filled += (bar->end - bar->start) / c->span * c->n;
        c->cells[at].family = bar->family;
        return;
    }
    for (int i = from; i < to; i++)
        put(&c->cells[i], i + 1 < to || to - from == 1 ? look->fill : look->end, look->style);
    if (bar->label)
        put_label(c, from, to, bar->label);
}

/* Fills the cells that contain only bars shorter than a cell. */
static void put_short(struct chart *c)
{
    bool unicode = term_get()->unicode;

    for (int i = 0; i < c->n; i++) {
        struct cell *cell = &c->cells[i];
        const struct look *look = look_of(cell->family);

        if (cell->text[0] || cell->filled <= 0)
            continue;
        put(cell,
            cell->filled > 0.7   ? look->fill
            : cell->filled > 0.2 ? (unicode ? "▌" : ":")
                                 : (unicode ? "▏" : "."),
            look->style);
    }
}

static void print_cells(const struct chart *c, int n)
{
    enum term_style style = TERM_PLAIN;

    for (int i = 0; i < n; i++) {
        const struct cell *cell = &c->cells[i];

        if (cell->style != style) {
            printf("%s%s", term_off(), term_on(cell->style));
            style = cell->style;
        }
        fputs(cell->text[0] ? cell->text : " ", stdout);
    }
    fputs(term_off(), stdout);
}

/* Prints one row; without a note, omits blanks after the last bar. */
static void print_row(const struct chart *c, const char *note)
{
    int n = c->n;

    while (!*note && n && !c->cells[n - 1].text[0])
        n--;
    print_cells(c, n);
    printf("%s%s\n", *note ? "  " : "", note);
}

/* Returns the step between marks: 1, 2 or 5 times a power of ten, such that there are three to
 * seven marks. */
static double mark_step(double span)
{
    double step = pow(10, floor(log10(span)));

    if (span / step < 3)
        step /= 5;
    if (span / step > 7)
        step *= 2;
    return step;
}

static void print_axis(const struct chart *c, int left)
{
    const char *unit = c->span < 1 ? "us" : c->span < 1000 ? "ms" : "s";
    double scale = c->span < 1 ? 1000 : c->span < 1000 ? 1 : 0.001, step = mark_step(c->span);
    int at = 0;

    printf("%*s%s", left, "", term_on(TERM_DIM));
    for (int i = 0; i * step < c->span; i++) {
        char mark[32];
        int from = cell_of(c, i * step);

        snprintf(mark, sizeof mark, "%.4g%s%s", i * step * scale, i ? "" : " ", i ? "" : unit);
        if (from < at + (i > 0) || from + (int)strlen(mark) > c->n)
            continue;
        printf("%*s%s", from - at, "", mark);
        at = from + (int)strlen(mark);
    }
    printf("%s\n", term_off());
}

static int longest(const char *const *texts, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++)
        most = strlen(texts[i]) > most ? strlen(texts[i]) : most;
    return (int)most;
}

void term_gantt_print(const struct term_gantt *g, int indent)
{
    struct chart c = {.span = 0};
    int label = longest(g->rows, g->nrows), left = indent + label + 2;
    int room = term_get()->width - left - 2 - longest(g->notes, g->nrows);

    c.n = room < MIN_CELLS ? MIN_CELLS : room > MAX_CELLS ? MAX_CELLS : room;
    for (size_t i = 0; i < g->nbars; i++)
        c.span = fmax(c.span, g->bars[i].end);
    if (c.span <= 0)
        return;
    for (int row = 0; row < g->nrows; row++) {
        memset(c.cells, 0, sizeof c.cells);
        for (size_t i = 0; i < g->nbars; i++)
            if (g->bars[i].row == row)
                put_bar(&c, &g->bars[i]);
        put_short(&c);
        printf("%*s%-*s  ", indent, "", label, g->rows[row]);
        print_row(&c, g->notes[row]);
    }
    print_axis(&c, left);
}
