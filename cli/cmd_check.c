/* `weir check`: reports whether a program can deadlock or race, before it runs. */
#include "commands.h"
#include "complete.h"
#include "json.h"
#include "progress.h"
#include "term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 65536 };

#define DEFAULT_DEVICE "npu:a2"

/* ---- arguments ---- */

struct inputs {
    const char **paths; /* by rank */
    size_t nranks;
};

static int complain(const char *format, const char *what)
{
    fputs("weir check: ", stderr);
    fprintf(stderr, format, what);
    fputs("\ntry: weir check --help\n", stderr);
    return EXIT_USAGE;
}

/* Reads digits up to the character `stop` as a number below `end`; -1 if they are none. */
static long read_count(const char *text, char stop, long end)
{
    long n = 0;

    if (*text == stop)
        return -1;
    for (; *text && *text != stop; text++) {
        if (*text < '0' || *text > '9' || n >= end)
            return -1;
        n = 10 * n + (*text - '0');
    }
    return *text == stop && n < end ? n : -1;
}

static int take_rank(struct inputs *in, const char *value)
{
    long rank = read_count(value, '=', MAX_RANKS);
    const char *path = strchr(value, '=');

    if (rank < 0 || !path[1])
        return complain("--rank takes R=FILE with R in 0..65535, not '%s'", value);
    if (in->paths[rank])
        return complain("--rank %s names a rank that has a file already", value);
    in->paths[rank] = path + 1;
    if (in->nranks <= (size_t)rank)
        in->nranks = (size_t)rank + 1;
    return -1;
}

/* Removes every --rank from argv, as the parser keeps only one value per option. */
static int take_rank_options(struct inputs *in, int *argc, char **argv)
{
    int kept = 1, status = -1;

    if (cli_completing)
        return status;
    for (int i = 1; i < *argc && status < 0; i++) {
        if (!strcmp(argv[i], "--rank") && i + 1 < *argc)
            status = take_rank(in, argv[++i]);
        else if (!strncmp(argv[i], "--rank=", 7))
            status = take_rank(in, argv[i] + 7);
        else if (!strcmp(argv[i], "--rank"))
            status = complain("--rank needs a value: %s", "R=FILE");
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return status;
}

static int find_ranks(struct inputs *in, char **words, int nwords, const char *ranks)
{
    long copies = ranks ? read_count(ranks, '\0', MAX_RANKS + 1) : 1;

    if (copies < 1)
        return complain("--ranks takes a count in 1..65536, not '%s'", ranks);
    if (in->nranks && (nwords || ranks))
        return complain("--rank names the file of each rank; %s does not go with it",
                        nwords ? words[0] : "--ranks");
    for (size_t r = 0; r < in->nranks; r++)
        if (!in->paths[r]) {
            fprintf(stderr, "weir check: rank %zu has no file: ranks are 0..%zu\n", r,
                    in->nranks - 1);
            return EXIT_USAGE;
        }
    if (in->nranks)
        return -1;
    if (!nwords)
        return complain("%s", "there is nothing to check: name a graph file for each rank");
    if (ranks && nwords > 1)
        return complain("--ranks is for one file that all ranks run; '%s' is another", words[1]);
    if (nwords > MAX_RANKS)
        return complain("there are more than 65536 ranks, the last is %s", words[nwords - 1]);
    in->nranks = ranks ? (size_t)copies : (size_t)nwords;
    for (size_t r = 0; r < in->nranks; r++)
        in->paths[r] = ranks ? words[0] : words[r];
    return -1;
}

static int find_policies(const char *word, const char *spec, unsigned *policies)
{
    *policies = WEIR_POLICY_HOLD | WEIR_POLICY_BATCH;
    if (!word && strstr(spec, "policy=hold"))
        word = "hold";
    if (!word && strstr(spec, "policy=batch"))
        word = "batch";
    if (!word || !strcmp(word, "both"))
        return -1;
    *policies = !strcmp(word, "hold") ? WEIR_POLICY_HOLD : WEIR_POLICY_BATCH;
    if (strcmp(word, "hold") != 0 && strcmp(word, "batch") != 0)
        return complain("--policy is hold, batch or both, not '%s'", word);
    return -1;
}

/* ---- output ---- */

struct checked {
    const weir_check_report *report;
    weir_device_props props;
    unsigned policies;
};

static void json_lines(struct json *j, const char *key, const char *const *lines, size_t n)
{
    json_array(j, key);
    for (size_t i = 0; i < n; i++)
        json_string(j, NULL, lines[i]);
    json_array_end(j);
}

static void json_count(struct json *j, const char *key, int count)
{
    if (count > 0)
        json_int(j, key, count);
    else
        json_string(j, key, NULL);
}

static const char *policy_name(const weir_finding *f)
{
    return !f->policy ? NULL : f->policy == WEIR_POLICY_HOLD ? "hold" : "batch";
}

static void print_json(const struct checked *c)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "verdict", c->report->nerrors ? "findings" : "clean");
    json_string(&j, "method", c->report->exhaustive ? "exhaustive" : "rule");
    json_string(&j, "device", c->props.name);
    json_int(&j, "ranks", (int64_t)c->report->nranks);
    json_int(&j, "operators", (int64_t)c->report->noperators);
    json_int(&j, "states", (int64_t)c->report->nstates);
    json_array(&j, "findings");
    for (size_t i = 0; i < c->report->nfindings; i++) {
        const weir_finding *f = &c->report->findings[i];

        json_object(&j, NULL);
        json_string(&j, "kind", weir_finding_name(f->kind));
        json_string(&j, "severity", f->is_error ? "error" : "warning");
        json_string(&j, "policy", policy_name(f));
        json_string(&j, "text", f->text);
        json_lines(&j, "steps", f->steps, f->nsteps);
        json_lines(&j, "cycle", f->cycle, f->ncycle);
        json_lines(&j, "nodes", f->nodes, f->nnodes);
        json_object(&j, "remedy");
        json_string(&j, "node", f->remedy.node);
        json_count(&j, "cube", f->remedy.cube);
        json_count(&j, "vector", f->remedy.vector);
        json_count(&j, "safe_cube", f->remedy.safe_cube);
        json_count(&j, "safe_vector", f->remedy.safe_vector);
        json_string(&j, "text", f->remedy.text);
        json_object_end(&j);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

/* Prints a paragraph after a mark; its other lines are indented to the first word. */
static void print_marked(const char *mark, const char *text)
{
    int width = term_get()->width, indent = 4 + (int)strlen(mark) + 1, at = indent;

    printf("    %s", mark);
    for (const char *word = text; *word;) {
        int length = (int)strcspn(word, " ");

        if (at + length > width && at > indent) {
            printf("\n%*s", indent - 1, "");
            at = indent;
        }
        at += printf(" %.*s", length, word);
        word += length;
        word += strspn(word, " ");
    }
    putchar('\n');
}

static void print_finding(const weir_finding *f)
{
    printf("%s%s%s%s%s%s\n", term_on(f->is_error ? TERM_BAD : TERM_YELLOW),
           f->is_error ? "error" : "warning", term_off(), ": ", weir_finding_name(f->kind),
           !f->policy                      ? ""
           : f->policy == WEIR_POLICY_HOLD ? " (policy hold)"
                                           : " (policy batch)");
    term_paragraph(2, f->text);
    if (f->nsteps)
        printf("\n  %show it happens%s\n", term_on(TERM_BOLD), term_off());
    for (size_t i = 0; i < f->nsteps; i++) {
        char mark[24];

        snprintf(mark, sizeof mark, "%zu.", i + 1);
        print_marked(mark, f->steps[i]);
    }
    if (f->ncycle)
        printf("\n  %sthe deadlock: who waits for whom%s\n", term_on(TERM_BOLD), term_off());
    for (size_t i = 0; i < f->ncycle; i++)
        print_marked("-", f->cycle[i]);
    if (f->remedy.text) {
        printf("\n  %swhat helps%s\n", term_on(TERM_BOLD), term_off());
        print_marked("-", f->remedy.text);
    }
    putchar('\n');
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void print_text(const struct checked *c)
{
    const weir_check_report *r = c->report;
    size_t nwarnings = r->nfindings - r->nerrors;
    const char *policies = c->policies == WEIR_POLICY_HOLD    ? "policy hold"
                           : c->policies == WEIR_POLICY_BATCH ? "policy batch"
                                                              : "policies hold and batch";

    printf("%zu rank%s of %s (", r->nranks, plural(r->nranks), c->props.name);
    if (c->props.features & WEIR_FEATURE_SPLIT_CORES)
        printf("%d cube, %d vector cores", c->props.cores.cube, c->props.cores.vector);
    else
        printf("%d cores", c->props.cores.cube);
    printf("), %zu operator%s, %s\n\n", r->noperators, plural(r->noperators), policies);
    for (size_t i = 0; i < r->nfindings; i++)
        print_finding(&r->findings[i]);
    printf("%s%s%s", term_on(r->nerrors ? TERM_BAD : TERM_GOOD), r->nerrors ? "findings" : "clean",
           term_off());
    printf(": %zu error%s, %zu warning%s; ", r->nerrors, plural(r->nerrors), nwarnings,
           plural(nwarnings));
    if (r->exhaustive)
        printf("every timing was explored (%zu states)\n", r->nstates);
    else
        printf("there are too many timings to explore (stopped after %zu states): checked instead "
               "whether\noperators that may block each other fit the cores together\n",
               r->nstates);
}

/* ---- the command ---- */

static int check(const struct inputs *in, const char *spec, const weir_check_options *options,
                 bool json)
{
    struct checked c = {.policies = options->policies};
    struct progress progress = progress_begin();
    weir_check_report *report = NULL;
    weir_device *dev;
    weir_status st = weir_device_open(spec, &dev);
    int status = EXIT_FINE;

    if (!st) {
        weir_device_get_props(dev, &c.props, sizeof(c.props));
        progress_listen(&progress);
        st = weir_check_files(dev, in->paths, in->nranks, options, &report);
        progress_end(&progress);
        if (!st && !report->noperators) { /* an error as in the other commands, not "clean" */
            fprintf(stderr, "weir check: %s has no operator: there is nothing to check\n",
                    in->paths[0]);
            status = EXIT_USAGE;
        } else if (!st) {
            c.report = report;
            (json ? print_json : print_text)(&c);
            status = report->nerrors ? EXIT_FAILED : EXIT_FINE;
        }
    }
    if (st) {
        cli_complain("check", st);
        status = st == WEIR_ENOMEM || st == WEIR_EINTERNAL ? EXIT_FAILED : EXIT_USAGE;
    }
    weir_check_free(report);
    if (dev)
        weir_device_close(dev);
    return status;
}

int weir_cmd_check(int argc, char **argv)
{
    bool json = false, single_stream = false;
    const char *spec = getenv("WEIR_DEVICE"), *policy = NULL, *ranks = NULL, *rank = NULL;
    const struct cli_option options[] = {
        {"--rank", "R=FILE", "the graph file of rank R; once for each rank", NULL, &rank},
        {"--ranks", "N", "N ranks run the same file", NULL, &ranks},
        {"--device", "SPEC", "the device of each rank (" DEFAULT_DEVICE ", or WEIR_DEVICE)", NULL,
         &spec},
        {"--policy", "hold|batch|both", "how gangs get cores", NULL, &policy},
        {"--single-stream", NULL, "check for this compile option: stream labels are conflicts",
         &single_stream, NULL},
        {"--json", NULL, "a JSON document instead of text", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "check",
        .synopsis = "FILE... | --rank R=FILE... | --ranks N FILE  [options]",
        .about =
            "Checks whether a program of one or several ranks can deadlock, before it runs, by\n"
            "exploring every timing of its operators. The files are those of ranks 0, 1, ... in\n"
            "this order. Reports who waits for whom, the steps that lead there, and a remedy that\n"
            "is proved to help; also races, conflicting settings and core limits without effect.",
        .options = options,
        .examples =
            "  weir check model.pbtxt\n"
            "  weir check rank0.pbtxt rank1.pbtxt\n"
            "  weir check --ranks 8 --device npu:a3 --policy hold model.pbtxt\n"
            "  weir check --rank 0=a.pbtxt --rank 1=b.pbtxt --json | jq .findings[].remedy\n",
        .max_words = argc,
        .words = "FILE",
    };
    struct inputs in = {.paths = calloc(MAX_RANKS, sizeof *in.paths)};
    weir_check_options o = {.policies = 0};
    int nwords = 0, status;

    if (!in.paths) {
        fputs("weir check: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    if ((status = take_rank_options(&in, &argc, argv)) < 0 &&
        (status = cli_parse(&usage, argc, argv, &nwords)) < 0 &&
        (status = find_ranks(&in, argv + 1, nwords, ranks)) < 0 &&
        (status = find_policies(policy, spec ? spec : DEFAULT_DEVICE, &o.policies)) < 0) {
        o.single_stream = single_stream;
        status = check(&in, spec ? spec : DEFAULT_DEVICE, &o, json);
    }
    free(in.paths);
    return status;
}
