#include "trace/read/json_read.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

void weir__json_init(struct weir__json *j, const char *path, const char *text, size_t size)
{
    *j = (struct weir__json){.path = path, .start = text, .at = text, .end = text + size};
}

void weir__json_fini(struct weir__json *j)
{
    weir__free(j->text);
}

void weir__json_fail(struct weir__json *j, weir_status status, const char *what)
{
    size_t line = 1, column = 1;

    if (j->bad)
        return;
    j->bad = true;
    for (const char *p = j->start; p < j->at; p++, column++)
        if (*p == '\n') {
            line++;
            column = 0;
        }
    weir__fail(status, "%s:%zu:%zu: %s", j->path, line, column, what);
}

static void skip_blanks(struct weir__json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
        j->at++;
}

/* Returns the next character that is no blank; 0 at the end or after an error. */
static char look(struct weir__json *j)
{
    skip_blanks(j);
    return j->bad || j->at == j->end ? 0 : *j->at;
}

enum weir__json_kind weir__json_peek(struct weir__json *j)
{
    char c = look(j);

    return c == '{'                             ? WEIR__JSON_OBJECT
           : c == '['                           ? WEIR__JSON_ARRAY
           : c == '"'                           ? WEIR__JSON_STRING
           : c == '-' || (c >= '0' && c <= '9') ? WEIR__JSON_NUMBER
           : c == 't' || c == 'f' || c == 'n'   ? WEIR__JSON_WORD
                                                : WEIR__JSON_NONE;
}

/* ---- groups ---- */

static bool enter(struct weir__json *j, char bracket, const char *wanted)
{
    if (look(j) != bracket) {
        weir__json_fail(j, WEIR_EPARSE, wanted);
        return false;
    }
    if (++j->depth > MAX_DEPTH) {
        weir__json_fail(j, WEIR_EPARSE, "groups are nested more than 64 deep");
        return false;
    }
    j->at++;
    j->first = true;
    return true;
}

/* Moves to the next member; consumes the closing bracket and returns false at the end. */
static bool another(struct weir__json *j, char bracket)
{
    char c = look(j);

    if (c == bracket) {
        j->at++;
        j->depth--;
        j->first = false;
        return false;
    }
    if (!j->first) {
        if (c != ',') {
            weir__json_fail(j, WEIR_EPARSE,
                            bracket == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
            return false;
        }
        j->at++;
        /* A profiler that was killed leaves a comma at the end of the list. */
        if (look(j) == bracket)
            return another(j, bracket);
    }
    j->first = false;
    return !j->bad;
}

bool weir__json_object(struct weir__json *j)
{
    return enter(j, '{', "expected an object");
}

bool weir__json_array(struct weir__json *j)
{
    return enter(j, '[', "expected an array");
}

bool weir__json_item(struct weir__json *j)
{
    return another(j, ']');
}

bool weir__json_key(struct weir__json *j, char *key, size_t size)
{
    const char *text;
    size_t length;

    if (!another(j, '}') || !(text = weir__json_string(j)))
        return false;
    length = strlen(text);
    length = length < size ? length : size - 1;
    memcpy(key, text, length);
    key[length] = '\0';
    if (look(j) != ':') {
        weir__json_fail(j, WEIR_EPARSE, "expected ':'");
        return false;
    }
    j->at++;
    return true;
}

/* ---- values ---- */

static bool reserve(struct weir__json *j, size_t size)
{
    char *text;
    size_t cap = 2 * size + 64;

    if (size < j->cap)
        return true;
    if (!(text = weir__malloc(cap))) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading a long string");
        return false;
    }
    weir__free(j->text);
    j->text = text;
    j->cap = cap;
    return true;
}

static int hex4(const char *s, const char *end)
{
    int value = 0;

    if (end - s < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0 | code >> 12);
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

/* Decodes the escape at `s`, after the backslash. Returns its end, or NULL. A zero, which would end
 * the text, and an unpaired surrogate become U+FFFD. */
static const char *unescape(const char *s, const char *end, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *known = s < end && *s ? strchr(from, *s) : NULL;
    int code, low;

    if (known) {
        *(*to)++ = into[known - from];
        return s + 1;
    }
    if (s == end || *s != 'u' || (code = hex4(++s, end)) < 0)
        return NULL;
    s += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - s >= 6 && s[0] == '\\' && s[1] == 'u' &&
        (low = hex4(s + 2, end)) >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        s += 6;
    }
    *to = put_utf8(*to, !code || (code >= 0xd800 && code < 0xe000) ? 0xfffd : (unsigned)code);
    return s;
}

const char *weir__json_string(struct weir__json *j)
{
    const char *s, *close;
    char *to;

    if (look(j) != '"') {
        weir__json_fail(j, WEIR_EPARSE, "expected a string");
        return NULL;
    }
    for (close = j->at + 1; close < j->end && *close != '"'; close++)
        if (*close == '\\' && close + 1 < j->end)
            close++;
    if (close >= j->end) {
        weir__json_fail(j, WEIR_EPARSE, "the string has no end");
        return NULL;
    }
    if (!reserve(j, (size_t)(close - j->at))) /* an escape is never shorter than its result */
        return NULL;
    to = j->text;
    for (s = j->at + 1; s < close;) {
        if (*s != '\\') {
            *to++ = *s ? *s : ' ';
            s++;
        } else if (!(s = unescape(s + 1, close, &to))) {
            weir__json_fail(j, WEIR_EPARSE, "the string has an unknown escape");
            return NULL;
        }
    }
    *to = '\0';
    j->at = close + 1;
    return j->text;
}

static const char *digits(const char *s, const char *end, long double *value, int *count)
{
    for (; s < end && *s >= '0' && *s <= '9'; s++, ++*count)
        *value = *value * 10 + (*s - '0');
    return s;
}

/* Does not use strtod, which depends on the locale. */
long double weir__json_number(struct weir__json *j)
{
    long double value = 0, power = 0;
    bool negative = look(j) == '-', small = false;
    const char *s = j->at + negative;
    int whole = 0, fraction = 0, exponent = 0;

    if (weir__json_peek(j) != WEIR__JSON_NUMBER) {
        weir__json_fail(j, WEIR_EPARSE, "expected a number");
        return 0;
    }
    s = digits(s, j->end, &value, &whole);
    if (s < j->end && *s == '.')
        s = digits(s + 1, j->end, &value, &fraction);
    if (whole && s < j->end && (*s == 'e' || *s == 'E')) {
        s++;
        if (s < j->end && (*s == '+' || *s == '-'))
            small = *s++ == '-';
        s = digits(s, j->end, &power, &exponent);
        whole = exponent ? whole : 0;
    }
    if (!whole || power > 4000) {
        weir__json_fail(j, WEIR_EPARSE, "the number is malformed");
        return 0;
    }
    j->at = s;
    value *= powl(10, (small ? -power : power) - fraction);
    return negative ? -value : value;
}

bool weir__json_bool(struct weir__json *j)
{
    static const char *const words[] = {"false", "null", "true"};

    look(j);
    for (size_t i = 0; i < weir__countof(words) && !j->bad; i++) {
        size_t size = strlen(words[i]);

        if ((size_t)(j->end - j->at) >= size && !memcmp(j->at, words[i], size)) {
            j->at += size;
            return i == 2;
        }
    }
    weir__json_fail(j, WEIR_EPARSE, "expected true, false or null");
    return false;
}

void weir__json_skip(struct weir__json *j)
{
    char key[2];

    switch (weir__json_peek(j)) {
    case WEIR__JSON_OBJECT:
        for (weir__json_object(j); weir__json_key(j, key, sizeof key);)
            weir__json_skip(j);
        return;
    case WEIR__JSON_ARRAY:
        for (weir__json_array(j); weir__json_item(j);)
            weir__json_skip(j);
        return;
    case WEIR__JSON_STRING:
        weir__json_string(j);
        return;
    case WEIR__JSON_NUMBER:
        weir__json_number(j);
        return;
    case WEIR__JSON_WORD:
        weir__json_bool(j);
        return;
    case WEIR__JSON_NONE:
        weir__json_fail(j, WEIR_EPARSE, "expected a value");
    }
}

void weir__json_end(struct weir__json *j)
{
    if (look(j))
        weir__json_fail(j, WEIR_EPARSE, "the text goes on after the end of the JSON value");
}
