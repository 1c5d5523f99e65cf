/* Lets other processes watch this program, if the environment asks for it:
 *
 *     WEIR_WATCH=1 ./program        opens a socket in the default folder (weir__watch_folder)
 *     WEIR_WATCH=DIR ./program      opens it in DIR
 *
 * The socket is DIR/PID. A client must be the same user. For each line that it sends it gets the
 * recording so far: the size in decimal, a line end, and that many bytes of Chrome's trace format;
 * or a line that begins with "error ". When the program ends, the client gets a last recording
 * without asking.
 *
 * One thread serves clients and otherwise sleeps. weir__trace_watch_start makes the recording. */
#ifndef WEIR_TRACE_WATCH_WATCH_H
#define WEIR_TRACE_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Starts the watch if WEIR_WATCH is set; later calls do nothing. Failures are only logged: a
 * program does not fail because it cannot be watched. Call with no lock held. */
void weir__watch_begin(void);

/* Finds the folder for `wish`, the value of WEIR_WATCH or NULL. False if its path is too long. */
bool weir__watch_folder(const char *wish, char *out, size_t size);
/* Creates the folder if it does not exist. Logs and returns false if other users could enter it. */
bool weir__watch_folder_ready(const char *folder);

#endif
