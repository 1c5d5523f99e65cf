/* How far long work has come: one line on stderr, rewritten in place.
 *
 *     struct progress p = progress_begin();
 *     for (int i = 0; i < n; i++) {
 *         progress_show(&p, (double)i / n, "file %s", names[i]);
 *         ...
 *     }
 *     progress_end(&p);            before anything else is printed
 *
 * Nothing is shown in the first second, nor where stderr is no terminal that can rewrite a
 * line. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>

struct progress {
    bool shows;          /* stderr can show it */
    double began, shown; /* seconds */
    bool visible;        /* there is a line to take away */
    bool listens;
    const char *doing; /* what was told last */
};

struct progress progress_begin(void);

/* A bar for `share`, of 0 to 1, with the time left; for a share that is NaN the time so far.
 * The text says what is at work now, and is cut where the terminal ends. Cheap enough for
 * every step: it draws ten times a second at most. */
void progress_show(struct progress *p, double share, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Shows what the library tells of its own work on this thread, until progress_end. */
void progress_listen(struct progress *p);

/* Takes the line away. */
void progress_end(struct progress *p);

#endif
