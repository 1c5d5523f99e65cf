/* Shell completion: `weir __complete WORD...`, which the scripts in completions/ call. The last
 * word is the one being typed; it may be empty.
 *
 * Prints one candidate per line, with its meaning after a tab. A line ":files" or ":dirs" asks the
 * shell to add names of files or directories. The candidates come from the tables that cli_parse
 * reads, so every command and option can be completed. */
#ifndef WEIR_CLI_COMPLETE_H
#define WEIR_CLI_COMPLETE_H

#include "commands.h"

/* Set during completion: each command then runs up to cli_parse, which calls cli_complete and makes
 * the command return. Code that runs before cli_parse must not change argv. */
extern bool cli_completing;

/* argv[argc - 1] is being typed. returns  an exit status. */
int cli_complete(const struct cli_usage *usage, int argc, char **argv);

/* Prints a candidate if it begins with `typed`. `about` may be NULL. */
void cli_complete_offer(const char *typed, const char *candidate, const char *about);

#endif
