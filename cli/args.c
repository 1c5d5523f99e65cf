/* Parses the arguments of every command. */
#include "commands.h"
#include "complete.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_WORD = 32 };

/* ---- help ---- */

/* `-o` is short for `--out`, in every command that has it. */
static const char *short_name(const struct cli_option *o)
{
    return !strcmp(o->name, "--out") ? "-o" : "";
}

static int width_of(const struct cli_option *o)
{
    return (int)((*short_name(o) ? strlen("-o, ") : 0) + strlen(o->name) +
                 (o->value_name ? 1 + strlen(o->value_name) : 0));
}

/* Prints a text of several lines. The first starts at the current position, which is `column`; the
 * others are indented to it. */
static void print_lines(const char *text, int column)
{
    for (size_t n; text[n = strcspn(text, "\n")]; text += n + 1)
        printf("%.*s\n%*s", (int)n, text, column, "");
    puts(text);
}

static void print_help(const struct cli_usage *u)
{
    static const char help[] = "--help";
    int width = (int)strlen(help);

    for (const struct cli_option *o = u->options; o->name; o++)
        width = width_of(o) > width ? width_of(o) : width;
    printf("usage: weir %s %s\n\n%s\n\noptions\n", u->command, u->synopsis, u->about);
    for (const struct cli_option *o = u->options; o->name; o++) {
        printf("  %s%s%s%s%s%*s  ", short_name(o), *short_name(o) ? ", " : "", o->name,
               o->value_name ? " " : "", o->value_name ? o->value_name : "", width - width_of(o),
               "");
        print_lines(o->help, width + 4);
    }
    printf("  %-*s  %s\n\nexamples\n%s", width, help, "this text", u->examples);
}

/* ---- suggestions for misspelled names ---- */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The edit distance from a to b, ignoring case: insertions, deletions, replacements and swaps of
 * neighbours. */
static int distance(const char *a, const char *b)
{
    int d[MAX_WORD + 1][MAX_WORD + 1];
    int n = (int)strlen(a), m = (int)strlen(b);

    if (n > MAX_WORD || m > MAX_WORD)
        return MAX_WORD;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            int best;

            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            best = d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]) && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *cli_closest(const char *word, const char *(*name_at)(size_t i, const void *names),
                        const void *names)
{
    const char *closest = NULL, *name;
    int best = MAX_WORD;

    for (size_t i = 0; (name = name_at(i, names)); i++) {
        int far = distance(word, name);

        /* A prefix of a name counts as an exact match. */
        if (strlen(word) >= 2 && !strncasecmp(word, name, strlen(word)))
            far = 0;
        if (far < best) {
            best = far;
            closest = name;
        }
    }
    return best <= 2 && closest && (size_t)best * 2 <= strlen(closest) ? closest : NULL;
}

/* ---- parsing ---- */

static const char *option_name_at(size_t i, const void *names)
{
    return ((const struct cli_option *)names)[i].name;
}

static int refuse_option(const struct cli_usage *u, const char *word)
{
    const char *meant = cli_closest(word, option_name_at, u->options);

    fprintf(stderr, "weir %s: there is no option %s", u->command, word);
    if (meant)
        fprintf(stderr, "; did you mean %s?", meant);
    fprintf(stderr, "\ntry: weir %s --help\n", u->command);
    return EXIT_USAGE;
}

/* `value` is the text after '=' in the word, or NULL. Advances *at past a value in the next
 * word. */
static int take_option(const struct cli_usage *u, const struct cli_option *o, const char *value,
                       int argc, char **argv, int *at)
{
    if (!o->value) {
        if (value) {
            fprintf(stderr, "weir %s: %s takes no value, not '%s'\n", u->command, o->name, value);
            return EXIT_USAGE;
        }
        *o->flag = true;
        return -1;
    }
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    if (!value) {
        fprintf(stderr, "weir %s: %s needs a value: %s\n", u->command, o->name, o->value_name);
        return EXIT_USAGE;
    }
    *o->value = value;
    return -1;
}

static bool is_name(const char *name, const char *word, size_t length)
{
    return length && strlen(name) == length && !strncmp(name, word, length);
}

static int parse_option(const struct cli_usage *u, int argc, char **argv, int *at)
{
    char *word = argv[*at], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);

    for (const struct cli_option *o = u->options; o->name; o++)
        if (is_name(o->name, word, length) || is_name(short_name(o), word, length))
            return take_option(u, o, equals ? equals + 1 : NULL, argc, argv, at);
    if (equals)
        *equals = '\0';
    return refuse_option(u, word);
}

static bool takes_files(const struct cli_usage *u)
{
    return u->words && !strcmp(u->words, "FILE");
}

int cli_parse(const struct cli_usage *u, int argc, char **argv, int *nwords)
{
    static char standard_input[] = CLI_STANDARD_INPUT;
    bool only_words = false;
    int status;

    *nwords = 0;
    if (cli_completing)
        return cli_complete(u, argc, argv);
    for (int i = 1; i < argc; i++) {
        if (only_words || argv[i][0] != '-' || !argv[i][1]) {
            if (*nwords == u->max_words) {
                fprintf(stderr, "weir %s: '%s' is one argument too many\ntry: weir %s --help\n",
                        u->command, argv[i], u->command);
                return EXIT_USAGE;
            }
            argv[++*nwords] = argv[i];
            if (!only_words && !strcmp(argv[i], "-") && takes_files(u)) {
                if ((status = cli_keep_input(u->command)) >= 0)
                    return status;
                argv[*nwords] = standard_input;
            }
        } else if (!strcmp(argv[i], "--")) {
            only_words = true;
        } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help(u);
            return EXIT_FINE;
        } else if ((status = parse_option(u, argc, argv, &i)) >= 0) {
            return status;
        }
    }
    return -1;
}

int cli_complain(const char *command, weir_status status)
{
    const char *sentence = weir_last_error();

    fprintf(stderr, "weir %s: %s\n", command, *sentence ? sentence : weir_status_text(status));
    return status == WEIR_ESPEC ? EXIT_USAGE : EXIT_FAILED;
}
