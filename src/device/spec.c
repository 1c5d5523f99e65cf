#include "device/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weir_status weir__spec_parse(const char *text, struct weir__spec *out)
{
    char *at;

    memset(out, 0, sizeof *out);
    if (strlen(text) >= sizeof out->text)
        return weir__fail(WEIR_ESPEC, "device spec is longer than %zu characters",
                          sizeof out->text - 1);
    strcpy(out->text, text);
    strcpy(out->storage, text);
    out->driver = out->storage;
    at = strchr(out->storage, ':');
    if (at)
        *at++ = 0;
    if (!*out->driver)
        return weir__fail(WEIR_ESPEC, "device spec '%s' does not begin with a device name", text);
    if (at && !*at)
        return weir__fail(WEIR_ESPEC, "device spec '%s' ends after ':' without an option", text);
    while (at) {
        char *next = strchr(at, ','), *value;

        if (next)
            *next++ = 0;
        if (out->n == (int)weir__countof(out->options))
            return weir__fail(WEIR_ESPEC, "device spec '%s' has more than %d options", text,
                              out->n);
        value = strchr(at, '=');
        if (value)
            *value++ = 0;
        if (!*at || (value && !*value))
            return weir__fail(WEIR_ESPEC, "device spec '%s' has an option without a %s", text,
                              *at ? "value" : "name");
        for (int i = 0; i < out->n; i++)
            if (!strcmp(out->options[i].key, at))
                return weir__fail(WEIR_ESPEC, "device spec '%s' names option '%s' twice", text, at);
        out->options[out->n].key = at;
        out->options[out->n++].value = value;
        at = next;
    }
    return WEIR_OK;
}

/* The option's value, "" for a bare word, NULL if it is absent. */
static const char *find(struct weir__spec *spec, const char *key)
{
    for (int i = 0; i < spec->n; i++)
        if (!strcmp(spec->options[i].key, key)) {
            spec->options[i].used = true;
            return spec->options[i].value ? spec->options[i].value : "";
        }
    return NULL;
}

weir_status weir__spec_int(struct weir__spec *spec, const char *key, int64_t min, int64_t max,
                           int64_t *out)
{
    const char *value = find(spec, key);
    char *end;
    long long n;

    if (!value)
        return WEIR_OK;
    errno = 0;
    n = strtoll(value, &end, 10);
    if (errno || end == value || *end || n < min || n > max)
        return weir__fail(WEIR_ESPEC, "device spec '%s': %s=%s is not a whole number in %lld..%lld",
                          spec->text, key, value, (long long)min, (long long)max);
    *out = n;
    return WEIR_OK;
}

weir_status weir__spec_bytes(struct weir__spec *spec, const char *key, size_t *out)
{
    static const char units[] = "kmgt";
    const char *value = find(spec, key), *unit;
    char *end;
    unsigned long long n;
    int shift = 0;

    if (!value)
        return WEIR_OK;
    errno = 0;
    n = strtoull(value, &end, 10);
    if (*end && (unit = strchr(units, *end | 0x20))) {
        shift = 10 * (int)(unit - units + 1);
        end++;
    }
    if (errno || end == value || *end || *value == '-' || !n || n > SIZE_MAX >> shift)
        return weir__fail(WEIR_ESPEC,
                          "device spec '%s': %s=%s is not a size such as 4096, 512m or 2g",
                          spec->text, key, value);
    *out = (size_t)n << shift;
    return WEIR_OK;
}

weir_status weir__spec_bool(struct weir__spec *spec, const char *key, bool *out)
{
    const char *value = find(spec, key);

    if (!value)
        return WEIR_OK;
    if (!*value || !strcmp(value, "1") || !strcmp(value, "on"))
        *out = true;
    else if (!strcmp(value, "0") || !strcmp(value, "off"))
        *out = false;
    else
        return weir__fail(WEIR_ESPEC, "device spec '%s': %s=%s is not one of 0, 1, off, on",
                          spec->text, key, value);
    return WEIR_OK;
}

weir_status weir__spec_finish(const struct weir__spec *spec, const char *known)
{
    for (int i = 0; i < spec->n; i++)
        if (!spec->options[i].used)
            return weir__fail(WEIR_ESPEC, "device spec '%s': unknown option '%s'; %s takes %s",
                              spec->text, spec->options[i].key, spec->driver, known);
    return WEIR_OK;
}

const char *weir__spec_text(struct weir__spec *spec, const char *key)
{
    return find(spec, key);
}

const char *weir__spec_word(struct weir__spec *spec)
{
    if (!spec->n || spec->options[0].value)
        return NULL;
    spec->options[0].used = true;
    return spec->options[0].key;
}
