/* Watching a program from outside, if the environment says so:
 *
 *     WEIR_WATCH=1 ./program        a socket in the folder that weir__watch_folder names
 *     WEIR_WATCH=DIR ./program      in another one
 *
 * The socket is DIR/PID. Who connects must be the same user. For each line it sends it gets the
 * recording so far: its size in decimal, a line end, and so many bytes of Chrome's trace format;
 * or a line that begins with "error ". When the program ends it gets the last one unasked.
 *
 * One thread, which sleeps while nobody asks. The recording is weir__trace_watch_start's. */
#ifndef WEIR_TRACE_WATCH_WATCH_H
#define WEIR_TRACE_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>

/* On the first call, if WEIR_WATCH is set. What goes wrong is in the log: a program does not
 * fail because nobody can watch it. Called with no lock held. */
void weir__watch_begin(void);

/* The folder that `wish` (the value of WEIR_WATCH, or NULL) stands for. False if it is too long. */
bool weir__watch_folder(const char *wish, char *out, size_t size);
/* Makes it if it is not there. False, with the log told, if others could enter it. */
bool weir__watch_folder_ready(const char *folder);

#endif
