/* Helpers for writing JSON. */
#ifndef WEIR_TRACE_WRITE_OUT_H
#define WEIR_TRACE_WRITE_OUT_H

#include <stdio.h>

#include "base/file.h"
#include "weir/trace.h"

/* Writes a quoted JSON string that is also safe inside a <script> element. Bytes that are not UTF-8
 * become U+FFFD. */
void weir__json_quote(FILE *out, const char *text);
/* Writes nanoseconds as microseconds, without loss. */
void weir__json_us(FILE *out, int64_t ns);

/* Writes the text of weir_trace_write_chrome; `trace` is a weir_trace. */
weir_status weir__trace_chrome(FILE *out, const void *trace);

#endif
