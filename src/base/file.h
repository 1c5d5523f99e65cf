#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stdio.h>

#include "base/base.h"

/* All of the file, or of what a pipe gives. A file of more than `most` bytes is refused with
 * WEIR_EPARSE, by its size if it has one, before any of it is read; `kind` is what such a file
 * cannot be. Free *data with weir__free(), also on failure. */
weir_status weir__file_read(const char *path, size_t most, const char *kind, char **data,
                            size_t *size);

/* Has `body` write a file. It is written beside, brought to the disk and put in the place of the
 * old one: whoever dies on the way, or finds the disk full, leaves the old file or the new one,
 * never a part of one. Links are followed; pipes and devices are written as they are.
 * returns  what `body` returns; WEIR_EIO with the path and the system's first reason. */
weir_status weir__file_write(const char *path, weir_status (*body)(FILE *out, const void *user),
                             const void *user);
weir_status weir__file_write_text(const char *path, const char *text);

/* returns  WEIR_EIO, as weir__file_write would, before there is anything to write. */
weir_status weir__file_check_writable(const char *path);

#endif
