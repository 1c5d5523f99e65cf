/* A short fuzz of the loader in every test run: the corpus of tests/fuzz, mutated in a
 * way that a seed decides. What loads must dump and load again as the same text. */
#include <dirent.h>
#include <stdlib.h>

#include "graph/build/random_graph.h"
#include "graph/file/pbtxt_helpers.h"

enum { MAX_SEEDS = 64, MAX_TEXT = 1 << 16 };

struct corpus {
    char *texts[MAX_SEEDS];
    size_t sizes[MAX_SEEDS];
    int n;
};

static void add_file(struct corpus *c, const char *path)
{
    FILE *file = fopen(path, "rb");

    CHECK(file != NULL);
    CHECK_LT(c->n, MAX_SEEDS);
    CHECK((c->texts[c->n] = malloc(MAX_TEXT)) != NULL);
    c->sizes[c->n] = fread(c->texts[c->n], 1, MAX_TEXT, file);
    CHECK_GT(c->sizes[c->n], 0);
    c->n++;
    fclose(file);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_corpus(struct corpus *c)
{
    static const char path[] = PBTXT_CORPUS;
    struct dirent **entries;
    int n;

    c->n = 0;
    n = scandir(path, &entries, NULL, compare_names);
    CHECK_GT(n, 2);
    for (int i = 0; i < n; i++) {
        char file[1400];

        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            add_file(c, file);
        free(entries[i]);
    }
    free(entries);
}

static void free_corpus(struct corpus *c)
{
    while (c->n)
        free(c->texts[--c->n]);
}

/* Loads; if that works, what it dumps must be stable. */
static bool try_load(weir_device *dev, const char *text, size_t size)
{
    weir_graph *g, *again;
    weir_status st = weir_graph_load(dev, text, size, "fuzz", &g);
    char *first, *second;

    if (st) {
        CHECK(st == WEIR_EPARSE || st == WEIR_EINVAL || st == WEIR_EOOM);
        CHECK(st == WEIR_EOOM || !strncmp(weir_last_error(), "fuzz:", 5));
        return false;
    }
    CHECK((first = weir_graph_dump(g)) != NULL);
    CHECK_OK(weir_graph_load(dev, first, strlen(first), "dump", &again));
    CHECK((second = weir_graph_dump(again)) != NULL);
    CHECK_STR_EQ(second, first);
    CHECK((free(second), second = weir_graph_dot(g)) != NULL);
    free(first);
    free(second);
    weir_graph_destroy(again);
    weir_graph_destroy(g);
    return true;
}

/* ---- mutations ---- */

static size_t cut(struct rng *r, char *text, size_t size)
{
    size_t at = size ? rng_next(r) % size : 0, n = 1 + rng_next(r) % 32;

    n = n > size - at ? size - at : n;
    memmove(text + at, text + at + n, size - at - n);
    return size - n;
}

static size_t insert(char *text, size_t size, size_t at, const char *piece, size_t n)
{
    if (size + n > MAX_TEXT)
        return size;
    memmove(text + at + n, text + at, size - at);
    memcpy(text + at, piece, n);
    return size + n;
}

static size_t insert_token(struct rng *r, char *text, size_t size)
{
    static const char *const tokens[] = {
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        ":",
        "\"",
        "'",
        "\\",
        "#",
        "-1",
        "0",
        "-9223372036854775808",
        "9223372036854775807",
        "4294967296",
        "1e400",
        "nan",
        "true",
        "node { ",
        "attr { ",
        "input: \"x\" ",
        "input: \"^a\" ",
        "i: 7 ",
        "list { ",
        "s: \"i: 3\" ",
        "\\377",
        "\\x",
        ",",
    };
    const char *token = tokens[rng_below(r, (int)weir__countof(tokens))];

    return insert(text, size, rng_next(r) % (size + 1), token, strlen(token));
}

/* A piece of another text, or of this one, at a random place. */
static size_t splice(struct rng *r, char *text, size_t size, const struct corpus *c)
{
    int from = rng_below(r, c->n);
    size_t at = rng_next(r) % c->sizes[from], n = 1 + rng_next(r) % 200;

    n = n > c->sizes[from] - at ? c->sizes[from] - at : n;
    return insert(text, size, rng_next(r) % (size + 1), c->texts[from] + at, n);
}

/* Another number where one is. */
static size_t change_number(struct rng *r, char *text, size_t size)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "3",
                                          "8",
                                          "64",
                                          "2147483648",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "1e-30"};
    const char *number = numbers[rng_below(r, (int)weir__countof(numbers))];
    size_t at = size ? rng_next(r) % size : 0, n = 0;

    while (at < size && (text[at] < '0' || text[at] > '9'))
        at++;
    while (at + n < size && text[at + n] >= '0' && text[at + n] <= '9')
        n++;
    memmove(text + at, text + at + n, size - at - n);
    return insert(text, size - n, at, number, strlen(number));
}

static size_t mutate(struct rng *r, char *text, size_t size, const struct corpus *c)
{
    switch (rng_below(r, 6)) {
    case 0:
        return cut(r, text, size);
    case 1:
        return insert_token(r, text, size);
    case 2:
        return splice(r, text, size, c);
    case 3:
        if (size)
            text[rng_next(r) % size] = (char)rng_next(r);
        return size;
    default:
        return change_number(r, text, size);
    }
}

TEST(pbtxt_fuzz, the_corpus_loads)
{
    weir_device *dev = open_cpu();
    struct corpus c;

    read_corpus(&c);
    for (int i = 0; i < c.n; i++) {
        test_note("file %d: %.60s", i, c.texts[i]);
        CHECK(try_load(dev, c.texts[i], c.sizes[i]));
    }
    free_corpus(&c);
    close_cpu(dev);
}

TEST(pbtxt_fuzz, mutations_of_the_corpus)
{
    enum { ROUNDS = 60000 / (TEST_SLOWDOWN * TEST_SLOWDOWN) };
    weir_device *dev = open_cpu();
    struct corpus c;
    int loaded = 0;

    read_corpus(&c);
    for (int round = 0; round < ROUNDS; round++) {
        struct rng r = {(uint64_t)round};
        int seed = rng_below(&r, c.n), steps = 1 + rng_below(&r, 4);
        char *text = malloc(MAX_TEXT), *exact;
        size_t size = c.sizes[seed];

        CHECK(text != NULL);
        test_note("round %d", round);
        memcpy(text, c.texts[seed], size);
        while (steps--)
            size = mutate(&r, text, size, &c);
        CHECK((exact = malloc(size + 1)) != NULL); /* so that a sanitizer sees reading on */
        memcpy(exact, text, size);
        loaded += try_load(dev, exact, size);
        free(exact);
        free(text);
    }
    CHECK_GT(loaded, ROUNDS / 50); /* else it tests the first error only */
    free_corpus(&c);
    close_cpu(dev);
}
