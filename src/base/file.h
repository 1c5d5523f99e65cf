#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stdio.h>

#include "base/base.h"

/* Reads the whole file or pipe. Fails with WEIR_EPARSE if it has more than `most` bytes; if its
 * size is known, before reading. `kind` names the kind of file in the error. The caller frees *data
 * with weir__free(), also on failure. */
weir_status weir__file_read(const char *path, size_t most, const char *kind, char **data,
                            size_t *size);

/* Writes a file through `body`, atomically: a temporary file beside it is written, synced and
 * renamed over the old file. After a crash or on a full disk the old file or the new one exists,
 * never a part. Follows links; writes pipes and devices directly.
 * returns  what `body` returns; WEIR_EIO with the path and the system's first error. */
weir_status weir__file_write(const char *path, weir_status (*body)(FILE *out, const void *user),
                             const void *user);
weir_status weir__file_write_text(const char *path, const char *text);

/* Checks whether weir__file_write could write the file.
 * returns  WEIR_EIO as weir__file_write would. */
weir_status weir__file_check_writable(const char *path);

#endif
