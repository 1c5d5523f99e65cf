/* Names of C++ kernels as people say them:
 *
 *     void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
 *         std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, ...)
 *
 * is vectorized_elementwise_kernel<CUDAFunctor_add>: the function without its return type,
 * namespaces and parameters, and of its template arguments the one that says what it computes.
 * src/trace/write/page/model.js has the same rules for the page. */
#include "trace/record/kernel_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

struct piece {
    const char *at;
    size_t size;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The end of the function's own name: where its template arguments or parameters begin. What
 * stands in brackets of a namespace, as in "(anonymous namespace)::f", belongs to the name. */
static size_t end_of_name(const char *name)
{
    size_t i = 0;

    while (name[i] && name[i] != '<') {
        if (name[i] == '(') {
            size_t close = strcspn(name + i, ")");

            if (!name[i + close] || name[i + close + 1] != ':')
                return i;
            i += close;
        }
        i++;
    }
    return i;
}

/* The last word before `end`: without return type and namespaces. */
static struct piece last_word(const char *name, size_t end)
{
    size_t from = end;

    while (from && is_word(name[from - 1]))
        from--;
    return (struct piece){name + from, end - from};
}

/* A functor if there is one, else the first argument with a namespace. */
static struct piece telling_argument(const char *arguments)
{
    struct piece first = {NULL, 0};

    for (const char *at = arguments; *at;) {
        struct piece word = {at, 0};

        while (is_word(at[word.size]))
            word.size++;
        if (!word.size) {
            if (*at == '(') /* parameters: no arguments of the template */
                break;
            at++;
            continue;
        }
        at += word.size;
        for (size_t i = 0; i + 7 <= word.size; i++)
            if (!strncasecmp(word.at + i, "functor", 7))
                return word;
        if (!first.at && word.at > arguments && word.at[-1] == ':' && *at != ':')
            first = word;
    }
    return first;
}

static size_t append(char *out, size_t size, size_t used, const char *text, size_t n)
{
    if (n > size - 1 - used)
        n = size - 1 - used;
    memcpy(out + used, text, n);
    return used + n;
}

/* At most `most` characters, and never half of one. */
static void cut(char *text, size_t most)
{
    static const char dots[] = "...";

    if (strlen(text) <= most)
        return;
    most -= sizeof dots - 1;
    while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    memcpy(text + most, dots, sizeof dots);
}

struct weir__short_name weir__shorten_name(const char *name)
{
    struct weir__short_name out;
    size_t used = 0, end;
    struct piece word, argument = {NULL, 0};

    if (!strstr(name, "::") && !(strchr(name, '<') && strchr(name, '>'))) {
        used = append(out.text, sizeof out.text, 0, name, strlen(name));
    } else {
        end = end_of_name(name);
        word = last_word(name, end);
        if (name[end] == '<')
            argument = telling_argument(name + end);
        if (!word.size)
            word = (struct piece){name, strlen(name)}; /* no function's name after all */
        used = append(out.text, sizeof out.text, 0, word.at, word.size);
        if (argument.size && word.at != name) {
            used = append(out.text, sizeof out.text, used, "<", 1);
            used = append(out.text, sizeof out.text, used, argument.at, argument.size);
            used = append(out.text, sizeof out.text, used, ">", 1);
        }
    }
    out.text[used] = '\0';
    cut(out.text, WEIR__SHORT_NAME);
    return out;
}
