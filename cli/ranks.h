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

/* Takes every `--rank R=FILE` and `--ranks N` out of argv, before cli_parse sees it.
 * returns  -1 to go on, or the exit status after a complaint. */
int cli_ranks_take(struct cli_ranks *r, const char *command, int *argc, char **argv);
/* The words that are left, which name a file unless --rank did. */
int cli_ranks_words(struct cli_ranks *r, const char *command, int nwords, char **words);
/* Ranks are `n` processes: a single file is that of all, and there are no others.
 * returns  -1, or the exit status after a complaint. */
int cli_ranks_expect(struct cli_ranks *r, const char *command, unsigned n);
/* Loads each file once, for `dev`. returns -1, or the exit status after a complaint. */
int cli_ranks_load(struct cli_ranks *r, const char *command, weir_device *dev);
void cli_ranks_free(struct cli_ranks *r);

/* Says why graphs cannot be run, predicted or tuned.
 * returns  EXIT_USAGE if they never can on the device. */
int cli_refuse_graph(const char *command, weir_status status);
/* Opens a device that predicts: `spec`, else WEIR_DEVICE if that is one, else `otherwise`.
 * returns  -1, or the exit status after a complaint. */
int cli_open_model(const char *command, const char *spec, const char *otherwise, weir_device **dev);

#endif
