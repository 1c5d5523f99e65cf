/* String literals and their escapes. */
#include "graph/file/pbtxt_read.h"

#include <string.h>

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* Reads at least one and at most `max` digits of `base`. */
static bool read_digits(const char **p, const char *end, int base, int max, uint32_t *value)
{
    int n = 0;

    for (*value = 0; n < max && *p < end && digit_value(**p) < base; n++)
        *value = *value * (uint32_t)base + (uint32_t)digit_value(*(*p)++);
    return n > 0;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* Decodes the escape behind a backslash at *p. Every escape is at least as long as its bytes. */
static bool read_escape(const char **p, const char *end, char **out)
{
    static const char names[] = "abfnrtv?\\'\"", bytes[] = "\a\b\f\n\r\t\v?\\'\"";
    char c = **p;
    const char *simple = c ? strchr(names, c) : NULL;
    uint32_t value;

    if (simple) {
        ++*p;
        *(*out)++ = bytes[simple - names];
        return true;
    }
    if (c >= '0' && c <= '7') {
        if (!read_digits(p, end, 8, 3, &value) || value > 255)
            return false;
        *(*out)++ = (char)value;
        return true;
    }
    ++*p;
    if (c == 'x' || c == 'X') {
        if (!read_digits(p, end, 16, 2, &value))
            return false;
        *(*out)++ = (char)value;
        return true;
    }
    if (c != 'u' && c != 'U')
        return false;
    const char *digits = *p;
    if (!read_digits(p, end, 16, c == 'u' ? 4 : 8, &value) || *p - digits != (c == 'u' ? 4 : 8) ||
        value > 0x10ffff)
        return false;
    *out = put_utf8(*out, value);
    return true;
}

weir_status weir__pb_unquote(const struct weir__pb_text *text, const struct weir__pb_event *e,
                             char *out, size_t *size)
{
    const char *p = e->raw, *end = e->raw + e->raw_size;
    char *begin = out, quote = 0;

    while (p < end) {
        const char *at = p;
        char c = *p++;

        if (!quote) { /* between literals: quotes, space and comments */
            if (c == '"' || c == '\'')
                quote = c;
            else if (c == '#')
                while (p < end && *p != '\n')
                    p++;
        } else if (c == quote) {
            quote = 0;
        } else if (c != '\\') {
            *out++ = c;
        } else if (!read_escape(&p, end, &out)) {
            return weir__pb_fail(text, WEIR_EPARSE, (size_t)(at - text->data),
                                 "unknown escape '%s'",
                                 weir__pb_make_excerpt(at, (size_t)(p - at)).text);
        }
    }
    *size = (size_t)(out - begin);
    return WEIR_OK;
}
