/* Draws a bar, the time left, and the current step. */
#include "progress.h"

#include "base/progress.h"
#include "term.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, BAR_NARROW = 10, NARROW = 72, WIDTH = 80, TEXT = 200 };
static const double quiet_s = 1, redraw_s = 0.1;
static const double least_share = 0.01; /* before that, the time left is a guess */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct progress progress_begin(void)
{
    const char *kind = getenv("TERM");

    return (struct progress){.shows = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0,
                             .began = now_s()};
}

/* Returns the width of stderr's terminal, which may differ from stdout's. */
static int width(void)
{
    struct winsize size;

    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : WIDTH;
}

/* "8 s", "3 min 20 s", "2 h 5 min". */
static struct term_text duration(double seconds)
{
    struct term_text out;
    long s = seconds < 1e7 ? lround(seconds) : 10000000;

    if (s < 60)
        snprintf(out.text, sizeof out.text, "%ld s", s);
    else if (s < 3600)
        snprintf(out.text, sizeof out.text, "%ld min %ld s", s / 60, s % 60);
    else
        snprintf(out.text, sizeof out.text, "%ld h %ld min", s / 3600, s / 60 % 60);
    return out;
}

/* returns  columns taken */
static int draw_bar(double share, int length)
{
    bool unicode = term_get()->unicode;
    int full = (int)(share * length);

    fputs("  ", stderr);
    for (int i = 0; i < length; i++)
        fputs(i < full ? (unicode ? "\u2588" : "#") : (unicode ? "\u2591" : "."), stderr);
    return 2 + length + fprintf(stderr, " %3.0f %%", 100 * share);
}

void progress_show(struct progress *p, double share, const char *format, ...)
{
    double now, elapsed;
    char text[TEXT];
    int room, used = 0;
    va_list args;

    if (!p->shows)
        return;
    now = now_s();
    elapsed = now - p->began;
    if (elapsed < quiet_s || now - p->shown < redraw_s)
        return;
    p->shown = now;
    p->visible = true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    room = width() - 1; /* a character in the last column may start the next line */
    fputc('\r', stderr);
    if (isfinite(share)) {
        share = fmin(fmax(share, 0), 1);
        used = draw_bar(share, room < NARROW ? BAR_NARROW : BAR);
    }
    if (isfinite(share) && share >= least_share)
        used += fprintf(stderr, "  %s left", duration(elapsed * (1 - share) / share).text);
    else
        used += fprintf(stderr, "  %s so far", duration(elapsed).text);
    if (room - used > 2)
        fprintf(stderr, "  %.*s", term_fit(text, room - used - 2), text);
    fputs("\033[K", stderr);
    fflush(stderr);
}

/* A new text means a new task; its time starts anew. */
static void on_progress(void *user, const char *doing, double share)
{
    struct progress *p = user;

    if (doing != p->doing)
        p->began = now_s();
    p->doing = doing;
    progress_show(p, share, "%s", doing);
}

void progress_listen(struct progress *p)
{
    if (!p->shows)
        return;
    p->listens = true;
    weir__progress_set(on_progress, p);
}

void progress_end(struct progress *p)
{
    if (p->visible)
        fputs("\r\033[K", stderr);
    if (p->listens)
        weir__progress_set(NULL, NULL);
    p->visible = p->listens = false;
}
