/* What could stand where a shell's cursor is: `weir __complete WORD...`, which the files in
 * completions/ ask. The last word is the one that is being typed, maybe empty.
 *
 * Prints a candidate a line, with what it means behind a tab; a line ":files" or ":dirs"
 * asks the shell for names of its own. What it says comes from what cli_parse reads, so
 * every command and option can be completed once it exists. */
#ifndef WEIR_CLI_COMPLETE_H
#define WEIR_CLI_COMPLETE_H

#include "commands.h"

/* Set while words are completed: commands come as far as cli_parse, which then calls
 * cli_complete and has them return. What runs before that must leave argv alone. */
extern bool cli_completing;

/* argv[argc - 1] is being typed. returns  an exit status. */
int cli_complete(const struct cli_usage *usage, int argc, char **argv);

/* Prints a candidate if it begins with `typed`. `about` may be NULL. */
void cli_complete_offer(const char *typed, const char *candidate, const char *about);

#endif
