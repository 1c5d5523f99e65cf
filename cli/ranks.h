/* The graphs of a command that takes FILE, `--ranks N` or `--rank R=FILE…`. */
#ifndef WEIR_CLI_RANKS_H
#define WEIR_CLI_RANKS_H

#include <weir/weir.h>

struct cli_ranks {
    unsigned nranks, nfiles;
    unsigned *file_of;   /* by rank */
    const char **paths;  /* by file */
    weir_graph **graphs; /* by rank; ranks of one file share one */
    weir_graph **loaded; /* by file */
    bool *given;         /* by rank, while --rank is read */
};

/* Removes every `--rank R=FILE` and `--ranks N` from argv. Call it before cli_parse.
 * returns  -1 to continue, or the exit status after printing an error. */
int cli_ranks_take(struct cli_ranks *r, const char *command, int *argc, char **argv);
/* Reads the remaining words: they name the file, unless --rank was given. */
int cli_ranks_words(struct cli_ranks *r, const char *command, int nwords, char **words);
/* For ranks that are `n` processes: a single file applies to all of them; any other number of ranks
 * is an error.
 * returns  -1, or the exit status after printing an error. */
int cli_ranks_expect(struct cli_ranks *r, const char *command, unsigned n);
/* Loads each file once, for `dev`. returns -1, or the exit status after printing an error. */
int cli_ranks_load(struct cli_ranks *r, const char *command, weir_device *dev);
void cli_ranks_free(struct cli_ranks *r);

/* Prints why graphs cannot be run, predicted or tuned.
 * returns  EXIT_USAGE if the device can never run them. */
int cli_refuse_graph(const char *command, weir_status status);
/* Opens a modelled device: `spec`, else WEIR_DEVICE if it names one, else `otherwise`.
 * returns  -1, or the exit status after printing an error. */
int cli_open_model(const char *command, const char *spec, const char *otherwise, weir_device **dev);

#endif
