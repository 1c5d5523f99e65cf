/* Writing files: JSON pieces, and one place where output errors are met. */
#ifndef WEIR_TRACE_WRITE_OUT_H
#define WEIR_TRACE_WRITE_OUT_H

#include <stdio.h>

#include "weir/trace.h"

/* Opens the file for writing, has `body` fill it, and closes it. A file that could not be
 * written whole is removed.
 * returns  what `body` returns; WEIR_EIO with the path and the system's reason. */
weir_status weir__trace_write_file(const char *path,
                                   weir_status (*body)(FILE *out, const void *user),
                                   const void *user);

/* A quoted JSON string that is also safe inside a <script> element; bytes that are not
 * UTF-8 become U+FFFD. */
void weir__json_quote(FILE *out, const char *text);
/* Nanoseconds as microseconds, without loss. */
void weir__json_us(FILE *out, int64_t ns);

#endif
