/* `weir tune`: finds a faster placement of a graph on the model, and reports what each change
 * gains. */
#include "commands.h"
#include "json.h"
#include "progress.h"
#include "ranks.h"
#include "term.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/predict/tune.h"

#define DEFAULT_DEVICE "npu:a3"
#define DEFAULT_BUDGET 10.0

struct tuning {
    const char *device;
    const char *out; /* NULL: nothing is written */
    bool json;
    struct weir__tune_options options;
    struct weir__tuned result;
    char **written; /* by graph; NULL without `out` */
};

static double us(uint64_t ps)
{
    return ps == WEIR__TUNE_NEVER ? NAN : (double)ps / 1e6;
}

/* ---- while it runs ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static bool poll_search(void *user, const struct weir__tune_progress *p)
{
    progress_show(user, p->share, "best %.3f us  %zu tried  (Ctrl-C keeps the best)", us(p->best),
                  p->tried);
    return !interrupted;
}

/* ---- the report ---- */

/* Returns how much less `ps` is than `before`; NaN if either is not a time. */
static double gain(uint64_t before, uint64_t ps)
{
    return us(before) - us(ps);
}

/* Assumptions about operators from a profile, which contains only their times. */
static const char *const assumptions[] = {
    "operators keep their order on a stream: a profile does not say what they read and write",
    "orders between streams are those of the file; weir trace import says which it assumed",
    "an operator takes the time it took in the profile, on the same cores: no limit is tried on it",
};

static void print_json(const struct tuning *t)
{
    const struct weir__tuned *r = &t->result;
    uint64_t last = r->before;
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "device", t->device);
    json_number(&j, "before_us", us(r->before));
    json_number(&j, "after_us", us(r->after));
    json_number(&j, "bound_us", us(r->bound.ps));
    json_string(&j, "verdict", r->verdict);
    json_array(&j, "changes");
    for (int i = 0; i < r->nchanges; i++) {
        const struct weir__tune_change *c = &r->changes[i];

        json_object(&j, NULL);
        json_string(&j, "kind", weir__tune_kind_names[c->kind]);
        json_string(&j, "text", c->text);
        json_int(&j, "nodes", c->nnodes);
        json_number(&j, "alone_gain_us", gain(r->before, c->alone));
        json_number(&j, "gain_us", gain(last, c->then));
        json_number(&j, "makespan_us", us(c->then));
        json_object_end(&j);
        last = c->then;
    }
    json_array_end(&j);
    json_int(&j, "tried", (int64_t)r->tried);
    json_int(&j, "refused", (int64_t)r->refused);
    json_string(&j, "ended",
                r->ended == WEIR__TUNE_DONE     ? "done"
                : r->ended == WEIR__TUNE_BUDGET ? "budget"
                                                : "interrupted");
    json_int(&j, "measured", (int64_t)r->nmeasured);
    json_array(&j, "assumes");
    for (int i = 0; r->nmeasured && i < (int)weir__countof(assumptions); i++)
        json_string(&j, NULL, assumptions[i]);
    json_array_end(&j);
    json_object(&j, "check");
    json_string(&j, "verdict", r->check_errors ? "findings" : "clean");
    json_string(&j, "method", r->check_method);
    json_object_end(&j);
    json_array(&j, "files");
    for (uint32_t i = 0; t->written && i < r->ngraphs; i++)
        json_string(&j, NULL, t->written[i]);
    json_array_end(&j);
    json_object_end(&j);
}

/* Formats a time; NaN, for a deadlock, becomes a dash. */
static void write_us(char *text, size_t size, const char *format, double value)
{
    if (isnan(value))
        snprintf(text, size, "-");
    else
        snprintf(text, size, format, value);
}

static void print_changes(const struct weir__tuned *r)
{
    static const struct term_column columns[] = {
        {"alone us", true}, {"in turn us", true}, {"makespan us", true}, {"change", false}};
    struct term_table table = {.columns = columns, .ncolumns = weir__countof(columns)};
    uint64_t last = r->before;

    if (!r->nchanges)
        return;
    for (int i = 0; i < r->nchanges; i++) {
        const struct weir__tune_change *c = &r->changes[i];
        char alone[32], then[32], makespan[32];

        write_us(alone, sizeof alone, "%+.3f", -gain(r->before, c->alone));
        write_us(then, sizeof then, "%+.3f", -gain(last, c->then));
        write_us(makespan, sizeof makespan, "%.3f", us(c->then));
        term_table_add(&table, (const char *const[]){alone, then, makespan, c->text});
        last = c->then;
    }
    printf("\n");
    term_table_print(&table, 2);
}

static void print_report(const struct tuning *t)
{
    const struct weir__tuned *r = &t->result;
    bool better = r->after < r->before;

    printf("%s%s%s\n", term_on(better ? TERM_GOOD : TERM_BOLD), r->verdict, term_off());
    print_changes(r);
    printf("\n  %zu settings tried on %s", r->tried, t->device);
    if (r->refused)
        printf(", %zu faster ones refused because they can deadlock", r->refused);
    printf("; deadlock check of the result, both policies: %s (%s)\n",
           r->check_errors ? "the input's own findings remain, see weir check" : "clean",
           r->check_method);
    if (r->ended == WEIR__TUNE_BUDGET)
        printf("  the budget of %g s ended the search: --budget gives it more\n",
               t->options.budget_s);
    else if (r->ended == WEIR__TUNE_STOPPED)
        printf("  interrupted: this is the best so far\n");
    if (r->nmeasured) {
        printf("  %zu operators come from a profile, so that\n", r->nmeasured);
        for (size_t i = 0; i < weir__countof(assumptions); i++)
            printf("  - %s\n", assumptions[i]);
    }
    for (uint32_t i = 0; t->written && i < r->ngraphs; i++)
        printf("  written to %s\n", t->written[i]);
    if (!t->written && better)
        printf("  --out FILE writes the tuned graph\n");
}

/* ---- files ---- */

/* Returns "out.pbtxt" for a single graph; for several, "out.R.pbtxt" with each graph's first
 * rank. */
static char *path_of(const struct tuning *t, uint32_t graph)
{
    const char *dot = strrchr(t->out, '.'), *slash = strrchr(t->out, '/');
    size_t size = strlen(t->out) + 16;
    char *path = malloc(size);
    uint32_t rank = 0;

    if (!dot || (slash && dot < slash))
        dot = t->out + strlen(t->out);
    while (t->result.graph_of[rank] != graph)
        rank++;
    if (path && t->result.ngraphs == 1)
        snprintf(path, size, "%s", t->out);
    else if (path)
        snprintf(path, size, "%.*s.%u%s", (int)(dot - t->out), t->out, rank, dot);
    return path;
}

static int write_file(const char *path, const weir_graph *g)
{
    struct cli_output out;
    int status = cli_output_open("tune", path, &out);
    char *text;

    if (status >= 0)
        return status;
    text = weir_graph_dump(g);
    status = EXIT_FINE;
    if (!text || weir__file_write_text(out.path, text)) {
        fprintf(stderr, "weir tune: %s\n", weir_last_error());
        status = EXIT_FAILED;
    }
    free(text);
    status = cli_output_close("tune", &out, status);
    return status ? status : -1;
}

static int write_files(struct tuning *t)
{
    int status = -1;

    if (!t->out)
        return status;
    if (cli_is_standard(t->out) && t->result.ngraphs > 1) {
        fputs("weir tune: standard output takes one graph, and there are several\n", stderr);
        return EXIT_USAGE;
    }
    if (!(t->written = calloc(t->result.ngraphs, sizeof *t->written))) {
        fputs("weir tune: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < t->result.ngraphs && status < 0; i++) {
        if ((t->written[i] = path_of(t, i))) {
            status = write_file(t->written[i], t->result.graphs[i]);
        } else {
            fputs("weir tune: out of memory\n", stderr);
            status = EXIT_FAILED;
        }
    }
    return status;
}

/* ---- the command ---- */

static int tune(struct tuning *t, const struct cli_ranks *ranks)
{
    struct sigaction keep = {.sa_handler = on_interrupt}, before;
    struct progress progress = progress_begin();
    weir_status st;
    int status;

    t->options.poll = poll_search;
    t->options.user = &progress;
    sigaction(SIGINT, &keep, &before);
    st = weir__tune(ranks->graphs, ranks->nranks, &t->options, &t->result);
    sigaction(SIGINT, &before, NULL);
    progress_end(&progress);
    if (st)
        return cli_refuse_graph("tune", st);
    if ((status = write_files(t)) >= 0)
        return status;
    if (cli_is_standard(t->out))
        ; /* standard output gets the graph */
    else if (t->json)
        print_json(t);
    else
        print_report(t);
    return t->result.check_errors ? EXIT_FAILED : EXIT_FINE;
}

static int read_number(const char *option, const char *text, double most, double *out)
{
    char *end;
    double n = strtod(text, &end);

    if (end == text || *end || !(n >= 0 && n <= most)) {
        fprintf(stderr, "weir tune: %s %s is not a number in 0..%g\n", option, text, most);
        return EXIT_USAGE;
    }
    *out = n;
    return -1;
}

int weir_cmd_tune(int argc, char **argv)
{
    const char *spec = NULL, *budget = NULL, *seed = NULL;
    struct tuning t = {.options.budget_s = DEFAULT_BUDGET};
    const struct cli_option options[] = {
        {"--device", "SPEC", "the modelled device; $WEIR_DEVICE or " DEFAULT_DEVICE, NULL, &spec},
        {"--ranks", "N", "the same graph on N devices", NULL, NULL},
        {"--rank", "R=FILE", "the graph of rank R; once for each rank", NULL, NULL},
        {"--out", "FILE",
         "write the tuned graph; FILE gets the rank's number for several;\n- is standard output",
         NULL, &t.out},
        {"--budget", "SECONDS", "search no longer than that; 10, 0 for no end", NULL, &budget},
        {"--relabel", NULL, "streams, priorities and limits of the file may change too",
         &t.options.relabel, NULL},
        {"--seed", "N", "another search; the same for the same N", NULL, &seed},
        {"--json", NULL, "for machines", &t.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "tune",
        .synopsis = "FILE [--ranks N] [--out FILE] [options] | --rank R=FILE... [options]",
        .about =
            "Searches, on the model, the streams, the order, the priorities and the core limits\n"
            "of a graph for a shorter makespan, and says what each change brings: alone, and on\n"
            "top of those before it. What it proposes is never slower and passes the deadlock\n"
            "checker. Nodes that have a stream label keep it, and their order on it, unless\n"
            "--relabel. Ctrl-C ends the search with the best so far.",
        .options = options,
        .examples = "  weir tune layer.pbtxt --device npu:a3 --out tuned.pbtxt\n"
                    "  weir tune layer.pbtxt --ranks 8 --budget 60 --relabel\n"
                    "  weir run tuned.pbtxt --device npu:a3\n",
        .max_words = 1,
        .words = "FILE",
    };
    struct cli_ranks ranks = {0};
    weir_device *dev = NULL;
    double number = 0;
    int nwords, status;

    if ((status = cli_ranks_take(&ranks, "tune", &argc, argv)) < 0 &&
        (status = cli_parse(&usage, argc, argv, &nwords)) < 0)
        status = cli_ranks_words(&ranks, "tune", nwords, argv + 1);
    if (status < 0 && budget)
        status = read_number("--budget", budget, 1e6, &t.options.budget_s);
    if (status < 0 && seed && (status = read_number("--seed", seed, 1e15, &number)) < 0)
        t.options.seed = (uint64_t)number;
    if (status < 0 && (status = cli_open_model("tune", spec, DEFAULT_DEVICE, &dev)) < 0 &&
        (status = cli_ranks_load(&ranks, "tune", dev)) < 0) {
        t.device = weir_device_name(dev);
        status = tune(&t, &ranks);
    }
    for (uint32_t i = 0; t.written && i < t.result.ngraphs; i++)
        free(t.written[i]);
    free(t.written);
    weir__tuned_fini(&t.result);
    cli_ranks_free(&ranks);
    if (dev)
        weir_device_close(dev);
    return status;
}
