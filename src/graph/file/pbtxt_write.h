/* Writes the pieces of a graph file. Out of memory: sets text->failed. */
#ifndef WEIR_GRAPH_FILE_PBTXT_WRITE_H
#define WEIR_GRAPH_FILE_PBTXT_WRITE_H

#include "graph/build/graph.h"

/* Escapes unprintable bytes; UTF-8 stays. */
void weir__pb_write_quoted(struct weir__text *t, const char *s);

/* Writes the frame of attr { key: "..." value { ... } }, or all of it. */
void weir__pb_write_begin(struct weir__text *t, const char *key);
void weir__pb_write_end(struct weir__text *t);
void weir__pb_write_string(struct weir__text *t, const char *key, const char *value);
void weir__pb_write_int(struct weir__text *t, const char *key, int64_t value);
void weir__pb_write_ints(struct weir__text *t, const char *key, const int64_t *values, int n);

/* The attribute of a View node that holds the arguments of a step. */
const char *weir__pb_view_key(enum weir__view_kind kind);

/* Writes the node's parameters, except zeros: an absent attribute means 0. */
void weir__pb_write_params(struct weir__text *t, const struct weir__node *n);

#endif
