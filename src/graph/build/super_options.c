/* The options of a super kernel, as a scope or a file gives them: key=value:key=value. */
#include "graph/build/graph.h"

#include <string.h>

static bool is_count(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return size > 0 && size < 5;
}

static bool is_one_of(const char *text, size_t size, const char *a, const char *b)
{
    return (strlen(a) == size && !memcmp(a, text, size)) ||
           (strlen(b) == size && !memcmp(b, text, size));
}

static weir_status check_option(const char *key, size_t key_size, const char *value, size_t size)
{
    static const struct {
        const char *key, *a, *b; /* a is NULL: the value is a count */
    } known[] = {
        {"stream-fusion", "0", "1"},   {"strict-scope-check", "bypass", "abort"},
        {"feed-sync-all", "0", "1"},   {"debug-aic-num", NULL, NULL},
        {"debug-aiv-num", NULL, NULL},
    };

    for (size_t i = 0; i < weir__countof(known); i++) {
        if (strlen(known[i].key) != key_size || memcmp(known[i].key, key, key_size))
            continue;
        if (known[i].a ? is_one_of(value, size, known[i].a, known[i].b) : is_count(value, size))
            return WEIR_OK;
        return weir__fail(WEIR_EINVAL, "super kernel option %s=%.*s: expected %s%s%s", known[i].key,
                          (int)size, value, known[i].a ? known[i].a : "a count",
                          known[i].a ? " or " : "", known[i].a ? known[i].b : "");
    }
    return weir__fail(WEIR_EINVAL,
                      "unknown super kernel option '%.*s'; there is stream-fusion, "
                      "strict-scope-check, feed-sync-all, debug-aic-num, debug-aiv-num",
                      (int)key_size, key);
}

weir_status weir__super_options_check(const char *options)
{
    weir_status st;

    if (strlen(options) > WEIR__SUPER_OPTIONS_MAX)
        return weir__fail(WEIR_EINVAL, "super kernel options have at most %d characters",
                          WEIR__SUPER_OPTIONS_MAX);
    for (const char *at = options; *at;) {
        size_t size = strcspn(at, ":");
        const char *equals = memchr(at, '=', size);

        if (!equals)
            return weir__fail(WEIR_EINVAL, "super kernel option '%.*s' is not key=value", (int)size,
                              at);
        if ((st = check_option(at, (size_t)(equals - at), equals + 1,
                               size - (size_t)(equals - at) - 1)))
            return st;
        at += size + (at[size] == ':');
    }
    return WEIR_OK;
}
