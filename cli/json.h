/* A small JSON writer. Keys are NULL inside arrays and at the top. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    bool filled; /* the innermost open object or array is not empty */
};

void json_object(struct json *j, const char *key);
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);

/* NULL becomes null; bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *j, const char *key, const char *value);
void json_int(struct json *j, const char *key, int64_t value);
/* NaN and infinity, which JSON cannot express, become null. */
void json_number(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);

#endif
