/* Inside `weir launch`. */
#ifndef WEIR_CLI_LAUNCH_H
#define WEIR_CLI_LAUNCH_H

#include <stdbool.h>

/* cmd_launch.c: puts a new random token into WEIR_TOKEN. */
bool weir_launch_set_token(void);
/* launch_hosts.c: becomes the launcher of an MPI that starts `count` ranks (NULL: as many as
 * `hosts` has room for) of the program on "A:2,B:2". returns  only on an error: the exit status,
 * after saying why. */
int weir_launch_on_hosts(const char *hosts, const char *count, char **words);

#endif
