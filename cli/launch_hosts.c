/* `weir launch --hosts`: ranks on several machines. Between machines the data goes through an MPI,
 * whose own launcher must start the ranks; this finds that launcher and runs it with what weir
 * needs. The token goes through the environment, which launchers pass on by their own connections:
 * command lines can be read by everybody. */
#include "launch.h"

#include "commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 4096, FIRST_PORT = 29400, PORTS = 1000 };

/* torch.distributed (init_method env://) wants its own names of what MPI's launchers set. */
static const char torch_names[] =
    "export RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} WORLD_SIZE=$WEIR_HOSTS_RANKS "
    "LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-0}}; exec \"$@\"";

static const char *const passed[] = {
    "WEIR_STORE",  "WEIR_TOKEN",  "WEIR_ENGINE", "WEIR_HOSTS_RANKS",
    "MASTER_ADDR", "MASTER_PORT", NULL};

struct launcher {
    const char *said[2];      /* either is in what it says with --version */
    const char *before_hosts; /* its option */
    const char *names[2];     /* its launchers, which are looked for in PATH */
    bool one_by_one;          /* -x NAME for each variable; else -genvlist A,B */
};
static const struct launcher launchers[] = {
    {{"Open MPI", "open-mpi"}, "--host", {"mpirun", "mpirun.openmpi"}, true},
    {{"HYDRA", "Hydra"}, "-hosts", {"mpiexec.hydra", "mpirun"}, false},
};

/* Reads "A:2,B:2", which is changed. Returns how many ranks there are; 0, after saying why, if it
 * is not valid. */
static int count_slots(char *hosts, char *first, size_t size)
{
    int ranks = 0;

    for (char *next = hosts; next;) {
        char *name = next, *colon, *end;
        long n = 1;

        next = strchr(name, ',');
        if (next)
            *next++ = 0;
        if ((colon = strrchr(name, ':'))) {
            *colon = 0;
            n = strtol(colon + 1, &end, 10);
            n = end == colon + 1 || *end ? 0 : n;
        }
        if (!*name || *name == '-' || strlen(name) >= size ||
            name[strspn(name,
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] ||
            n < 1 || n > WEIR_MAX_RANKS) {
            fprintf(stderr,
                    "weir launch: --hosts: '%s%s%s' is not a machine: NAME or NAME:RANKS, with "
                    "commas between them\n",
                    name, colon ? ":" : "", colon ? colon + 1 : "");
            return 0;
        }
        if (!ranks)
            snprintf(first, size, "%s", name);
        ranks += (int)n;
    }
    return ranks;
}

/* True if the program, which is in PATH or a path, says that it is that launcher. */
static bool is_of(const char *program, const struct launcher *l)
{
    char command[600], text[2000];
    size_t n;
    FILE *out;

    if (strlen(program) > 400 || strchr(program, '\''))
        return false;
    snprintf(command, sizeof command, "'%s' --version 2>/dev/null", program);
    if (!(out = popen(command, "r")))
        return false;
    n = fread(text, 1, sizeof text - 1, out);
    text[n] = 0;
    pclose(out);
    return strstr(text, l->said[0]) || strstr(text, l->said[1]);
}

static const struct launcher *find_launcher(const char **program)
{
    const char *given = getenv("WEIR_MPIRUN");
    const int n = (int)(sizeof launchers / sizeof *launchers);

    for (int i = 0; i < n; i++)
        for (int k = 0; k < (given ? 1 : 2); k++) {
            *program = given ? given : launchers[i].names[k];
            if (is_of(*program, &launchers[i]))
                return &launchers[i];
        }
    if (given)
        fprintf(stderr,
                "weir launch: WEIR_MPIRUN is %s: neither Open MPI's mpirun nor MPICH's "
                "mpiexec.hydra\n",
                given);
    else
        fputs("weir launch: --hosts: ranks on several machines need MPI, and neither Open MPI's "
              "mpirun nor MPICH's mpiexec.hydra is in PATH: install one on every machine, name it "
              "in WEIR_MPIRUN, or use srun with examples/launch/job.sbatch (docs/processes.md)\n",
              stderr);
    return NULL;
}

static void set_number(const char *name, long value)
{
    char text[24];

    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

/* Rank 0 listens at the first port, torch's store at the next one. */
static bool describe_job(const char *first, int ranks)
{
    const char *given = getenv("WEIR_PORT");
    char store[300], *end = NULL;
    long port = given ? strtol(given, &end, 10) : FIRST_PORT + 2 * (getpid() % (PORTS / 2));

    if (given && (end == given || *end || port < 1 || port > 65534)) {
        fprintf(stderr, "weir launch: WEIR_PORT is '%s': a number in 1..65534 is needed\n", given);
        return false;
    }
    snprintf(store, sizeof store, "%s:%ld", first, port);
    setenv("WEIR_STORE", store, 1);
    setenv("WEIR_ENGINE", "mpi", 0);
    set_number("WEIR_HOSTS_RANKS", ranks);
    setenv("MASTER_ADDR", first, 1);
    set_number("MASTER_PORT", port + 1);
    return true;
}

/* Writes the launcher's command line; NULL is at its end. False, after saying why, if the program
 * has too many arguments. */
static bool make_command(const struct launcher *l, const char *program, const char *hosts,
                         const char *count, char **words, const char **out)
{
    static char list[200];
    int n = 0;

    out[n++] = program;
    out[n++] = l->before_hosts;
    out[n++] = hosts;
    out[n++] = "-n";
    out[n++] = count;
    for (int i = 0; passed[i]; i++) {
        if (l->one_by_one) {
            out[n++] = "-x";
            out[n++] = passed[i];
        } else {
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? "," : "",
                     passed[i]);
        }
    }
    if (!l->one_by_one) {
        out[n++] = "-genvlist";
        out[n++] = list;
    }
    out[n++] = "sh";
    out[n++] = "-c";
    out[n++] = torch_names;
    out[n++] = "sh";
    for (int i = 0; words[i]; i++) {
        if (n == MOST_WORDS - 1) {
            fprintf(stderr,
                    "weir launch: --hosts: the program has more than %d words on its command line, "
                    "its name included\n",
                    i);
            return false;
        }
        out[n++] = words[i];
    }
    out[n] = NULL;
    return true;
}

int weir_launch_on_hosts(const char *hosts, const char *count, char **words)
{
    static const char *command[MOST_WORDS];
    const struct launcher *l;
    const char *program;
    char *list = strdup(hosts), first[256] = "", ranks_text[16], *end;
    int slots = list ? count_slots(list, first, sizeof first) : 0;
    long ranks = count ? strtol(count, &end, 10) : slots;

    free(list);
    if (!slots)
        return EXIT_USAGE;
    if (ranks < 1 || ranks > slots || (count && (end == count || *end))) {
        fprintf(stderr, "weir launch: -n %s is out of range: --hosts names room for 1..%d ranks\n",
                count ? count : "", slots);
        return EXIT_USAGE;
    }
    if (ranks > WEIR_MAX_RANKS) {
        fprintf(stderr, "weir launch: --hosts: %ld ranks are out of range: a group has 1..%d\n",
                ranks, WEIR_MAX_RANKS);
        return EXIT_USAGE;
    }
    if (!describe_job(first, (int)ranks) || !(l = find_launcher(&program)))
        return EXIT_USAGE;
    if (!weir_launch_set_token()) {
        fputs("weir launch: cannot make a token: the system gave no random numbers\n", stderr);
        return EXIT_FAILED;
    }
    snprintf(ranks_text, sizeof ranks_text, "%ld", ranks);
    if (!make_command(l, program, hosts, ranks_text, words, command))
        return EXIT_USAGE;
    fflush(NULL);
    execvp(program, (char *const *)command);
    fprintf(stderr, "weir launch: %s cannot be run: %s\n", program, strerror(errno));
    return EXIT_FAILED;
}
