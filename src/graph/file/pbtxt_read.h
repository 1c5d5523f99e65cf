/* Protobuf text format as a stream of events: fields, opened and closed messages.
 *
 * The reader neither allocates nor recurses, so a hostile text costs only time linear in its size.
 * `[a, b]` is read as a repeated field; `;` and `,` between fields and `#` comments are skipped;
 * adjacent strings are one.
 */
#ifndef WEIR_GRAPH_FILE_PBTXT_READ_H
#define WEIR_GRAPH_FILE_PBTXT_READ_H

#include "graph/file/pbtxt_source.h"

#define WEIR__PB_MAX_DEPTH 64

/* The text that is read: a file, or the text form inside one of its strings. */
struct weir__pb_text {
    const char *where; /* for messages; NULL: failures leave no message */
    const char *data;
    size_t size;
    const struct weir__pb_text *outer; /* the text whose string this is, or NULL */
    size_t outer_at;
    struct weir__pb_source *source; /* loads more of the text; NULL: all of it is loaded */
    bool partial;                   /* more text follows: failures leave no message */
};

/* Line and column of a byte, from 1. */
void weir__pb_place(const struct weir__pb_text *text, size_t at, size_t *line, size_t *column);

/* Fails with the position of byte `at`, `where:line:column: `, in front of the message. */
weir_status weir__pb_fail(const struct weir__pb_text *text, weir_status status, size_t at,
                          const char *format, ...) WEIR_PRINTF(4, 5);

/* An excerpt of the text for a message: shortened and printable. */
struct weir__pb_excerpt {
    char text[48];
};
struct weir__pb_excerpt weir__pb_make_excerpt(const char *data, size_t size);

enum weir__pb_kind {
    WEIR__PB_WORD,   /* scalar: true, DT_FLOAT, inf */
    WEIR__PB_NUMBER, /* scalar */
    WEIR__PB_STRING, /* scalar: one or more literals, quotes and all */
    WEIR__PB_OPEN,
    WEIR__PB_CLOSE,
    WEIR__PB_END,
};

struct weir__pb_event {
    enum weir__pb_kind kind;
    const char *name; /* of the field; for scalars and OPEN */
    size_t name_size;
    const char *raw; /* text of a scalar, as written */
    size_t raw_size;
    size_t at; /* position of the scalar or brace */
};

struct weir__pb_reader {
    const struct weir__pb_text *text;
    size_t at;
    int depth; /* open messages and arrays */
    struct weir__pb_level {
        char closer;      /* '}', '>' or, for an array, ']' */
        bool started;     /* the array has an entry */
        const char *name; /* the array's field */
        size_t name_size, at;
    } levels[WEIR__PB_MAX_DEPTH];
};

void weir__pb_reader_init(struct weir__pb_reader *r, const struct weir__pb_text *text);
/* returns  WEIR_EPARSE with the place. After END every call gives END. */
weir_status weir__pb_next(struct weir__pb_reader *r, struct weir__pb_event *e);
/* Skips the rest of the message whose OPEN was the last event. Unless `end` is NULL, *end becomes
 * the position of its closing brace. */
weir_status weir__pb_skip(struct weir__pb_reader *r, size_t *end);

static inline bool weir__pb_is_scalar(const struct weir__pb_event *e)
{
    return e->kind <= WEIR__PB_STRING;
}
bool weir__pb_is_named(const struct weir__pb_event *e, const char *name);

/* Decodes a STRING into `out`; the result has at most e->raw_size bytes. */
weir_status weir__pb_unquote(const struct weir__pb_text *text, const struct weir__pb_event *e,
                             char *out, size_t *size);

#endif
