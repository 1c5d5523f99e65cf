/* Device specs: "name", "name:key=value,flag,key=value". */
#ifndef WEIR_DEVICE_SPEC_H
#define WEIR_DEVICE_SPEC_H

#include "base/base.h"

struct weir__spec {
    char text[256];    /* as written */
    char storage[256]; /* cut into strings that the other fields point to */
    const char *driver;
    int n;
    struct {
        const char *key;
        const char *value; /* NULL for a bare word */
        bool used;
    } options[16];
};

/* returns  WEIR_ESPEC naming the part that is malformed. */
weir_status weir__spec_parse(const char *text, struct weir__spec *out);

/* Each looks an option up and marks it as known. If the option is absent, *out is not changed.
 * returns  WEIR_ESPEC naming the option, its value and the values that it accepts. */
weir_status weir__spec_int(struct weir__spec *spec, const char *key, int64_t min, int64_t max,
                           int64_t *out);
/* Bytes, with k, m, g or t behind the number. */
weir_status weir__spec_bytes(struct weir__spec *spec, const char *key, size_t *out);
weir_status weir__spec_bool(struct weir__spec *spec, const char *key, bool *out);

/* Returns the option's value; NULL if the option is absent. */
const char *weir__spec_text(struct weir__spec *spec, const char *key);
/* If the first option is a bare word, marks it as known and returns it; else NULL. */
const char *weir__spec_word(struct weir__spec *spec);

/* returns  WEIR_ESPEC if an option was never looked up; `known` lists the valid options. */
weir_status weir__spec_finish(const struct weir__spec *spec, const char *known);

#endif
