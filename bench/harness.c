#include "harness.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    REPS = 9,
    REPS_QUICK = 3,
    BLOCK_TRIES = 3,   /* for a block between good probes */
    CASE_SECONDS = 60, /* then it counts as hung */
    MAX_SAMPLES = 64,
};

#define TICKS_SLACK 0.03 /* seconds */

double bench_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

void bench_spin_ns(double ns)
{
    double end = bench_now_ns() + ns;

    while (bench_now_ns() < end)
        continue;
}

void bench_yield(void)
{
    sched_yield();
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_quantile(double *x, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t low = (size_t)at;

    qsort(x, count, sizeof *x, compare_doubles);
    if (low + 1 >= count)
        return x[count - 1];
    return x[low] + (at - (double)low) * (x[low + 1] - x[low]);
}

/* ---- CPUs ---- */

/* The n-th CPU this process may use, or -1. */
static int nth_cpu(const cpu_set_t *set, int n)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set) && n-- == 0)
            return cpu;
    return -1;
}

static cpu_set_t two_cpus, all_cpus;

int bench_use_two_cpus(void)
{
    int cpus = 0;

    CPU_ZERO(&two_cpus);
    sched_getaffinity(0, sizeof all_cpus, &all_cpus);
    for (; cpus < 2 && nth_cpu(&all_cpus, cpus) >= 0; cpus++)
        CPU_SET(nth_cpu(&all_cpus, cpus), &two_cpus);
    sched_setaffinity(0, sizeof two_cpus, &two_cpus);
    return cpus;
}

void bench_use_all_cpus(void)
{
    sched_setaffinity(0, sizeof all_cpus, &all_cpus);
}

void bench_pin(int which)
{
    int cpu = nth_cpu(&two_cpus, which);
    cpu_set_t one;

    if (cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

struct pair {
    void (*fn)(void *ctx, int who);
    void *ctx;
    atomic_int ready;
};

static void meet_and_run(struct pair *p, int who)
{
    bench_pin(who);
    atomic_fetch_add(&p->ready, 1);
    while (atomic_load(&p->ready) < 2)
        continue;
    p->fn(p->ctx, who);
}

static void *second_of_pair(void *arg)
{
    meet_and_run(arg, 1);
    return NULL;
}

void bench_on_two(void (*fn)(void *ctx, int who), void *ctx)
{
    struct pair p = {.fn = fn, .ctx = ctx};
    cpu_set_t before;
    pthread_t thread;

    sched_getaffinity(0, sizeof before, &before);
    if (pthread_create(&thread, NULL, second_of_pair, &p)) {
        fprintf(stderr, "bench: no second thread\n");
        exit(1);
    }
    meet_and_run(&p, 0);
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof before, &before);
}

/* ---- lines ---- */

void bench_emit(const struct bench *b, const char *subject, const char *unit, const double *samples,
                size_t count)
{
    printf("{\"work\": \"%s\", \"subject\": \"%s\", \"unit\": \"%s\", \"threads\": %d, "
           "\"samples\": [",
           b->work, subject, unit, b->threads);
    for (size_t i = 0; i < count; i++)
        printf("%s%.6g", i ? ", " : "", samples[i]);
    printf("]}\n");
    fflush(stdout);
}

void bench_skip(const struct bench *b, const char *reason)
{
    printf("{\"work\": \"%s\", \"skipped\": \"", b->work);
    for (; *reason; reason++)
        putchar(*reason == '"' || *reason == '\\' || *reason < ' ' ? '\'' : *reason);
    printf("\"}\n");
    fflush(stdout);
}

void bench_sample(const struct bench *b, const char *subject, const char *unit, int inner,
                  bench_once_fn once, void *ctx)
{
    double samples[MAX_SAMPLES], calls[MAX_SAMPLES];

    if (inner > MAX_SAMPLES)
        inner = MAX_SAMPLES;
    once(ctx);
    for (int i = 0; i < b->reps; i++) {
        for (int j = 0; j < inner; j++)
            calls[j] = once(ctx);
        samples[i] = bench_quantile(calls, (size_t)inner, 0.5);
    }
    bench_emit(b, subject, unit, samples, (size_t)b->reps);
}

static double cpu_seconds(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

void bench_idle_share(const struct bench *b, const char *subject)
{
    struct timespec second = {.tv_sec = 1};
    double cpu, share;

    nanosleep(&second, NULL);
    cpu = cpu_seconds(RUSAGE_SELF);
    nanosleep(&second, NULL);
    share = (cpu_seconds(RUSAGE_SELF) - cpu) * 100;
    bench_emit(b, subject, "%", &share, 1);
}

double bench_foreign_seconds(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, FIELDS };
    FILE *f = fopen("/proc/stat", "r");
    char line[256] = "";
    char *at = line + strlen("cpu ");
    double ticks = 0;

    if (!f)
        return 0;
    if (!fgets(line, sizeof line, f))
        line[0] = '\0';
    fclose(f);
    for (int field = USER; line[0] && field < FIELDS; field++) {
        double value = strtod(at, &at);

        if (field != IDLE && field != IOWAIT)
            ticks += value;
    }
    return ticks / (double)sysconf(_SC_CLK_TCK) - cpu_seconds(RUSAGE_SELF) -
           cpu_seconds(RUSAGE_CHILDREN);
}

/* ---- cases ---- */

/* returns whether the case completed. */
static bool run_in_child(const struct bench_case *c, bool quick, int out_fd)
{
    struct bench b = {
        .work = c->work,
        .threads = c->threads,
        .quick = quick,
        .reps = quick ? REPS_QUICK : REPS,
    };
    char why[64];
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        dprintf(out_fd, "{\"work\": \"%s\", \"skipped\": \"no process: %s\"}\n", c->work,
                strerror(errno));
        return false;
    }
    if (pid == 0) {
        if (c->threads > 2)
            bench_use_all_cpus();
        dup2(out_fd, STDOUT_FILENO);
        alarm(CASE_SECONDS);
        c->run(&b);
        fflush(stdout);
        /* Skips destructors: the shutdown of a runtime is not measured. */
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (status == 0)
        return true;
    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "ended by signal %d%s", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? " (took too long)" : "");
    else
        snprintf(why, sizeof why, "failed with status %d", WEXITSTATUS(status));
    dprintf(out_fd, "{\"work\": \"%s\", \"skipped\": \"%s\"}\n", c->work, why);
    return false;
}

/* The share of a core that other processes used between two times. The kernel counts in ticks, so
 * a few ticks are no evidence. */
static double foreign_share(double seconds, double ns)
{
    double share = (seconds - TICKS_SLACK) / (ns * 1e-9);

    return share > 0 ? share : 0;
}

static void run_on_all_cpus(const struct bench_case *c, bool quick, int out_fd)
{
    double foreign = bench_foreign_seconds(), start = bench_now_ns(), share;

    run_in_child(c, quick, out_fd);
    share = foreign_share(bench_foreign_seconds() - foreign, bench_now_ns() - start);
    if (share > BENCH_FOREIGN_MAX)
        dprintf(out_fd, "{\"work\": \"%s\", \"busy\": %.3f}\n", c->work, share);
}

/* The result of the last probe. */
struct probe {
    double ratio, hop, foreign, when;
};

/* Prints a probe line; `last` is NULL for the first.
 * returns  whether the block between the two was undisturbed. */
static bool print_probe(const struct probe *last, struct probe *now, int out_fd)
{
    double share = 0;

    now->ratio = bench_fma_ratio();
    now->hop = bench_hop_ns();
    now->foreign = bench_foreign_seconds();
    now->when = bench_now_ns();
    if (last)
        share = foreign_share(now->foreign - last->foreign, now->when - last->when);
    dprintf(out_fd, "{\"probe\": %.4f, \"hop\": %.1f, \"foreign\": %.3f}\n", now->ratio, now->hop,
            share);
    return last && last->ratio >= BENCH_PROBE_MIN && now->ratio >= BENCH_PROBE_MIN &&
           share <= BENCH_FOREIGN_MAX && bench_hops_agree(last->hop, now->hop);
}

bool bench_case_fits(const struct bench_case *c)
{
    return c->threads <= 2 || c->threads <= CPU_COUNT(&all_cpus);
}

void bench_run_case(const struct bench_case *c, bool quick, int out_fd)
{
    struct probe last, now;
    bool good = false;

    if (c->threads > 2) {
        run_on_all_cpus(c, quick, out_fd);
        return;
    }
    if (c->threads < 2) {
        run_in_child(c, quick, out_fd);
        return;
    }
    if (CPU_COUNT(&two_cpus) < 2) {
        dprintf(out_fd, "{\"work\": \"%s\", \"skipped\": \"needs two CPUs\"}\n", c->work);
        return;
    }
    print_probe(NULL, &last, out_fd);
    for (int i = 0; i < BLOCK_TRIES && !good; i++) {
        bool ran = run_in_child(c, quick, out_fd);

        good = print_probe(&last, &now, out_fd) || !ran;
        last = now;
    }
}

bool bench_work_matches(const char *work, const char *name)
{
    size_t n = strlen(name);

    if (strpbrk(name, "*?["))
        return fnmatch(name, work, 0) == 0;
    return strncmp(work, name, n) == 0 && (work[n] == '\0' || work[n] == '_');
}

static bool is_named(const char *work, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(work, names[i]))
            return true;
    return count == 0;
}

int bench_main(int argc, char **argv, const struct bench_case *cases, size_t count)
{
    bool quick = false, list = false;
    int first = 1;

    for (; first < argc && argv[first][0] == '-'; first++) {
        if (!strcmp(argv[first], "--quick")) {
            quick = true;
        } else if (!strcmp(argv[first], "--list")) {
            list = true;
        } else {
            fprintf(stderr, "usage: %s [--quick] [--list] [WORK...]\n", argv[0]);
            return 2;
        }
    }
    bench_use_two_cpus();
    for (size_t i = 0; i < count; i++) {
        if (!is_named(cases[i].work, argv + first, argc - first) || !bench_case_fits(&cases[i]))
            continue;
        if (list)
            puts(cases[i].work);
        else
            bench_run_case(&cases[i], quick, STDOUT_FILENO);
    }
    return 0;
}
