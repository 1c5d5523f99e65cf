/* Shows the progress of long work: one line on stderr, rewritten in place.
 *
 *     struct progress p = progress_begin();
 *     for (int i = 0; i < n; i++) {
 *         progress_show(&p, (double)i / n, "file %s", names[i]);
 *         ...
 *     }
 *     progress_end(&p);            before anything else is printed
 *
 * Shows nothing in the first second, and nothing if stderr is no terminal that can rewrite a
 * line. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>

struct progress {
    bool shows;          /* stderr can show it */
    double began, shown; /* seconds */
    bool visible;        /* a line is displayed */
    bool listens;
    const char *doing; /* the task that the library reported last */
};

struct progress progress_begin(void);

/* Shows a bar for `share`, in 0..1, with the time left; if `share` is NaN, the time so far. The
 * text names the current step; it is cut to the terminal's width. Draws at most ten times a second,
 * so it may be called for every step. */
void progress_show(struct progress *p, double share, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Shows the progress that the library reports on this thread, until progress_end. */
void progress_listen(struct progress *p);

/* Removes the line. */
void progress_end(struct progress *p);

#endif
