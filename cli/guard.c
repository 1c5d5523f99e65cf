/* Replaces control characters in standard output by '?', except line ends, tabs and the colours of
 * term.c. Printed names come from files, and a terminal would obey control characters in them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "term.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 5, PIECE = 4096 }; /* bytes of a colour; bytes of one write */

/* Bytes that may become a colour, or the first byte of a control character in UTF-8. */
static char held[LONGEST + 1];
static size_t nheld;

static bool begins_colour(const char *text, size_t n, bool *whole)
{
    for (int style = TERM_PLAIN; style <= TERM_COUNT; style++) {
        const char *code = style == TERM_COUNT ? term_off() : term_on((enum term_style)style);

        if (*code && !strncmp(code, text, n)) {
            *whole = !code[n];
            return true;
        }
    }
    return false;
}

/* Filters one byte and stores the bytes to print at `to`, at most LONGEST + 1. Returns their
 * number. */
static size_t pass(char c, char *to)
{
    unsigned char u = (unsigned char)c;
    size_t n = 0;
    bool whole;

    if (nheld && held[0] == '\033') {
        held[nheld] = c;
        if (begins_colour(held, nheld + 1, &whole)) {
            nheld++;
            if (!whole)
                return 0;
            memcpy(to, held, nheld);
            n = nheld;
            nheld = 0;
            return n;
        }
        to[n++] = '?';
        memcpy(to + n, held + 1, nheld - 1); /* letters and digits */
        n += nheld - 1;
        nheld = 0;
        return n + pass(c, to + n);
    }
    if (nheld) { /* U+0080 to U+009F are control characters too */
        nheld = 0;
        if (u >= 0x80 && u < 0xa0) {
            to[0] = '?';
            return 1;
        }
        to[0] = '\xc2';
        return 1 + pass(c, to + 1);
    }
    if (u == 033 || u == 0xc2) {
        held[nheld++] = c;
        return 0;
    }
    to[0] = (u < 0x20 && c != '\n' && c != '\t') || u == 0x7f ? '?' : c;
    return 1;
}

static bool write_all(const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(STDOUT_FILENO, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static ssize_t put(void *cookie, const char *bytes, size_t size)
{
    char out[PIECE + 2 * LONGEST];
    size_t n = 0;

    (void)cookie;
    for (size_t i = 0; i < size; i++) {
        n += pass(bytes[i], out + n);
        if (n >= PIECE || i + 1 == size) {
            if (!write_all(out, n))
                return 0;
            n = 0;
        }
    }
    return (ssize_t)size;
}

void term_guard_output(void)
{
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});

    if (!out)
        return;
    if (term_get()->tty)
        setvbuf(out, NULL, _IOLBF, 0);
    stdout = out;
}
