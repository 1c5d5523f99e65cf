/* The commands of `weir` and what they share: arguments, exit statuses. */
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
    const char *synopsis; /* what follows the command's name */
    const char *about;
    const struct cli_option *options; /* ends with a name of NULL */
    const char *examples;             /* lines */
    int max_words;                    /* arguments that are no options */
    const char *words;                /* what they are, as a value_name; NULL for none */
};

/* Reads options (`--name value` or `--name=value`; `--` ends them) and moves the
 * other words to argv[1..*nwords].
 * returns  -1 to go on, or the exit status after help or a complaint. */
int cli_parse(const struct cli_usage *usage, int argc, char **argv, int *nwords);

/* What "-" stands for among the words of a command that takes files. */
#define CLI_STANDARD_INPUT "/dev/stdin"
/* Makes standard input readable from its beginning, as often as it is opened.
 * returns  -1 to go on, or the exit status after a complaint. */
int cli_keep_input(const char *command);

/* A file that an option names: "-" is standard output, which gets the whole file or nothing of
 * it. Between the two calls `path` is what is to be written.
 * returns  -1 to go on, or the exit status after a complaint. */
struct cli_output {
    const char *path;
    char folder[224], file[240];
};
bool cli_is_standard(const char *path);
int cli_output_open(const char *command, const char *wanted, struct cli_output *out);
/* returns  `status`, or the exit status after a complaint. */
int cli_output_close(const char *command, struct cli_output *out, int status);

/* The name closest to `word` if it is close enough to have been meant, else NULL. */
const char *cli_closest(const char *word, const char *(*name_at)(size_t i, const void *names),
                        const void *names);

/* Prints "weir COMMAND: " and the library's last sentence to stderr.
 * returns  the exit status it deserves: EXIT_USAGE for a bad device spec. */
int cli_complain(const char *command, weir_status status);

#endif
