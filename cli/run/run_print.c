/* Prints the results of `weir run` as text. */
#include "run/run.h"

#include "term.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROWS = 12, MAX_BARS = 400, MAX_STEPS = 24 };

const char *run_cause_text(enum weir__cause cause)
{
    static const char *const texts[] = {
        [WEIR__CAUSE_NONE] = "nothing: the beginning",
        [WEIR__CAUSE_STREAM] = "the stream",
        [WEIR__CAUSE_EVENT] = "an event",
        [WEIR__CAUSE_CORES] = "cores",
        [WEIR__CAUSE_PEER] = "its peers",
    };

    return texts[cause];
}

/* The unit of all printed times: microseconds, or a larger unit for a long run. */
struct unit {
    const char *name;
    double us;
};

static struct unit unit_of(const struct run_result *r)
{
    double longest = isnan(r->makespan) ? 0 : r->makespan;

    if (!isnan(r->serial) && r->serial > longest)
        longest = r->serial;
    return longest >= 1e7   ? (struct unit){"s", 1e6}
           : longest >= 1e4 ? (struct unit){"ms", 1e3}
                            : (struct unit){"us", 1};
}

static void print_numbers(const struct run_result *r)
{
    double communication = 0, exposed = 0;
    struct unit u = unit_of(r);

    for (size_t i = 0; i < r->nranks; i++) {
        communication += r->ranks[i].communication / (double)r->nranks;
        exposed += r->ranks[i].exposed / (double)r->nranks;
    }
    printf("%s%s%s, %s", term_on(TERM_BOLD), r->device, term_off(), r->model);
    if (r->nranks > 1)
        printf(", %zu ranks", r->nranks);
    printf("\n\n");
    if (isnan(r->makespan))
        printf("  makespan       %snever ends: deadlock%s\n", term_on(TERM_BAD), term_off());
    else
        printf("  makespan       %s%12.3f %s%s", term_on(TERM_BOLD), r->makespan / u.us, u.name,
               term_off());
    if (r->error > 0 && !isnan(r->makespan))
        printf("   %.3f to %.3f %s by the profile's error", r->makespan * (1 - r->error) / u.us,
               r->makespan * (1 + r->error) / u.us, u.name);
    if (!isnan(r->makespan))
        printf("\n");
    if (isnan(r->serial))
        printf("  one stream     would wait for ever: its collectives would not meet");
    else
        printf("  one stream     %12.3f %s", r->serial / u.us, u.name);
    if (r->makespan > 0 && !isnan(r->serial))
        printf("   the streams %s %.3f %s: %.2fx", r->serial < r->makespan ? "cost" : "gain",
               fabs(r->serial - r->makespan) / u.us, u.name, r->serial / r->makespan);
    printf("\n  critical path  %12.3f %s   what dependencies alone would take\n",
           r->critical / u.us, u.name);
    if (communication > 0)
        printf("  communication  %12.3f %s   of which %.3f %s are exposed: nothing else runs\n",
               communication / u.us, u.name, exposed / u.us, u.name);
    if (r->dispatch > 0)
        printf("  dispatch       %12.3f %s   of the host before a run, not counted above\n",
               r->dispatch / u.us, u.name);
    if (r->memory)
        printf("  memory         %15s   at most\n", term_bytes(r->memory).text);
}

static void print_engines(const struct run_result *r)
{
    printf("\n  busy          ");
    for (int e = 0; e < RUN_ENGINES; e++)
        if (!isnan(r->utilisation[e]))
            printf(" %s %.1f %%%s", weir__pool_names[e], 100 * r->utilisation[e],
                   e + 1 < RUN_ENGINES ? " " : "");
    printf("\n");
    for (int e = 0; e < RUN_ENGINES; e++)
        if (r->stalled[e] >= 0.001)
            printf("  held idle      %s %.1f %%, waiting for other ranks\n", weir__pool_names[e],
                   100 * r->stalled[e]);
}

static void print_streams(const struct run_result *r)
{
    struct unit u = unit_of(r);
    char titles[4][32];
    const struct term_column columns[] = {
        {"rank", true},    {"stream", false}, {"priority", true}, {"nodes", true},
        {titles[0], true}, {titles[1], true}, {titles[2], true},  {titles[3], true},
    };
    struct term_table t = {.columns = columns, .ncolumns = sizeof columns / sizeof *columns};
    size_t shown = r->nstreams < MAX_ROWS ? r->nstreams : MAX_ROWS;

    snprintf(titles[0], sizeof titles[0], "busy %s", u.name);
    snprintf(titles[1], sizeof titles[1], "waits for cores %s", u.name);
    snprintf(titles[2], sizeof titles[2], "from %s", u.name);
    snprintf(titles[3], sizeof titles[3], "to %s", u.name);
    for (size_t i = 0; i < shown; i++) {
        const struct run_stream *s = &r->streams[i];
        char cells[8][64];

        snprintf(cells[0], sizeof cells[0], "%u", s->rank);
        snprintf(cells[1], sizeof cells[1], "%s", s->name);
        snprintf(cells[2], sizeof cells[2], "%d", s->priority);
        snprintf(cells[3], sizeof cells[3], "%u", s->nodes);
        snprintf(cells[4], sizeof cells[4], "%.3f", s->busy / u.us);
        snprintf(cells[5], sizeof cells[5], "%.3f", s->waiting / u.us);
        snprintf(cells[6], sizeof cells[6], "%.3f", s->start / u.us);
        snprintf(cells[7], sizeof cells[7], "%.3f", s->end / u.us);
        term_table_add(&t, (const char *const[]){cells[0], cells[1], cells[2], cells[3], cells[4],
                                                 cells[5], cells[6], cells[7]});
    }
    printf("\n");
    term_table_print(&t, 2);
    if (shown < r->nstreams)
        printf("  and %zu more streams: --json lists all\n", r->nstreams - shown);
}

static void print_chart(const struct run_result *r)
{
    char labels[MAX_ROWS][48];
    const char *rows[MAX_ROWS], *notes[MAX_ROWS];
    struct term_bar bars[MAX_BARS];

    if (r->nstreams > MAX_ROWS || r->nspans > MAX_BARS || !r->nspans)
        return;
    for (size_t i = 0; i < r->nstreams; i++) {
        snprintf(labels[i], sizeof labels[i], r->nranks > 1 ? "%u %.40s" : "%.0u%.40s",
                 r->nranks > 1 ? r->streams[i].rank : 0, r->streams[i].name);
        rows[i] = labels[i];
        notes[i] = "";
    }
    for (size_t i = 0; i < r->nspans; i++)
        bars[i] = (struct term_bar){
            .row = (int)r->spans[i].stream,
            .start = r->spans[i].start / 1000,
            .end = r->spans[i].end / 1000,
            .label = r->spans[i].name,
            .family = r->spans[i].engine != WEIR_ENGINE_CUBE,
        };
    printf("\n");
    term_gantt_print(&(struct term_gantt){rows, notes, (int)r->nstreams, bars, r->nspans}, 2);
}

static void print_path(const struct run_result *r)
{
    struct unit u = unit_of(r);
    char titles[2][16];
    const struct term_column columns[] = {
        {titles[0], true}, {titles[1], true},     {"node", false},
        {"stream", false}, {"waited for", false},
    };
    struct term_table t = {.columns = columns, .ncolumns = sizeof columns / sizeof *columns};
    size_t skipped = r->npath > MAX_STEPS ? r->npath - MAX_STEPS : 0;

    if (!r->npath)
        return;
    snprintf(titles[0], sizeof titles[0], "from %s", u.name);
    snprintf(titles[1], sizeof titles[1], "to %s", u.name);
    for (size_t i = skipped; i < r->npath; i++) {
        const struct run_step *step = &r->path[i];
        const struct run_span *s = &r->spans[step->span];
        char from[32], to[32], node[96], stream[96], cause[128];

        snprintf(from, sizeof from, "%.3f", s->start / u.us);
        snprintf(to, sizeof to, "%.3f", s->end / u.us);
        snprintf(node, sizeof node, r->nranks > 1 ? "%.80s (rank %u)" : "%.80s", s->name, s->rank);
        snprintf(stream, sizeof stream, "%.80s", r->streams[s->stream].name);
        if (step->cause_name && step->cause_rank != s->rank)
            snprintf(cause, sizeof cause, "%s: %.60s on rank %u", run_cause_text(step->cause),
                     step->cause_name, step->cause_rank);
        else
            snprintf(cause, sizeof cause, step->cause_name ? "%s: %.80s" : "%s",
                     run_cause_text(step->cause), step->cause_name);
        term_table_add(&t, (const char *const[]){from, to, node, stream, cause});
    }
    printf("\n  what decided the makespan, step by step%s\n", skipped ? " (the last of it)" : "");
    term_table_print(&t, 2);
}

static void print_deadlock(const struct weir__prediction *p)
{
    struct weir__text text = {0};

    if (!p->run.deadlock)
        return;
    weir__prediction_report(p, &text);
    printf("\n%sdeadlock%s: no operator can continue\n", term_on(TERM_BAD), term_off());
    for (const char *line = text.data ? text.data : ""; *line;) {
        const char *end = line;

        while (*end && *end != '\n')
            end++;
        printf("  %.*s\n", (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
    printf("\n`weir check` says which limit or order avoids it.\n");
    weir__text_free(&text);
}

void run_print(const struct run_result *r)
{
    print_numbers(r);
    print_engines(r);
    print_streams(r);
    print_chart(r);
    print_path(r);
    print_deadlock(&r->prediction);
}
