/* Colours, text and tables. */
#include "term.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 100, MIN_WIDTH = 40, MAX_WIDTH = 160, GAP = 2, LEAST_LAST = 12 };

static int find_width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = DEFAULT_WIDTH;

    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
        width = size.ws_col;
    else if (columns)
        width = strtol(columns, NULL, 10);
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : (int)width;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value;
}

/* NO_COLOR takes precedence over FORCE_COLOR, and both over the terminal's abilities. */
static bool wants_colour(bool tty)
{
    const char *kind = getenv("TERM"), *force = getenv("FORCE_COLOR");

    if (is_set("NO_COLOR"))
        return false;
    if (force && *force)
        return strcmp(force, "0") != 0;
    return tty && !(kind && !strcmp(kind, "dumb"));
}

const struct term *term_get(void)
{
    static struct term term;

    if (term.width)
        return &term;
    term.tty = isatty(STDOUT_FILENO);
    term.colour = wants_colour(term.tty);
    term.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
    term.width = find_width();
    return &term;
}

const char *term_on(enum term_style style)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "",          [TERM_BOLD] = "\033[1m",    [TERM_DIM] = "\033[2m",
        [TERM_GOOD] = "\033[32m",   [TERM_BAD] = "\033[31m",    [TERM_BLUE] = "\033[34m",
        [TERM_YELLOW] = "\033[33m", [TERM_VIOLET] = "\033[35m",
    };

    return term_get()->colour ? codes[style] : "";
}

const char *term_off(void)
{
    return term_get()->colour ? "\033[0m" : "";
}

struct term_text term_bytes(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct term_text out;
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(out.text, sizeof out.text, value < 10 && unit ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return out;
}

void term_paragraph(int indent, const char *text)
{
    int width = term_get()->width, at = 0;

    for (const char *word = text; *word;) {
        int length = (int)strcspn(word, " ");

        if (at && at + 1 + length > width) {
            putchar('\n');
            at = 0;
        }
        at += printf("%*s%.*s", at ? 1 : indent, "", length, word);
        word += length;
        word += strspn(word, " ");
    }
    putchar('\n');
}

struct term_text term_ms(double ms)
{
    struct term_text out;

    if (ms < 1)
        snprintf(out.text, sizeof out.text, "%.1f us", 1000 * ms);
    else
        snprintf(out.text, sizeof out.text, "%.2f ms", ms);
    return out;
}

int term_fit(const char *text, int columns)
{
    int bytes = 0;

    for (int n = 0; text[bytes] && (n < columns || (text[bytes] & 0xc0) == 0x80); bytes++)
        n += (text[bytes] & 0xc0) != 0x80;
    return bytes;
}

/* ---- tables ---- */

/* Returns the columns that a text takes: characters, not bytes. */
static int columns_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void *need(void *memory)
{
    if (!memory) {
        fputs("weir: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void term_table_add(struct term_table *t, const char *const *cells)
{
    if (t->nrows == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->cells = need(realloc(t->cells, t->capacity * t->ncolumns * sizeof *t->cells));
    }
    for (size_t i = 0; i < t->ncolumns; i++)
        t->cells[t->nrows * t->ncolumns + i] = need(strdup(cells[i]));
    t->nrows++;
}

static void print_cell(const char *text, int width, bool right, bool last)
{
    int pad = width - columns_of(text);

    if (right)
        printf("%*s", pad > 0 ? pad : 0, "");
    printf("%.*s", term_fit(text, width), text);
    if (!right && !last)
        printf("%*s", pad > 0 ? pad : 0, "");
}

void term_table_print(struct term_table *t, int indent)
{
    int *widths = need(calloc(t->ncolumns, sizeof *widths));
    size_t last = t->ncolumns - 1;
    int used = indent;

    for (size_t i = 0; i < t->ncolumns; i++) {
        widths[i] = columns_of(t->columns[i].title);
        for (size_t r = 0; r < t->nrows; r++) {
            int width = columns_of(t->cells[r * t->ncolumns + i]);

            widths[i] = width > widths[i] ? width : widths[i];
        }
        used += i < last ? widths[i] + GAP : 0;
    }
    if (term_get()->tty && used + widths[last] > term_get()->width &&
        used + LEAST_LAST <= term_get()->width)
        widths[last] = term_get()->width - used;

    for (size_t r = 0; r <= t->nrows; r++) { /* row 0 holds the titles */
        printf("%*s%s", indent, "", r ? "" : term_on(TERM_DIM));
        for (size_t i = 0; i < t->ncolumns; i++) {
            char *cell = r ? t->cells[(r - 1) * t->ncolumns + i] : NULL;

            print_cell(cell ? cell : t->columns[i].title, widths[i], t->columns[i].right,
                       i == last);
            if (i < last)
                printf("%*s", GAP, "");
            free(cell);
        }
        printf("%s\n", r ? "" : term_off());
    }
    free(widths);
    free(t->cells);
    *t = (struct term_table){.columns = t->columns, .ncolumns = t->ncolumns};
}
