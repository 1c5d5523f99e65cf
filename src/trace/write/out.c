#include "trace/write/out.h"

#include <inttypes.h>

/* Returns the length of the UTF-8 sequence at `s`, 0 if it is invalid. */
static int sequence(const unsigned char *s)
{
    unsigned code;
    int n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 4;

    if (n == 1)
        return 1;
    if ((s[0] & 0xc0) == 0x80 || s[0] > 0xf4)
        return 0;
    code = s[0] & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < (n == 2   ? 0x80u
                   : n == 3 ? 0x800u
                            : 0x10000u) ||
                   code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
               ? 0
               : n;
}

void weir__json_quote(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', out);
    while (*s) {
        int n = sequence(s);

        if (!n)
            fputs("\xef\xbf\xbd", out);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s == '<' || *s == 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}

void weir__json_us(FILE *out, int64_t ns)
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

    fprintf(out, "%s%" PRIu64, ns < 0 ? "-" : "", size / 1000);
    if (size % 1000)
        fprintf(out, ".%03u", (unsigned)(size % 1000));
}
