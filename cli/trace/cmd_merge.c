/* `weir trace merge`: merges the traces of a job's ranks, on the clock of rank 0. */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "trace/report.h"

enum { MAX_FILES = 1024 };

static int write_merged(const weir_trace *trace, const char *wanted, bool page)
{
    struct cli_output out;
    int status = cli_output_open("trace merge", wanted, &out);
    weir_status st;

    if (status >= 0)
        return status;
    st = page ? weir_trace_write_html(&trace, NULL, 1, out.path)
              : weir_trace_write_chrome(trace, out.path);
    status =
        cli_output_close("trace merge", &out, st ? cli_complain("trace merge", st) : EXIT_FINE);
    if (!status && !cli_is_standard(wanted))
        fprintf(stderr, "the %s is %s\n", page ? "page" : "trace", wanted);
    return status;
}

static int merge(char *const *paths, int n, const char *out, const char *html)
{
    weir_trace **traces = calloc((size_t)n, sizeof *traces), *all = NULL;
    int status = EXIT_FINE;

    if (!traces) {
        fputs("weir trace merge: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    for (int i = 0; i < n && !status; i++)
        status = trace_load("trace merge", paths[i], &traces[i]);
    if (!status && weir_trace_merge((const weir_trace *const *)traces, (size_t)n, &all)) {
        fprintf(stderr, "weir trace merge: %s\n", weir_last_error());
        status = EXIT_USAGE;
    }
    if (!status && out)
        status = write_merged(all, out, false);
    if (!status && html)
        status = write_merged(all, html, true);
    weir_trace_free(all);
    for (int i = 0; i < n; i++)
        weir_trace_free(traces[i]);
    free(traces);
    return status;
}

int trace_merge_command(int argc, char **argv)
{
    const char *out = NULL, *html = NULL;
    const struct cli_option options[] = {
        {"--out", "FILE", "write Chrome JSON (default: merged.json); - is standard output", NULL,
         &out},
        {"--html", "FILE", "write the timeline page; - is standard output", NULL, &html},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "trace merge",
        .synopsis = "FILE... [--out FILE] [--html FILE]",
        .about = "Puts the traces of the ranks of one job on one time axis, the clock of rank 0.\n"
                 "Ranks that are processes measure how far their clocks are apart while they run\n"
                 "(weir_group_join), and the files that they write say it.",
        .options = options,
        .examples = "  weir trace merge r0.json r1.json --out job.json\n"
                    "  weir trace merge r*.json --html job.html\n",
        .max_words = MAX_FILES,
        .words = "FILE",
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);

    if (status >= 0)
        return status;
    if (!nwords || (cli_is_standard(out) && cli_is_standard(html))) {
        fputs(!nwords ? "weir trace merge: which files?\ntry: weir trace merge --help\n"
                      : "weir trace merge: standard output takes one file, --out or --html\n",
              stderr);
        return EXIT_USAGE;
    }
    return merge(argv + 1, nwords, out || html ? out : "merged.json", html);
}
