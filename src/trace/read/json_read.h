/* Reads JSON as a stream, without building a tree: a trace may have millions of events.
 *
 *     if (weir__json_object(j))
 *         while (weir__json_key(j, key, sizeof key))
 *             if (!strcmp(key, "name")) name = weir__json_string(j);
 *             else weir__json_skip(j);
 *
 * After each key or item the caller must read its value or skip it. An error sets the thread's last
 * error, which names line and column. After it every function returns false, NULL or 0, so loops
 * end, and one check of `bad` at the end suffices.
 */
#ifndef WEIR_TRACE_READ_JSON_READ_H
#define WEIR_TRACE_READ_JSON_READ_H

#include "base/base.h"

enum weir__json_kind {
    WEIR__JSON_NONE, /* an error, or the end */
    WEIR__JSON_OBJECT,
    WEIR__JSON_ARRAY,
    WEIR__JSON_STRING,
    WEIR__JSON_NUMBER,
    WEIR__JSON_WORD, /* true, false, null */
};

struct weir__json {
    const char *path; /* for errors */
    const char *start, *at, *end;
    int depth;
    bool first; /* no member of the innermost group has been read yet */
    bool bad;
    char *text; /* the last string */
    size_t cap;
};

/* Starts reading `size` bytes at `text`. The caller owns the text and keeps it until the end. */
void weir__json_init(struct weir__json *j, const char *path, const char *text, size_t size);
void weir__json_fini(struct weir__json *j);

enum weir__json_kind weir__json_peek(struct weir__json *j);
bool weir__json_object(struct weir__json *j);
/* Reads the next key, truncated to `size`; false at the end of the object. */
bool weir__json_key(struct weir__json *j, char *key, size_t size);
bool weir__json_array(struct weir__json *j);
bool weir__json_item(struct weir__json *j);
/* Valid until the next string is read. */
const char *weir__json_string(struct weir__json *j);
long double weir__json_number(struct weir__json *j);
bool weir__json_bool(struct weir__json *j); /* null is false */
void weir__json_skip(struct weir__json *j);
/* Fails unless only blanks are left. */
void weir__json_end(struct weir__json *j);
/* Sets the error: `what` is a sentence about the current position. */
void weir__json_fail(struct weir__json *j, weir_status status, const char *what);

#endif
