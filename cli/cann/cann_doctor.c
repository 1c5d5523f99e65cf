/* `weir cann doctor` and `weir cann ops`: list functions and operators by reading the libraries'
 * files. */
#include "cann.h"
#include "cann/elf_names.h"
#include "commands.h"
#include "json.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A set of names, sorted once it is full. */
struct names {
    char **name;
    size_t n, room;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_add(struct names *s, const char *name)
{
    char *copy;

    if (s->n == s->room) {
        size_t more = s->room ? 2 * s->room : 256;
        char **grown = realloc(s->name, more * sizeof *grown);

        if (!grown)
            return;
        s->name = grown;
        s->room = more;
    }
    if ((copy = strdup(name)))
        s->name[s->n++] = copy;
}

static void names_sort(struct names *s)
{
    size_t kept = 0;

    if (s->n)
        qsort(s->name, s->n, sizeof *s->name, by_name);
    for (size_t i = 0; i < s->n; i++)
        if (kept && !strcmp(s->name[kept - 1], s->name[i]))
            free(s->name[i]);
        else
            s->name[kept++] = s->name[i];
    s->n = kept;
}

static bool names_have(const struct names *s, const char *name)
{
    return s->n && bsearch(&name, s->name, s->n, sizeof *s->name, by_name);
}

static void names_free(struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->name[i]);
    free(s->name);
}

/* ---- weir's functions ---- */

static void add_defined(const char *name, bool text, void *user)
{
    if (!text)
        names_add(user, name);
}

/* Calls `visit` with every shared object below a directory. */
static void each_object(const char *directory, int depth,
                        void (*visit)(const char *path, void *user), void *user)
{
    DIR *d = opendir(directory);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[PATH_MAX];
        struct stat st;

        if (e->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", directory, e->d_name) >= (int)sizeof path ||
            lstat(path, &st))
            continue;
        if (S_ISDIR(st.st_mode) && depth)
            each_object(path, depth - 1, visit, user);
        else if (S_ISREG(st.st_mode) && strstr(e->d_name, ".so"))
            visit(path, user);
    }
    if (d)
        closedir(d);
}

static void add_library(const char *path, void *user)
{
    elf_names(path, true, add_defined, user);
}

static bool have_names(struct names *have)
{
    char path[PATH_MAX + 8];

    if (!cann_directory(path, PATH_MAX))
        return false;
    strcat(path, "/lib64");
    each_object(path, 0, add_library, have);
    names_sort(have);
    return true;
}

/* ---- ops ---- */

/* The table of operators, with the types of each one's first tensor. */
static const struct {
    const char *name, *types;
} rows[] = {
#define WEIR_ACLNN_ROW(name, run, types, ...) {"aclnn" #name, #types},
#include "cann/include/aclnnop/rows.h"
#undef WEIR_ACLNN_ROW
};

static const char *types_of(const char *name)
{
    static const struct {
        const char *word, *types;
    } sets[] = {
        {"FLOAT", "f32 f16 bf16 f64"},
        {"INT", "i64 i32 i8 u8"},
        {"NUMBER", "f32 f16 bf16 f64 i64 i32 i8 u8"},
        {"BITS", "i64 i32 i8 u8 bool"},
        {"ALL", "f32 f16 bf16 f64 i64 i32 i8 u8 bool"},
        {"MOVE", "f32 f16 bf16 f64 i64 i32 i8 u8 bool i16 u16 u32 u64 c64"},
        {"FLOAT_INT4", "f32 f16 bf16 f64"},
        {"TOKEN", "f32 f16 bf16"},
        {"INDEX", "i64 i32"},
        {"I8", "i8"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
                if (!strcmp(rows[i].types, sets[k].word))
                    return sets[k].types;
    return "";
}

int cann_ops(int argc, char **argv)
{
    static const char tail[] = "GetWorkspaceSize";
    struct names have = {0};
    bool json = false;
    const struct cli_option options[] = {
        {"--json", NULL, "for machines", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "cann ops",
        .synopsis = "[--json]",
        .about =
            "Lists the aclnn operators that libopapi has, with the types of their first tensor.",
        .options = options,
        .examples = "  weir cann ops\n",
        .max_words = 0,
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    struct json j = {.out = stdout};
    size_t n = 0;

    if (status >= 0)
        return status;
    if (!have_names(&have))
        return EXIT_FAILED;
    if (json) {
        json_object(&j, NULL);
        json_array(&j, "ops");
    }
    for (size_t i = 0; i < have.n; i++) {
        char *at = strstr(have.name[i], tail);

        if (strncmp(have.name[i], "aclnn", 5) || !at || at[sizeof tail - 1])
            continue;
        *at = 0;
        if (json)
            json_string(&j, NULL, have.name[i]);
        else
            printf("%-44s %s\n", have.name[i], types_of(have.name[i]));
        n++;
    }
    if (json) {
        json_array_end(&j);
        json_object_end(&j);
        putchar('\n');
    } else {
        printf("%zu operators\n", n);
    }
    names_free(&have);
    return EXIT_FINE;
}

/* ---- doctor ---- */

struct wanted {
    struct names linked, asked; /* by the linker; by dlsym */
};

static bool is_cann(const char *name)
{
    static const char *const starts[] = {"aclrt", "aclmdl", "aclnn",  "aclprof", "acltdt",
                                         "aclop", "Hccl",   "Msprof", "_ZN2ge",  "_ZNK2ge"};

    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(name, starts[i], strlen(starts[i])))
            return name[strlen(starts[i])] != 0;
    return !strncmp(name, "acl", 3) && name[3] >= 'A' && name[3] <= 'Z';
}

/* Adds a name; a text only if it looks like a function's name: aclrtMalloc, HcclAllReduce. */
static void add_wanted(const char *name, bool text, void *user)
{
    struct wanted *w = user;
    const char *after = !strncmp(name, "Hccl", 4) ? name + 4 : NULL;

    if (!is_cann(name))
        return;
    for (const char *const *s = (const char *const[]){"aclrt", "aclmdl", "aclnn", "aclprof", NULL};
         *s && !after; s++)
        if (!strncmp(name, *s, strlen(*s)))
            after = name + strlen(*s);
    if (text && (!after || strstr(name, "GetWorkspaceSize") || *after < 'A' || *after > 'Z' ||
                 strchr(name, '_')))
        return;
    names_add(text ? &w->asked : &w->linked, name);
}

static void add_object(const char *path, void *user)
{
    elf_names(path, false, add_wanted, user);
}

static size_t report(const char *what, const struct names *wanted, const struct names *have,
                     bool operators)
{
    size_t n = 0, missing = 0;

    for (size_t i = 0; i < wanted->n; i++)
        if (!strncmp(wanted->name[i], "aclnn", 5) == operators) {
            n++;
            missing += !names_have(have, wanted->name[i]);
        }
    printf("%s: %zu of %zu\n", what, n - missing, n);
    for (size_t i = 0; i < wanted->n && missing; i++)
        if (!strncmp(wanted->name[i], "aclnn", 5) == operators &&
            !names_have(have, wanted->name[i]))
            printf("  missing %s\n", wanted->name[i]);
    return missing;
}

static bool find_package(const char *python, char *out, size_t size)
{
    static const char program[] = "import importlib.util as u; s = u.find_spec('torch_npu'); "
                                  "print(s.submodule_search_locations[0] if s else '')";
    char command[PATH_MAX + sizeof program + 32];
    FILE *pipe;
    bool ok;

    if (strchr(python, '\'') ||
        snprintf(command, sizeof command, "TORCH_DEVICE_BACKEND_AUTOLOAD=0 '%s' -c \"%s\"", python,
                 program) >= (int)sizeof command ||
        !(pipe = popen(command, "r")))
        return false;
    ok = fgets(out, (int)size, pipe) != NULL;
    pclose(pipe);
    out[ok ? strcspn(out, "\n") : 0] = 0;
    return *out;
}

int cann_doctor(int argc, char **argv)
{
    struct names have = {0};
    struct wanted wanted = {0};
    char package[PATH_MAX] = "", home[PATH_MAX];
    const struct cli_option options[] = {{NULL, NULL, NULL, NULL, NULL}};
    const struct cli_usage usage = {
        .command = "cann doctor",
        .synopsis = "[PYTHON | DIRECTORY]",
        .about =
            "Reports which functions that the torch_npu of a Python (python3 by default), or the "
            "objects\nin a directory, need are in weir's libraries. Functions that are linked must "
            "exist. A\nfunction looked up at run time may be missing: it disables a feature, or "
            "fails when used.",
        .options = options,
        .examples = "  weir cann doctor .venv/bin/python\n",
        .max_words = 1,
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    const char *where = nwords > 0 ? argv[1] : "python3";
    struct stat st;
    size_t missing;

    if (status >= 0)
        return status;
    if (!cann_directory(home, sizeof home) || !have_names(&have))
        return EXIT_FAILED;
    if (!stat(where, &st) && S_ISDIR(st.st_mode)) {
        snprintf(package, sizeof package, "%s", where);
    } else if (!find_package(where, package, sizeof package)) {
        fprintf(stderr, "weir cann doctor: %s has no torch_npu: pip install torch-npu\n", where);
        names_free(&have);
        return EXIT_USAGE;
    }
    each_object(package, 8, add_object, &wanted);
    names_sort(&wanted.linked);
    names_sort(&wanted.asked);
    printf("libraries: %s/lib64\npackage: %s\n", home, package);
    missing = report("linked functions", &wanted.linked, &have, false);
    report("functions looked up at run time", &wanted.asked, &have, false);
    report("aclnn operators named", &wanted.asked, &have, true);
    names_free(&have);
    names_free(&wanted.linked);
    names_free(&wanted.asked);
    return missing ? EXIT_FAILED : EXIT_FINE;
}
