/* `weir cann`: runs programs written for CANN on weir's libascendcl, libopapi and libhccl. */
#include "cann.h"
#include "commands.h"
#include "complete.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef WEIR_CANN_FROM_BIN /* from the installed program's directory */
#define WEIR_CANN_FROM_BIN "../lib/weir/cann/latest"
#endif

static bool is_there(const char *directory)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/lib64/libascendcl.so", directory) < (int)sizeof path &&
           !access(path, R_OK);
}

bool cann_directory(char *out, size_t size)
{
    static const char *const places[] = {"cann/latest", WEIR_CANN_FROM_BIN};
    const char *asked = getenv("WEIR_CANN_HOME");
    char program[PATH_MAX], path[2 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    if (asked && *asked) {
        if (is_there(asked) && strlen(asked) < size) {
            strcpy(out, asked);
            return true;
        }
        fprintf(stderr, "weir cann: there is no lib64/libascendcl.so in WEIR_CANN_HOME, %s\n",
                asked);
        return false;
    }
    program[n > 0 ? n : 0] = 0;
    if (strrchr(program, '/'))
        *strrchr(program, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char real[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", program, places[i]);
        if (realpath(path, real) && is_there(real) && strlen(real) < size) {
            strcpy(out, real);
            return true;
        }
    }
    fprintf(stderr,
            "weir cann: this weir has no libascendcl.so: it is neither in %s/%s nor in %s/%s\n"
            "A wheel has none. The Debian packages, the tarball and `make install` bring it; "
            "WEIR_CANN_HOME names another place.\n",
            program, places[0], program, places[1]);
    return false;
}

/* ---- variables ---- */

static void print_variable(const char *name, const char *value)
{
    printf("export %s='%s'\n", name, value);
}

static void set_variable(const char *name, const char *value)
{
    setenv(name, value, 1);
}

/* Calls `use` with each variable that a program needs. */
static bool variables(const char *device, void (*use)(const char *name, const char *value))
{
    const char *path = getenv("LD_LIBRARY_PATH"), *python = getenv("PYTHONPATH");
    char home[PATH_MAX], text[3 * PATH_MAX];

    if (!cann_directory(home, sizeof home))
        return false;
    snprintf(text, sizeof text, "%s/lib64%s%.4000s", home, path && *path ? ":" : "",
             path ? path : "");
    use("LD_LIBRARY_PATH", text);
    snprintf(text, sizeof text, "%s/python%s%.4000s", home, python && *python ? ":" : "",
             python ? python : "");
    use("PYTHONPATH", text);
    use("ASCEND_HOME_PATH", home);
    use("ASCEND_TOOLKIT_HOME", home);
    snprintf(text, sizeof text, "%s/opp", home);
    use("ASCEND_OPP_PATH", text);
    if (device)
        use("WEIR_DEVICE", device);
    return true;
}

static int env(int argc, char **argv)
{
    const char *device = NULL;
    const struct cli_option options[] = {
        {"--device", "SPEC", "what it runs on: cpu, npu:a3, cuda:0", NULL, &device},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "cann env",
        .synopsis = "[--device SPEC]",
        .about = "Prints the variables under which programs for CANN find weir's libraries.",
        .options = options,
        .examples = "  eval \"$(weir cann env --device npu:a3)\"\n",
        .max_words = 0,
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);

    if (status >= 0)
        return status;
    return variables(device, print_variable) ? EXIT_FINE : EXIT_FAILED;
}

/* ---- run ---- */

/* Prints the reports that processes wrote to the directory, and removes the directory. Returns how
 * many reports had findings. */
static int show_reports(const char *directory)
{
    DIR *d = opendir(directory);
    struct dirent *entry;
    int found = 0;

    while (d && (entry = readdir(d))) {
        char path[PATH_MAX + NAME_MAX + 2], line[4096];
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if ((file = fopen(path, "r"))) {
            if (!strncmp(entry->d_name, "races", 5))
                found++;
            while (fgets(line, sizeof line, file))
                fputs(line, stderr);
            fclose(file);
        }
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(directory);
    return found;
}

static int run_child(char **command)
{
    int status;
    pid_t child = fork();

    if (child < 0) {
        fprintf(stderr, "weir cann run: no process: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    if (!child) {
        execvp(command[0], command);
        fprintf(stderr, "weir cann run: %s: %s\n", command[0], strerror(errno));
        _exit(EXIT_USAGE);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "weir cann run: %s ended by signal %d (%s)\n", command[0], WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

static int run(int argc, char **argv)
{
    char reports[] = "/tmp/weir-cann-XXXXXX", full[PATH_MAX];
    const char *device = NULL, *trace = NULL;
    bool check = false;
    const struct cli_option options[] = {
        {"--device", "SPEC", "what it runs on: cpu (default), npu:a3, cuda:0", NULL, &device},
        {"--check", NULL, "looks for races between streams; they make exit status 1", &check, NULL},
        {"--trace", "FILE", "writes the timeline: .html, or Chrome's JSON", NULL, &trace},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "cann run",
        .synopsis = "[options] -- PROGRAM [ARGUMENT...]",
        .about =
            "Runs a program written for CANN: torch_npu, TorchAir and MindSpore as they are, or C.",
        .options = options,
        .examples = "  weir cann run -- python train.py\n"
                    "  weir cann run --device npu:a3 --trace t.html -- python train.py\n",
        .max_words = INT_MAX,
    };
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);

    if (status >= 0)
        return status;
    if (!nwords) {
        fputs("weir cann run: there is no program to run\ntry: weir cann run --help\n", stderr);
        return EXIT_USAGE;
    }
    if (cli_is_standard(trace)) {
        fputs("weir cann run: --trace wants a file: standard output is the program's\n", stderr);
        return EXIT_USAGE;
    }
    if (!variables(device, set_variable))
        return EXIT_FAILED;
    if (trace) {
        if (*trace != '/' && getcwd(full, sizeof full) &&
            strlen(full) + strlen(trace) + 2 < sizeof full)
            trace = strcat(strcat(full, "/"), trace);
        setenv("WEIR_CANN_TRACE", trace, 1);
    }
    argv[nwords + 1] = NULL;
    if (!check)
        return run_child(argv + 1);
    if (!mkdtemp(reports)) {
        fprintf(stderr, "weir cann run: no directory for reports: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    setenv("WEIR_CHECK", "race", 1);
    setenv("WEIR_CANN_REPORTS", reports, 1);
    /* Makes torch_npu and MindSpore launch on the calling thread, so reports name its Python
     * line. */
    setenv("TASK_QUEUE_ENABLE", "0", 0);
    setenv("MS_DEV_HOST_BLOCKING_RUN", "1", 0);
    status = run_child(argv + 1);
    return show_reports(reports) && !status ? EXIT_FAILED : status;
}

/* ---- subcommands ---- */

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} subcommands[] = {
    {"run", run, "runs a program on weir"},
    {"env", env, "prints the variables for a shell"},
    {"doctor", cann_doctor, "says what an installed torch_npu would find, and what not"},
    {"ops", cann_ops, "lists the aclnn operators"},
};

enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

int weir_cmd_cann(int argc, char **argv)
{
    static const struct cli_option none[] = {{NULL, NULL, NULL, NULL, NULL}};
    const struct cli_usage usage = {
        .command = "cann",
        .synopsis = "run|env|doctor|ops ...",
        .about =
            "Programs written for CANN (torch_npu, TorchAir, MindSpore, AscendCL in C) on weir.\n"
            "\n"
            "  run     runs a program: weir cann run [--device SPEC] [--check] [--trace FILE] -- "
            "PROGRAM\n"
            "  env     prints the variables for a shell\n"
            "  doctor  says what an installed torch_npu would find, and what not\n"
            "  ops     lists the aclnn operators",
        .options = none,
        .examples = "  weir cann run -- python train.py\n"
                    "  weir cann run --device npu:a3 --check -- python train.py\n"
                    "  weir cann doctor\n",
        .max_words = 1,
    };
    int nwords;

    if (cli_completing && argc < 3) {
        for (int i = 0; i < SUBCOMMANDS; i++)
            cli_complete_offer(argc > 1 ? argv[1] : "", subcommands[i].name, subcommands[i].about);
        return EXIT_FINE;
    }
    for (int i = 0; i < SUBCOMMANDS && argc > 1; i++)
        if (!strcmp(argv[1], subcommands[i].name))
            return subcommands[i].run(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-') {
        fprintf(stderr, "weir cann: there is no '%s'\ntry: weir cann --help\n", argv[1]);
        return EXIT_USAGE;
    }
    if (argc < 2) {
        fputs("weir cann: name a subcommand: run, env, doctor or ops\ntry: weir cann --help\n",
              stderr);
        return EXIT_USAGE;
    }
    return cli_parse(&usage, argc, argv, &nwords);
}
