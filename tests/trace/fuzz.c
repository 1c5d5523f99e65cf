/* Damaged traces and profiles: every outcome but a crash is fine. tests/fuzz does the same
 * for as long as one likes, and what it found is in its corpus. */
#include "helpers.h"

#include <dirent.h>

static const char *const words[] = {"null", "-1",  "1e18", "\"x\"", "{",           "]", ",",
                                    "[[[",  "0.5", "\\u",  ":",     "99999999999", "\""};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Changes bytes, cuts the end off. returns  how many bytes are left. */
static size_t damage(char *text, size_t n, int changes, uint64_t *random)
{
    for (int i = 0; i < changes; i++) {
        const char *word = words[next_random(random) % (sizeof words / sizeof *words)];
        size_t at = next_random(random) % n;

        switch (next_random(random) % 4) {
        case 0:
            text[at] = (char)next_random(random);
            break;
        case 1:
            memcpy(text + at, word, n - at < strlen(word) ? n - at : strlen(word));
            break;
        case 2:
            n = at < 32 ? n : at;
            break;
        default:
            text[at] = (char)('0' + next_random(random) % 10);
        }
    }
    return n;
}

/* What loads can be summed up and written in every form. */
static void use(const weir_trace *t)
{
    weir_trace_summary sum;
    weir_trace_data d;

    weir_trace_get(t, &d, sizeof d);
    for (size_t i = 0; i < d.nops; i++)
        CHECK_LT(d.ops[i].stream, d.nstreams);
    CHECK_OK(weir_trace_summarise(t, &sum, sizeof sum));
    CHECK_OK(weir_trace_write_chrome(t, "/dev/null"));
    for (uint32_t i = 0; i < d.ndevices; i++)
        CHECK_OK(weir_trace_write_graph(t, i, "/dev/null"));
}

static int damage_file(const char *path, int rounds)
{
    uint64_t random = 12345;
    int loaded = 0;
    size_t size;
    char *good = read_file(path, &size), *copy;

    /* No byte behind the end: a sanitizer sees who looks there. */
    for (int round = 0; round < rounds; round++) {
        weir_trace *t;
        size_t n;

        CHECK((copy = malloc(size)));
        memcpy(copy, good, size);
        n = damage(copy, size, 1 + round % 4, &random);
        CHECK((copy = realloc(copy, n)));
        if (!weir_trace_parse(copy, n, "damaged", &t)) {
            use(t);
            loaded++;
        }
        weir_trace_free(t);
        free(copy);
    }
    free(good);
    return loaded;
}

TEST(trace_fuzz, damaged_files_are_read_or_refused)
{
    DIR *dir = opendir(TRACE_CORPUS);
    const struct dirent *entry;
    int files = 0, loaded = 0;

    CHECK(dir);
    while ((entry = readdir(dir)))
        if (strstr(entry->d_name, ".json")) {
            char path[512];

            snprintf(path, sizeof path, "%s/%s", TRACE_CORPUS, entry->d_name);
            test_note("%s", path);
            loaded += damage_file(path, 400 / TEST_SLOWDOWN);
            files++;
        }
    closedir(dir);
    CHECK_GE(files, 3);
    CHECK_GT(loaded, files);
}
