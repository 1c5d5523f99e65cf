#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include "base/base.h"

/* All of the file, or of what a pipe gives. A file of more than `most` bytes is refused with
 * WEIR_EPARSE, by its size if it has one, before any of it is read; `kind` is what such a file
 * cannot be. Free *data with weir__free(), also on failure. */
weir_status weir__file_read(const char *path, size_t most, const char *kind, char **data,
                            size_t *size);

#endif
