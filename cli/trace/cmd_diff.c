/* `weir trace diff`: reports what changed between two traces; usable in continuous integration. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "trace/report.h"

/* Reads "5%" or "5". */
static bool read_percent(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (end != text && *end == '%')
        end++;
    return end != text && !*end && *out >= 0 && isfinite(*out);
}

/* Returns the path without folders, or with them if both files have the same name. */
static const char *title_of(const char *path, const char *other)
{
    const char *slash = strrchr(path, '/'), *other_slash = strrchr(other, '/');
    const char *base = slash ? slash + 1 : path;

    return strcmp(base, other_slash ? other_slash + 1 : other) ? base : path;
}

static int compare(weir_trace *const *traces, char *const *paths, const char *html, bool json,
                   bool markdown, const struct trace_diff_options *opt)
{
    const char *const titles[] = {title_of(paths[0], paths[1]), title_of(paths[1], paths[0])};
    struct cli_output page = {.path = NULL};
    weir_status st;
    int status = EXIT_FINE, written;

    if (!cli_is_standard(html))
        status = json       ? trace_diff_json(traces, titles, opt)
                 : markdown ? trace_diff_markdown(traces, titles, opt)
                            : trace_diff_print(traces, titles, opt);
    if (!html || status > EXIT_FAILED)
        return status;
    if ((written = cli_output_open("trace diff", html, &page)) >= 0)
        return written;
    st = weir_trace_write_html((const weir_trace *[]){traces[0], traces[1]}, titles, 2, page.path);
    written = st ? cli_complain("trace diff", st) : EXIT_FINE;
    written = cli_output_close("trace diff", &page, written);
    if (!written && !cli_is_standard(html))
        fprintf(stderr, "the page is %s\n", html);
    return written ? written : status;
}

int trace_diff_command(int argc, char **argv)
{
    const char *by = NULL, *limit = NULL, *html = NULL;
    bool json = false, markdown = false, wide = false;
    const struct cli_option options[] = {
        {"--by", "GROUP", "only that table: name, module or line (default: all)", NULL, &by},
        {"--fail-if-slower", "PERCENT", "exit 1 if B takes more time by so much", NULL, &limit},
        {"--wide", NULL, "names of kernels in full", &wide, NULL},
        {"--markdown", NULL, "tables for a pull request instead of text", &markdown, NULL},
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {"--html", "FILE", "write both timelines as a page; - is standard output", NULL, &html},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "trace diff",
        .synopsis = "A B [--by GROUP] [--fail-if-slower PERCENT] [--wide]\n"
                    "                       [--markdown | --json] [--html FILE]",
        .about =
            "Says how much longer B took than A, and which operators, modules and lines run\n"
            "more often or longer, those that changed most first. Reads what `weir trace` reads.\n"
            "A module is a super kernel, or what stands before the last '/' of a name; lines are\n"
            "known of profiles that have stacks (PyTorch's with_stack=True).",
        .options = options,
        .examples = "  weir trace diff before.json after.json\n"
                    "  weir trace diff before.json after.json --fail-if-slower 5%\n"
                    "  weir trace diff before.json after.json --markdown >comment.md\n",
        .max_words = 2,
        .words = "FILE",
    };
    struct trace_diff_options opt = {
        .by_name = true, .by_module = true, .by_line = true, .limit = NAN};
    weir_trace *traces[2] = {NULL, NULL};
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);

    if (status >= 0)
        return status;
    if (nwords < 2) {
        fprintf(stderr, "weir trace diff: which two files?\ntry: weir trace diff --help\n");
        return EXIT_USAGE;
    }
    if (by && strcmp(by, "name") && strcmp(by, "module") && strcmp(by, "line")) {
        fprintf(stderr, "weir trace diff: --by takes name, module or line, not '%s'\n", by);
        return EXIT_USAGE;
    }
    if (limit && !read_percent(limit, &opt.limit)) {
        fprintf(stderr, "weir trace diff: --fail-if-slower takes a percentage, not '%s'\n", limit);
        return EXIT_USAGE;
    }
    opt.by_name = !by || !strcmp(by, "name");
    opt.by_module = !by || !strcmp(by, "module");
    opt.by_line = !by || !strcmp(by, "line");
    opt.wide = wide || json;
    status = EXIT_FINE;
    for (int i = 0; i < 2 && !status; i++)
        status = trace_load("trace diff", argv[1 + i], &traces[i]);
    if (!status)
        status = compare(traces, argv + 1, html, json, markdown, &opt);
    weir_trace_free(traces[0]);
    weir_trace_free(traces[1]);
    return status;
}
