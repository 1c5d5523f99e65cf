/* `weir trace import`: makes graph files from profiles, one for each rank. */
#include "commands.h"
#include "json.h"
#include "trace/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/write/graph_write.h"

enum { MAX_PROFILES = 1024 };

struct importing {
    const char *out; /* NULL: in the profile's folder */
    bool json, all;  /* all: every device of the profile */
    long rank;
    char **profiles;
    int nprofiles;
    weir_trace **traces;            /* by profile */
    struct weir__graph_rank *ranks; /* the graphs to write */
    int *number;                    /* of each rank, for its file's name */
    int nranks;
    char **paths;
};

/* Returns "step.pbtxt" for a single graph, "step.R.pbtxt" for several. */
static char *path_of(const struct importing *im, const char *profile, int number, bool several)
{
    const char *base = im->out ? im->out : profile;
    size_t size = strlen(base) + 32;
    const char *dot = im->out ? strrchr(base, '.') : NULL, *slash = strrchr(base, '/');
    char *path = malloc(size);

    if (!dot || (slash && dot < slash))
        dot = base + strlen(base);
    if (path && !several)
        snprintf(path, size, "%s%s", base, im->out ? "" : ".pbtxt");
    else if (path)
        snprintf(path, size, "%.*s.%d%s", (int)(dot - base), base, number,
                 im->out ? dot : ".pbtxt");
    return path;
}

/* Sets the rank of each graph: that in its profile if all profiles name different ranks, else in
 * order. */
static void number_ranks(struct importing *im)
{
    bool differ = true;

    for (int i = 0; i < im->nranks; i++) {
        weir_trace_data d;

        weir_trace_get(im->ranks[i].trace, &d, sizeof d);
        im->number[i] = im->ranks[i].device < d.ndevices ? d.devices[im->ranks[i].device].rank : 0;
        for (int k = 0; k < i; k++)
            differ &= im->number[k] != im->number[i];
    }
    for (int i = 0; i < im->nranks && !differ; i++)
        im->number[i] = i;
}

static int load(struct importing *im)
{
    int status = EXIT_FINE, n = 0;

    im->traces = calloc((size_t)im->nprofiles, sizeof *im->traces);
    for (int i = 0; im->traces && i < im->nprofiles && !status; i++) {
        weir_trace_data d = {0};

        if ((status = trace_load("trace import", im->profiles[i], &im->traces[i])))
            return status;
        weir_trace_get(im->traces[i], &d, sizeof d);
        n += im->all ? (int)d.ndevices : 1;
    }
    im->ranks = calloc((size_t)n + 1, sizeof *im->ranks);
    im->number = calloc((size_t)n + 1, sizeof *im->number);
    im->paths = calloc((size_t)n + 1, sizeof *im->paths);
    if (!im->traces || !im->ranks || !im->number || !im->paths) {
        fputs("weir trace import: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    for (int i = 0; i < im->nprofiles; i++) {
        weir_trace_data d;

        weir_trace_get(im->traces[i], &d, sizeof d);
        for (uint32_t k = 0; k < (im->all ? d.ndevices : 1); k++)
            im->ranks[im->nranks++] = (struct weir__graph_rank){
                .trace = im->traces[i], .device = im->all ? k : (uint32_t)im->rank};
    }
    number_ranks(im);
    return EXIT_FINE;
}

static const char *profile_of(const struct importing *im, int rank)
{
    int i = 0;

    while (im->traces[i] != im->ranks[rank].trace)
        i++;
    return im->profiles[i];
}

static int write_graphs(struct importing *im)
{
    struct cli_output file = {0};
    bool one = im->nranks == 1;
    int status;

    for (int i = 0; i < im->nranks; i++) {
        if (!(im->paths[i] = path_of(im, profile_of(im, i), im->number[i], !one))) {
            fputs("weir trace import: out of memory\n", stderr);
            return EXIT_FAILED;
        }
        im->ranks[i].path = im->paths[i];
    }
    if (one) { /* a single file may be standard output */
        if ((status = cli_output_open("trace import", im->paths[0], &file)) >= 0)
            return status;
        im->ranks[0].path = file.path;
    }
    status = EXIT_FINE;
    if (weir__trace_write_graphs(im->ranks, im->nranks)) {
        fprintf(stderr, "weir trace import: %s\n", weir_last_error());
        status = EXIT_USAGE;
    }
    return one ? cli_output_close("trace import", &file, status) : status;
}

static size_t devices_of(const weir_trace *t)
{
    weir_trace_data d;

    weir_trace_get(t, &d, sizeof d);
    return d.ndevices;
}

static void print_json(const struct importing *im)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_array(&j, "graphs");
    for (int i = 0; i < im->nranks; i++) {
        const struct weir__graph_rank *r = &im->ranks[i];

        json_object(&j, NULL);
        json_string(&j, "file", im->paths[i]);
        json_string(&j, "profile", profile_of(im, i));
        json_int(&j, "rank", im->number[i]);
        json_int(&j, "operators", r->operators);
        json_int(&j, "orders", r->edges);
        json_int(&j, "assumed", r->assumed);
        json_int(&j, "collectives_met", r->met);
        json_int(&j, "collectives_alone", r->alone);
        json_int(&j, "ranks", (int64_t)devices_of(r->trace));
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

static void print_text(const struct importing *im)
{
    int assumed = 0, alone = 0;

    for (int i = 0; i < im->nranks; i++) {
        const struct weir__graph_rank *r = &im->ranks[i];

        printf("%d operators, %d orders between streams (%d from waits and pauses, %d assumed) in "
               "%s\n",
               r->operators, r->edges, r->edges - r->assumed, r->assumed, im->paths[i]);
        assumed += r->assumed;
        alone += r->alone;
        if (!im->all && devices_of(r->trace) > 1)
            printf("the profile has %zu ranks, this is rank %ld: --rank all takes all of them\n",
                   devices_of(r->trace), im->rank);
    }
    if (assumed)
        printf("assumed: no wait says so, but one operator had ended when the other started\n");
    if (alone)
        printf("%d collectives meet no others: ranks have different numbers of that name\n", alone);
}

static void free_all(struct importing *im)
{
    for (int i = 0; im->traces && i < im->nprofiles; i++)
        weir_trace_free(im->traces[i]);
    for (int i = 0; im->paths && i < im->nranks; i++)
        free(im->paths[i]);
    free(im->traces);
    free(im->ranks);
    free(im->number);
    free(im->paths);
}

static int check(const struct importing *im, const char *rank_text, const char *end)
{
    if (!im->nprofiles) {
        fputs("weir trace import: which profile?\ntry: weir trace import --help\n", stderr);
        return EXIT_USAGE;
    }
    if (end && (*end || end == rank_text || im->rank < 0 || im->rank > INT32_MAX)) {
        fprintf(stderr, "weir trace import: --rank wants a number or 'all', not '%s'\n", rank_text);
        return EXIT_USAGE;
    }
    if (cli_is_standard(im->out) && (im->nprofiles > 1 || im->all)) {
        fputs("weir trace import: standard output takes one graph, and there are several\n",
              stderr);
        return EXIT_USAGE;
    }
    return EXIT_FINE;
}

int trace_import_command(int argc, char **argv)
{
    struct importing im = {0};
    const char *rank_text = NULL;
    const struct cli_option options[] = {
        {"--out", "FILE",
         "the graph file to write (default: PROFILE.pbtxt); FILE gets the rank's\n"
         "number for several; - is standard output",
         NULL, &im.out},
        {"--rank", "N", "which device of a profile, from 0 on (default: 0), or 'all'", NULL,
         &rank_text},
        {"--json", NULL, "a JSON document instead of text", &im.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "trace import",
        .synopsis = "PROFILE... [--out FILE] [--rank N|all] [--json]",
        .about =
            "Makes a graph file of Kernel nodes from a profile in Chrome's trace format, also\n"
            "compressed (.gz, .zst): of PyTorch's profiler, of Ascend's, of an export of Nsight\n"
            "Systems, or of weir. Each operator keeps its stream, its time, its pause and its\n"
            "order, so that a run of the graph takes as long as the profile did. What is not "
            "known\n"
            "to be independent is kept in program order. Several profiles are the ranks of one\n"
            "run: a graph each, and their collectives meet.",
        .options = options,
        .examples = "  weir trace import trace_view.json --out step.pbtxt\n"
                    "  weir run step.pbtxt --device npu:a3\n"
                    "  weir trace import rank0.json.gz rank1.json.gz --out step.pbtxt\n"
                    "  weir run --rank 0=step.0.pbtxt --rank 1=step.1.pbtxt\n",
        .max_words = MAX_PROFILES,
        .words = "FILE",
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    char *end = NULL;

    if (status >= 0)
        return status;
    im.profiles = argv + 1;
    im.nprofiles = nwords;
    im.all = rank_text && !strcmp(rank_text, "all");
    im.rank = rank_text && !im.all ? strtol(rank_text, &end, 10) : 0;
    if (!(status = check(&im, rank_text, end)) && !(status = load(&im)) &&
        !(status = write_graphs(&im)) && !cli_is_standard(im.out)) {
        if (im.json)
            print_json(&im);
        else
            print_text(&im);
    }
    free_all(&im);
    return status;
}
