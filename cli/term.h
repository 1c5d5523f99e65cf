/* Output for people: colours, tables and Gantt charts, adapted to the terminal. */
#ifndef WEIR_CLI_TERM_H
#define WEIR_CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>

/* The abilities of stdout, determined on first use. Colours only on a terminal and without
 * NO_COLOR; drawing characters only in a UTF-8 locale; width from the terminal, else from COLUMNS,
 * else 100. */
struct term {
    bool tty, colour, unicode;
    int width;
};
const struct term *term_get(void);

enum term_style {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_GOOD,
    TERM_BAD,
    TERM_BLUE,
    TERM_YELLOW,
    TERM_VIOLET,
    TERM_COUNT,
};

/* From now on control characters in the output are replaced by '?' (guard.c). */
void term_guard_output(void);

/* Escape sequences, "" where there are no colours. */
const char *term_on(enum term_style style);
const char *term_off(void);

/* "1.5 GiB", in a struct so that it can be used inside a call. */
struct term_text {
    char text[32];
};
struct term_text term_bytes(size_t bytes);
/* "12.3 ms" or, below one, "380 us". */
struct term_text term_ms(double ms);

/* Returns how many bytes of the text fit in that many columns. */
int term_fit(const char *text, int columns);

/* Prints a paragraph with each line indented by `indent` spaces, wrapped at the width. */
void term_paragraph(int indent, const char *text);

/* ---- tables ---- */

struct term_column {
    const char *title;
    bool right; /* aligned; numbers are */
};

/* Rows of cells; the table copies their texts. The last column is cut to fit a terminal, unless too
 * little of it would remain. */
struct term_table {
    const struct term_column *columns;
    size_t ncolumns, nrows, capacity;
    char **cells;
};
void term_table_add(struct term_table *t, const char *const *cells);
/* Prints and frees it. */
void term_table_print(struct term_table *t, int indent);

/* ---- Gantt charts ---- */

struct term_bar {
    int row;
    double start, end; /* ms */
    const char *label; /* written into the bar if it fits; may be NULL */
    int family;        /* 0 to 4: bars of one family look alike */
};

struct term_gantt {
    const char *const *rows;  /* labels */
    const char *const *notes; /* texts at the end of each row */
    int nrows;
    const struct term_bar *bars;
    size_t nbars;
};

/* Prints one line per row and an axis, all to one scale. Precondition: bars of a row do not
 * overlap. A character that holds only bars shorter than itself shows how much of it they fill. */
void term_gantt_print(const struct term_gantt *g, int indent);

#endif
