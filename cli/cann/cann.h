/* `weir cann`: programs for CANN on weir. */
#ifndef WEIR_CLI_CANN_H
#define WEIR_CLI_CANN_H

#include <stdbool.h>
#include <stddef.h>

/* Where libascendcl and the others are: the directory "latest". false with a complaint. */
bool cann_directory(char *out, size_t size);

/* argv[0] is the subcommand's name. */
int cann_doctor(int argc, char **argv);
int cann_ops(int argc, char **argv);

#endif
