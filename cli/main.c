/* `weir`: finds the command and runs it. */
#include "commands.h"
#include "complete.h"
#include "term.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"devices", weir_cmd_devices, "what weir can run on here"},
    {"ops", weir_cmd_ops, "the operators and what runs them"},
    {"check", weir_cmd_check, "whether a program can deadlock, before it runs"},
    {"run", weir_cmd_run, "how long a graph takes, and why"},
    {"advise", weir_cmd_advise, "what keeps operators of a graph from overlapping"},
    {"tune", weir_cmd_tune, "a faster placement of a graph, and what each change brings"},
    {"estimate", weir_cmd_estimate, "how fast a language model will be on a modelled device"},
    {"calibrate", weir_cmd_calibrate, "a profile of a real device, and how well it predicts"},
    {"demo", weir_cmd_demo, "what streams do, shown and measured in a few seconds"},
    {"launch", weir_cmd_launch, "a program as several ranks, each a process"},
    {"cann", weir_cmd_cann, "programs for CANN (torch_npu, MindSpore) run on weir"},
    {"trace", weir_cmd_trace, "timelines: shown, compared, converted, imported"},
    {"bench", weir_cmd_bench, "weir against other runtimes and the machine's own limits"},
    {NULL, NULL, NULL},
};

static void print_help(FILE *out)
{
    fputs("usage: weir COMMAND [options]\n"
          "\n"
          "A multi-stream execution runtime for AI accelerators.\n"
          "\n"
          "commands\n",
          out);
    for (const struct command *c = commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    fputs("\n"
          "  weir help COMMAND     prints help with examples, as weir COMMAND --help does\n"
          "  weir --version        prints the version\n"
          "\n"
          "Every command takes --json for machines. Exit status: 0 fine, 1 a run failed or\n"
          "there are findings, 2 bad usage or input. WEIR_DEVICE names the default device,\n"
          "WEIR_LOG=debug shows what the library does.\n",
          out);
}

static const char *command_name_at(size_t i, const void *names)
{
    return ((const struct command *)names)[i].name;
}

static int refuse(const char *word)
{
    const char *meant = cli_closest(word, command_name_at, commands);

    fprintf(stderr, "weir: there is no command '%s'", word);
    if (meant)
        fprintf(stderr, "; did you mean '%s'?", meant);
    fputs("\ntry: weir --help\n", stderr);
    return EXIT_USAGE;
}

/* `weir help [COMMAND [PART]]`, such as `weir help trace diff`: words[0] is the command. */
static int help(int nwords, char **words)
{
    static char option[] = "--help";
    char *part = nwords > 1 ? words[1] : option;

    if (!nwords) {
        print_help(stdout);
        return EXIT_FINE;
    }
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(words[0], c->name))
            return c->run(nwords > 1 ? 3 : 2, (char *[]){words[0], part, option, NULL});
    return refuse(words[0]);
}

/* `weir __complete WORD...`: argv[0] is that name, argv[1] the first word. */
static int complete(int argc, char **argv)
{
    cli_completing = true;
    if (argc < 3) {
        for (const struct command *c = commands; c->name; c++)
            cli_complete_offer(argc > 1 ? argv[1] : "", c->name, c->summary);
        cli_complete_offer(argc > 1 ? argv[1] : "", "help", "what a command does");
        cli_complete_offer(argc > 1 ? argv[1] : "", "--help", "what there is");
        cli_complete_offer(argc > 1 ? argv[1] : "", "--version", "the version");
        return EXIT_FINE;
    }
    if (!strcmp(argv[1], "help")) {
        if (argc > 3)
            return complete(argc - 1, argv + 1);
        for (const struct command *c = commands; c->name; c++)
            cli_complete_offer(argv[2], c->name, c->summary);
    }
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->run(argc - 1, argv + 1);
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "__complete"))
        return complete(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return EXIT_FINE;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc - 2, argv + 2);
    if (!strcmp(argv[1], "--version")) {
        printf("weir %s\n", weir_version());
        return EXIT_FINE;
    }
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->run(argc - 1, argv + 1);
    return refuse(argv[1]);
}

int main(int argc, char **argv)
{
    int status;

    setlocale(LC_CTYPE, ""); /* term.c asks the locale whether the terminal takes UTF-8 */
    term_guard_output();
    status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && status == EXIT_FINE) {
        fprintf(stderr, "weir: cannot write the output: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return status;
}
