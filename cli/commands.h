/* The commands of `weir` and their common code: arguments, exit statuses. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include <weir/weir.h>

/* Exit statuses of every command. */
enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1, /* a run failed, or there are findings */
    EXIT_USAGE = 2,  /* bad usage or input */
};

/* argv[0] is the command's own name. Each returns an exit status. */
int weir_cmd_advise(int argc, char **argv);
int weir_cmd_bench(int argc, char **argv);
int weir_cmd_calibrate(int argc, char **argv);
int weir_cmd_cann(int argc, char **argv);
int weir_cmd_check(int argc, char **argv);
int weir_cmd_demo(int argc, char **argv);
int weir_cmd_devices(int argc, char **argv);
int weir_cmd_estimate(int argc, char **argv);
int weir_cmd_launch(int argc, char **argv);
int weir_cmd_ops(int argc, char **argv);
int weir_cmd_trace(int argc, char **argv);
int weir_cmd_run(int argc, char **argv);
int weir_cmd_tune(int argc, char **argv);

/* An option sets a flag, or takes a value where `value` is not NULL. */
struct cli_option {
    const char *name;       /* "--json" */
    const char *value_name; /* "SPEC", NULL for a flag */
    const char *help;
    bool *flag;
    const char **value;
};

struct cli_usage {
    const char *command;
    const char *synopsis; /* the text after the command's name */
    const char *about;
    const struct cli_option *options; /* ends with a name of NULL */
    const char *examples;             /* lines */
    int max_words;                    /* the most arguments that are no options */
    const char *words;                /* their kind, as in value_name; NULL for none */
};

/* Reads options (`--name value` or `--name=value`; `--` ends them) and moves the
 * other words to argv[1..*nwords].
 * returns  -1 to continue, or the exit status after printing help or an error. */
int cli_parse(const struct cli_usage *usage, int argc, char **argv, int *nwords);

/* The file that "-" means as an input of a command. */
#define CLI_STANDARD_INPUT "/dev/stdin"
/* Lets standard input be opened several times and read from its beginning each time.
 * returns  -1 to continue, or the exit status after printing an error. */
int cli_keep_input(const char *command);

/* An output file that an option names. "-" means standard output, which gets the whole file or
 * nothing. Between cli_output_open and cli_output_close the caller writes the file `path`.
 * returns  -1 to continue, or the exit status after printing an error. */
struct cli_output {
    const char *path;
    char folder[224], file[240];
};
bool cli_is_standard(const char *path);
int cli_output_open(const char *command, const char *wanted, struct cli_output *out);
/* returns  `status`, or the exit status after printing an error. */
int cli_output_close(const char *command, struct cli_output *out, int status);

/* Returns the name most similar to `word`, or NULL if no name is similar enough to suggest. */
const char *cli_closest(const char *word, const char *(*name_at)(size_t i, const void *names),
                        const void *names);

/* Prints "weir COMMAND: " and the library's last error to stderr.
 * returns  the exit status for it: EXIT_USAGE for a bad device spec. */
int cli_complain(const char *command, weir_status status);

#endif
