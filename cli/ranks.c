#include "ranks.h"

#include "commands.h"
#include "complete.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 65536 };

/* Reads a whole number in 0..most and sets *rest to the text after it. */
static bool read_number(const char *text, unsigned most, unsigned *out, const char **rest)
{
    unsigned long n;
    char *end;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || errno || n > most)
        return false;
    *out = (unsigned)n;
    *rest = end;
    return true;
}

static int no_memory(const char *command)
{
    fprintf(stderr, "weir %s: out of memory\n", command);
    return EXIT_FAILED;
}

/* Makes room for ranks 0..n-1. */
static bool reserve(struct cli_ranks *r, unsigned n)
{
    unsigned *file_of = realloc(r->file_of, n * sizeof *file_of);

    if (file_of)
        r->file_of = file_of;

    bool *given = realloc(r->given, n * sizeof *given);

    if (given)
        r->given = given;

    const char **paths = realloc(r->paths, (r->nfiles + 1) * sizeof *paths);

    if (paths)
        r->paths = paths;
    if (!file_of || !given || !paths)
        return false;
    for (; r->nranks < n; r->nranks++) {
        r->file_of[r->nranks] = 0;
        r->given[r->nranks] = false;
    }
    return true;
}

static int take_rank(struct cli_ranks *r, const char *command, const char *value)
{
    const char *rest;
    unsigned rank;

    if (!read_number(value, MAX_RANKS - 1, &rank, &rest) || *rest != '=' || !rest[1]) {
        fprintf(stderr, "weir %s: --rank %s is not of the form R=FILE with R in 0..%d\n", command,
                value, MAX_RANKS - 1);
        return EXIT_USAGE;
    }
    if (!reserve(r, rank + 1 > r->nranks ? rank + 1 : r->nranks))
        return no_memory(command);
    if (r->given[rank]) {
        fprintf(stderr, "weir %s: --rank %u is given twice\n", command, rank);
        return EXIT_USAGE;
    }
    r->given[rank] = true;
    for (r->file_of[rank] = 0; r->file_of[rank] < r->nfiles; r->file_of[rank]++)
        if (!strcmp(r->paths[r->file_of[rank]], rest + 1))
            return -1;
    r->paths[r->nfiles++] = rest + 1;
    return -1;
}

static int take_ranks(struct cli_ranks *r, const char *command, const char *value)
{
    const char *rest;
    unsigned n;

    if (!read_number(value, MAX_RANKS, &n, &rest) || *rest || !n) {
        fprintf(stderr, "weir %s: --ranks %s is not a whole number in 1..%d\n", command, value,
                MAX_RANKS);
        return EXIT_USAGE;
    }
    return reserve(r, n) ? -1 : no_memory(command);
}

int cli_ranks_take(struct cli_ranks *r, const char *command, int *argc, char **argv)
{
    bool many = false, each = false;
    int kept = 1, status = -1;

    if (cli_completing)
        return status;
    for (int i = 1; i < *argc && status < 0; i++) {
        bool rank = !strcmp(argv[i], "--rank") || !strncmp(argv[i], "--rank=", 7);
        bool ranks = !strcmp(argv[i], "--ranks") || !strncmp(argv[i], "--ranks=", 8);
        const char *equals = strchr(argv[i], '=');

        if (!rank && !ranks) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!equals && i + 1 == *argc) {
            fprintf(stderr, "weir %s: %s needs a value: %s\n", command, argv[i],
                    rank ? "R=FILE" : "N");
            return EXIT_USAGE;
        }
        if (ranks && many) {
            fprintf(stderr, "weir %s: --ranks is given twice\n", command);
            return EXIT_USAGE;
        }
        many |= ranks;
        each |= rank;
        if (many && each) {
            fprintf(stderr,
                    "weir %s: --ranks is one file for all, --rank one for each: give one "
                    "or the other\n",
                    command);
            return EXIT_USAGE;
        }
        status = (rank ? take_rank : take_ranks)(r, command, equals ? equals + 1 : argv[++i]);
    }
    *argc = kept;
    return status;
}

int cli_ranks_words(struct cli_ranks *r, const char *command, int nwords, char **words)
{
    if (r->nfiles && nwords) {
        fprintf(stderr, "weir %s: '%s' beside --rank: each rank has its file already\n", command,
                words[0]);
        return EXIT_USAGE;
    }
    for (unsigned i = 0; r->nfiles && i < r->nranks; i++)
        if (!r->given[i]) {
            fprintf(stderr, "weir %s: --rank %u is missing: ranks are 0..%u\n", command, i,
                    r->nranks - 1);
            return EXIT_USAGE;
        }
    if (r->nfiles)
        return -1;
    if (!nwords) {
        fprintf(stderr, "weir %s: which graph? name a file\ntry: weir %s --help\n", command,
                command);
        return EXIT_USAGE;
    }
    if (!reserve(r, r->nranks ? r->nranks : 1))
        return no_memory(command);
    r->paths[r->nfiles++] = words[0];
    return -1;
}

int cli_ranks_expect(struct cli_ranks *r, const char *command, unsigned n)
{
    if (r->nranks == 1 && !r->given[0])
        return reserve(r, n) ? -1 : no_memory(command);
    if (r->nranks == n)
        return -1;
    fprintf(stderr, "weir %s: %u ranks in a job of %u processes: each process is a rank\n", command,
            r->nranks, n);
    return EXIT_USAGE;
}

int cli_ranks_load(struct cli_ranks *r, const char *command, weir_device *dev)
{
    r->graphs = calloc(r->nranks, sizeof *r->graphs);
    r->loaded = calloc(r->nfiles, sizeof *r->loaded);
    if (!r->graphs || !r->loaded)
        return no_memory(command);
    for (unsigned i = 0; i < r->nfiles; i++) {
        weir_status st = weir_graph_load_file(dev, r->paths[i], &r->loaded[i]);

        if (st) {
            cli_complain(command, st);
            return st == WEIR_ENOMEM ? EXIT_FAILED : EXIT_USAGE;
        }
        if (!weir_graph_node_count(r->loaded[i])) {
            fprintf(stderr, "weir %s: %s has no node: there is nothing to do\n", command,
                    r->paths[i]);
            return EXIT_USAGE;
        }
    }
    for (unsigned i = 0; i < r->nranks; i++)
        r->graphs[i] = r->loaded[r->file_of[i]];
    return -1;
}

void cli_ranks_free(struct cli_ranks *r)
{
    for (unsigned i = 0; r->loaded && i < r->nfiles; i++)
        if (r->loaded[i])
            weir_graph_destroy(r->loaded[i]);
    free(r->graphs);
    free(r->loaded);
    free(r->file_of);
    free(r->paths);
    free(r->given);
    *r = (struct cli_ranks){0};
}

int cli_refuse_graph(const char *command, weir_status status)
{
    static const weir_status bad_input[] = {WEIR_EINVAL,      WEIR_ERANGE, WEIR_ESHAPE,
                                            WEIR_EDTYPE,      WEIR_EPARSE, WEIR_ECONFLICT,
                                            WEIR_EUNSUPPORTED};
    int exit_status = cli_complain(command, status);

    for (size_t i = 0; i < sizeof bad_input / sizeof *bad_input; i++)
        if (status == bad_input[i])
            exit_status = EXIT_USAGE;
    return exit_status;
}

int cli_open_model(const char *command, const char *spec, const char *otherwise, weir_device **dev)
{
    const char *set = getenv("WEIR_DEVICE");
    weir_device_props props;
    weir_status st;

    if (!spec)
        spec = set && !strncmp(set, "npu", 3) ? set : otherwise;
    if ((st = weir_device_open(spec, dev))) {
        *dev = NULL;
        cli_complain(command, st);
        return st == WEIR_ENOMEM ? EXIT_FAILED : EXIT_USAGE;
    }
    weir_device_get_props(*dev, &props, sizeof props);
    if (!(props.features & WEIR_FEATURE_REAL_TIME))
        return -1;
    fprintf(stderr,
            "weir %s: %s runs in real time; name a modelled device such as npu:a3, or a profile "
            "that `weir calibrate` wrote\n",
            command, props.name);
    return EXIT_USAGE;
}
