/* Short names of C++ kernels:
 *
 *     void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
 *         std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, ...)
 *
 * becomes vectorized_elementwise_kernel<CUDAFunctor_add>: the function without its return type,
 * namespaces and parameters, and with the one template argument that says what it computes.
 * void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn>(...) becomes its argument,
 * since that library calls every product "Kernel".
 * src/trace/write/page/model.js implements the same rules for the page. */
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

/* Returns the end of the function's own name, where its template arguments or parameters begin.
 * Parentheses of a namespace, as in "(anonymous namespace)::f", belong to the name. */
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

/* Returns the last word before `end`: the name without return type and namespaces. */
static struct piece last_word(const char *name, size_t end)
{
    size_t from = end;

    while (from && is_word(name[from - 1]))
        from--;
    return (struct piece){name + from, end - from};
}

/* True for names such as "Kernel" and "kernel2", which do not say what the kernel computes. */
static bool is_any_kernel(struct piece word)
{
    return word.size >= 6 && !strncasecmp(word.at, "kernel", 6) &&
           (word.size == 6 || (word.size == 7 && isdigit((unsigned char)word.at[6])));
}

static struct piece first_word(const char *arguments)
{
    struct piece word = {arguments, 0};

    while (*word.at && !is_word(*word.at))
        word.at++;
    while (is_word(word.at[word.size]))
        word.size++;
    return word;
}

static bool begins_with_a_name(const char *arguments)
{
    struct piece word = first_word(arguments);

    return *arguments == '<' && word.size && !isdigit((unsigned char)*word.at);
}

/* Returns the template argument that says most: a functor, else the first with a namespace. */
static struct piece telling_argument(const char *arguments)
{
    struct piece first = {NULL, 0};

    for (const char *at = arguments; *at;) {
        struct piece word = {at, 0};

        while (is_word(at[word.size]))
            word.size++;
        if (!word.size) {
            if (*at == '(') /* the parameters begin: no more template arguments */
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

static bool is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Cuts the text to at most `most` bytes, at boundaries of characters. Removes the middle, because
 * names of one library's kernels start alike and differ at their ends. */
static void cut(char *text, size_t most)
{
    static const char dots[] = "...";
    size_t size = strlen(text), head = most / 2, tail;

    if (size <= most)
        return;
    tail = size - (most - head - (sizeof dots - 1));
    while (head && is_inside_character(text[head]))
        head--;
    while (is_inside_character(text[tail]))
        tail++;
    memcpy(text + head, dots, sizeof dots - 1);
    memmove(text + head + sizeof dots - 1, text + tail, size - tail + 1);
}

struct weir__short_name weir__plain_name(const char *name)
{
    struct weir__short_name out;
    size_t used = 0, end;
    struct piece word, argument = {NULL, 0};

    if (!strstr(name, "::") && !(strchr(name, '<') && strchr(name, '>'))) {
        used = append(out.text, sizeof out.text, 0, name, strlen(name));
    } else {
        end = end_of_name(name);
        word = last_word(name, end);
        if (is_any_kernel(word) && begins_with_a_name(name + end))
            word = first_word(name + end);
        else if (name[end] == '<')
            argument = telling_argument(name + end);
        if (!word.size)
            word = (struct piece){name, strlen(name)}; /* no function's name: keep all of it */
        used = append(out.text, sizeof out.text, 0, word.at, word.size);
        if (argument.size && word.at != name) {
            used = append(out.text, sizeof out.text, used, "<", 1);
            used = append(out.text, sizeof out.text, used, argument.at, argument.size);
            used = append(out.text, sizeof out.text, used, ">", 1);
        }
    }
    out.text[used] = '\0';
    return out;
}

struct weir__short_name weir__cut_name(const char *name)
{
    struct weir__short_name out;

    out.text[append(out.text, sizeof out.text, 0, name, strlen(name))] = '\0';
    cut(out.text, WEIR__SHORT_NAME);
    return out;
}

struct weir__short_name weir__shorten_name(const char *name)
{
    return weir__cut_name(weir__plain_name(name).text);
}
