/* `weir trace`: shows and converts timelines. Its subcommands are in the other files here. */
#include "commands.h"
#include "complete.h"
#include "json.h"
#include "progress.h"
#include "trace/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True for a graph file, for which the error names the right command. */
static bool is_graph_file(const char *path)
{
    static const char end[] = ".pbtxt";
    size_t n = strlen(path);

    return n >= strlen(end) && !strcmp(path + n - strlen(end), end);
}

int trace_load(const char *command, const char *path, weir_trace **out)
{
    struct progress progress = progress_begin();
    weir_status st;

    progress_listen(&progress);
    st = weir_trace_load(path, out);
    progress_end(&progress);
    if (!st)
        return EXIT_FINE;
    fprintf(stderr, "weir %s: %s\n", command, weir_last_error());
    if (st == WEIR_EPARSE && is_graph_file(path))
        fprintf(stderr, "try: weir run %s, which shows the timeline of a graph file\n", path);
    return EXIT_USAGE;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- show, compare, convert ---- */

/* Writes one file of the traces. */
static int write_file(const char *wanted, const char *what, weir_trace *const *traces,
                      const char *const *titles, int n)
{
    bool page = !strcmp(what, "page");
    struct cli_output out;
    int status = cli_output_open("trace", wanted, &out);
    weir_status st;

    if (status >= 0)
        return status;
    st = page ? weir_trace_write_html((const weir_trace *[]){traces[0], traces[1]}, titles,
                                      (size_t)n, out.path)
              : weir_trace_write_chrome(traces[0], out.path);
    status = cli_output_close("trace", &out, st ? cli_complain("trace", st) : EXIT_FINE);
    if (!status && !cli_is_standard(wanted))
        fprintf(stderr, "the %s is %s\n", what, wanted);
    return status;
}

static int tell(weir_trace *const *traces, char *const *paths, int n, bool json, bool wide)
{
    const char *const titles[] = {base_name(paths[0]), n > 1 ? base_name(paths[1]) : NULL};
    struct json j = {.out = stdout};
    int status = EXIT_FINE;

    if (!json) {
        for (int i = 0; i < n && !status; i++) {
            status = trace_report_print(traces[i], titles[i], wide);
            if (i + 1 < n)
                printf("\n");
        }
        if (n > 1 && !status) {
            printf("\n");
            status = trace_diff_print(traces, titles,
                                      &(struct trace_diff_options){.by_name = true,
                                                                   .by_module = true,
                                                                   .by_line = true,
                                                                   .wide = wide,
                                                                   .limit = NAN});
        }
        return status;
    }
    json_object(&j, NULL);
    json_array(&j, "traces");
    for (int i = 0; i < n && !status; i++) {
        json_object(&j, NULL);
        json_string(&j, "file", paths[i]);
        status = trace_report_json(traces[i], &j);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    return status;
}

/* The words that may follow `weir trace` instead of a file. */
static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} parts[] = {
    {"import", "a graph file from a profile", trace_import_command},
    {"diff", "what changed between two traces", trace_diff_command},
    {"merge", "traces of the ranks of a job as one, on one clock", trace_merge_command},
    {"watch", "a running program's timeline in the browser", trace_watch_command},
};

int weir_cmd_trace(int argc, char **argv)
{
    const char *html = NULL, *chrome = NULL;
    bool json = false, wide = false;
    const struct cli_option options[] = {
        {"--html", "FILE", "write the timeline page, for a browser; - is standard output", NULL,
         &html},
        {"--chrome", "FILE", "write Chrome JSON, for Perfetto; - is standard output", NULL,
         &chrome},
        {"--wide", NULL, "names of kernels in full", &wide, NULL},
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "trace",
        .synopsis = "FILE [FILE] [--html FILE] [--chrome FILE] [--wide] [--json]\n"
                    "       weir trace diff A B [--fail-if-slower PERCENT] ...\n"
                    "       weir trace merge FILE... [--out FILE] [--html FILE]\n"
                    "       weir trace watch PID | -- COMMAND...\n"
                    "       weir trace import PROFILE... [--out FILE] [--rank N] [--json]",
        .about =
            "Shows what ran when: the streams as a chart, the critical path and why each of its\n"
            "operators waited, how busy the cores were. Reads traces of weir and profiles of\n"
            "PyTorch, Ascend and Nsight Systems in Chrome's format. Two files are compared,\n"
            "on one time axis in the page; `weir trace diff` says what changed between them,\n"
            "`weir trace import` makes a graph file of one.",
        .options = options,
        .examples = "  weir trace run.json\n"
                    "  weir trace run.json --html run.html\n"
                    "  weir trace one_stream.json two_streams.json --html compare.html\n"
                    "  weir trace run.json --json | jq '.traces[0].critical_path_us'\n"
                    "  weir trace import trace_view.json --out step.pbtxt\n",
        .max_words = 2,
        .words = "FILE",
    };
    weir_trace *traces[2] = {NULL, NULL};
    const char *titles[2];
    int nwords, status;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (cli_completing && argc == 2)
            cli_complete_offer(argv[1], parts[i].name, parts[i].about);
        else if (argc > 1 && !strcmp(argv[1], parts[i].name))
            return parts[i].run(argc - 1, argv + 1);
    if ((status = cli_parse(&usage, argc, argv, &nwords)) >= 0)
        return status;
    if (!nwords || (nwords > 1 && chrome) || (cli_is_standard(html) && cli_is_standard(chrome))) {
        fputs(!nwords ? "weir trace: which file?\ntry: weir trace --help\n"
              : chrome && nwords > 1
                  ? "weir trace: --chrome converts one file, not two\n"
                  : "weir trace: standard output takes one file, --html or --chrome\n",
              stderr);
        return EXIT_USAGE;
    }
    status = EXIT_FINE;
    for (int i = 0; i < nwords && !status; i++)
        status = trace_load("trace", argv[1 + i], &traces[i]);
    titles[0] = base_name(argv[1]);
    titles[1] = nwords > 1 ? base_name(argv[2]) : NULL;
    if (!status && !cli_is_standard(html) && !cli_is_standard(chrome))
        status = tell(traces, argv + 1, nwords, json, wide);
    if (!status && html)
        status = write_file(html, "page", traces, titles, nwords);
    if (!status && chrome)
        status = write_file(chrome, "Chrome trace", traces, titles, 1);
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
    return status;
}
