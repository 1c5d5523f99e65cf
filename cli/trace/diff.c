/* Compares two traces: counts and times by operator, by module and by line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "term.h"
#include "trace/record/kernel_names.h"
#include "trace/report.h"

enum { MAX_ROWS = 20 };

struct row {
    char *name;
    size_t count[2];
    double ns[2];
};

struct rows {
    struct row *rows;
    size_t n;
    bool cut; /* names are shortened */
};

struct diff {
    weir_trace_data data[2];
    double makespan[2], serial[2];
    double slower; /* percent; NAN if A took no time */
    bool failed;   /* slower than the limit allows */
    struct rows names, modules, lines;
};

/* ---- counting ---- */

/* Returns the module of an operator: its scope, or the part of its name before the last '/'; "" if
 * it has neither. */
static char *module_of(const weir_trace_op *op)
{
    const char *slash = strrchr(op->name, '/');

    return *op->scope ? strdup(op->scope)
           : slash    ? strndup(op->name, (size_t)(slash - op->name))
                      : strdup("");
}

static char *name_of(const weir_trace_op *op, bool wide)
{
    return strdup(wide ? op->name : weir__plain_name(op->name).text);
}

/* The key by which operators are counted. */
enum group { NAME, MODULE, LINE };

static char *group_of(const weir_trace_op *op, enum group group, bool wide)
{
    return group == NAME ? name_of(op, wide) : group == MODULE ? module_of(op) : strdup(op->source);
}

static int by_name(const void *x, const void *y)
{
    const struct row *a = x, *b = y;

    return strcmp(a->name, b->name);
}

static int most_changed_first(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    double p = fabs(a->ns[1] - a->ns[0]), q = fabs(b->ns[1] - b->ns[0]);

    return p != q ? (p < q) - (p > q) : by_name(x, y);
}

static void rows_free(struct rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->rows[i].name);
    free(r->rows);
    *r = (struct rows){.rows = NULL};
}

/* Makes a row for each operator, then merges them into one for each group. False when out of
 * memory. */
static bool count(const struct diff *d, enum group group, bool wide, struct rows *out)
{
    size_t n = 0;

    *out = (struct rows){.rows = calloc(d->data[0].nops + d->data[1].nops + 1, sizeof *out->rows),
                         .cut = group == NAME && !wide};
    if (!out->rows)
        return false;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < d->data[side].nops; i++) {
            const weir_trace_op *op = &d->data[side].ops[i];
            struct row *r = &out->rows[out->n];

            if (!(r->name = group_of(op, group, wide))) {
                rows_free(out);
                return false;
            }
            r->count[side] = 1;
            r->ns[side] = (double)(op->ended_ns - op->started_ns);
            out->n++;
        }
    qsort(out->rows, out->n, sizeof *out->rows, by_name);
    for (size_t i = 0; i < out->n; i++) {
        struct row *r = &out->rows[i], *into = n ? &out->rows[n - 1] : NULL;

        if (!into || strcmp(into->name, r->name)) {
            out->rows[n++] = *r;
            continue;
        }
        for (int side = 0; side < 2; side++) {
            into->count[side] += r->count[side];
            into->ns[side] += r->ns[side];
        }
        free(r->name);
    }
    out->n = n;
    qsort(out->rows, out->n, sizeof *out->rows, most_changed_first);
    if (group != NAME && out->n == 1 && !*out->rows[0].name)
        rows_free(out); /* no operator has a module or line */
    return true;
}

static void diff_free(struct diff *d)
{
    rows_free(&d->names);
    rows_free(&d->modules);
    rows_free(&d->lines);
}

static int diff_make(weir_trace *const *traces, const struct trace_diff_options *opt,
                     struct diff *d)
{
    weir_status st;

    *d = (struct diff){.slower = NAN};
    for (int side = 0; side < 2; side++) {
        weir_trace_summary sum;

        weir_trace_get(traces[side], &d->data[side], sizeof d->data[side]);
        if ((st = weir_trace_summarise(traces[side], &sum, sizeof sum)))
            return cli_complain("trace diff", st);
        d->makespan[side] = (double)(sum.last_ns - sum.first_ns);
        d->serial[side] = sum.serial_ns;
    }
    if (d->makespan[0] > 0)
        d->slower = 100 * (d->makespan[1] / d->makespan[0] - 1);
    /* If A took no time, B exceeds every limit as soon as it takes time. */
    d->failed =
        !isnan(opt->limit) && (isnan(d->slower) ? d->makespan[1] > 0 : d->slower > opt->limit);
    if ((opt->by_name && !count(d, NAME, opt->wide, &d->names)) ||
        (opt->by_module && !count(d, MODULE, opt->wide, &d->modules)) ||
        (opt->by_line && !count(d, LINE, opt->wide, &d->lines))) {
        diff_free(d);
        fprintf(stderr, "weir trace diff: out of memory\n");
        return EXIT_FAILED;
    }
    return EXIT_FINE;
}

/* ---- text ---- */

struct text {
    char text[64];
};

static struct text change_text(double ns)
{
    struct text out;

    if (ns == 0)
        snprintf(out.text, sizeof out.text, "0");
    else
        snprintf(out.text, sizeof out.text, "%c%s", ns > 0 ? '+' : '-',
                 trace_time_text(fabs(ns)).text);
    return out;
}

static struct text time_or_none(const struct row *r, int side)
{
    struct text out;

    snprintf(out.text, sizeof out.text, "%s",
             r->count[side] ? trace_time_text(r->ns[side]).text : "-");
    return out;
}

struct sentence {
    char text[512];
};

static struct sentence verdict(const struct diff *d)
{
    struct sentence out;

    if (isnan(d->slower))
        snprintf(out.text, sizeof out.text, "A took no time");
    else if (fabs(d->slower) < 0.05)
        snprintf(out.text, sizeof out.text, "B takes as long as A");
    else
        snprintf(out.text, sizeof out.text, "B takes %.1f %% %s time than A (%s)", fabs(d->slower),
                 d->slower > 0 ? "more" : "less",
                 change_text(d->makespan[1] - d->makespan[0]).text);
    return out;
}

/* Returns the name to show; a shortened one is stored in *cut. */
static const char *shown_name(const struct rows *rows, size_t i, struct weir__short_name *cut)
{
    const char *name = rows->rows[i].name;

    if (rows->cut)
        *cut = weir__cut_name(name);
    return !*name ? "(not known)" : rows->cut ? cut->text : name;
}

static void print_rows(const char *title, const struct rows *rows)
{
    const struct term_column columns[] = {{title, false}, {"count A", true}, {"count B", true},
                                          {"A", true},    {"B", true},       {"B - A", true}};
    struct term_table t = {.columns = columns, .ncolumns = 6};
    size_t shown = rows->n < MAX_ROWS ? rows->n : MAX_ROWS;

    if (!rows->n)
        return;
    for (size_t i = 0; i < shown; i++) {
        const struct row *r = &rows->rows[i];
        struct weir__short_name cut;
        char a[24], b[24];

        snprintf(a, sizeof a, "%zu", r->count[0]);
        snprintf(b, sizeof b, "%zu", r->count[1]);
        term_table_add(&t, (const char *[]){shown_name(rows, i, &cut), a, b,
                                            time_or_none(r, 0).text, time_or_none(r, 1).text,
                                            change_text(r->ns[1] - r->ns[0]).text});
    }
    printf("\n");
    term_table_print(&t, 0);
    if (shown < rows->n)
        printf("(%zu more that changed less)\n", rows->n - shown);
}

int trace_diff_print(weir_trace *const *traces, const char *const *titles,
                     const struct trace_diff_options *opt)
{
    struct diff d;
    int status = diff_make(traces, opt, &d);

    if (status)
        return status;
    for (int side = 0; side < 2; side++)
        printf("%c  %s: %zu operators took %s\n", "AB"[side], titles[side], d.data[side].nops,
               trace_time_text(d.makespan[side]).text);
    printf("%s%s%s", term_on(d.failed ? TERM_BAD : TERM_BOLD), verdict(&d).text, term_off());
    if (d.failed)
        printf(": more than the %g %% allowed", opt->limit);
    printf("\n");
    print_rows("operator", &d.names);
    print_rows("module", &d.modules);
    print_rows("line", &d.lines);
    status = d.failed ? EXIT_FAILED : EXIT_FINE;
    diff_free(&d);
    return status;
}

/* ---- Markdown, for a pull request ---- */

/* Writes a cell; escapes characters that would end the cell or begin markup. */
static void put_cell(const char *text)
{
    for (; *text; text++) {
        if (strchr("\\`*_{}[]<>|#", *text))
            putchar('\\');
        putchar(*text == '\n' || *text == '\r' ? ' ' : *text);
    }
}

static void markdown_rows(const char *title, const struct rows *rows)
{
    size_t shown = rows->n < MAX_ROWS ? rows->n : MAX_ROWS;

    if (!rows->n)
        return;
    printf("\n| %s | count A | count B | A | B | B - A |\n|---|---:|---:|---:|---:|---:|\n", title);
    for (size_t i = 0; i < shown; i++) {
        const struct row *r = &rows->rows[i];
        struct weir__short_name cut;

        printf("| ");
        put_cell(shown_name(rows, i, &cut));
        printf(" | %zu | %zu | %s | %s | %s |\n", r->count[0], r->count[1], time_or_none(r, 0).text,
               time_or_none(r, 1).text, change_text(r->ns[1] - r->ns[0]).text);
    }
    if (shown < rows->n)
        printf("\n%zu more changed less.\n", rows->n - shown);
}

int trace_diff_markdown(weir_trace *const *traces, const char *const *titles,
                        const struct trace_diff_options *opt)
{
    struct diff d;
    int status = diff_make(traces, opt, &d);

    if (status)
        return status;
    printf("**%s**", verdict(&d).text);
    if (d.failed)
        printf(": more than the %g %% allowed", opt->limit);
    printf("\n\n| | trace | operators | took | one after the other |\n|---|---|---:|---:|---:|\n");
    for (int side = 0; side < 2; side++) {
        printf("| %c | ", "AB"[side]);
        put_cell(titles[side]);
        printf(" | %zu | %s | %s |\n", d.data[side].nops, trace_time_text(d.makespan[side]).text,
               trace_time_text(d.serial[side]).text);
    }
    markdown_rows("operator", &d.names);
    markdown_rows("module", &d.modules);
    markdown_rows("line", &d.lines);
    status = d.failed ? EXIT_FAILED : EXIT_FINE;
    diff_free(&d);
    return status;
}

/* ---- JSON ---- */

static void json_rows(struct json *j, const char *key, const struct rows *rows)
{
    json_array(j, key);
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->rows[i];

        json_object(j, NULL);
        json_string(j, "name", r->name);
        json_int(j, "count_a", (int64_t)r->count[0]);
        json_int(j, "count_b", (int64_t)r->count[1]);
        json_number(j, "us_a", r->ns[0] / 1e3);
        json_number(j, "us_b", r->ns[1] / 1e3);
        json_number(j, "change_us", (r->ns[1] - r->ns[0]) / 1e3);
        json_object_end(j);
    }
    json_array_end(j);
}

int trace_diff_json(weir_trace *const *traces, const char *const *titles,
                    const struct trace_diff_options *opt)
{
    struct json j = {.out = stdout};
    struct diff d;
    int status = diff_make(traces, opt, &d);

    if (status)
        return status;
    json_object(&j, NULL);
    for (int side = 0; side < 2; side++) {
        json_object(&j, side ? "b" : "a");
        json_string(&j, "file", titles[side]);
        json_int(&j, "operators", (int64_t)d.data[side].nops);
        json_number(&j, "makespan_us", d.makespan[side] / 1e3);
        json_number(&j, "serial_us", d.serial[side] / 1e3);
        json_object_end(&j);
    }
    json_number(&j, "change_us", (d.makespan[1] - d.makespan[0]) / 1e3);
    json_number(&j, "slower_percent", d.slower);
    json_number(&j, "limit_percent", opt->limit);
    json_bool(&j, "failed", d.failed);
    json_rows(&j, "names", &d.names);
    json_rows(&j, "modules", &d.modules);
    json_rows(&j, "lines", &d.lines);
    json_object_end(&j);
    status = d.failed ? EXIT_FAILED : EXIT_FINE;
    diff_free(&d);
    return status;
}
