/* `weir cann`: programs for CANN on weir. */
#ifndef WEIR_CLI_CANN_H
#define WEIR_CLI_CANN_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the directory "latest" that contains libascendcl and the other libraries. Prints an error
 * and returns false if there is none. */
bool cann_directory(char *out, size_t size);

/* argv[0] is the subcommand's name. */
int cann_doctor(int argc, char **argv);
int cann_ops(int argc, char **argv);

#endif
