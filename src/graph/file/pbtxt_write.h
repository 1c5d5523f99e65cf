/* The pieces of a dumped graph file. Running out of memory shows in text->failed. */
#ifndef WEIR_GRAPH_FILE_PBTXT_WRITE_H
#define WEIR_GRAPH_FILE_PBTXT_WRITE_H

#include "graph/build/graph.h"

/* What is not printable is escaped; bytes of UTF-8 stay. */
void weir__pb_write_quoted(struct weir__text *t, const char *s);

/* attr { key: "..." value { ... } }: the frame, or all of it. */
void weir__pb_write_begin(struct weir__text *t, const char *key);
void weir__pb_write_end(struct weir__text *t);
void weir__pb_write_string(struct weir__text *t, const char *key, const char *value);
void weir__pb_write_int(struct weir__text *t, const char *key, int64_t value);
void weir__pb_write_ints(struct weir__text *t, const char *key, const int64_t *values, int n);

/* The attribute of a View node that holds the arguments of a step. */
const char *weir__pb_view_key(enum weir__view_kind kind);

/* The node's parameters; what is all zeros is what an absent attribute means. */
void weir__pb_write_params(struct weir__text *t, const struct weir__node *n);

#endif
