/* `weir launch`: starts a program once for each rank, on this machine; on several see
 * launch_hosts.c.
 *
 * The launcher opens the listening socket, which rank 0 inherits, creates the token, and waits.
 * When a rank fails, the launcher gives the others a moment to report their errors, then kills
 * them. */
#include "commands.h"
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 3000, TERM_MS = 2000 };

static pid_t pids[WEIR_MAX_RANKS];
static int nranks;
static volatile sig_atomic_t asked; /* the signal that asked the launcher to end */

static void on_signal(int signal)
{
    asked = signal;
}

static int listen_here(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) || listen(fd, 128) ||
        getsockname(fd, (struct sockaddr *)&at, &size))
        return -1;
    *port = ntohs(at.sin_port);
    return fd;
}

/* Reserves a port for torch's store, where rank 0 will listen. The launcher keeps the port bound,
 * so no other job gets it. torch's store sets SO_REUSEADDR, as this socket does, so it can still
 * bind the port. */
static bool keep_port(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
        bind(fd, (struct sockaddr *)&at, size) || getsockname(fd, (struct sockaddr *)&at, &size))
        return false;
    *port = ntohs(at.sin_port);
    return true;
}

static void set_number(const char *name, long value)
{
    char text[24];

    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

bool weir_launch_set_token(void)
{
    unsigned char bytes[16];
    char text[2 * sizeof bytes + 1];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    setenv("WEIR_TOKEN", text, 1);
    return true;
}

/* Sets the variables that weir and torch.distributed read, and runs the program. */
static void be_rank(int rank, int listener, char **program)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_number("WEIR_RANK", rank);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    if (rank)
        close(listener);
    else
        set_number("WEIR_STORE_FD", listener);
    execvp(program[0], program);
    fprintf(stderr, "weir launch: %s cannot be run: %s\n", program[0], strerror(errno));
    _exit(127);
}

static void kill_all(int signal)
{
    for (int i = 0; i < nranks; i++)
        if (pids[i] > 0)
            kill(pids[i], signal);
}

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int rank_of(pid_t pid)
{
    for (int i = 0; i < nranks; i++)
        if (pids[i] == pid)
            return i;
    return -1;
}

/* Returns 0, or the status of the first rank that failed. */
static int wait_all(void)
{
    int left = nranks, result = 0;
    long end_ms = 0; /* when to kill the other ranks; 0: no rank has failed */
    bool killed = false;

    while (left) {
        int status, rank;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid > 0 && (rank = rank_of(pid)) >= 0) {
            pids[rank] = 0;
            left--;
            if (status && !result) {
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                end_ms = now_ms() + GRACE_MS;
                if (WIFEXITED(status))
                    fprintf(stderr, "weir launch: rank %d ended with status %d\n", rank,
                            WEXITSTATUS(status));
                else
                    fprintf(stderr, "weir launch: rank %d was ended by signal %d\n", rank,
                            WTERMSIG(status));
            }
            continue;
        }
        if (asked) {
            kill_all((int)asked);
            result = result ? result : 128 + (int)asked;
            asked = 0;
            end_ms = now_ms() + TERM_MS;
        }
        if (end_ms && now_ms() >= end_ms) {
            kill_all(killed ? SIGKILL : SIGTERM);
            killed = true;
            end_ms = now_ms() + TERM_MS;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return result;
}

/* Sets the variables that weir_group_join and torch.distributed (init_method env://) read. */
static void describe_job(int port, int torch_port)
{
    char store[40];

    snprintf(store, sizeof store, "127.0.0.1:%d", port);
    setenv("WEIR_STORE", store, 1);
    set_number("WEIR_RANKS", nranks);
    set_number("WORLD_SIZE", nranks);
    set_number("LOCAL_WORLD_SIZE", nranks);
    setenv("MASTER_ADDR", "127.0.0.1", 1); /* an inherited value may name another host */
    set_number("MASTER_PORT", torch_port);
}

/* Reads -n N, -nN, --hosts LIST and --hosts=LIST up to the program's name, because options after it
 * are the program's. Returns where the program's name is; -1 for another option. */
static int read_options(int argc, char **argv, const char **count, const char **hosts)
{
    int i = 1;

    while (i < argc && *argv[i] == '-') {
        const char *word = argv[i++];

        if (!strcmp(word, "--"))
            break;
        if (!strncmp(word, "--hosts=", 8))
            *hosts = word + 8;
        else if (!strcmp(word, "--hosts") && i < argc)
            *hosts = argv[i++];
        else if (!strcmp(word, "-n") && i < argc)
            *count = argv[i++];
        else if (!strncmp(word, "-n", 2) && word[2])
            *count = word + 2;
        else
            return -1;
    }
    return i;
}

int weir_cmd_launch(int argc, char **argv)
{
    const char *count = NULL, *hosts = NULL;
    const struct cli_option options[] = {
        {"-n", "RANKS", "how many processes", NULL, &count},
        {"--hosts", "A:2,B:2", "machines, and how many ranks each; by mpirun or mpiexec", NULL,
         &hosts},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "launch",
        .synopsis = "-n RANKS [--hosts LIST] PROGRAM [ARGUMENTS...]",
        .about =
            "Runs the program once for each rank, on this machine. weir_group_join, and\n"
            "torch.distributed with init_method env://, find their peers by themselves.\n"
            "When a rank fails the others are ended, and its status is the command's.\n"
            "With --hosts Open MPI's mpirun or MPICH's mpiexec.hydra (in PATH, or WEIR_MPIRUN)\n"
            "starts the ranks; rank 0 is on the first machine, and listens there at WEIR_PORT.",
        .options = options,
        .examples = "  weir launch -n 4 ./program\n"
                    "  weir launch -n 2 python3 train.py --steps 50\n"
                    "  weir launch --hosts node0:4,node1:4 ./program\n",
        .max_words = 0,
    };
    struct sigaction action = {.sa_handler = on_signal};
    int listener, port, torch_port, status, words;
    int first = read_options(argc, argv, &count, &hosts);
    char *end;

    if (first < 0 || (first >= argc && !count && !hosts)) {
        if ((status = cli_parse(&usage, argc > 2 ? 2 : argc, argv, &words)) >= 0)
            return status;
        first = argc;
    }
    if (!count && !hosts) {
        fputs("weir launch: how many ranks? -n RANKS\ntry: weir launch --help\n", stderr);
        return EXIT_USAGE;
    }
    if (hosts && first < argc)
        return weir_launch_on_hosts(hosts, count, argv + first);
    if (first >= argc) {
        fputs("weir launch: which program?\ntry: weir launch --help\n", stderr);
        return EXIT_USAGE;
    }
    nranks = (int)strtol(count, &end, 10);
    if (end == count || *end || nranks < 1 || nranks > WEIR_MAX_RANKS) {
        fprintf(stderr, "weir launch: -n %s is out of range: 1..%d\n", count, WEIR_MAX_RANKS);
        return EXIT_USAGE;
    }
    if ((listener = listen_here(&port)) < 0 || !keep_port(&torch_port) ||
        !weir_launch_set_token()) {
        fprintf(stderr, "weir launch: cannot listen on 127.0.0.1 for the ranks: %s\n",
                strerror(errno));
        return EXIT_FAILED;
    }
    describe_job(port, torch_port);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    fflush(NULL);
    for (int i = 0; i < nranks; i++) {
        if (!(pids[i] = fork()))
            be_rank(i, listener, argv + first);
        if (pids[i] < 0) {
            fprintf(stderr, "weir launch: rank %d cannot be started: %s\n", i, strerror(errno));
            asked = SIGTERM;
            nranks = i;
        }
    }
    close(listener);
    return wait_all();
}
