/* The runner: a process per case, a deadline for each. */
#include "harness/run.h"
#include "harness/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct slot {
    struct test_case *test; /* NULL while free */
    pid_t pid;
    double start, deadline;
    bool timed_out;
    FILE *output;
    struct test_report *report;
};

static struct test_case *cases, **cases_end = &cases;
struct test_report *test_report;

static struct {
    const char *filter;
    bool list, verbose, here;
    int jobs;
} options = {.filter = "", .jobs = 1};

static int passed, failed, skipped;
static int name_width;

void test_register(struct test_case *c)
{
    *cases_end = c;
    cases_end = &c->next;
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

_Noreturn static void die(const char *what)
{
    perror(what);
    exit(2);
}

static bool selected(const struct test_case *c)
{
    char name[256];

    snprintf(name, sizeof name, "%s.%s", c->suite, c->name);
    return strstr(name, options.filter) != NULL;
}

_Noreturn static void run_child(const struct slot *s)
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a run that is killed leaves no case behind */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(fileno(s->output), STDOUT_FILENO) < 0 || dup2(fileno(s->output), STDERR_FILENO) < 0)
        _exit(TEST_EXIT_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_report = s->report;
    s->test->run();
    s->report->returned = true;
    exit(0); /* not _exit: sanitizers look for leaks here */
}

/* Without a process, a timeout or a summary of its own. */
_Noreturn static void run_here(const struct test_case *c)
{
    static struct test_report report;

    test_report = &report;
    c->run();
    exit(0);
}

double test_patience(void)
{
    enum { MOST = 10 };
    double load, share = 1;

    if (getloadavg(&load, 1) == 1)
        share = load / (double)sysconf(_SC_NPROCESSORS_ONLN);
    return share < 1 ? 1 : share > MOST ? MOST : share;
}

/* Seconds that a case may take. */
static double limit_of(const struct test_case *c)
{
    return c->seconds * TEST_SLOWDOWN * test_patience();
}

static void start(struct slot *s, struct test_case *c)
{
    s->test = c;
    s->timed_out = false;
    memset(s->report, 0, sizeof *s->report);
    if (!(s->output = tmpfile()))
        die("tmpfile");
    fflush(NULL);
    s->start = now();
    s->deadline = s->start + limit_of(c);
    if ((s->pid = fork()) < 0)
        die("fork");
    if (s->pid == 0)
        run_child(s);
    /* Also here, so that it holds whichever of the two comes first. */
    setpgid(s->pid, s->pid);
}

static void print_output(FILE *output)
{
    char line[4096];

    rewind(output);
    while (fgets(line, sizeof line, output))
        printf("      | %s%s", line, strchr(line, '\n') ? "" : "\n");
}

static void print_case(const char *word, const struct slot *s, const char *reason)
{
    printf("%-4s %s.%-*s %7.0f ms%s%s\n", word, s->test->suite,
           name_width - (int)strlen(s->test->suite), s->test->name, 1e3 * (now() - s->start),
           reason[0] ? "  " : "", reason);
}

static void finish(struct slot *s, int status)
{
    char reason[64] = "";

    /* Whatever the case left behind must not disturb the next one. */
    kill(-s->pid, SIGKILL);

    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIPPED) {
        skipped++;
        print_case("skip", s, s->report->reason);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && s->report->returned) {
        passed++;
        print_case("ok", s, "");
        if (options.verbose)
            print_output(s->output);
    } else {
        failed++;
        if (s->timed_out)
            snprintf(reason, sizeof reason, "timed out after %.0f s", now() - s->start);
        else if (WIFSIGNALED(status))
            snprintf(reason, sizeof reason, "killed by signal %d, %s", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else if (s->report->returned)
            snprintf(reason, sizeof reason, "exit status %d after its end", WEXITSTATUS(status));
        else if (WEXITSTATUS(status) != TEST_EXIT_FAILED)
            snprintf(reason, sizeof reason, "exit status %d before its end", WEXITSTATUS(status));
        print_case("FAIL", s, reason);
        print_output(s->output);
    }
    fflush(stdout);
    fclose(s->output);
    s->test = NULL;
}

/* Ends what is over or late; sleeps until either happens if nothing was. */
static void wait_some(struct slot *slots, const sigset_t *sigchld)
{
    double soonest = now() + 3600;
    bool any = false;

    for (int i = 0; i < options.jobs; i++) {
        struct slot *s = &slots[i];
        int status;

        if (!s->test)
            continue;
        if (!s->timed_out && now() >= s->deadline) {
            s->deadline = s->start + limit_of(s->test); /* the machine may be busier now */
            if ((s->timed_out = now() >= s->deadline))
                kill(-s->pid, SIGKILL);
        }
        if (waitpid(s->pid, &status, WNOHANG) == s->pid) {
            finish(s, status);
            any = true;
        } else if (!s->timed_out && s->deadline < soonest) {
            soonest = s->deadline;
        }
    }
    if (!any) {
        double left = soonest - now();
        struct timespec ts = {0};

        if (left > 0) {
            ts.tv_sec = (time_t)left;
            ts.tv_nsec = (long)(1e9 * (left - (double)ts.tv_sec));
        }
        sigtimedwait(sigchld, NULL, &ts);
    }
}

static void run_all(void)
{
    struct slot *slots = calloc((size_t)options.jobs, sizeof *slots);
    struct test_report *reports = mmap(NULL, (size_t)options.jobs * sizeof *reports,
                                       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct test_case *next = cases;
    sigset_t sigchld;
    int running;

    if (!slots || reports == MAP_FAILED)
        die("test slots");
    sigemptyset(&sigchld);
    sigaddset(&sigchld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &sigchld, NULL);
    do {
        running = 0;
        for (int i = 0; i < options.jobs; i++) {
            slots[i].report = &reports[i];
            while (!slots[i].test && next) {
                if (selected(next))
                    start(&slots[i], next);
                next = next->next;
            }
            running += slots[i].test != NULL;
        }
        if (running)
            wait_some(slots, &sigchld);
    } while (running);
    munmap(reports, (size_t)options.jobs * sizeof *reports);
    free(slots);
}

_Noreturn static void usage(const char *program, int status)
{
    fprintf(status ? stderr : stdout,
            "usage: %s [--list] [--filter PART] [-j N] [-v] [--device SPEC] [--here]\n"
            "  --list         name the cases and stop\n"
            "  --filter PART  only cases with PART in suite.name\n"
            "  -j N           N cases at once (default 1)\n"
            "  -v             show the output of cases that pass, too\n"
            "  --device SPEC  sets WEIR_DEVICE, which the cases open\n"
            "  --here         the first such case, in this process: for tools that watch it\n",
            program);
    exit(status);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!strcmp(arg, "--list"))
            options.list = true;
        else if (!strcmp(arg, "-v"))
            options.verbose = true;
        else if (!strcmp(arg, "--here"))
            options.here = true;
        else if (!strcmp(arg, "--help"))
            usage(argv[0], 0);
        else if (!strcmp(arg, "--filter") && value)
            options.filter = argv[++i];
        else if (!strcmp(arg, "--device") && value)
            setenv("WEIR_DEVICE", argv[++i], 1);
        else if (!strcmp(arg, "-j") && value && atoi(value) > 0)
            options.jobs = atoi(argv[++i]);
        else
            usage(argv[0], 2);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    for (const struct test_case *c = cases; c; c = c->next) {
        int width = (int)(strlen(c->suite) + strlen(c->name));

        if (!selected(c))
            continue;
        if (options.list)
            printf("%s.%s\n", c->suite, c->name);
        if (options.here)
            run_here(c);
        if (width > name_width)
            name_width = width;
    }
    if (options.list)
        return 0;
    run_all();
    printf("%d passed, %d failed", passed, failed);
    if (skipped)
        printf(", %d skipped", skipped);
    printf("\n");
    return failed || !(passed + skipped);
}
