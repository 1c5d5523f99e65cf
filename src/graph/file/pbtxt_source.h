/* The text of a large graph file, of which only the pieces in use are in memory: a million nodes
 * are some 250 MB of text. The file is read twice; its contents must not change in between. */
#ifndef WEIR_GRAPH_FILE_PBTXT_SOURCE_H
#define WEIR_GRAPH_FILE_PBTXT_SOURCE_H

#include "base/base.h"

#define WEIR__PB_PIECE ((size_t)4 << 20)

struct weir__pb_source;

/* *out is NULL if the file is smaller than `least` bytes or cannot be read twice, as a pipe cannot.
 * returns  WEIR_EPARSE for one of more than `most` bytes; WEIR_ENOMEM. */
weir_status weir__pb_source_open(const char *path, size_t least, size_t most,
                                 struct weir__pb_source **out);
void weir__pb_source_close(struct weir__pb_source *s);

/* The address and size of the text. Only loaded pieces may be read. */
const char *weir__pb_source_data(const struct weir__pb_source *s);
size_t weir__pb_source_size(const struct weir__pb_source *s);

/* Loads bytes [from, to). With NULL the whole text is loaded already.
 * returns  WEIR_EIO, also if the file has changed. */
weir_status weir__pb_source_need(struct weir__pb_source *s, size_t from, size_t to);
/* If more than a few pieces are loaded, drops all except those with bytes of [from, to). NULL is
 * fine. */
void weir__pb_source_keep(struct weir__pb_source *s, size_t from, size_t to);
/* Returns freed memory to the system (malloc_trim): freed records of a large file lie between
 * others that stay, so the C library would keep their pages. NULL is fine. */
void weir__pb_source_tidy(const struct weir__pb_source *s);

#endif
