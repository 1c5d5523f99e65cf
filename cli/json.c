#include "json.h"

#include <inttypes.h>
#include <math.h>

/* Returns the length of the UTF-8 sequence at `s`, 0 if it is invalid. */
static int sequence(const unsigned char *s)
{
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : (s[0] & 0xf0) == 0xe0       ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

static void quote(struct json *j, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', j->out);
    while (*s) {
        int n = sequence(s);

        if (*s == '"' || *s == '\\')
            fprintf(j->out, "\\%c", *s);
        else if (*s == '\n')
            fputs("\\n", j->out);
        else if (*s < 0x20)
            fprintf(j->out, "\\u%04x", *s);
        else if (n)
            fwrite(s, 1, (size_t)n, j->out);
        else
            fputs("\\ufffd", j->out);
        s += n ? n : 1;
    }
    fputc('"', j->out);
}

static void new_line(struct json *j)
{
    fprintf(j->out, "\n%*s", 2 * j->depth, "");
}

static void begin(struct json *j, const char *key)
{
    if (j->filled)
        fputc(',', j->out);
    if (j->depth)
        new_line(j);
    j->filled = true;
    if (key) {
        quote(j, key);
        fputs(": ", j->out);
    }
}

static void open_group(struct json *j, const char *key, char bracket)
{
    begin(j, key);
    fputc(bracket, j->out);
    j->depth++;
    j->filled = false;
}

static void close_group(struct json *j, char bracket)
{
    j->depth--;
    if (j->filled)
        new_line(j);
    fputc(bracket, j->out);
    j->filled = true;
    if (!j->depth)
        fputc('\n', j->out);
}

void json_object(struct json *j, const char *key)
{
    open_group(j, key, '{');
}

void json_object_end(struct json *j)
{
    close_group(j, '}');
}

void json_array(struct json *j, const char *key)
{
    open_group(j, key, '[');
}

void json_array_end(struct json *j)
{
    close_group(j, ']');
}

void json_string(struct json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        quote(j, value);
    else
        fputs("null", j->out);
}

void json_int(struct json *j, const char *key, int64_t value)
{
    begin(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_number(struct json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.9g", value);
    else
        fputs("null", j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
    begin(j, key);
    fputs(value ? "true" : "false", j->out);
}
